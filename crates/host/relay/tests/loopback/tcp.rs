//! Byte streams, unchanged in both directions and in how they end.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use longhaul_relay::{Config, EndedBy, Event, Phase, ProxyVersion, Stage, TcpOptions};
use profile::{Setting, Side};
use rustix::net::{SendFlags, send};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use units::Span;

use crate::harness::{Relay, digest, listen, nobody, noise, read_exactly, read_to_end, within};

/// By what a relay moves its streams. Neither is to be told from the other from outside.
#[derive(Clone, Copy)]
enum By {
    /// What it does where nothing has to be chosen or asked for.
    Reactor,
    Task,
}

/// Tests that hold for both.
macro_rules! by_a_reactor_and_by_tasks {
    ($($test:ident)*) => {
        mod by_a_reactor {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::By::Reactor).await;
            })*
        }
        mod by_tasks {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::By::Task).await;
            })*
        }
    };
}

by_a_reactor_and_by_tasks! {
    bulk_in_both_directions_at_once_arrives_unchanged
    messages_of_every_size_around_the_small_read_pass_in_order
    a_half_close_is_passed_on_and_leaves_the_other_direction_open
    a_reset_of_either_side_is_a_reset_on_the_other
    a_reset_after_a_half_close_is_seen_though_nobody_reads_from_that_side
    a_reset_is_seen_while_the_other_side_takes_nothing
    urgent_data_stays_where_it_is_in_the_stream
    a_target_that_refuses_resets_the_client
    silence_beyond_its_limit_resets_both_sides
    at_the_limit_clients_wait_until_one_leaves
    stopping_waits_for_connections_and_resets_what_is_left_at_the_deadline
    both_profiles_are_read_back_after_data_has_flowed
    five_hundred_connections_at_once_keep_their_bytes_apart
}

fn options(target: SocketAddr) -> TcpOptions {
    TcpOptions {
        listen: "127.0.0.1:0".into(),
        target: target.to_string(),
        ..TcpOptions::default()
    }
}

impl By {
    fn options(self, target: SocketAddr) -> TcpOptions {
        let mut options = options(target);
        if let Self::Task = self {
            // Where there are several, one has to be chosen.
            options.balance.also = vec![target.to_string()];
            options.balance.check_every = Some(Setting::Off);
        }
        options
    }
}

async fn start(options: TcpOptions) -> Relay {
    Relay::start_with(Config::tcp(options).unwrap()).await
}

/// A client, the service that it reaches, and the relay between them.
async fn chain(by: By) -> (TcpStream, TcpStream, Relay) {
    let (listener, target) = listen().await;
    let relay = start(by.options(target)).await;
    let client = relay.connect().await;
    let (server, _) = within(listener.accept()).await.unwrap();
    (client, server, relay)
}

/// What reading up to the end of a connection comes to.
async fn end_of(stream: &mut TcpStream) -> io::Result<usize> {
    let mut bytes = Vec::new();
    within(stream.read_to_end(&mut bytes)).await
}

async fn bulk_in_both_directions_at_once_arrives_unchanged(by: By) {
    let (client, server, mut relay) = chain(by).await;
    let (up, down) = (noise(40_000_000), noise(30_000_000));
    let exchange = |stream: TcpStream, bytes: Vec<u8>| async move {
        let (mut reader, mut writer) = stream.into_split();
        let writing = tokio::spawn(async move {
            writer.write_all(&bytes).await.unwrap();
            writer.shutdown().await.unwrap();
        });
        let mut got = Vec::new();
        reader.read_to_end(&mut got).await.unwrap();
        writing.await.unwrap();
        digest(&got)
    };
    let (expected_up, expected_down) = (digest(&up), digest(&down));
    let both = futures(exchange(client, up), exchange(server, down));
    let (at_client, at_server) = within(both).await;
    assert_eq!(at_client, expected_down);
    assert_eq!(at_server, expected_up);
    let done = relay.connection_done().await;
    assert_eq!((done.bytes_up, done.bytes_down), (40_000_000, 30_000_000));
    assert_eq!(done.ended_by, EndedBy::Completed);
    assert_eq!(done.phase, Phase::Closing);
    assert!(done.client_side.is_some() && done.server_side.is_some());
}

