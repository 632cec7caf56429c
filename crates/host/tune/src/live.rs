//! The live connections of this network namespace.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use sys::sock_diag::{SockDiag, States, TcpSocket};
use sys::tcp_info::{State, TcpInfo};
use tuning::Live;

/// Connections to `to`, or all that leave the host; `None` where the kernel does not list them.
pub(crate) fn read(to: Option<IpAddr>) -> Option<Live> {
    let (mut connections, mut waiting) = (Vec::new(), BTreeMap::<SocketAddr, u32>::new());
    let mut kernel = SockDiag::open().ok()?;
    kernel
        .visit(States::WITH_DATA.and_time_wait(), |socket| {
            if !is_meant(socket.peer.ip(), to) {
                return;
            }
            if socket.state == State::TimeWait {
                *waiting.entry(socket.peer).or_default() += 1;
            } else {
                connections.push(socket);
            }
        })
        .ok()?;
    Some(Live {
        waiting_ports: waiting.into_values().max().unwrap_or(0),
        ..summed(connections.iter())
    })
}

/// Whether a connection to `peer` is one to `to`, or leaves the host.
fn is_meant(peer: IpAddr, to: Option<IpAddr>) -> bool {
    let peer = peer.to_canonical();
    to.map_or_else(|| !peer.is_loopback(), |to| peer == to.to_canonical())
}

fn summed<'a>(sockets: impl Iterator<Item = &'a TcpSocket>) -> Live {
    let mut live = Live::default();
    for socket in sockets {
        live.connections += 1;
        if let Some(control) = &socket.congestion_control {
            *live.controls.entry(control.clone()).or_default() += 1;
        }
        let Some(clocks) = socket.info.as_ref().and_then(TcpInfo::clocks) else {
            continue;
        };
        if clocks.rwnd_limited * 2 > clocks.busy {
            live.held_by_peer += 1;
        }
        if clocks.sndbuf_limited * 2 > clocks.busy {
            live.held_by_send_buffer += 1;
        }
    }
    live
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn ports_that_wait_after_a_close_are_counted_by_their_peer() {
        let listeners = ["127.0.0.84:0", "127.0.0.84:0"].map(|at| TcpListener::bind(at).unwrap());
        for (count, listener) in [2, 5].into_iter().zip(&listeners) {
            for _ in 0..count {
                let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (mut accepted, _) = listener.accept().unwrap();
                // Who closes first waits: the client.
                client.shutdown(Shutdown::Write).unwrap();
                assert_eq!(accepted.read(&mut [0]).unwrap(), 0);
                drop(accepted);
                assert_eq!(client.read(&mut [0]).unwrap(), 0);
            }
        }
        let address = listeners[0].local_addr().unwrap().ip();
        let named = read(Some(address)).unwrap();
        assert_eq!(
            (named.waiting_ports, named.connections),
            (5, 0),
            "{named:?}"
        );
    }

    #[test]
    fn connections_to_a_named_host_are_counted_and_loopback_only_when_named() {
        let listener = TcpListener::bind("127.0.0.83:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _accepted = listener.accept().unwrap();
        let named = read(Some(client.peer_addr().unwrap().ip())).unwrap();
        assert_eq!(named.connections, 1, "{named:?}");
        assert_eq!(named.controls.values().sum::<u32>(), 1, "{named:?}");
        assert_eq!((named.held_by_peer, named.held_by_send_buffer), (0, 0));
        assert_eq!(named.waiting_ports, 0);
        for (peer, leaves) in [
            ("127.0.0.83", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("192.0.2.1", true),
        ] {
            assert_eq!(is_meant(peer.parse().unwrap(), None), leaves, "{peer}");
        }
    }
}
