//! Clients that say where they want to go, by SOCKS5 or HTTP CONNECT, and those who may not.

use std::io::Write as _;

use longhaul_relay::{Config, EndedBy, Phase, TcpOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{
    Relay, digest, listen, nobody, noise, read_exactly, read_head, read_to_end, within,
};

fn options(to: &[&str]) -> TcpOptions {
    TcpOptions {
        listen: "127.0.0.1:0".into(),
        target: "asked".into(),
        to: to.iter().map(ToString::to_string).collect(),
        ..TcpOptions::default()
    }
}

async fn start(options: TcpOptions) -> Relay {
    Relay::start_with(Config::tcp(options).unwrap()).await
}

/// A SOCKS5 request for a host's name.
fn socks5_request(name: &str, port: u16) -> Vec<u8> {
    let mut bytes = vec![5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
    bytes.extend(name.as_bytes());
    bytes.extend(port.to_be_bytes());
    bytes
}

/// Both directions between a client that is through and the server behind.
async fn talk(mut client: TcpStream, server: &TcpListener) {
    let (mut server, _) = server.accept().await.unwrap();
    let sent = noise(300_000);
    let expected = digest(&sent);
    let sending = tokio::spawn(async move {
        client.write_all(&sent).await.unwrap();
        client.shutdown().await.unwrap();
        read_to_end(&mut client).await
    });
    assert_eq!(digest(&read_to_end(&mut server).await), expected);
    server.write_all(b"got it").await.unwrap();
    drop(server);
    assert_eq!(sending.await.unwrap(), b"got it");
}

#[tokio::test]
async fn a_socks5_client_is_connected_to_the_name_that_it_asks_for() {
    let (server, address) = listen().await;
    let mut relay = start(options(&["localhost"])).await;
    let mut client = relay.connect().await;
    client.write_all(&[5, 2, 0, 1]).await.unwrap();
    assert_eq!(within(read_exactly(&mut client, 2)).await, [5, 0]);
    client
        .write_all(&socks5_request("localhost", address.port()))
        .await
        .unwrap();
    let reply = within(read_exactly(&mut client, 10)).await;
    assert_eq!(reply[..4], [5, 0, 0, 1]);
    within(talk(client, &server)).await;
    let done = relay.connection_done().await;
    assert_eq!(done.ended_by, EndedBy::Completed);
    let asked_for = format!("localhost:{}", address.port());
    assert_eq!(done.asked_for, Some(asked_for));
    assert_eq!((done.bytes_up, done.bytes_down), (300_000, 6));
}

#[tokio::test]
async fn a_connect_client_is_connected_and_what_it_sent_early_arrives_first() {
    let (server, address) = listen().await;
    let relay = start(options(&[&format!("127.0.0.0/8:{}", address.port())])).await;
    let mut client = relay.connect().await;
    let asking = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\nearly");
    client.write_all(asking.as_bytes()).await.unwrap();
    let head = within(read_head(&mut client)).await;
    assert_eq!(head, "HTTP/1.1 200 Connection established\r\n\r\n");
    let (mut server, _) = within(server.accept()).await.unwrap();
    client.write_all(b" and late").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(within(read_to_end(&mut server)).await, b"early and late");
}

#[tokio::test]
async fn nobody_gets_where_the_list_does_not_lead() {
    let (_server, address) = listen().await;
    let mut relay = start(options(&["store.example", "10.0.0.0/8", "127.0.0.1:1"])).await;
    // By address, by a name for the same, and a port beside the one that is allowed.
    for target in [address.to_string(), format!("localhost:{}", address.port())] {
        let mut client = relay.connect().await;
        let asking = format!("CONNECT {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        client.write_all(asking.as_bytes()).await.unwrap();
        let head = within(read_head(&mut client)).await;
        assert!(head.starts_with("HTTP/1.1 403"), "{target}: {head}");
        assert!(within(read_to_end(&mut client)).await.is_empty());
        let done = relay.connection_done().await;
        assert_eq!(
            (done.ended_by, done.phase),
            (EndedBy::Client, Phase::Connecting)
        );
        assert_eq!(done.server, None);
    }
    let mut client = relay.connect().await;
    let mut asking = vec![5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1];
    asking.extend(address.port().to_be_bytes());
    client.write_all(&asking).await.unwrap();
    let answers = within(read_to_end(&mut client)).await;
    assert_eq!(answers[..4], [5, 0, 5, 2]);
}

#[tokio::test]
async fn without_a_list_there_is_no_proxy() {
    let error = Config::tcp(options(&[])).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("nothing says where clients may ask to go"),
        "{error}"
    );
}

#[tokio::test]
async fn a_target_that_is_not_there_is_told_in_the_clients_own_language() {
    let (_nobody, address) = nobody();
    let mut relay = start(options(&["*"])).await;
    let mut client = relay.connect().await;
    let asking = format!("CONNECT {address} HTTP/1.1\r\nHost: a\r\n\r\n");
    client.write_all(asking.as_bytes()).await.unwrap();
    assert!(
        within(read_head(&mut client))
            .await
            .starts_with("HTTP/1.1 502")
    );
    assert_eq!(relay.connection_done().await.ended_by, EndedBy::Server);
    let mut client = relay.connect().await;
    client.write_all(&[5, 1, 0]).await.unwrap();
    let asking = socks5_request("127.0.0.1", address.port());
    client.write_all(&asking).await.unwrap();
    let answers = within(read_to_end(&mut client)).await;
    assert_eq!(answers[..4], [5, 0, 5, 5]);
}

#[tokio::test]
async fn where_there_are_users_a_client_must_be_one() {
    let (server, address) = listen().await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"ann:secret\n").unwrap();
    let relay = start(TcpOptions {
        users: Some(file.path().to_owned()),
        ..options(&["127.0.0.1"])
    })
    .await;
    // Nobody, by either protocol.
    let mut client = relay.connect().await;
    let asking = format!("CONNECT {address} HTTP/1.1\r\nHost: a\r\n\r\n");
    client.write_all(asking.as_bytes()).await.unwrap();
    let head = within(read_head(&mut client)).await;
    assert!(
        head.starts_with("HTTP/1.1 407") && head.contains("Basic"),
        "{head}"
    );
    let mut client = relay.connect().await;
    client.write_all(&[5, 1, 0]).await.unwrap();
    assert_eq!(within(read_to_end(&mut client)).await, [5, 255]);
    // A wrong password.
    let mut client = relay.connect().await;
    client
        .write_all(b"\x05\x01\x02\x01\x03ann\x05wrong")
        .await
        .unwrap();
    assert_eq!(within(read_to_end(&mut client)).await, [5, 2, 1, 1]);
    // The right one, by either.
    let mut client = relay.connect().await;
    client
        .write_all(b"\x05\x01\x02\x01\x03ann\x06secret")
        .await
        .unwrap();
    assert_eq!(within(read_exactly(&mut client, 4)).await, [5, 2, 1, 0]);
    let asking = socks5_request("127.0.0.1", address.port());
    client.write_all(&asking).await.unwrap();
    assert_eq!(within(read_exactly(&mut client, 10)).await[1], 0);
    within(talk(client, &server)).await;
    let mut client = relay.connect().await;
    // ann:secret
    let asking = format!(
        "CONNECT {address} HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Basic YW5uOnNlY3JldA==\r\n\r\n"
    );
    client.write_all(asking.as_bytes()).await.unwrap();
    assert!(
        within(read_head(&mut client))
            .await
            .starts_with("HTTP/1.1 200")
    );
    within(talk(client, &server)).await;
}

#[tokio::test]
async fn a_client_that_speaks_something_else_is_shown_out() {
    let mut relay = start(options(&["*"])).await;
    for (said, answered) in [
        (
            b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n".as_slice(),
            "HTTP/1.1 501",
        ),
        (b"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 400"),
        (b"CONNECT a:1 HTTP/1.1\nHost: a\n\n", "HTTP/1.1 400"),
        (b"\x04\x01", ""),
        (
            b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x01",
            "\u{5}\0\u{5}\u{7}",
        ),
    ] {
        let mut client = relay.connect().await;
        client.write_all(said).await.unwrap();
        let mut answer = Vec::new();
        // A reset, where the relay had not read all that was said.
        let _ = within(client.read_to_end(&mut answer)).await;
        assert!(answer.starts_with(answered.as_bytes()), "{answer:?}");
        let done = relay.connection_done().await;
        assert_eq!(
            (done.ended_by, done.phase),
            (EndedBy::Client, Phase::Asking)
        );
    }
}
