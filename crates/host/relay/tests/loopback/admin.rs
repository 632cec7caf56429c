//! What an administrator gets to know.

use std::net::SocketAddr;

use longhaul_relay::{Config, Event};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::{Relay, listen, noise, read_exactly, read_to_end, within};

/// A relay for byte streams with an administrator's door, and where that is.
async fn start(target: SocketAddr) -> (Relay, SocketAddr) {
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[[tcp]]\nlisten = \"127.0.0.1:0\"\ntarget = \"{target}\"\n"
    );
    let mut relay = Relay::start_with(Config::from_toml(&text).unwrap()).await;
    let admin = relay.event(|event| match event {
        Event::Admin { address } => Some(*address),
        _ => None,
    });
    let admin = within(admin).await;
    (relay, admin)
}

pub(crate) async fn ask(admin: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    String::from_utf8(within(read_to_end(&mut stream)).await).unwrap()
}

#[tokio::test]
async fn metrics_tell_what_was_relayed_by_whom_it_ended_and_what_held_it_back() {
    let (listener, target) = listen().await;
    let (mut relay, admin) = start(target).await;
    let mut client = relay.connect().await;
    let (mut server, _) = within(listener.accept()).await.unwrap();
    client.write_all(&noise(1000)).await.unwrap();
    within(read_exactly(&mut server, 1000)).await;
    let here = ask(admin, "/v1/clients").await;
    let peer = client.local_addr().unwrap();
    assert!(here.contains(&format!("\"peer\": \"{peer}\"")), "{here}");
    server.write_all(&noise(70)).await.unwrap();
    drop(server);
    within(read_to_end(&mut client)).await;
    drop(client);
    let done = relay.event(|event| matches!(event, Event::ConnectionDone(_)).then_some(()));
    within(done).await;

    let answer = ask(admin, "/metrics").await;
    let (head, metrics) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let labels = format!("listen=\"{}\"", relay.address);
    for line in [
        format!("longhaul_clients_total{{{labels}}} 1"),
        format!("longhaul_ended_total{{{labels},by=\"completed\",phase=\"closing\"}} 1"),
        format!("longhaul_bytes_total{{{labels},direction=\"up\"}} 1000"),
        format!("longhaul_bytes_total{{{labels},direction=\"down\"}} 70"),
        format!("longhaul_connect_seconds_count{{{labels}}} 1"),
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}: {metrics}"
        );
    }
    let held =
        format!("longhaul_limit_seconds_total{{{labels},side=\"server\",limit=\"application\"}} ");
    assert!(metrics.contains(&held), "{metrics}");
    // Each series belongs to the metric that was described last, as the format wants it.
    let mut described = String::new();
    for line in metrics.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            described = kind.split(' ').next().unwrap().into();
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(
                series.starts_with(&described),
                "{line} is not of {described}"
            );
            value.parse::<f64>().unwrap();
        }
    }
}

#[tokio::test]
async fn health_is_told_and_readiness_ends_with_draining() {
    let (listener, target) = listen().await;
    let (mut relay, admin) = start(target).await;
    assert!(ask(admin, "/healthz").await.starts_with("HTTP/1.1 200 "));
    assert!(ask(admin, "/readyz").await.starts_with("HTTP/1.1 200 "));
    let relays = ask(admin, "/v1/relays").await;
    let (_, body) = relays.split_once("\r\n\r\n").unwrap();
    let relays: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(relays[0]["listen"], relay.address.to_string());
    let mut client = relay.connect().await;
    let (mut server, _) = within(listener.accept()).await.unwrap();
    relay.order_stop();
    let draining = relay.event(|event| matches!(event, Event::Draining { .. }).then_some(()));
    within(draining).await;
    assert!(ask(admin, "/readyz").await.starts_with("HTTP/1.1 503 "));
    assert!(ask(admin, "/healthz").await.starts_with("HTTP/1.1 200 "));
    client.write_all(b"still served").await.unwrap();
    let got = within(read_exactly(&mut server, 12)).await;
    assert_eq!(got, b"still served");
}
