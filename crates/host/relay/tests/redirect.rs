//! Connections that the network redirects to the relay, in namespaces of their own: a client, a router with the
//! relay on it, and a server that neither knows of it. Needs root and nftables.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use longhaul_relay::{Config, ConnectionDone, EndedBy, Event, Order, TcpOptions};
use sys::namespace::NetworkNamespace;

/// Longer than anything here takes on a busy machine; only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the router sends what is for this port of the server.
const RELAYED: u16 = 7000;
const LISTEN: u16 = 9000;

/// New for each relay: while another test starts a process, that holds copies of all sockets for a moment, and an
/// address in use stays so.
struct Site {
    client: NetworkNamespace,
    router: NetworkNamespace,
    server: NetworkNamespace,
}

impl Site {
    fn make() -> Self {
        let [client, router, server] =
            ["client", "router", "server"].map(|name| NetworkNamespace::create(name).unwrap());
        client.veth("eth0", &router, "lan").unwrap();
        server.veth("eth0", &router, "wan").unwrap();
        client
            .ip(
                "addr add 10.1.0.2/24 dev eth0\naddr add fd01::2/64 dev eth0 nodad\nlink set eth0 up\n\
                 route add default via 10.1.0.1\nroute add default via fd01::1",
            )
            .unwrap();
        server
            .ip(
                "addr add 10.2.0.2/24 dev eth0\naddr add fd02::2/64 dev eth0 nodad\nlink set eth0 up\n\
                 route add default via 10.2.0.1\nroute add default via fd02::1",
            )
            .unwrap();
        router
            .ip(
                "addr add 10.1.0.1/24 dev lan\naddr add fd01::1/64 dev lan nodad\nlink set lan up\n\
                 addr add 10.2.0.1/24 dev wan\naddr add fd02::1/64 dev wan nodad\nlink set wan up",
            )
            .unwrap();
        router.set_sysctl("net.ipv4.ip_forward", "1").unwrap();
        router
            .set_sysctl("net.ipv6.conf.all.forwarding", "1")
            .unwrap();
        Self {
            client,
            router,
            server,
        }
    }

    /// Rules of the router, in the language of nft.
    fn rules(&self, text: &str) {
        let mut nft = self
            .router
            .command("nft")
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("this test needs nft (package nftables)");
        nft.stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let output = nft.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "nft: {said}");
    }

    /// The server's answer is where its client comes from.
    fn serve(&self, address: &str) {
        let listener = self
            .server
            .enter(|| TcpListener::bind(address))
            .unwrap()
            .unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut asked = String::new();
                stream.read_to_string(&mut asked).unwrap();
                let from = stream.peer_addr().unwrap().ip();
                stream
                    .write_all(format!("{asked} {from}").as_bytes())
                    .unwrap();
            }
        });
    }

    /// What a client is answered that says `hello` to the server. A relay that cannot go on resets the connection,
    /// and which of the client's calls meets that is up to their schedulers.
    fn ask(&self, address: &str) -> io::Result<String> {
        let address: SocketAddr = address.parse().unwrap();
        let asking = || {
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"hello")?;
            stream.shutdown(Shutdown::Write)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        self.client.enter(asking).unwrap()
    }
}

/// A relay in the router's namespace, on a thread of its own.
struct Relay {
    events: Receiver<Event>,
    orders: tokio::sync::mpsc::Sender<Order>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Relay {
    fn start(site: &Site, options: TcpOptions) -> Self {
        let (sender, events): (Sender<Event>, _) = channel();
        let (orders, given) = tokio::sync::mpsc::channel(1);
        let config = Config::tcp(options).unwrap();
        let router = site.router.clone();
        let serving = move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            let tell = move |event| drop(sender.send(event));
            let relay = longhaul_relay::run(config, Vec::new(), tell, given);
            runtime.block_on(relay).unwrap();
        };
        let thread = thread::spawn(move || router.enter(serving).unwrap());
        let relay = Self {
            events,
            orders,
            thread: Some(thread),
        };
        relay.event(|event| matches!(event, Event::Ready { .. }).then_some(()));
        relay
    }

