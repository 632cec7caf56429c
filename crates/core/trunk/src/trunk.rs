use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use units::{Bytes as Size, Rate, Time};

use crate::breadth::Breadth;
use crate::connection::{Connection, Observation, Stage};
use crate::flight::Flights;
use crate::frame::Message;
use crate::guard::Watch;
use crate::padding::Allowance;
use crate::preface::{Hello, Limits, Preface, Refusal, RefusalReason, VERSIONS, Versions, Welcome};
use crate::ranges::Seen;
use crate::stream::Stream;
use crate::turns::Turns;
use crate::{
    BadConfig, By, Capabilities, Closing, Config, ConnectionId, ConnectionStatus, DigestKind,
    Event, Explanation, Holds, Manner, Reason, Role, Session, Status, StreamId, StreamStatus,
    Totals,
};

mod connections;
mod credit;
mod heat;
mod hold;
mod leave;
mod receive;
mod schedule;
mod streams;
mod timers;
mod transmit;
mod width;

pub use streams::OpenError;

/// One end of a trunk.
#[derive(Debug)]
pub struct Trunk {
    config: Config,
    role: Role,
    session: Session,
    /// The acceptor's instance: our own, or the one that has welcomed us.
    instance: Option<u64>,
    digest: DigestKind,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u32,
    /// How many connections there should be.
    wanted: u32,
    breadth: Breadth,
    guard: Watch,
    /// How many the peer would like (initiator only).
    peer_wish: u32,
    allowance: Allowance,
    streams: BTreeMap<StreamId, Stream>,
    openings: Openings,
    leaving: leave::Leaving,
    sending: Sending,
    receiving: Receiving,
    events: VecDeque<Event>,
    /// Since when there is no connection.
    outage_at: Option<Time>,
    past: Past,
    ended: Option<Explanation>,
    /// Where headers are written, many to an allocation.
    scratch: BytesMut,
}

/// What connections and streams that are gone add to the whole.
#[derive(Debug, Default)]
struct Past {
    totals: Totals,
    held_by: Holds,
}

/// Which streams have been opened.
#[derive(Debug, Default)]
struct Openings {
    /// How many this end has opened.
    ours: u64,
    /// Of those, how many are open.
    ours_open: u32,
    /// Which the peer has opened, by their index.
    theirs: Seen,
    /// Of those, how many are open.
    theirs_open: u32,
}

/// What goes to the peer.
#[derive(Debug)]
struct Sending {
    /// What the peer allows.
    limits: Limits,
    /// Bytes of streams that went out for the first time.
    sent: u64,
    /// Bytes of streams accepted from applications and not acknowledged.
    held: u64,
    /// Bytes of streams acknowledged.
    acknowledged: u64,
    flights: Flights,
    /// Frames that have to go out again, because the connection they went on died or stalled.
    again: BTreeSet<u64>,
    /// Messages that have not gone out.
    control: VecDeque<Message>,
    /// Streams with something to send.
    turns: Turns,
    /// Streams that wait for the trunk's credit.
    waiting: BTreeSet<StreamId>,
    /// Streams whose writers wait for memory and that have nothing under way whose acknowledgement would call
    /// them: what others hold has to become free.
    starved: BTreeSet<StreamId>,
}

/// What comes from the peer.
#[derive(Debug)]
struct Receiving {
    /// The reliable frames that have come.
    seen: Seen,
    /// Bytes of streams that have come, each once.
    received: u64,
    /// Of those, what was handed on or thrown away.
    consumed: u64,
    /// What the peer may send on all streams together.
    granted: u64,
    /// What the peer may send on a new stream.
    first_window: u64,
}

impl Sending {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            sent: 0,
            held: 0,
            acknowledged: 0,
            flights: Flights::default(),
            again: BTreeSet::new(),
            control: VecDeque::new(),
            turns: Turns::default(),
            waiting: BTreeSet::new(),
            starved: BTreeSet::new(),
        }
    }
}

