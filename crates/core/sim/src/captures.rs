//! Which connections of a scenario pass which host, and as whose.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use scenario::{HostName, IpVersion};

use crate::pcap::{Ends, pcapng};
use crate::world::{ConnectionId, Side, World};

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

/// The capture of `host`, which is at an end of some of the connections in `ends`; `None` where it is at no end of
/// any.
pub(crate) fn of(
    world: &World,
    ends: &BTreeMap<ConnectionId, (HostName, HostName)>,
    host: HostName,
    ip: IpVersion,
) -> Option<Vec<u8>> {
    if !ends
        .values()
        .any(|(near, far)| [near, far].contains(&&host))
    {
        return None;
    }
    Some(pcapng(world.log(), |connection| {
        let &(near, far) = ends.get(&connection)?;
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
            near: SocketAddr::from((address(near, ip), port)),
            far: SocketAddr::from((address(far, ip), HTTP)),
            at,
        })
    }))
}

/// Addresses for documentation (RFC 5737, RFC 3849), one network for each side of the WAN.
const fn address(host: HostName, ip: IpVersion) -> IpAddr {
    let (far, number) = match host {
        HostName::Client => (false, 1),
        HostName::Relay => (false, 2),
        HostName::Rival => (false, 3),
        HostName::Origin => (true, 1),
        HostName::FarRelay => (true, 2),
    };
    match (ip, far) {
        (IpVersion::V4, false) => IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)),
        (IpVersion::V4, true) => IpAddr::V4(Ipv4Addr::new(203, 0, 113, number)),
        (IpVersion::V6, _) => {
            let network = if far { 2 } else { 1 };
            let number = number as u16;
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, number))
        }
    }
}
