//! The sockets of running relays, as their own kernels list them.

use std::net::SocketAddr;
use std::time::Duration;

use limit::kernel::Reading;
use live::{Divided, Key, Seen, Told};
use record::page::{Connection, Connections, Way};
use record::top::{RelaySide, Relayed};
use units::Time;

use crate::relays::{RelayError, ask};

/// Connections in one answer: the most that a relay gives.
const AT_ONCE: u64 = 500;
/// And of one relay, those with the most goodput: what it costs is the relay's time too.
const MOST: u64 = 5_000;

/// Both sockets of each open connection of the relay whose `[admin] listen` is `admin`. `number` tells this relay from
/// others that are asked.
pub fn sockets(admin: SocketAddr, number: u16) -> Result<Vec<Seen>, RelayError> {
    let mut seen = Vec::new();
    let mut from = 0;
    while from < MOST {
        let path = format!("/v1/connections?sort=goodput&count={AT_ONCE}&from={from}");
        let page: Connections = ask(admin, &path)?;
        for connection in &page.shown {
            seen.extend(of(connection, admin, number));
        }
        from += AT_ONCE;
        if from >= page.matching {
            break;
        }
    }
    Ok(seen)
}

/// The sockets of one connection that the relay's kernel has listed.
fn of(connection: &Connection, admin: SocketAddr, number: u16) -> Vec<Seen> {
    let sides = [
        (RelaySide::Client, &connection.down, &connection.server),
        (RelaySide::Server, &connection.up, &connection.client),
    ];
    let sockets = sides.into_iter().filter_map(|(side, way, other)| {
        let of = Relayed {
            admin: admin.to_string(),
            connection: connection.id,
            listener: address(&connection.listener)?,
            side,
            other: other.as_deref().and_then(address),
            elsewhere: true,
        };
        socket(way.as_ref()?, of, number)
    });
    sockets.collect()
}

/// `None` before its kernel listed it, and from relays of versions that did not tell.
fn socket(way: &Way, of: Relayed, number: u16) -> Option<Seen> {
    let socket = way.socket.as_ref()?;
    let queue = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    Some(Seen {
        key: Key {
            // Namespaces of this host are numbered from zero.
            namespace: u16::MAX - number,
            cookie: socket.cookie,
        },
        local: socket.local.parse().ok()?,
        peer: socket.peer.parse().ok()?,
        state: socket.state,
        inode: 0,
        uid: 0,
        receive_queue: queue(socket.receive_queue_bytes),
        send_queue: queue(socket.send_queue_bytes),
        congestion_control: way
            .congestion_control
            .clone()
            .filter(|name| name.chars().all(|letter| letter.is_ascii_graphic())),
        sender: Reading {
            clocks: None,
            rtt: way.rtt_s.and_then(seconds).unwrap_or_default(),
            min_rtt: way.min_rtt_s.and_then(seconds),
            cwnd: way.cwnd_bytes,
            ssthresh: socket.ssthresh_bytes,
            lost: 0,
            retransmissions: way.retransmissions,
        },
        // Windows above are in bytes.
        mss: 1,
        in_flight: way.in_flight_bytes,
        bytes_acked: Some(way.bytes),
        bytes_received: Some(socket.received_bytes),
        peer_window: way.peer_window_bytes,
        delivery_bps: None,
        relayed: Some(Box::new(Told {
            of,
            divided: Divided {
                at: Time::ZERO + seconds(socket.read_s)?,
                limits: way.limits_s.clone(),
            },
        })),
    })
}

/// `None` of what cannot be a time.
fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// An address as we write it: what a relay says is shown on terminals.
fn address(text: &str) -> Option<String> {
    text.parse::<SocketAddr>().ok().map(|one| one.to_string())
}

#[cfg(test)]
mod tests {
    use record::LimitName;
    use record::page::Socket;
    use record::top::State;

    use super::*;

    fn way(local: &str, peer: &str) -> Way {
        Way {
            bytes: 1000,
            cwnd_bytes: 14_480,
            limits_s: [(LimitName::ReceiveWindow, 1.5)].into(),
            socket: Some(Socket {
                cookie: 77,
                local: local.to_owned(),
                peer: peer.to_owned(),
                state: State::Established,
                read_s: 12.0,
                received_bytes: 5,
                send_queue_bytes: 1 << 40,
                receive_queue_bytes: 0,
                ssthresh_bytes: None,
            }),
            ..Way::default()
        }
    }

    #[test]
    fn each_side_of_a_connection_is_a_socket_that_knows_the_other() {
        let connection = Connection {
            id: 3,
            listener: "0.0.0.0:9000".to_owned(),
            client: Some("10.0.0.1:5000".to_owned()),
            server: Some("192.0.2.10:443".to_owned()),
            up: Some(way("10.0.0.9:41000", "192.0.2.10:443")),
            down: Some(way("10.0.0.9:9000", "10.0.0.1:5000")),
            ..Connection::default()
        };
        let admin = "10.0.0.9:9901".parse().unwrap();
        let both = of(&connection, admin, 1);
        let told = |seen: &Seen| seen.relayed.clone().unwrap();
        assert_eq!(both.len(), 2);
        assert_eq!(both[0].peer.to_string(), "10.0.0.1:5000");
        assert_eq!(told(&both[0]).of.other.as_deref(), Some("192.0.2.10:443"));
        assert_eq!(told(&both[1]).of.other.as_deref(), Some("10.0.0.1:5000"));
        assert_eq!(told(&both[1]).divided.at, Time::from_millis(12_000));
        assert_eq!(both[0].key.namespace, u16::MAX - 1);
        assert_eq!(both[0].send_queue, u32::MAX, "what is too large is bounded");
    }

    #[test]
    fn what_no_kernel_has_listed_and_what_cannot_be_is_left_out() {
        let mut never = way("10.0.0.9:1", "10.0.0.1:2");
        never.socket = None;
        let mut timeless = way("10.0.0.9:1", "10.0.0.1:2");
        timeless.socket.as_mut().unwrap().read_s = 1e300;
        for way in [never, way("not an address", "10.0.0.1:2"), timeless] {
            let connection = Connection {
                listener: "0.0.0.0:9000".to_owned(),
                up: Some(way),
                ..Connection::default()
            };
            assert!(of(&connection, "10.0.0.9:9901".parse().unwrap(), 0).is_empty());
        }
    }
}
