//! A listener's bandwidth: a lower bound on the time that bytes take, which no busy machine can break.

use std::time::{Duration, Instant};

use longhaul_relay::{Config, TcpOptions};
use tokio::io::AsyncWriteExt;
use units::Rate;

use crate::harness::{Origin, Relay, digest, listen, noise, plain, read_head, read_to_end, within};
use crate::tls::{Site, both, connect};

/// What [`LENGTH`] bytes take at [`RATE`], less the head start of 20 ms and the last piece of 16 KiB of each
/// of two byte streams, which moves before it is counted.
const AT_LEAST: Duration = Duration::from_millis(1000 - 20 - 2 * 9);
const LENGTH: usize = 2_000_000;
const RATE: Rate = Rate::mbit_per_s(16);

#[tokio::test]
async fn byte_streams_of_a_listener_share_its_bandwidth_in_each_direction() {
    within(async {
        let (server, target) = listen().await;
        let options = TcpOptions {
            listen: "127.0.0.1:0".into(),
            target: target.to_string(),
            bandwidth: Some(RATE),
            ..TcpOptions::default()
        };
        let relay = Relay::start_with(Config::tcp(options).unwrap()).await;
        let started = Instant::now();
        // Half of it on each of two connections.
        let half = noise(LENGTH / 2);
        let mut clients = Vec::new();
        for _ in 0..2 {
            let (mut client, bytes) = (relay.connect().await, half.clone());
            clients.push(tokio::spawn(async move {
                client.write_all(&bytes).await.unwrap();
                client.shutdown().await.unwrap();
                read_to_end(&mut client).await
            }));
        }
        let mut servers = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = server.accept().await.unwrap();
            servers.push(tokio::spawn(async move {
                let got = read_to_end(&mut stream).await;
                stream.write_all(&got).await.unwrap();
                digest(&got)
            }));
        }
        for server in servers {
            assert_eq!(server.await.unwrap(), digest(&half));
        }
        assert!(started.elapsed() >= AT_LEAST, "{:?}", started.elapsed());
        for client in clients {
            assert_eq!(digest(&client.await.unwrap()), digest(&half));
        }
        // What came back took its own time, of which the end can only follow the end of the first half.
        assert!(
            started.elapsed() >= AT_LEAST + AT_LEAST / 2,
            "{:?}",
            started.elapsed()
        );
    })
    .await;
}

#[tokio::test]
async fn tls_streams_are_held_to_it_as_well() {
    within(async {
        let site = Site::make();
        let (server, _) = listen().await;
        let mut options = both(&site, &server);
        options.bandwidth = Some(RATE);
        let relay = Relay::start_with(Config::tls(options).unwrap()).await;
        let connector = site.connector();
        let mut client = connect(&relay, &connector).await;
        let started = Instant::now();
        let bytes = noise(LENGTH);
        let expected = digest(&bytes);
        let sending = tokio::spawn(async move {
            client.write_all(&bytes).await.unwrap();
            client.shutdown().await.unwrap();
            client
        });
        let mut server = crate::tls::accept(&server, &site.acceptor()).await;
        let mut got = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut server, &mut got)
            .await
            .unwrap();
        assert_eq!(digest(&got), expected);
        assert!(started.elapsed() >= AT_LEAST, "{:?}", started.elapsed());
        drop(sending.await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn bodies_of_requests_and_responses_are_held_to_it() {
    within(async {
        let origin = Origin::start().await;
        let mut options = plain(origin.address);
        options.bandwidth = Some(RATE);
        let relay = Relay::start(options).await;
        for upload in [true, false] {
            let started = Instant::now();
            let mut client = relay.connect().await;
            let body = noise(if upload { LENGTH } else { 0 });
            let head = if upload {
                format!("POST / HTTP/1.1\r\nHost: o\r\nConnection: close\r\nContent-Length: {LENGTH}\r\n\r\n")
            } else {
                format!("GET /{LENGTH} HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n")
            };
            client.write_all(head.as_bytes()).await.unwrap();
            client.write_all(&body).await.unwrap();
            let answer = read_to_end(&mut client).await;
            assert!(answer.starts_with(b"HTTP/1.1 200"));
            assert!(started.elapsed() >= AT_LEAST, "{upload}: {:?}", started.elapsed());
        }
    })
    .await;
}

#[tokio::test]
async fn bodies_that_come_with_their_heads_are_held_to_it_as_well() {
    within(async {
        let origin = Origin::start().await;
        let mut options = plain(origin.address);
        options.bandwidth = Some(RATE);
        let relay = Relay::start(options).await;
        let piece = LENGTH / 200;
        for request in [
            format!(
                "POST / HTTP/1.1\r\nHost: o\r\nContent-Length: {piece}\r\n\r\n{}",
                "x".repeat(piece)
            ),
            format!("GET /{piece} HTTP/1.1\r\nHost: o\r\n\r\n"),
        ] {
            let started = Instant::now();
            let mut client = relay.connect().await;
            for _ in 0..200 {
                client.write_all(request.as_bytes()).await.unwrap();
                let head = read_head(&mut client).await;
                let length = content_length(&head);
                let mut body = vec![0; length];
                tokio::io::AsyncReadExt::read_exact(&mut client, &mut body)
                    .await
                    .unwrap();
            }
            assert!(started.elapsed() >= AT_LEAST, "{:?}", started.elapsed());
        }
    })
    .await;
}

fn content_length(head: &str) -> usize {
    let field = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    field.expect("a length").parse().unwrap()
}
