//! Services found by SRV, with a name server of our own.

use std::net::{Ipv4Addr, SocketAddr};

use longhaul_relay::{Config, EndedBy, HttpOptions, TcpOptions};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Origin, Relay, close, listen, once, plain, within};
use crate::zone::Zone;

const SERVICE: &str = "_s3._tcp.store.example";
const HOST: &str = "a.store.example";

fn options(zone: &Zone) -> TcpOptions {
    let mut options = TcpOptions {
        listen: "127.0.0.1:0".into(),
        target: format!("srv+{SERVICE}"),
        ..TcpOptions::default()
    };
    options.balance.name_servers = vec![zone.address.to_string()];
    options
}

async fn arrive(relay: &Relay, target: &TcpListener) -> (TcpStream, TcpStream) {
    let client = relay.connect().await;
    let (server, _) = within(target.accept()).await.unwrap();
    (client, server)
}

async fn zone() -> Zone {
    let zone = Zone::start().await;
    zone.host(HOST, 600, &[Ipv4Addr::LOCALHOST]);
    zone
}

#[tokio::test]
async fn the_next_priority_takes_over_where_the_first_is_down_and_the_first_comes_back() {
    let ((first, at), (second, other)) = (listen().await, listen().await);
    let zone = zone().await;
    let offers = [(10, 0, at.port(), HOST), (20, 0, other.port(), HOST)];
    zone.offers(SERVICE, 600, &offers);
    let mut options = options(&zone);
    // Every connection tries the first again.
    options.balance.rest = Some("0 s".parse().unwrap());
    let relay = Relay::start_with(Config::tcp(options).unwrap()).await;
    arrive(&relay, &first).await;
    arrive(&relay, &first).await;
    close(first);
    arrive(&relay, &second).await;
    let first = TcpListener::bind(at).await.unwrap();
    arrive(&relay, &first).await;
}

#[tokio::test]
async fn hosts_of_one_priority_share_the_connections() {
    let ((first, at), (second, other)) = (listen().await, listen().await);
    let zone = zone().await;
    let offers = [(0, 1, at.port(), HOST), (0, 1, other.port(), HOST)];
    zone.offers(SERVICE, 600, &offers);
    let relay = Relay::start_with(Config::tcp(options(&zone)).unwrap()).await;
    let mut clients = Vec::new();
    let mut counts = [0, 0];
    // Were all hundred drawn for one of them, that would be chance once in 2^58 (RFC 2782 gives one of them two of three).
    for _ in 0..100 {
        clients.push(relay.connect().await);
        let chosen = async {
            tokio::select! {
                accepted = first.accept() => (0, accepted),
                accepted = second.accept() => (1, accepted),
            }
        };
        let (index, accepted) = within(chosen).await;
        clients.push(accepted.unwrap().0);
        counts[index] += 1;
    }
    assert!(counts[0] > 0 && counts[1] > 0, "{counts:?}");
}

#[tokio::test]
async fn requests_go_to_a_service_under_the_name_of_its_domain() {
    let origin = Origin::start().await;
    let zone = zone().await;
    zone.offers(SERVICE, 600, &[(0, 0, origin.address.port(), HOST)]);
    let options = HttpOptions {
        target: format!("srv+{SERVICE}"),
        ..plain(origin.address)
    };
    let mut options = options;
    options.balance.name_servers = vec![zone.address.to_string()];
    let config = Config::http(options).unwrap();
    assert!(config.http[0].tls.server.is_none());
    let relay = Relay::start_with(config).await;
    let answer = once(
        &relay,
        b"GET /5 HTTP/1.1\r\nHost: store.example\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_service_that_is_not_offered_is_the_servers_doing() {
    let zone = zone().await;
    zone.offers(SERVICE, 600, &[(0, 0, 0, ".")]);
    let mut relay = Relay::start_with(Config::tcp(options(&zone)).unwrap()).await;
    assert!(relay.end_of_newcomer().await.is_err());
    let done = relay.connection_done().await;
    assert_eq!(done.ended_by, EndedBy::Server);
    assert!(done.error.unwrap().contains("is not offered"));
}

#[tokio::test]
async fn plain_names_are_asked_of_the_same_name_servers() {
    let (target, at) = listen().await;
    let zone = zone().await;
    let mut options = options(&zone);
    options.target = format!("{HOST}:{}", at.port());
    let relay = Relay::start_with(Config::tcp(options).unwrap()).await;
    arrive(&relay, &target).await;
}

#[test]
fn a_check_says_where_a_service_is() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let zone = runtime.block_on(zone());
    zone.offers(SERVICE, 600, &[(2, 0, 1002, HOST), (1, 0, 1001, HOST)]);
    let config = Config::tcp(options(&zone)).unwrap();
    let report = longhaul_relay::check(&config).unwrap();
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    assert_eq!(report.relays[0].addresses, [at(1001), at(1002)]);
    assert_eq!(report.relays[0].target, format!("srv+{SERVICE}"));
}