impl Receiving {
    fn new(ours: Limits) -> Self {
        Self {
            seen: Seen::default(),
            received: 0,
            consumed: 0,
            granted: ours.trunk,
            first_window: ours.stream,
        }
    }
}

/// What an acceptor does with a connection that names a trunk it has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Admission {
    /// It joins: [`Trunk::connection_accepted`].
    Join,
    /// The initiator began a later life: [`Trunk::shutdown`] this one for [`Reason::PeerRestarted`] and
    /// make another with [`Trunk::accept`].
    Supersede,
    /// Write the refusal and close.
    Refuse(Refusal),
}

// === Making one ===

impl Trunk {
    /// The end that connects. Its first event asks for connections.
    ///
    /// `session` is to be unique: 128 random bits, and an epoch above those of earlier lives of the same bits.
    pub fn initiate(config: Config, session: Session) -> Result<Self, BadConfig> {
        let digest = config.digest;
        let mut trunk = Self::new(
            config,
            Role::Initiator,
            session,
            digest,
            Limits::MINIMUM,
            None,
        )?;
        trunk.events.push_back(Event::WantConnections {
            count: trunk.wanted,
        });
        Ok(trunk)
    }

    /// The end that is connected to, made for the first connection of a session; hand that connection to
    /// [`Self::connection_accepted`] next.
    ///
    /// `instance` names this process: another after each restart, and not zero. Where the hello shows that
    /// the initiator has a session with another instance, what that one held is lost, and the refusal says so.
    pub fn accept(config: Config, hello: &Hello, instance: u64) -> Result<Self, AcceptError> {
        compatible(hello).map_err(AcceptError::Refused)?;
        if hello.known_to.is_some() {
            let unknown = Refusal::new(RefusalReason::UnknownSession, "");
            return Err(AcceptError::Refused(unknown));
        }
        let instance = Some(instance.max(1));
        Self::new(
            config,
            Role::Acceptor,
            hello.session,
            hello.digest,
            hello.limits,
            instance,
        )
        .map_err(AcceptError::Config)
    }

    fn new(
        config: Config,
        role: Role,
        session: Session,
        digest: DigestKind,
        limits: Limits,
        instance: Option<u64>,
    ) -> Result<Self, BadConfig> {
        config.check()?;
        Ok(Self {
            role,
            session,
            instance,
            digest,
            connections: BTreeMap::new(),
            next_connection: 1,
            wanted: config.width.min,
            breadth: Breadth::new(config.width),
            guard: Watch::new(config.guard),
            peer_wish: 0,
            allowance: Allowance::new(config.padding),
            streams: BTreeMap::new(),
            openings: Openings::default(),
            leaving: leave::Leaving::default(),
            sending: Sending::new(limits),
            receiving: Receiving::new(config.limits()),
            events: VecDeque::new(),
            outage_at: None,
            past: Past::default(),
            ended: None,
            scratch: BytesMut::new(),
            config,
        })
    }

    /// What to do with a connection whose hello names this trunk's sixteen bytes (acceptor only).
    pub fn admits(&self, hello: &Hello) -> Admission {
        if let Err(refusal) = compatible(hello) {
            return Admission::Refuse(refusal);
        }
        let (theirs, ours) = (hello.session.epoch, self.session.epoch);
        if theirs > ours {
            return Admission::Supersede;
        }
        let refuse = |reason| Admission::Refuse(Refusal::new(reason, ""));
        if theirs < ours {
            return refuse(RefusalReason::StaleEpoch);
        }
        if self.ended.is_some()
            || hello
                .known_to
                .is_some_and(|instance| Some(instance) != self.instance)
        {
            return refuse(RefusalReason::UnknownSession);
        }
        if self.connections.contains_key(&hello.connection) {
            return refuse(RefusalReason::DuplicateConnection);
        }
        if self.connections.len() >= crate::config::MAX_WIDTH as usize {
            return refuse(RefusalReason::TooManyConnections);
        }
        Admission::Join
    }

