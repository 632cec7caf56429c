use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use units::Time;
use wire::{Host, IcmpEcho, IcmpError, Observation, Segment, TcpFlags};

use crate::connection::{ClientEvidence, Connection, ConnectionState};
use crate::echo::{Echo, EchoMatcher};
use crate::fragments::Fragments;
use crate::latest::Latest;
use crate::notice::Notice;
use crate::packet::{Endpoint, Mark, Side};
use crate::resolutions::Resolutions;

/// Everything a capture held.
#[derive(Clone, Debug, Default)]
pub struct Tracked {
    /// TCP connections, by first packet.
    pub connections: Vec<Connection>,
    /// ICMP echoes, by pair of hosts.
    pub echoes: Vec<Echo>,
    /// Observations.
    pub packets: u64,
    /// Packets of connections that were over and had been handed over: acknowledgments of a last FIN, and such.
    pub late: u64,
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
///
/// Without a [`Room`] every packet is kept until [`Tracker::finish`]. With one, connections that are over or have been
/// silent for long are handed over as soon as their packets need the room: [`Tracker::next_done`].
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    hosts: Hosts,
    active: BTreeMap<(Port, Port), Active>,
    latest: Latest,
    slots: Vec<Slot>,
    /// Those of live connections.
    live: Vec<usize>,
    room: Option<Room>,
    /// Packets that live connections hold.
    held: usize,
    /// So many may be held before anything is looked for to hand over.
    look_at: usize,
    done: VecDeque<Connection>,
    fragments: Fragments,
    resolutions: Resolutions,
    echoes: EchoMatcher,
    packets: u64,
    late: u64,
    other: BTreeMap<&'static str, u64>,
    first_at: Option<Time>,
    last_at: Option<Time>,
    boundaries: Vec<u64>,
    highest_frame: u64,
}

/// How many packets a tracker holds at a time. What it hands over depends on the packets alone, and not on when it is
/// asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Room {
    /// Beyond so many packets, connections that are over are handed over. More would only keep for longer what tells
    /// nothing new.
    pub over: usize,
    /// Beyond so many packets, those that are silent are handed over too, and go on as another part.
    pub packets: usize,
    /// Beyond so many packets, any connection is: those that have been silent for longest first. It goes on as another
    /// part ([`Connection::part`]).
    pub most: usize,
}

const SYN_ACK: TcpFlags = TcpFlags::SYN.union(TcpFlags::ACK);

/// After this, packets of a connection that is over are stragglers, which tell nothing more of it.
const OVER: Duration = Duration::from_secs(1);
/// A program's pause is seldom longer.
const SILENT: Duration = Duration::from_secs(30);

/// An interned host and a port.
type Port = (u32, u16);

/// The connection that a pair of ports carries now.
#[derive(Clone, Copy, Debug)]
struct Active {
    index: usize,
    client: Port,
}

/// What is left of a connection.
#[derive(Clone, Debug)]
enum Slot {
    /// Its packets are here.
    Live(Box<ConnectionState>),
    /// It was handed over, and may go on.
    Paused(Box<ConnectionState>),
    /// It was handed over, and is over.
    Over,
}