    fn event<T>(&self, select: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            let event = self.events.recv_timeout(PATIENCE).expect("no such event");
            if let Some(found) = select(&event) {
                return found;
            }
        }
    }

    fn done(&self) -> ConnectionDone {
        self.event(|event| {
            if let Event::ConnectionDone(done) = event {
                Some((**done).clone())
            } else {
                None
            }
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.orders.try_send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn options(listen: &str) -> TcpOptions {
    TcpOptions {
        listen: format!("{listen}:{LISTEN}"),
        target: "original".into(),
        ..TcpOptions::default()
    }
}

#[test]
fn a_redirected_connection_goes_on_to_where_it_was_going() {
    for (listen, to, from) in [
        ("0.0.0.0", "10.2.0.2", "10.2.0.1"),
        ("[::]", "[fd02::2]", "fd02::1"),
        // A listener for both, and a client of IPv4.
        ("[::]", "10.2.0.2", "10.2.0.1"),
    ] {
        let site = Site::make();
        site.serve(&format!("10.2.0.2:{RELAYED}"));
        site.serve(&format!("[fd02::2]:{RELAYED}"));
        site.rules(&format!(
            "table inet nat {{ chain prerouting {{ type nat hook prerouting priority -100;\n\
         iifname lan tcp dport {RELAYED} redirect to :{LISTEN}\n}}\n}}"
        ));
        let relay = Relay::start(&site, options(listen));
        let answer = site.ask(&format!("{to}:{RELAYED}")).unwrap();
        assert_eq!(answer, format!("hello {from}"), "{listen}");
        let done = relay.done();
        assert_eq!(done.ended_by, EndedBy::Completed);
        assert_eq!(done.server.unwrap().to_string(), format!("{to}:{RELAYED}"));
    }
}

#[test]
fn a_connection_that_was_not_redirected_is_refused_instead_of_going_in_a_circle() {
    for tproxy in [false, true] {
        let site = Site::make();
        let relay = Relay::start(
            &site,
            TcpOptions {
                tproxy: Some(tproxy),
                ..options("0.0.0.0")
            },
        );
        let refused = site.ask(&format!("10.1.0.1:{LISTEN}")).unwrap_err();
        // A client that shuts down a connection which has been reset meanwhile is told it is not connected.
        assert!(
            matches!(
                refused.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::NotConnected
            ),
            "{refused}"
        );
        let done = relay.done();
        assert_eq!(done.ended_by, EndedBy::Client);
        let error = done.error.unwrap();
        assert!(
            error.contains("was not redirected") || error.contains("no DNAT or REDIRECT rule"),
            "{error}"
        );
    }
}

#[test]
fn tproxy_keeps_both_addresses() {
    for (listen, to, client, router) in [
        ("0.0.0.0", "10.2.0.2", "10.1.0.2", "10.2.0.1"),
        ("[::]", "[fd02::2]", "fd01::2", "fd02::1"),
    ] {
        for keep in [true, false] {
            let site = Site::make();
            site.serve(&format!("10.2.0.2:{RELAYED}"));
            site.serve(&format!("[fd02::2]:{RELAYED}"));
            // Answers to the client's address have to come back to the relay's sockets: what belongs to one is marked.
            site.rules(&format!(
        "table inet divert {{ chain prerouting {{ type filter hook prerouting priority -150;\n\
         iifname lan meta nfproto ipv4 tcp dport {RELAYED} tproxy ip to :{LISTEN} meta mark set 1 accept\n\
         iifname lan meta nfproto ipv6 tcp dport {RELAYED} tproxy ip6 to :{LISTEN} meta mark set 1 accept\n\
         iifname wan meta l4proto tcp socket transparent 1 meta mark set 1 accept\n}}\n}}"
    ));
            for family in ["-4", "-6"] {
                for line in [
                    "rule add fwmark 1 lookup 100",
                    "route add local default dev lo table 100",
                ] {
                    let words = std::iter::once(family).chain(line.split(' '));
                    let status = site.router.command("ip").args(words).status().unwrap();
                    assert!(status.success(), "ip {family} {line}");
                }
            }
            let relay = Relay::start(
                &site,
                TcpOptions {
                    tproxy: Some(true),
                    keep_client_address: Some(keep),
                    ..options(listen)
                },
            );
            let from = if keep { client } else { router };
            let answer = site.ask(&format!("{to}:{RELAYED}")).unwrap();
            assert_eq!(answer, format!("hello {from}"), "{listen}, kept: {keep}");
            let done = relay.done();
            assert_eq!(done.ended_by, EndedBy::Completed);
            assert_eq!(done.server.unwrap().to_string(), format!("{to}:{RELAYED}"));
            assert_eq!(done.peer.ip().to_string(), client);
        }
    }
}