    fn hello(&self, connection: ConnectionId) -> Bytes {
        let hello = Hello {
            versions: VERSIONS,
            session: self.session,
            known_to: self.instance,
            connection,
            capabilities: Capabilities::OURS,
            digest: self.digest,
            limits: self.announced(),
        };
        Preface::Hello(hello).encode()
    }

    fn welcome(&self, version: u8) -> Bytes {
        let welcome = Welcome {
            version,
            instance: self.instance.unwrap_or(1),
            capabilities: Capabilities::OURS,
            limits: self.announced(),
        };
        Preface::Welcome(welcome).encode()
    }

    /// What a connection's preface tells the peer that it may send.
    fn announced(&self) -> Limits {
        Limits {
            stream: self.receiving.first_window,
            trunk: self.receiving.granted,
            streams: self.config.max_streams,
        }
    }
}

fn compatible(hello: &Hello) -> Result<u8, Refusal> {
    let Versions { min, max } = hello.versions;
    VERSIONS.common(hello.versions).ok_or_else(|| {
        let detail = alloc::format!("the near relay speaks versions {min} to {max}");
        Refusal::new(RefusalReason::Version, &detail)
    })
}

/// A trunk cannot be made for a connection.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AcceptError {
    /// The peer is to be refused: write this and close.
    #[error("the connection cannot begin a trunk")]
    Refused(#[source] Refusal),
    /// The configuration cannot be used.
    #[error("the trunk's configuration cannot be used")]
    Config(#[source] BadConfig),
}

// === Looking at it ===

impl Trunk {
    /// Which end this is.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// The session that it is in. An initiator's epoch rises when a session is lost.
    pub const fn session(&self) -> Session {
        self.session
    }

    /// Why the trunk is over for good, if it is.
    pub const fn ended(&self) -> Option<&Explanation> {
        self.ended.as_ref()
    }

    /// How its connections are to send.
    pub const fn manner(&self) -> Manner {
        self.guard.manner()
    }

    /// The next thing to act on or to tell.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The whole trunk, now.
    pub fn status(&self) -> Status {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let mut totals = self.past.totals;
        for link in self.connections.values() {
            totals += link.totals;
        }
        Status {
            totals,
            connections: count(self.connections.len()),
            stalled: count(
                self.connections
                    .values()
                    .filter(|link| link.is_stalled())
                    .count(),
            ),
            wanted: self.wanted,
            streams: self.streams.len(),
            send_held: Size::new(self.sending.held),
            receive_held: Size::new(self.receiving.received - self.receiving.consumed),
            frames_in_flight: self.sending.flights.count(),
            padding_left: Size::new(self.allowance.peek()),
            manner: self.guard.manner(),
            delivered: Size::new(self.sending.acknowledged),
            received: Size::new(self.receiving.received),
        }
    }

    /// What held back the sending of all streams that there have been, each for itself: two streams' seconds in
    /// one second are two. Looks at every open stream.
    pub fn held_by(&self, now: Time) -> Holds {
        let mut all = self.past.held_by;
        for stream in self.streams.values() {
            all += stream.ledger.until(now);
        }
        all
    }

    /// Every connection that is up.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionStatus> {
        self.connections.iter().map(|(id, link)| ConnectionStatus {
            connection: *id,
            ready: link.stage != Stage::Greeting,
            stalled: link.is_stalled(),
            heat: self.heat(link),
            retiring: link.stage == Stage::Retiring,
            round_trip: link.pace.round_trip(),
            smoothed: link.pace.smoothed(),
            rate: link
                .pace
                .rate()
                .map(|bytes| Rate::bit_per_s(bytes.saturating_mul(8))),
            in_flight: Size::new(link.in_flight),
            totals: link.totals,
            observation: link.seen,
        })
    }

    /// A stream now; `None` if it is gone.
    pub fn stream(&self, stream: StreamId, now: Time) -> Option<StreamStatus> {
        let stream = self.streams.get(&stream)?;
        Some(StreamStatus {
            queued: Size::new(stream.outgoing.queued()),
            sent: Size::new(stream.outgoing.sent()),
            in_flight: Size::new(stream.outgoing.in_flight),
            received: Size::new(stream.incoming.bytes()),
            window: Size::new(stream.incoming.window()),
            opened_at: stream.opened_at,
            held_by: stream.ledger.until(now),
        })
    }
}

