//! Another configuration while clients are there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use longhaul_relay::{Config, Event, HttpOptions, RunError, TcpOptions, Upstream};
use profile::Setting;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use units::Span;

use crate::harness::{
    Origin, Relay, digest, listen, noise, plain, read_exactly, read_head, within,
};
use crate::tls::{Site, both, start};

/// A relay for byte streams; `connections` is what makes one configuration differ from another.
fn stream(listen: &str, target: &TcpListener, connections: usize) -> Config {
    Config::tcp(options(listen, target, connections)).unwrap()
}

/// The same, which tasks serve, because one of several targets has to be chosen.
fn by_tasks(listen: &str, target: &TcpListener, connections: usize) -> Config {
    let mut options = options(listen, target, connections);
    options.balance.also = vec![options.target.clone()];
    options.balance.check_every = Some(Setting::Off);
    Config::tcp(options).unwrap()
}

fn options(listen: &str, target: &TcpListener, connections: usize) -> TcpOptions {
    let mut options = TcpOptions {
        listen: listen.into(),
        target: target.local_addr().unwrap().to_string(),
        ..TcpOptions::default()
    };
    options.limits.connections = Some(connections);
    options
}

#[tokio::test]
async fn an_open_connection_goes_on_and_a_new_one_gets_the_new_target() {
    let ((old, _), (new, _)) = (listen().await, listen().await);
    let mut relay = Relay::start_with(stream("127.0.0.1:0", &old, 9)).await;
    let mut before = relay.connect().await;
    let (mut served, _) = within(old.accept()).await.unwrap();
    let told = within(relay.reload(stream("127.0.0.1:0", &new, 9))).await;
    assert_eq!(told, Event::Reloaded { listeners: 1 });
    let mut after = relay.connect().await;
    let (mut served_anew, _) = within(new.accept()).await.unwrap();
    for (client, server) in [(&mut before, &mut served), (&mut after, &mut served_anew)] {
        client.write_all(b"ping").await.unwrap();
        assert_eq!(within(read_exactly(server, 4)).await, b"ping");
        server.write_all(b"pong").await.unwrap();
        assert_eq!(within(read_exactly(client, 4)).await, b"pong");
    }
}

/// With one socket there are threads that let in by it only where reactors do.
#[tokio::test]
async fn whoever_waits_at_a_reactor_is_served_where_tasks_take_over() {
    let (target, _) = listen().await;
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let config = stream(&address.to_string(), &target, 1);
    let mut relay = Relay::start_on(vec![socket], config).await;
    let first = TcpStream::connect(address).await.unwrap();
    let (mut server, _) = within(target.accept()).await.unwrap();
    let mut inside = Some(first);
    // One waits inside at each thread, and the others in the kernel's queue: nobody knows in which order they come.
    let count = 2 + std::thread::available_parallelism().unwrap().get();
    let mut waiting = Vec::new();
    for number in 0..count {
        let mut client = TcpStream::connect(address).await.unwrap();
        client
            .write_all(&[number.try_into().unwrap()])
            .await
            .unwrap();
        waiting.push(Some(client));
    }
    within(relay.reload(by_tasks(&address.to_string(), &target, 1))).await;
    for _ in 0..count {
        drop((inside.take(), server));
        (server, _) = within(target.accept()).await.unwrap();
        let number = within(read_exactly(&mut server, 1)).await[0];
        inside = waiting[usize::from(number)].take();
        assert!(inside.is_some(), "{number} came twice");
    }
}

/// As of a predecessor that had more processors.
#[tokio::test]
async fn more_sockets_than_threads_are_all_served() {
    let (target, _) = listen().await;
    let count = 2 * std::thread::available_parallelism().unwrap().get() + 1;
    let mut address = "127.0.0.1:0".parse().unwrap();
    let mut sockets = Vec::new();
    for _ in 0..count {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(address).unwrap();
        address = socket.local_addr().unwrap();
        sockets.push(socket.listen(99).unwrap().into_std().unwrap());
    }
    let relay = Relay::start_on(sockets, stream(&address.to_string(), &target, 999)).await;
    // The kernel divides them among the sockets: each gets some.
    let mut clients = Vec::new();
    for _ in 0..16 * count {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"x").await.unwrap();
        let (mut server, _) = within(target.accept()).await.unwrap();
        assert_eq!(within(read_exactly(&mut server, 1)).await, b"x");
        clients.push((client, server));
    }
    drop(clients);
    let warned = |event: &Event| matches!(event, Event::Warning { .. });
    let rest = within(relay.stopped()).await;
    assert!(!rest.iter().any(warned), "{rest:?}");
}

