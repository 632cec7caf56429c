//! What stands behind the page of a running relay.

use std::net::SocketAddr;
use std::time::Duration;

use longhaul_relay::{Config, Event};
use record::page::{Connection, Connections, History, Overview, Serves};
use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::{Relay, listen, noise, read_exactly, read_to_end, within};

async fn start(tables: &str) -> (Relay, SocketAddr) {
    let text = format!("[admin]\nlisten = \"127.0.0.1:0\"\n{tables}");
    let mut relay = Relay::start_with(Config::from_toml(&text).unwrap()).await;
    let admin = relay.event(|event| match event {
        Event::Admin { address } => Some(*address),
        _ => None,
    });
    let admin = within(admin).await;
    (relay, admin)
}

async fn ask<T: DeserializeOwned>(admin: SocketAddr, path: &str) -> T {
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = String::from_utf8(within(read_to_end(&mut stream)).await).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    serde_json::from_str(body).unwrap()
}

/// Asks until the answer is one that `wanted` takes; readings come once a second.
async fn until<T: DeserializeOwned>(
    admin: SocketAddr,
    path: &str,
    wanted: impl Fn(&T) -> bool,
) -> T {
    within(async {
        loop {
            let answer = ask(admin, path).await;
            if wanted(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

fn has_carried(connection: &Connection, up: u64, down: u64) -> bool {
    let bytes = |way: &Option<record::page::Way>| way.as_ref().map_or(0, |way| way.bytes);
    // The SYN of the side that connects counts as one.
    bytes(&connection.up) >= up && bytes(&connection.down) >= down
}

#[tokio::test]
async fn a_byte_stream_is_shown_with_both_its_sockets_while_it_lives_and_afterwards() {
    let (listener, target) = listen().await;
    let table = format!("[[tcp]]\nlisten = \"127.0.0.1:0\"\ntarget = \"{target}\"\n");
    let (relay, admin) = start(&table).await;
    let mut client = relay.connect().await;
    let (mut server, _) = within(listener.accept()).await.unwrap();
    client.write_all(&noise(50_000)).await.unwrap();
    within(read_exactly(&mut server, 50_000)).await;
    server.write_all(&noise(700)).await.unwrap();
    within(read_exactly(&mut client, 700)).await;

    let carried = |answer: &Connections| {
        let mut shown = answer.shown.iter();
        shown.any(|one| has_carried(one, 50_000, 700))
    };
    let known: Connections = until(admin, "/v1/connections", carried).await;
    assert_eq!((known.open, known.ended), (1, 0));
    let shown = &known.shown[0];
    assert_eq!(shown.listener, relay.address.to_string());
    assert_eq!(shown.client, Some(client.local_addr().unwrap().to_string()));
    assert_eq!(shown.server, Some(target.to_string()));
    let up = shown.up.as_ref().unwrap();
    let (held, band): (f64, f64) = (
        up.limits_s.values().sum(),
        up.band.iter().map(|stretch| stretch.seconds).sum(),
    );
    assert!(held > 0.0 && (held - band).abs() < 1e-3, "{held} {band}");

    let history: History = ask(admin, &format!("/v1/connections/{}", shown.id)).await;
    assert_eq!(history.connection.client, shown.client);
    assert!(!history.up.is_empty() && !history.down.is_empty());
    let overview: Overview = ask(admin, "/v1/overview").await;
    assert_eq!(overview.serves, Serves::Relay);
    let listener_shown = &overview.listeners[0];
    assert_eq!(listener_shown.listen, relay.address.to_string());
    assert_eq!(
        (listener_shown.mode.as_str(), listener_shown.clients),
        ("tcp", 1)
    );
    assert_eq!(listener_shown.target, target.to_string());

    drop(server);
    within(read_to_end(&mut client)).await;
    drop(client);
    let over = |answer: &Connections| answer.ended == 1;
    let known: Connections = until(admin, "/v1/connections?ended=true", over).await;
    let end = known.shown[0].end.as_ref().unwrap();
    assert_eq!(
        (end.by.as_str(), end.phase.as_str()),
        ("completed", "closing")
    );
    assert!(has_carried(&known.shown[0], 50_000, 700));
}

#[tokio::test]
async fn a_reset_tells_who_it_was() {
    let (listener, target) = listen().await;
    let table = format!("[[tcp]]\nlisten = \"127.0.0.1:0\"\ntarget = \"{target}\"\n");
    let (relay, admin) = start(&table).await;
    let client = relay.connect().await;
    let (server, _) = within(listener.accept()).await.unwrap();
    server.set_zero_linger().unwrap();
    drop(server);
    let over = |answer: &Connections| answer.ended == 1;
    let known: Connections = until(admin, "/v1/connections?ended=true", over).await;
    let end = known.shown[0].end.as_ref().unwrap();
    assert_eq!(end.by, "server");
    assert!(end.error.is_some());
    drop(client);
}

#[tokio::test]
async fn an_http_relays_pool_is_shown_beside_its_clients() {
    let (listener, target) = listen().await;
    let table = format!(
        "[[http]]\nlisten = \"127.0.0.1:0\"\ntarget = \"{target}\"\n[http.pool]\nmin-idle = 1\n[http.prime]\nenabled = false\n"
    );
    let (relay, admin) = start(&table).await;
    let (_pooled, _) = within(listener.accept()).await.unwrap();
    let _client = relay.connect().await;
    let both = |answer: &Connections| answer.open == 2;
    let known: Connections = until(admin, "/v1/connections?sort=age", both).await;
    let pool = known.shown.iter().find(|one| one.client.is_none()).unwrap();
    assert_eq!(pool.server, Some(target.to_string()));
    let client = known.shown.iter().find(|one| one.client.is_some()).unwrap();
    assert!(client.server.is_none());
}
