//! Which connections of a scenario pass which host, and as whose.

use std::net::{Ipv4Addr, SocketAddr};

use scenario::HostName;

use crate::pcap::{Ends, pcapng};
use crate::world::{ConnectionId, PathId, Side, World};

/// What one host saw of one block.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostCapture {
    /// The arm's name.
    pub arm: String,
    /// The workload's name.
    pub workload: String,
    /// Number of the block within the arm and workload, from 0.
    pub block: u32,
    /// Where it was captured.
    pub host: HostName,
    /// The file.
    pub pcapng: Vec<u8>,
}

const HTTP: u16 = 80;

/// The capture of `host`: `lan` joins client and relay, `pool` are the relay's own connections.
pub(crate) fn of(world: &World, lan: PathId, pool: &[ConnectionId], host: HostName) -> Vec<u8> {
    pcapng(world.log(), |connection| {
        let (near, far) = if world.path_of(connection) == lan {
            (HostName::Client, HostName::Relay)
        } else if pool.contains(&connection) {
            (HostName::Relay, HostName::Origin)
        } else {
            (HostName::Client, HostName::Origin)
        };
        let at = if host == near {
            Side::Near
        } else if host == far {
            Side::Far
        } else {
            return None;
        };
        // Ports as hosts give them out: one after the other.
        let port = 40_000 + u16::try_from(connection.number() % 20_000).unwrap_or(0);
        Some(Ends {
            near: SocketAddr::from((address(near), port)),
            far: SocketAddr::from((address(far), HTTP)),
            at,
        })
    })
}

/// Addresses for documentation (RFC 5737), one network for each side of the WAN.
const fn address(host: HostName) -> Ipv4Addr {
    match host {
        HostName::Client => Ipv4Addr::new(192, 0, 2, 1),
        HostName::Relay => Ipv4Addr::new(192, 0, 2, 2),
        HostName::Rival => Ipv4Addr::new(192, 0, 2, 3),
        HostName::Origin => Ipv4Addr::new(203, 0, 113, 1),
        HostName::FarRelay => Ipv4Addr::new(203, 0, 113, 2),
    }
}
