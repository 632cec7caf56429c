//! One relayed byte stream, whatever passes over it: how it is forwarded to its end, and what is told of it.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use profile::Side;
use sys::tcp_info::TcpInfo;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::Front;
use crate::ending::{Broken, Ended, Idle, both_closed, failure};
use crate::event::{ConnectionDone, EndedBy, Event, Events, Phase, SideReport, Step, TlsReport};
use crate::looks::Looks;
use crate::meter::Presence;
use crate::throttle::{Throttles, Tolls};
use crate::upstream::{Connected, Place};

/// What is known of one client's connection, and of the one to the target once there is one.
pub(crate) struct Account<S = Arc<TcpStream>> {
    id: u64,
    pub(crate) client: S,
    pub(crate) peer: SocketAddr,
    presence: Arc<Presence>,
    pub(crate) accepted_at: Instant,
    /// For whom the client stands, by its PROXY header.
    pub(crate) stands_for: Option<SocketAddr>,
    /// Where the client asked to go.
    pub(crate) asked_for: Option<String>,
    server: Option<Server<S>>,
    pub(crate) client_tls: Option<Box<TlsReport>>,
    pub(crate) server_tls: Option<Box<TlsReport>>,
    closed_first: Option<Side>,
    phase: Phase,
    /// When each phase began.
    phases: Vec<(Phase, Instant)>,
    /// Whether the client was told why it does not get where it wants to go.
    pub(crate) denied: bool,
    ended: Option<Ended>,
}

/// The connection to the target.
struct Server<S> {
    stream: S,
    peer: SocketAddr,
    connect_seconds: f64,
    connected_at: Instant,
    /// Where it counts as open.
    place: Option<Place>,
}

/// How long nothing may happen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) idle: Duration,
    /// The same once one side has ended its direction.
    pub(crate) half_closed: Duration,
}

/// Both directions of a byte stream.
pub(crate) trait Directions {
    /// Moves what can be moved to the server; ready when the client's end was passed on.
    fn poll_up(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>>;
    /// The same to the client.
    fn poll_down(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>>;
    /// Bytes given to the server, and to the client.
    fn given(&self) -> (u64, u64);
    /// Whether the client's end was passed on, and the server's.
    fn are_closed(&self) -> (bool, bool);
    /// Whether all that is waited for is what the client sends, once `poll_up` is pending, and likewise the server. A failure of
    /// that side is then heard there.
    fn listen(&self) -> (bool, bool) {
        (false, false)
    }
}

// === impl Account ===

impl<S: AsFd> Account<S> {
    pub(crate) fn open(
        id: u64,
        client: S,
        peer: SocketAddr,
        presence: Arc<Presence>,
        phase: Phase,
        now: Instant,
    ) -> Self {
        Self {
            id,
            client,
            peer,
            presence,
            accepted_at: now,
            stands_for: None,
            asked_for: None,
            server: None,
            client_tls: None,
            server_tls: None,
            closed_first: None,
            phase,
            phases: vec![(phase, now)],
            denied: false,
            ended: None,
        }
    }

    /// What the connection was in until now is over.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.enter_at(phase, Instant::now());
    }

    pub(crate) fn enter_at(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.phases.push((phase, now));
    }

    /// Notes why the connection is over.
    pub(crate) fn end(&mut self, ended: Ended) {
        self.ended = Some(ended);
    }

    /// What was done before bytes flowed, or until `now`.
    fn steps(&self, now: Instant) -> Vec<Step> {
        let ends = self.phases.iter().skip(1).map(|(_, began)| *began);
        let phases = self.phases.iter().zip(ends.chain([now]));
        phases
            .take_while(|((phase, _), _)| *phase != Phase::Data)
            .map(|((phase, began), end)| Step {
                phase: *phase,
                began: began.duration_since(self.accepted_at),
                took: end.duration_since(*began),
            })
            .collect()
    }

    /// Notes the connection to the target, which took from `started` until `now`.
    pub(crate) fn reached(
        &mut self,
        connected: Connected<S>,
        (started, now): (Instant, Instant),
        front: &Front,
        looks: &Looks,
        events: &Events,
    ) {
        looks.at_connected(events, &front.server_profile, connected.applied);
        self.presence.reached(&connected.stream, connected.peer);
        self.server = Some(Server {
            stream: connected.stream,
            peer: connected.peer,
            connect_seconds: (now - started).as_secs_f64(),
            connected_at: now,
            place: connected.place,
        });
    }

    /// The connection to the target, once there is one.
    pub(crate) fn server(&self) -> Option<&S> {
        self.server.as_ref().map(|server| &server.stream)
    }

    /// Notes which ends were passed on; whether both were.
    pub(crate) fn closes(&mut self, up: bool, down: bool) -> bool {
        both_closed(up, down, &mut self.closed_first, &mut self.phase)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.phase == Phase::Closing
    }

    /// Has both sides closed by a reset: closed with a FIN, what came so far would look like the whole. Before there is a stream nothing has
    /// come, and a reset could overtake the answer that says why.
    fn cut_off(&self) {
        let unbegun = matches!(self.phase, Phase::ClientHandshake | Phase::Asking);
        if !unbegun && !self.denied {
            let _ = sys::socket::reset_when_closed(&self.client);
        }
        if let Some(server) = &self.server {
            let _ = sys::socket::reset_when_closed(&server.stream);
        }
    }

    /// Tells of the connection's end, and closes both sides as that end deserves.
    pub(crate) fn settle(
        &mut self,
        bytes_up: u64,
        bytes_down: u64,
        front: &Front,
        looks: &Looks,
        events: &Events,
    ) {
        let ended = self.ended.take().unwrap_or_else(|| Ended {
            by: EndedBy::Relay,
            error: Some("the relay stopped before the connection was over".into()),
        });
        // Whoever hears of the end may count on it.
        let place = self.server.as_mut().and_then(|server| server.place.take());
        drop(place);
        let server = self.server.as_ref();
        let now = Instant::now();
        // Asking takes a tenth of what a short connection costs beside its packets.
        let is_asked =
            ended.by != EndedBy::Completed || self.presence.is_heard() || looks.want_distance(now);
        let info = |stream: &S| is_asked.then(|| TcpInfo::of(stream).ok()).flatten();
        let near = info(&self.client);
        let far = server.and_then(|server| info(&server.stream));
        let side = |info: &TcpInfo, since: Instant| SideReport::of(info, now - since);
        if ended.by == EndedBy::Completed
            && let Some(server) = server
        {
            looks.at_client(events, &front.client_profile, &self.client, self.peer);
            looks.at_server(events, &front.server_profile, &server.stream, server.peer);
            if let (Some(near), Some(far)) = (&near, &far) {
                looks.at_distance(events, self.peer, near, far);
            }
        }
        // Before anybody is told, who could fail at it.
        if ended.by != EndedBy::Completed {
            self.cut_off();
        }
        let server = self.server.as_ref();
        events(Event::ConnectionDone(Box::new(ConnectionDone {
            client: self.id,
            peer: self.peer,
            stands_for: self.stands_for,
            asked_for: self.asked_for.take(),
            server: server.map(|server| server.peer),
            bytes_up,
            bytes_down,
            seconds: (now - self.accepted_at).as_secs_f64(),
            connect_seconds: server.map(|server| server.connect_seconds),
            closed_first: self.closed_first,
            ended_by: ended.by,
            phase: self.phase,
            error: ended.error,
            client_side: near.map(|info| side(&info, self.accepted_at)),
            server_side: far
                .zip(server)
                .map(|(info, server)| side(&info, server.connected_at)),
            client_tls: self.client_tls.take().map(|report| *report),
            server_tls: self.server_tls.take().map(|report| *report),
            steps: self.steps(now),
        })));
    }
}

impl Account {
    /// Notes the connection to the target, which took from `started` on, and returns it.
    pub(crate) fn connected(
        &mut self,
        connected: Connected,
        started: Instant,
        front: &Front,
        looks: &Looks,
        events: &Events,
    ) -> Arc<TcpStream> {
        let stream = Arc::new(connected.stream);
        let shared = Connected {
            stream: Arc::clone(&stream),
            peer: connected.peer,
            applied: connected.applied,
            congestion: connected.congestion,
            place: connected.place,
        };
        let now = Instant::now();
        self.reached(shared, (started, now), front, looks, events);
        stream
    }