async fn futures<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    tokio::join!(a, b)
}

async fn messages_of_every_size_around_the_small_read_pass_in_order(by: By) {
    let (mut client, mut server, _relay) = chain(by).await;
    for size in [1, 64, 16_383, 16_384, 16_385, 40_000, 3, 1 << 20, 2] {
        let message = noise(size);
        client.write_all(&message).await.unwrap();
        assert_eq!(within(read_exactly(&mut server, size)).await, message);
        server.write_all(&message).await.unwrap();
        assert_eq!(within(read_exactly(&mut client, size)).await, message);
    }
}

async fn a_half_close_is_passed_on_and_leaves_the_other_direction_open(by: By) {
    let (mut client, mut server, mut relay) = chain(by).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(within(read_to_end(&mut server)).await, b"question");
    server.write_all(b"answer").await.unwrap();
    assert_eq!(within(read_exactly(&mut client, 6)).await, b"answer");
    drop(server);
    assert_eq!(end_of(&mut client).await.unwrap(), 0);
    let done = relay.connection_done().await;
    assert_eq!(done.closed_first, Some(Side::Client));
    assert_eq!(done.error, None);
}

async fn a_reset_of_either_side_is_a_reset_on_the_other(by: By) {
    let (client, mut server, mut relay) = chain(by).await;
    client.set_zero_linger().unwrap();
    drop(client);
    let error = end_of(&mut server).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let reset = relay.connection_done().await;
    assert_eq!(
        (reset.ended_by, reset.phase),
        (EndedBy::Client, Phase::Data)
    );

    let (mut client, server, mut relay) = chain(by).await;
    server.set_zero_linger().unwrap();
    drop(server);
    let error = end_of(&mut client).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(relay.connection_done().await.ended_by, EndedBy::Server);
}

async fn a_reset_after_a_half_close_is_seen_though_nobody_reads_from_that_side(by: By) {
    let (mut client, mut server, mut relay) = chain(by).await;
    client.shutdown().await.unwrap();
    assert_eq!(within(read_to_end(&mut server)).await, b"");
    client.set_zero_linger().unwrap();
    drop(client);
    // The server still may send; what it learns is that nobody is there any more.
    let done = relay.connection_done().await;
    assert_eq!(
        (done.ended_by, done.phase),
        (EndedBy::Client, Phase::Closing)
    );
    let mut byte = [0];
    let failed = within(async {
        loop {
            if let Err(error) = server.write_all(&byte).await {
                return error;
            }
            let _ = server.read(&mut byte).await;
        }
    });
    let failed = failed.await;
    let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    assert!(kinds.contains(&failed.kind()), "{failed}");
}

async fn a_reset_is_seen_while_the_other_side_takes_nothing(by: By) {
    let (mut client, server, mut relay) = chain(by).await;
    let bytes = noise(1 << 20);
    // Until every buffer on the way is full: the relay then waits for the server alone.
    let fill = async {
        loop {
            let write = client.write_all(&bytes);
            let waited = tokio::time::timeout(std::time::Duration::from_millis(300), write);
            if waited.await.is_err() {
                return;
            }
        }
    };
    within(fill).await;
    client.set_zero_linger().unwrap();
    drop(client);
    assert_eq!(relay.connection_done().await.ended_by, EndedBy::Client);
    drop(server);
}

async fn urgent_data_stays_where_it_is_in_the_stream(by: By) {
    let (mut client, mut server, _relay) = chain(by).await;
    // Bulk, so that it meets the pipe path too.
    for size in [3, 200_000] {
        let before = noise(size);
        client.write_all(&before).await.unwrap();
        assert_eq!(send(&client, b"!", SendFlags::OOB).unwrap(), 1);
        client.write_all(b"after").await.unwrap();
        assert_eq!(within(read_exactly(&mut server, size)).await, before);
        assert_eq!(within(read_exactly(&mut server, 6)).await, b"!after");
    }
}

async fn a_target_that_refuses_resets_the_client(by: By) {
    let (_nobody, target) = nobody();
    let mut relay = start(by.options(target)).await;
    let error = relay.end_of_newcomer().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let done = relay.connection_done().await;
    assert_eq!(
        (done.ended_by, done.phase),
        (EndedBy::Server, Phase::Connecting)
    );
    assert!(done.error.unwrap().contains("refused"));
}

