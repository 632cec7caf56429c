//! Several targets behind one listener.

use longhaul_relay::{Balance, Config, EndedBy, Event, TcpOptions};
use profile::Setting;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use units::Span;

use std::time::Duration;

use crate::harness::{Relay, close, listen, nobody, plain, read_exactly, within};

/// A relay to all of them, which looks at none by itself.
fn to(targets: &[&TcpListener], by: Balance) -> TcpOptions {
    let mut names = targets
        .iter()
        .map(|target| target.local_addr().unwrap().to_string());
    let mut options = TcpOptions {
        listen: "127.0.0.1:0".into(),
        target: names.next().unwrap(),
        ..TcpOptions::default()
    };
    options.balance.also = names.collect();
    options.balance.by = Some(by);
    options.balance.check_every = Some(Setting::Off);
    options
}

async fn start(options: TcpOptions) -> Relay {
    Relay::start_with(Config::tcp(options).unwrap()).await
}

/// A client, and its connection at the target that should get it.
async fn arrive(relay: &Relay, target: &TcpListener) -> (TcpStream, TcpStream) {
    let client = relay.connect().await;
    let (server, _) = within(target.accept()).await.unwrap();
    (client, server)
}

/// The next change of a target's state.
async fn state(relay: &mut Relay) -> (String, bool) {
    let change = relay.event(|event| match event {
        Event::Target {
            target, available, ..
        } => Some((target.clone(), *available)),
        _ => None,
    });
    within(change).await
}

#[tokio::test]
async fn clients_go_to_each_target_in_turn() {
    let ((first, _), (second, _)) = (listen().await, listen().await);
    let relay = start(to(&[&first, &second], Balance::RoundRobin)).await;
    for target in [&first, &second, &first, &second] {
        arrive(&relay, target).await;
    }
}

#[tokio::test]
async fn a_client_goes_where_the_fewest_are() {
    let ((first, _), (second, _)) = (listen().await, listen().await);
    let mut relay = start(to(&[&first, &second], Balance::LeastConnections)).await;
    let _stays = arrive(&relay, &first).await;
    let leaves = arrive(&relay, &second).await;
    let _stays_too = arrive(&relay, &first).await;
    drop(leaves);
    let done = relay.event(|event| matches!(event, Event::ConnectionDone(_)).then_some(()));
    within(done).await;
    let _second = arrive(&relay, &second).await;
    let _again = arrive(&relay, &second).await;
}

#[tokio::test]
async fn a_reserve_takes_over_unseen_and_the_first_comes_back_after_its_rest() {
    let ((first, at), (second, _)) = (listen().await, listen().await);
    let mut options = to(&[&first, &second], Balance::FirstAvailable);
    options.balance.rest = Some(Span::from(Duration::from_millis(300)));
    let mut relay = start(options).await;
    arrive(&relay, &first).await;
    close(first);
    arrive(&relay, &second).await;
    assert_eq!(state(&mut relay).await, (at.to_string(), false));
    let first = TcpListener::bind(at).await.unwrap();
    // Until its rest is over, the reserve gets the clients.
    let back = async {
        loop {
            let _client = relay.connect().await;
            tokio::select! {
                _ = first.accept() => break,
                _ = second.accept() => {}
            }
        }
    };
    within(back).await;
    assert_eq!(state(&mut relay).await, (at.to_string(), true));
}

#[tokio::test]
async fn where_no_target_is_there_the_client_is_reset_and_the_last_reason_told() {
    let ((first, _), (second, _)) = (listen().await, listen().await);
    let options = to(&[&first, &second], Balance::RoundRobin);
    close(first);
    close(second);
    let mut relay = start(options).await;
    assert!(relay.end_of_newcomer().await.is_err());
    let done = relay.connection_done().await;
    assert_eq!(done.ended_by, EndedBy::Server);
    assert!(done.error.unwrap().contains("refused"));
}

#[tokio::test]
async fn looks_find_what_answers_wrongly_before_a_client_does() {
    let ((first, at), (second, _)) = (listen().await, listen().await);
    let mut options = to(&[&first, &second], Balance::FirstAvailable);
    options.balance.check_every = Some(Setting::Value(Span::from(Duration::from_millis(50))));
    options.balance.check_path = Some("/health".into());
    (options.balance.fall, options.balance.rise) = (Some(2), Some(2));
    // The first is ill for its first looks, the second never.
    tokio::spawn(answer(first, 4));
    tokio::spawn(answer(second, 0));
    let mut relay = start(options).await;
    assert_eq!(state(&mut relay).await, (at.to_string(), false));
    let mut client = relay.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let got = within(read_exactly(&mut client, 12)).await;
    assert_eq!(got, b"HTTP/1.1 200");
    assert_eq!(state(&mut relay).await, (at.to_string(), true));
}

/// Answers with 503 so many times, then with 200.
async fn answer(listener: TcpListener, ill: usize) {
    for count in 0.. {
        let (mut stream, _) = listener.accept().await.unwrap();
        let status = if count < ill { 503 } else { 200 };
        let mut request = [0; 1024];
        // A client that leaves early has seen enough.
        let _ = stream.read(&mut request).await;
        let _ = stream
            .write_all(format!("HTTP/1.1 {status} x\r\n\r\n").as_bytes())
            .await;
    }
}

#[tokio::test]
async fn http_requests_are_served_by_the_reserve_as_well() {
    let ((_nobody, at), (second, reserve)) = (nobody(), listen().await);
    let mut options = plain(at);
    options.balance.also = vec![reserve.to_string()];
    options.balance.check_every = Some(Setting::Off);
    let relay = Relay::start(options).await;
    let mut client = relay.connect().await;
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: o\r\n\r\n")
        .await
        .unwrap();
    let (mut origin, _) = within(second.accept()).await.unwrap();
    origin
        .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
        .await
        .unwrap();
    let got = within(read_exactly(&mut client, 12)).await;
    assert_eq!(got, b"HTTP/1.1 204");
}

#[tokio::test]
async fn whoever_is_denied_is_turned_away_although_allowed() {
    let (target, _) = listen().await;
    let mut options = to(&[&target], Balance::RoundRobin);
    options.deny = vec!["127.0.0.2".into()];
    let mut relay = start(options).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    // The end of it may come before the client has looked whether it is connected.
    let met = async {
        let mut denied = socket.connect(relay.address).await?;
        denied.read(&mut [0]).await
    };
    assert_eq!(within(met).await.unwrap_or(0), 0);
    let refused = relay.event(|event| match event {
        Event::Refused { why, .. } => Some(why.clone()),
        _ => None,
    });
    assert!(within(refused).await.contains("denied"));
    arrive(&relay, &target).await;
}
