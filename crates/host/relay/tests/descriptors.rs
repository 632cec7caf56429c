//! Running out of descriptors. Alone in its process, because the limit is the process's.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(
    clippy::float_cmp,
    clippy::single_match,
    clippy::too_many_lines,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests fail by panicking, and look only for the events that they are about"
)]

use std::time::Duration;

use longhaul_relay::{Config, Event, HttpOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Descriptors this process may have; the test itself holds some of them.
const LIMIT: u64 = 64;

#[tokio::test]
async fn a_full_descriptor_table_pauses_accepting_and_serves_again_when_it_empties() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = HttpOptions {
        listen: "127.0.0.1:0".into(),
        target: origin.local_addr().unwrap().to_string(),
        ..HttpOptions::default()
    };
    let mut options = options;
    options.pool.min_idle = Some(0);
    options.prime.enabled = Some(false);
    let (sender, mut events) = mpsc::unbounded_channel();
    let (_orders, given) = mpsc::channel(1);
    let relay = longhaul_relay::run(
        Config::http(options).unwrap(),
        Vec::new(),
        move |event| drop(sender.send(event)),
        given,
    );
    let relay = tokio::spawn(relay);
    let Some(Event::Listening { address, .. }) = events.recv().await else {
        panic!("the relay does not start by listening");
    };

    let before = getrlimit(Resource::Nofile);
    let lowered = Rlimit {
        current: Some(LIMIT),
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, lowered).unwrap();
    let mut clients = Vec::new();
    while let Ok(client) = TcpStream::connect(address).await {
        clients.push(client);
    }
    // This side holds half of the table now, the relay's accepted sockets the other; one descriptor
    // given back lets one more client wait in the kernel's queue, whom the relay cannot accept.
    let shortage = async {
        loop {
            match events.recv().await.expect("the relay runs") {
                Event::Warning {
                    name: "accept-shortage",
                    text,
                } => return text,
                _ => {}
            }
        }
    };
    let text = tokio::time::timeout(Duration::from_secs(30), shortage)
        .await
        .unwrap();
    assert!(text.contains("ulimit -n"), "{text}");

    // Pauses double from 20 ms to 1 s: a second of shortage is at most 6 attempts and not thousands.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut attempts = 0;
    while let Ok(event) = events.try_recv() {
        attempts += usize::from(matches!(event, Event::Warning { .. }));
    }
    assert!(attempts <= 10, "{attempts} attempts in one second");

    clients.clear();
    setrlimit(Resource::Nofile, before).unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let serve = async {
        let (mut stream, _) = origin.accept().await.unwrap();
        let mut head = [0; 1024];
        assert!(stream.read(&mut head).await.unwrap() > 0);
        stream
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::time::timeout(Duration::from_secs(30), serve)
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    relay.abort();
}