// === Ending it ===

impl Trunk {
    /// Ends the trunk and all its streams. What [`Self::transmit`] gives afterwards tells the peer; then
    /// close the connections.
    pub fn shutdown(&mut self, why: &Explanation, now: Time) {
        if self.ended.is_none() {
            self.reset_all(why, By::Us, now);
            self.ended = Some(why.clone());
        }
    }

    /// The session is over; an initiator begins another, an acceptor is done.
    fn lose_session(&mut self, why: &Explanation, by: By, now: Time) {
        self.reset_all(why, by, now);
        for (connection, link) in core::mem::take(&mut self.connections) {
            self.past.totals += link.totals;
            self.guard.forget(connection);
            self.events.push_back(Event::CloseConnection {
                connection,
                why: Closing::SessionOver,
            });
        }
        self.outage_at = Some(now);
        match self.role {
            // Whoever has left has no use for another.
            Role::Initiator if !self.leaving.is_ours() => {
                self.session.epoch = self.session.epoch.saturating_add(1);
                self.instance = None;
                self.leaving = leave::Leaving::default();
                self.openings = Openings::default();
                self.sending = Sending::new(Limits::MINIMUM);
                self.receiving = Receiving::new(self.config.limits());
                self.events
                    .push_back(Event::WantConnections { count: self.wanted });
            }
            Role::Initiator | Role::Acceptor => {
                self.ended = Some(why.clone());
                self.events.push_back(Event::Ended { why: why.clone() });
            }
        }
    }

    fn reset_all(&mut self, why: &Explanation, by: By, now: Time) {
        for (stream, state) in core::mem::take(&mut self.streams) {
            let receipt = state.receipt(now);
            self.past.held_by += receipt.held_by;
            self.events.push_back(Event::Reset {
                stream,
                why: why.clone(),
                by,
                receipt,
            });
        }
        self.sending.turns = Turns::default();
        self.sending.waiting.clear();
        self.sending.starved.clear();
        self.sending.held = 0;
    }

    /// How fast a connection's socket may pace, where that is bound: see [`Self::observe`].
    pub fn pacing_bound(&self, connection: ConnectionId) -> Option<Rate> {
        self.connections.get(&connection)?.rein.rate()
    }

    /// How much a connection's socket may hold that it has not sent, once its pace is known: see
    /// [`Self::observe`].
    pub fn unsent_bound(&self, connection: ConnectionId) -> Option<Size> {
        self.connections.get(&connection)?.reserve.bytes()
    }

    /// Notes what the driver saw of a connection's socket. What follows from it for the socket is asked for
    /// afterwards: [`Self::manner`], [`Self::pacing_bound`], [`Self::unsent_bound`].
    pub fn observe(&mut self, connection: ConnectionId, seen: Observation, now: Time) {
        if let Some(link) = self.connections.get_mut(&connection) {
            if let (Some(rate), Some(round_trip)) = (seen.delivery_rate, seen.round_trip) {
                let window = seen.congestion_window.map_or(0, Size::get);
                link.warmth.observe(
                    rate.bytes_per_s(),
                    round_trip,
                    link.totals.sent,
                    window,
                    now,
                );
            }
            if let Some(pacing) = seen.pacing_rate {
                link.reserve.observe(pacing);
                link.rein
                    .observe(pacing.bytes_per_s(), link.warmth.full(), now);
            }
            link.totals.retransmitted = seen.retransmitted.get();
            link.seen = Some(seen);
            self.judge_connection(connection, now);
            self.tell_hot(connection);
            self.fit_first_window();
            self.watch(connection, &seen, now);
        }
    }

    fn give_up_outage(&mut self, now: Time) {
        let detail = alloc::format!(
            "no connection for {}",
            units::format_span(self.config.outage)
        );
        self.lose_session(&Explanation::new(Reason::Outage, &detail), By::Trunk, now);
    }
}