async fn silence_beyond_its_limit_resets_both_sides(by: By) {
    let (listener, target) = listen().await;
    let mut options = by.options(target);
    // Longer than the client takes to see that it is connected, whatever the machine does.
    options.limits.idle_timeout = Some(Span::from(std::time::Duration::from_secs(2)));
    let mut relay = start(options).await;
    let mut client = relay.connect().await;
    let (mut server, _) = within(listener.accept()).await.unwrap();
    for stream in [&mut client, &mut server] {
        let error = end_of(stream).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(relay.connection_done().await.ended_by, EndedBy::Timeout);
}

#[tokio::test]
async fn a_proxy_header_is_taken_off_and_one_of_the_other_version_put_on() {
    let (listener, target) = listen().await;
    let mut options = options(target);
    options.accept_proxy = Some(true);
    options.send_proxy = Some(ProxyVersion::V2);
    let mut relay = start(options).await;
    let mut client = relay.connect().await;
    // In pieces: a header need not come in one segment.
    client
        .write_all(b"PROXY TCP4 192.0.2.1 198.")
        .await
        .unwrap();
    tokio::task::yield_now().await;
    client
        .write_all(b"51.100.7 4711 443\r\nhello")
        .await
        .unwrap();
    let (mut server, _) = within(listener.accept()).await.unwrap();
    let expected = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x07\x12\x67\x01\xbbhello";
    assert_eq!(
        within(read_exactly(&mut server, expected.len())).await,
        expected
    );
    drop((client, server));
    let done = relay.connection_done().await;
    assert_eq!(done.stands_for, Some("192.0.2.1:4711".parse().unwrap()));
    assert_eq!(done.bytes_up, 5);
}

#[tokio::test]
async fn a_client_without_its_proxy_header_reaches_nobody() {
    let (listener, target) = listen().await;
    let mut options = options(target);
    options.accept_proxy = Some(true);
    let mut relay = start(options).await;
    let mut client = relay.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let done = relay.connection_done().await;
    assert_eq!(
        (done.ended_by, done.phase),
        (EndedBy::Client, Phase::ProxyHeader)
    );
    assert!(end_of(&mut client).await.is_err());
    drop(listener);
}

#[tokio::test]
async fn a_header_of_its_own_names_the_client_and_the_address_it_used() {
    let (listener, target) = listen().await;
    let mut options = options(target);
    options.send_proxy = Some(ProxyVersion::V1);
    let relay = start(options).await;
    let client = relay.connect().await;
    let (mut server, _) = within(listener.accept()).await.unwrap();
    let expected = format!(
        "PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n",
        client.local_addr().unwrap().port(),
        relay.address.port()
    );
    let got = within(read_exactly(&mut server, expected.len())).await;
    assert_eq!(String::from_utf8(got).unwrap(), expected);
}

async fn at_the_limit_clients_wait_until_one_leaves(by: By) {
    let (listener, target) = listen().await;
    let mut options = by.options(target);
    options.limits.connections = Some(1);
    let relay = start(options).await;
    let first = relay.connect().await;
    let (server, _) = within(listener.accept()).await.unwrap();
    let mut second = relay.connect().await;
    second.write_all(b"x").await.unwrap();
    let early = std::time::Duration::from_millis(100);
    let none = tokio::time::timeout(early, listener.accept()).await;
    assert!(
        none.is_err(),
        "the second client was served beside the first"
    );
    drop((first, server));
    let (mut server, _) = within(listener.accept()).await.unwrap();
    assert_eq!(within(read_exactly(&mut server, 1)).await, b"x");
}

async fn stopping_waits_for_connections_and_resets_what_is_left_at_the_deadline(by: By) {
    let (mut client, mut server, mut relay) = chain(by).await;
    relay.order_stop();
    client.write_all(b"still").await.unwrap();
    assert_eq!(within(read_exactly(&mut server, 5)).await, b"still");
    drop((client, server));
    assert_eq!(relay.connection_done().await.ended_by, EndedBy::Completed);

    let (listener, target) = listen().await;
    let mut options = by.options(target);
    options.limits.drain_timeout = Some(Span::from(std::time::Duration::from_millis(50)));
    let relay = start(options).await;
    let mut client = relay.connect().await;
    let (_server, _) = within(listener.accept()).await.unwrap();
    let rest = within(relay.stopped()).await;
    let error = end_of(&mut client).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let told = rest.iter().any(|event| match event {
        Event::ConnectionDone(done) => done.ended_by == EndedBy::Relay,
        _ => false,
    });
    assert!(told, "{rest:?}");
}

async fn both_profiles_are_read_back_after_data_has_flowed(by: By) {
    let (mut client, mut server, relay) = chain(by).await;
    client.write_all(b"x").await.unwrap();
    within(read_exactly(&mut server, 1)).await;
    drop((client, server));
    let rest = within(relay.stopped()).await;
    let mut sides: Vec<_> = rest
        .iter()
        .filter_map(|event| match event {
            Event::Applied {
                side,
                stage: Stage::AfterData,
                options,
                ..
            } => Some((*side, options.len())),
            _ => None,
        })
        .collect();
    sides.sort_unstable();
    let [(Side::Client, at_client), (Side::Server, at_server)] = sides[..] else {
        panic!("{sides:?}");
    };
    assert!(at_client >= 8 && at_server >= 8);
}

/// Linux prefers the congestion control of a route (`ip route … congctl`) to the socket's own, both at
/// connect and on accepted sockets.
#[test]
fn a_profiles_congestion_control_holds_on_routes_that_name_another() {
    let namespace = sys::namespace::NetworkNamespace::create("relay-routes").unwrap();
    namespace
        .ip("link set lo up\n\
             route replace local 127.0.0.1/32 dev lo table local congctl reno\n")
        .unwrap();
    for by in [By::Reactor, By::Task] {
        let (by_route, at_client, at_server) =
            namespace.enter(move || congestion_controls(by)).unwrap();
        assert_eq!(
            by_route, "reno",
            "the route has no say: nothing is tried here"
        );
        assert_eq!((at_client.as_str(), at_server.as_str()), ("cubic", "bbr"));
    }
}

/// What a plain connection gets in this namespace, and what the relay's sockets have after data towards
/// the client and the server.
fn congestion_controls(by: By) -> (String, String, String) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (mut client, mut server, relay) = chain(by).await;
        let by_route = sys::socket::congestion_control(&client).unwrap();
        client.write_all(b"x").await.unwrap();
        within(read_exactly(&mut server, 1)).await;
        drop((client, server));
        let events = within(relay.stopped()).await;
        let effective = |wanted: Side| {
            let of_side = events.iter().find_map(|event| match event {
                Event::Applied {
                    side,
                    stage: Stage::AfterData,
                    options,
                    ..
                } if *side == wanted => Some(options),
                _ => None,
            });
            let options = of_side.expect("the relay tells what is in effect after data");
            let congestion = options.iter().find(|one| one.option == "TCP_CONGESTION");
            congestion.unwrap().effective.clone()
        };
        (by_route, effective(Side::Client), effective(Side::Server))
    })
}

async fn five_hundred_connections_at_once_keep_their_bytes_apart(by: By) {
    let (listener, target): (TcpListener, _) = listen().await;
    let relay = start(by.options(target)).await;
    let servers = tokio::spawn(async move {
        for _ in 0..500 {
            let (mut server, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let got = read_to_end(&mut server).await;
                server.write_all(digest(&got).as_bytes()).await.unwrap();
            });
        }
    });
    let mut clients = Vec::new();
    for number in 0..500_usize {
        let address = relay.address;
        clients.push(tokio::spawn(async move {
            let mut client = TcpStream::connect(address).await.unwrap();
            let mut bytes = noise(20_000 + number * 37);
            bytes.extend(number.to_le_bytes());
            client.write_all(&bytes).await.unwrap();
            client.shutdown().await.unwrap();
            let got = read_to_end(&mut client).await;
            assert_eq!(String::from_utf8(got).unwrap(), digest(&bytes));
        }));
    }
    for client in clients {
        within(client).await.unwrap();
    }
    servers.await.unwrap();
}