    /// Forwards until both directions have ended, or one side breaks.
    pub(crate) async fn forward(
        &mut self,
        directions: &mut impl Directions,
        patience: Patience,
        throttles: Option<&Throttles>,
    ) -> Ended {
        let Some(server) = &self.server else {
            return Ended::timeout("there is no connection to the target");
        };
        let mut tolls = throttles.map(Tolls::new);
        let mut idle = Idle::new(patience.idle, patience.half_closed);
        let mut client_failure = pin!(failure(&self.client));
        let mut server_failure = pin!(failure(&server.stream));
        let (closed_first, phase) = (&mut self.closed_first, &mut self.phase);
        poll_fn(|context| {
            let (up, down) = directions.given();
            let (free_up, free_down) = match &mut tolls {
                None => (true, true),
                Some(tolls) => tolls.poll(context, up, down),
            };
            if free_up && let Poll::Ready(Err(broken)) = directions.poll_up(context) {
                return Poll::Ready(Ended::broken(broken, EndedBy::Client, EndedBy::Server));
            }
            if free_down && let Poll::Ready(Err(broken)) = directions.poll_down(context) {
                return Poll::Ready(Ended::broken(broken, EndedBy::Server, EndedBy::Client));
            }
            let (up_closed, down_closed) = directions.are_closed();
            if both_closed(up_closed, down_closed, closed_first, phase) {
                return Poll::Ready(Ended::completed());
            }
            let (listens_up, listens_down) = directions.listen();
            if !(free_up && listens_up)
                && let Poll::Ready(error) = client_failure.as_mut().poll(context)
            {
                return Poll::Ready(Ended::failed(EndedBy::Client, &error));
            }
            if !(free_down && listens_down)
                && let Poll::Ready(error) = server_failure.as_mut().poll(context)
            {
                return Poll::Ready(Ended::failed(EndedBy::Server, &error));
            }
            let (up, down) = directions.given();
            idle.poll(context, up + down, *phase == Phase::Closing)
        })
        .await
    }
}