#[tokio::test]
async fn whoever_waits_for_a_place_is_served_by_the_new_configuration() {
    let ((old, _), (new, _)) = (listen().await, listen().await);
    let mut relay = Relay::start_with(stream("127.0.0.1:0", &old, 1)).await;
    let first = relay.connect().await;
    let (served, _) = within(old.accept()).await.unwrap();
    let mut second = relay.connect().await;
    second.write_all(b"x").await.unwrap();
    // By a task and by a reactor again: each takes over who waits inside.
    within(relay.reload(by_tasks("127.0.0.1:0", &old, 1))).await;
    within(relay.reload(stream("127.0.0.1:0", &new, 1))).await;
    drop((first, served));
    let (mut server, _) = within(new.accept()).await.unwrap();
    assert_eq!(within(read_exactly(&mut server, 1)).await, b"x");
}

#[tokio::test]
async fn a_target_that_no_client_has_any_more_is_looked_at_no_more() {
    let looked_at = |target: &TcpListener| {
        let mut options = TcpOptions {
            listen: "127.0.0.1:0".into(),
            target: target.local_addr().unwrap().to_string(),
            ..TcpOptions::default()
        };
        let often = Span::from(Duration::from_millis(20));
        options.balance.check_every = Some(Setting::Value(often));
        Config::tcp(options).unwrap()
    };
    let ((old, old_at), (new, _)) = (listen().await, listen().await);
    let mut relay = Relay::start_with(looked_at(&old)).await;
    let mut client = relay.connect().await;
    client.write_all(b"x").await.unwrap();
    // Looks come by as well, and say nothing.
    let served = async {
        loop {
            let (mut server, _) = old.accept().await.unwrap();
            if server.read(&mut [0]).await.unwrap() == 1 {
                return server;
            }
        }
    };
    let served = within(served).await;
    within(relay.reload(looked_at(&new))).await;
    drop((client, served));
    within(relay.connection_done()).await;
    drop(old);
    // Time for many more looks than it takes to tell that a target is gone.
    for _ in 0..20 {
        within(new.accept()).await.unwrap();
    }
    let gone = |event: &Event| match event {
        Event::Target { target, .. } => *target == old_at.to_string(),
        _ => false,
    };
    assert!(!within(relay.stopped()).await.iter().any(gone));
}

#[tokio::test]
async fn a_configuration_that_cannot_be_put_into_effect_changes_nothing() {
    let (target, _) = listen().await;
    let (_taken, in_use) = listen().await;
    let mut relay = Relay::start_with(stream("127.0.0.1:0", &target, 9)).await;
    let told = within(relay.reload(stream(&in_use.to_string(), &target, 9))).await;
    let Event::ReloadFailed { why } = told else {
        panic!("reloaded although the address is in use");
    };
    assert!(why.contains(&in_use.to_string()), "{why}");
    let _client = relay.connect().await;
    within(target.accept()).await.unwrap();
}