impl Tracker {
    /// An empty tracker.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty tracker that hands over what it has no room for.
    #[must_use]
    pub fn with_room(room: Room) -> Self {
        Self {
            room: Some(room),
            look_at: room.over,
            ..Self::default()
        }
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
            Observation::FirstFragment(_) | Observation::Fragment(_) => {
                match self.fragments.join(observation) {
                    Some(segment) => {
                        self.saw(segment.at);
                        self.on_segment(&segment);
                    }
                    None => self.count(observation),
                }
            }
            Observation::IcmpEcho(echo) => {
                self.saw(echo.at);
                self.on_echo(echo);
            }
            Observation::IcmpError(error) => {
                self.saw(error.at);
                self.count(observation);
                self.on_error(error);
            }
            Observation::Resolution(resolution) => {
                self.count(observation);
                self.resolutions.observe(resolution);
            }
            Observation::Other(_) => self.count(observation),
        }
    }

    /// What follows comes from another capture, whose frames are numbered from 1 again.
    pub fn next_capture(&mut self) {
        self.boundaries.push(self.highest_frame);
    }

    /// A connection, or a part of one, for which there is no room any more.
    pub fn next_done(&mut self) -> Option<Connection> {
        self.done.pop_front()
    }

    /// Everything seen, but for what was handed over before.
    #[must_use]
    pub fn finish(self) -> Tracked {
        let live = self.slots.into_iter().filter_map(|slot| match slot {
            Slot::Live(connection) => Some(connection.finish()),
            Slot::Paused(_) | Slot::Over => None,
        });
        let mut connections: Vec<Connection> = self.done.into_iter().chain(live).collect();
        connections.sort_by_key(|connection| connection.first_frame);
        Tracked {
            connections,
            echoes: self.echoes.finish(),
            packets: self.packets,
            late: self.late,
            other: self.other,
            first_at: self.first_at,
            last_at: self.last_at,
            boundaries: self.boundaries,
        }
    }

    fn count(&mut self, observation: &Observation<'_>) {
        if let Some(kind) = observation.kind() {
            *self.other.entry(kind).or_default() += 1;
        }
    }

    fn saw(&mut self, at: Time) {
        self.first_at = Some(self.first_at.map_or(at, |first| first.min(at)));
        self.last_at = Some(self.last_at.map_or(at, |last| last.max(at)));
    }

    fn on_segment(&mut self, segment: &Segment<'_>) {
        let numbered_on;
        let segment = match self.boundaries.last() {
            None => segment,
            Some(before) => {
                numbered_on = Segment {
                    frame: before.saturating_add(segment.frame),
                    ..*segment
                };
                &numbered_on
            }
        };
        self.highest_frame = self.highest_frame.max(segment.frame);
        let opens = segment.flags.contains(TcpFlags::SYN) && !segment.flags.contains(TcpFlags::ACK);
        let known = self.latest.find(segment).filter(|_| !opens);
        let (index, side) = known.unwrap_or_else(|| {
            let found = self.find(segment, opens);
            self.latest.keep(segment, found);
            found
        });
        match self.slots.get_mut(index) {
            Some(Slot::Live(connection)) => {
                connection.observe(segment, side);
                if segment.flags.contains(SYN_ACK) {
                    connection.discount(&self.resolutions, segment);
                }
                self.held += 1;
            }
            Some(slot @ Slot::Paused(_)) => {
                if let Slot::Paused(mut connection) = core::mem::replace(slot, Slot::Over) {
                    connection.observe(segment, side);
                    self.held += 1;
                    *slot = Slot::Live(connection);
                    self.live.push(index);
                }
            }
            Some(Slot::Over) => self.late += 1,
            None => {}
        }
        if let Some(room) = self.room
            && self.held > self.look_at
        {
            self.make_room(room, segment.at);
        }
    }

    /// The connection of a segment, which it may open, and who sent it.
    fn find(&mut self, segment: &Segment<'_>, opens: bool) -> (usize, Side) {
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
        let active = self.active.get(&key).copied().filter(|active| {
            // Ports are used again: another SYN from the client, with another number.
            let reopened = opens
                && (active.client != source
                    || match self.slots.get(active.index) {
                        Some(Slot::Live(connection) | Slot::Paused(connection)) => {
                            connection.is_over_for(segment.seq)
                        }
                        Some(Slot::Over) | None => true,
                    });
            !reopened
        });
        let active = active.unwrap_or_else(|| {
            let opened = self.open(segment, source, destination);
            self.active.insert(key, opened);
            self.latest = Latest::default();
            opened
        });
        let side = if active.client == source {
            Side::Client
        } else {
            Side::Server
        };
        (active.index, side)
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
        let mark = Mark {
            at: segment.at,
            frame: segment.frame,
        };
        let index = self.slots.len();
        let state = ConnectionState::new(client, server, evidence, mark);
        self.slots.push(Slot::Live(Box::new(state)));
        self.live.push(index);
        Active {
            index,
            client: client_port,
        }
    }

    /// Hands over what is over or silent, and beyond the room's end whatever has been silent for longest.
    fn make_room(&mut self, room: Room, now: Time) {
        let crowded = self.held > room.packets;
        let mut live: Vec<(Time, usize)> = Vec::new();
        for index in core::mem::take(&mut self.live) {
            let Some(Slot::Live(connection)) = self.slots.get(index) else {
                continue;
            };
            let silent = now.since(connection.last_at());
            let done = if connection.is_over() {
                silent >= OVER
            } else {
                crowded && silent >= SILENT
            };
            if done {
                self.hand_over(index);
            } else {
                live.push((connection.last_at(), index));
            }
        }
        let full = self.held > room.most;
        if full {
            live.sort_unstable();
        }
        let enough = room.most / 2;
        for (_, index) in live {
            if full && self.held > enough {
                self.hand_over(index);
            } else {
                self.live.push(index);
            }
        }
        // Looking at all connections again after every packet would cost more than the packets.
        self.look_at = room.over.max(self.held + room.over / 4);
    }

    fn hand_over(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let Slot::Live(connection) = core::mem::replace(slot, Slot::Over) else {
            return;
        };
        self.held = self.held.saturating_sub(connection.held());
        if connection.is_over() {
            self.done.push_back(connection.finish());
        } else {
            let (done, rest) = connection.part();
            *slot = Slot::Paused(Box::new(rest));
            self.done.push_back(done);
        }
    }

    /// Keeps what was said about a connection's packet. No packet of its own opens a connection that way.
    fn on_error(&mut self, error: &IcmpError<'_>) {
        let end = |hosts: &mut Hosts, end: &wire::Endpoint<'_>| (hosts.number(&end.host), end.port);
        let source = end(&mut self.hosts, &error.source);
        let destination = end(&mut self.hosts, &error.destination);
        let key = (source.min(destination), source.max(destination));
        let Some(active) = self.active.get(&key) else {
            return;
        };
        if let Some(Slot::Live(connection) | Slot::Paused(connection)) =
            self.slots.get_mut(active.index)
        {
            let before = self.boundaries.last().copied().unwrap_or_default();
            connection.on_notice(Notice {
                mark: Mark {
                    at: error.at,
                    frame: before.saturating_add(error.frame),
                },
                from: error.from.to_string(),
                side: if active.client == source {
                    Side::Client
                } else {
                    Side::Server
                },
                reason: error.reason,
            });
        }
    }

    fn on_echo(&mut self, echo: &IcmpEcho<'_>) {
        let source = self.hosts.number(&echo.source);
        let destination = self.hosts.number(&echo.destination);
        let (from, to) = (echo.source.to_string(), echo.destination.to_string());
        let id = (echo.id, echo.seq);
        if echo.reply {
            let resolutions = &self.resolutions;
            let resolving =
                |asked| resolutions.within(asked, echo.at, [echo.source, echo.destination]);
            self.echoes
                .reply((destination, source), (&to, &from), id, echo.at, resolving);
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
