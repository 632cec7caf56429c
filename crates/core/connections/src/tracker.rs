use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use units::Time;
use wire::{Host, IcmpEcho, Observation, Segment, TcpFlags};

use crate::connection::{ClientEvidence, Connection, ConnectionState};
use crate::echo::{Echo, EchoMatcher};
use crate::packet::{Endpoint, Side};

/// Everything a capture held.
#[derive(Clone, Debug, Default)]
pub struct Tracked {
    /// TCP connections, by first packet.
    pub connections: Vec<Connection>,
    /// ICMP echoes, by pair of hosts.
    pub echoes: Vec<Echo>,
    /// Observations.
    pub packets: u64,
    /// Packets of no interest, by kind.
    pub other: BTreeMap<&'static str, u64>,
    /// The first packet with a time.
    pub first_at: Option<Time>,
    /// The last one.
    pub last_at: Option<Time>,
    /// Per capture but the first, the highest frame number before it. Frames are numbered on from one
    /// capture to the next, so that a [`crate::Mark`] names one packet; [`Self::locate`] turns it back.
    pub boundaries: Vec<u64>,
}

impl Tracked {
    /// Which capture a frame number lies in, from 0, and the frame's number there.
    #[must_use]
    pub fn locate(&self, frame: u64) -> (usize, u64) {
        let capture = self.boundaries.partition_point(|before| *before < frame);
        let before = capture
            .checked_sub(1)
            .and_then(|last| self.boundaries.get(last))
            .copied()
            .unwrap_or_default();
        (capture, frame.saturating_sub(before))
    }
}

/// Sorts observations into connections.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    hosts: Hosts,
    active: BTreeMap<(Port, Port), Active>,
    connections: Vec<ConnectionState>,
    echoes: EchoMatcher,
    packets: u64,
    other: BTreeMap<&'static str, u64>,
    first_at: Option<Time>,
    last_at: Option<Time>,
    boundaries: Vec<u64>,
    highest_frame: u64,
}

/// An interned host and a port.
type Port = (u32, u16);

/// The connection that a pair of ports carries now.
#[derive(Clone, Copy, Debug)]
struct Active {
    index: usize,
    client: Port,
}

impl Tracker {
    /// An empty tracker.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next packet. Times should not fall; where they do, the connection counts it and goes on
    /// with the latest time it knows.
    pub fn observe(&mut self, observation: &Observation<'_>) {
        self.packets += 1;
        match observation {
            Observation::Tcp(segment) => {
                self.saw(segment.at);
                self.on_segment(segment);
            }
            Observation::IcmpEcho(echo) => {
                self.saw(echo.at);
                self.on_echo(echo);
            }
            Observation::Other(kind) => *self.other.entry(kind).or_default() += 1,
        }
    }

    /// What follows comes from another capture, whose frames are numbered from 1 again.
    pub fn next_capture(&mut self) {
        self.boundaries.push(self.highest_frame);
    }

    /// Everything seen.
    #[must_use]
    pub fn finish(self) -> Tracked {
        Tracked {
            connections: self
                .connections
                .into_iter()
                .map(ConnectionState::finish)
                .collect(),
            echoes: self.echoes.finish(),
            packets: self.packets,
            other: self.other,
            first_at: self.first_at,
            last_at: self.last_at,
            boundaries: self.boundaries,
        }
    }

    fn saw(&mut self, at: Time) {
        self.first_at = Some(self.first_at.map_or(at, |first| first.min(at)));
        self.last_at = Some(self.last_at.map_or(at, |last| last.max(at)));
    }

    fn on_segment(&mut self, segment: &Segment<'_>) {
        let before = self.boundaries.last().copied().unwrap_or_default();
        let segment = &Segment {
            frame: before.saturating_add(segment.frame),
            ..*segment
        };
        self.highest_frame = self.highest_frame.max(segment.frame);
        let source = (self.hosts.number(&segment.source.host), segment.source.port);
        let destination = (
            self.hosts.number(&segment.destination.host),
            segment.destination.port,
        );
        let key = if source <= destination {
            (source, destination)
        } else {
            (destination, source)
        };
        let opens = segment.flags.contains(TcpFlags::SYN) && !segment.flags.contains(TcpFlags::ACK);
        let active = self.active.get(&key).copied().filter(|active| {
            // Ports are used again: another SYN from the client, with another number.
            let reopened = opens
                && (active.client != source
                    || self
                        .connections
                        .get(active.index)
                        .is_none_or(|c| c.is_over_for(segment.seq)));
            !reopened
        });
        let active = active.unwrap_or_else(|| {
            let opened = self.open(segment, source, destination);
            self.active.insert(key, opened);
            opened
        });
        let side = if active.client == source {
            Side::Client
        } else {
            Side::Server
        };
        if let Some(connection) = self.connections.get_mut(active.index) {
            connection.observe(segment, side);
        }
    }

    fn open(&mut self, segment: &Segment<'_>, source: Port, destination: Port) -> Active {
        let syn = segment.flags.contains(TcpFlags::SYN);
        let (from_client, evidence) = match (syn, segment.flags.contains(TcpFlags::ACK)) {
            (true, false) => (true, ClientEvidence::Syn),
            (true, true) => (false, ClientEvidence::SynAck),
            (false, _) if source.1 == destination.1 => (true, ClientEvidence::FirstPacket),
            (false, _) => (source.1 > destination.1, ClientEvidence::LowerPort),
        };
        let owned = |endpoint: &wire::Endpoint<'_>| Endpoint {
            host: endpoint.host.to_string(),
            port: endpoint.port,
        };
        let (client, client_port, server) = if from_client {
            (owned(&segment.source), source, owned(&segment.destination))
        } else {
            (
                owned(&segment.destination),
                destination,
                owned(&segment.source),
            )
        };
        let index = self.connections.len();
        self.connections
            .push(ConnectionState::new(client, server, evidence, segment.at));
        Active {
            index,
            client: client_port,
        }
    }

    fn on_echo(&mut self, echo: &IcmpEcho<'_>) {
        let source = self.hosts.number(&echo.source);
        let destination = self.hosts.number(&echo.destination);
        let (from, to) = (echo.source.to_string(), echo.destination.to_string());
        let id = (echo.id, echo.seq);
        if echo.reply {
            self.echoes
                .reply((destination, source), (&to, &from), id, echo.at);
        } else {
            self.echoes
                .request((source, destination), (&from, &to), id, echo.at);
        }
    }
}

/// Numbers for hosts, so that a packet costs no allocation.
#[derive(Clone, Debug, Default)]
struct Hosts {
    addresses: BTreeMap<IpAddr, u32>,
    names: BTreeMap<String, u32>,
    next: u32,
}

impl Hosts {
    fn number(&mut self, host: &Host<'_>) -> u32 {
        let known = match host {
            Host::Ip(address) => self.addresses.get(address),
            Host::Name(name) => self.names.get(*name),
        };
        if let Some(number) = known {
            return *number;
        }
        let number = self.next;
        self.next = self.next.saturating_add(1);
        match host {
            Host::Ip(address) => self.addresses.insert(*address, number),
            Host::Name(name) => self.names.insert((*name).into(), number),
        };
        number
    }
}