#[tokio::test]
async fn a_second_relay_on_the_same_address_is_refused_although_the_first_has_several_sockets() {
    let (target, _) = listen().await;
    let first = Relay::start_with(stream("127.0.0.1:0", &target, 9)).await;
    let again = stream(&first.address.to_string(), &target, 9);
    let (_orders, given) = tokio::sync::mpsc::channel(1);
    let refused = longhaul_relay::run(again, Vec::new(), drop, given).await;
    assert!(
        matches!(refused, Err(RunError::Listen { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_successor_serves_all_who_come_by_any_of_its_predecessors_sockets() {
    let (target, _) = listen().await;
    let mut before = Relay::start_with(stream("127.0.0.1:0", &target, 99)).await;
    let config = stream(&before.address.to_string(), &target, 99);
    let after = Relay::start_on(before.listeners().await, config).await;
    before.order_stop();
    within(before.stopped()).await;
    // The kernel divides them among the sockets: were one left alone, half of them would hear nothing.
    for number in 0..32_u8 {
        let mut client = after.connect().await;
        client.write_all(&[number]).await.unwrap();
        let (mut server, _) = within(target.accept()).await.unwrap();
        assert_eq!(within(read_exactly(&mut server, 1)).await, [number]);
    }
}

#[tokio::test]
async fn one_socket_that_was_handed_over_serves_as_many_as_several() {
    let (target, _) = listen().await;
    let handed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = stream(&handed.local_addr().unwrap().to_string(), &target, 99);
    let relay = Relay::start_on(vec![handed], config).await;
    // More than one thread keeps for itself: the others get theirs from it.
    let mut open = Vec::new();
    for number in 0..32_u8 {
        let mut client = relay.connect().await;
        client.write_all(&[number]).await.unwrap();
        let (mut server, _) = within(target.accept()).await.unwrap();
        assert_eq!(within(read_exactly(&mut server, 1)).await, [number]);
        open.push((client, server));
    }
}

#[tokio::test]
async fn a_listener_that_is_in_the_configuration_no_more_closes_and_its_clients_stay() {
    let (target, _) = listen().await;
    let mut relay = Relay::start_with(stream("127.0.0.1:0", &target, 9)).await;
    let mut client = relay.connect().await;
    let (mut server, _) = within(target.accept()).await.unwrap();
    within(relay.reload(stream("127.0.0.2:0", &target, 9))).await;
    // The closing of the old one is its own task's.
    let refused = async {
        while TcpStream::connect(relay.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    within(refused).await;
    client.write_all(b"ping").await.unwrap();
    assert_eq!(within(read_exactly(&mut server, 4)).await, b"ping");
    drop(client);
    assert_eq!(within(server.read(&mut [0])).await.unwrap(), 0);
}

#[tokio::test]
async fn a_certificate_that_was_replaced_is_shown_to_the_next_client() {
    let (old, new) = (Site::make(), Site::make());
    let (listener, _) = listen().await;
    let mut options = both(&old, &listener);
    (options.upstream, options.upstream_ca) = (Some(Upstream::Plain), None);
    let mut relay = start(options.clone()).await;
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = old.connector().connect(name.clone(), relay.connect().await);
    let mut before = within(connecting).await.unwrap();
    let (mut served, _) = within(listener.accept()).await.unwrap();
    for (from, to) in [
        (&new.files.certificate, &old.files.certificate),
        (&new.files.key, &old.files.key),
    ] {
        std::fs::copy(from, to).unwrap();
    }
    within(relay.reload(Config::tls(options).unwrap())).await;
    let connecting = new.connector().connect(name, relay.connect().await);
    within(connecting).await.unwrap();
    before.write_all(b"ping").await.unwrap();
    assert_eq!(within(read_exactly(&mut served, 4)).await, b"ping");
}

#[tokio::test]
async fn the_next_request_on_an_open_connection_goes_where_the_new_configuration_says() {
    const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: o\r\n\r\n";
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let ((old, old_at), (new, new_at)) = (listen().await, listen().await);
    let mut relay = Relay::start(plain(old_at)).await;
    let mut client = relay.connect().await;
    for origin in [&old, &new] {
        client.write_all(GET).await.unwrap();
        let (mut stream, _) = within(origin.accept()).await.unwrap();
        within(read_exactly(&mut stream, GET.len())).await;
        stream.write_all(OK).await.unwrap();
        assert_eq!(within(read_exactly(&mut client, OK.len())).await, OK);
        within(relay.reload(Config::http(plain(new_at)).unwrap())).await;
    }
}

/// An order to stop, and how often something was done before it came.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    done: AtomicU64,
}

impl Load {
    fn goes_on(&self) -> bool {
        self.done.fetch_add(1, Ordering::Relaxed);
        !self.over.load(Ordering::Relaxed)
    }
}

/// Uploads over one connection for as long as there is load.
async fn upload(mut client: TcpStream, load: Arc<Load>) {
    let body = noise(20_000);
    let head = format!(
        "POST / HTTP/1.1\r\nHost: o\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    while load.goes_on() {
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(&body).await.unwrap();
        let answer = read_head(&mut client).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let got = read_exactly(&mut client, 64).await;
        assert_eq!(got, digest(&body).as_bytes());
    }
}

/// Downloads over a new connection each time.
async fn download(relay: std::net::SocketAddr, load: Arc<Load>) {
    while load.goes_on() {
        let mut client = TcpStream::connect(relay).await.unwrap();
        let request = b"GET /5000 HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n";
        client.write_all(request).await.unwrap();
        let answer = read_head(&mut client).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        assert_eq!(digest(&got), digest(&noise(5000)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_reloads_under_load_are_seen_by_no_client() {
    let origin = Origin::start().await;
    // `tcp` is served by reactors, and in `turns` by reactors and by tasks, as where there are several targets.
    for mode in ["http", "tcp", "turns"] {
        let config = |variant: usize| {
            if mode == "http" {
                let mut options: HttpOptions = plain(origin.address);
                options.pool.max_connections = Some(200 + variant);
                Config::http(options).unwrap()
            } else {
                let mut options = TcpOptions {
                    listen: "127.0.0.1:0".into(),
                    target: origin.address.to_string(),
                    ..TcpOptions::default()
                };
                options.limits.connections = Some(50 + variant % 3);
                if mode == "turns" && variant % 2 == 1 {
                    options.balance.also = vec![origin.address.to_string()];
                }
                Config::tcp(options).unwrap()
            }
        };
        let mut relay = Relay::start_with(config(0)).await;
        let load = Arc::new(Load::default());
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..4 {
            clients.spawn(upload(relay.connect().await, Arc::clone(&load)));
            clients.spawn(download(relay.address, Arc::clone(&load)));
        }
        for variant in 1..=100 {
            let before = load.done.load(Ordering::Relaxed);
            let told = within(relay.reload(config(variant))).await;
            assert_eq!(told, Event::Reloaded { listeners: 1 });
            // Each configuration serves somebody.
            let served = async {
                while load.done.load(Ordering::Relaxed) < before + 8 && clients.len() == 8 {
                    tokio::task::yield_now().await;
                }
            };
            within(served).await;
        }
        load.over.store(true, Ordering::Relaxed);
        while let Some(client) = within(clients.join_next()).await {
            client.expect("no client meets an error");
        }
    }
}
