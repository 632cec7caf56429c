//! Traces for a collector of OpenTelemetry's: a span for each client's connection, and below it what was done for it.
//!
//! Spans are made of the events with which every connection and every request ends, so nothing is measured for them
//! alone. They go through a bounded queue to a task that sends them; whoever serves a client never waits, and what the
//! queue or the collector does not take is counted as lost.
//!
//! - [`parent`] reads the `traceparent` of a request, which passes on unchanged.
//! - [`span`] is what a span says, in the collector's JSON.
//! - [`exporter`] sends them.

mod exporter;
mod parent;
mod span;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::crypto::aws_lc_rs;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::event::{ConnectionDone, EndedBy, Event, Events, Phase, Step};
use crate::tls::handshakes::{Handshakes, Protocols, TlsError};
use crate::{Front, TlsSides, Tracing};
pub use parent::TraceParent;
use span::{Id, Kind, Link, Span};

/// Spans that wait for the collector: at about 1 kB each some 2 MB, and a second of a busy relay.
const QUEUE: usize = 2_048;

/// How long the last spans may take to be sent at the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where a relay's spans go: nowhere, until a configuration says so.
pub(crate) struct Traces {
    lane: RwLock<Option<Arc<Lane>>>,
    counts: Arc<Counts>,
    /// The tasks that send, of this configuration and of those before whose last spans are still under way.
    tasks: Mutex<Vec<JoinHandle<()>>>,
    events: Events,
}

/// Where spans go, and how it is spoken to.
pub(crate) struct Collector {
    tracing: Tracing,
    handshakes: Handshakes,
}

/// The way to one collector.
struct Lane {
    collector: Arc<Collector>,
    /// Makes identifiers that nobody else has.
    seed: [u8; 16],
    made: AtomicU64,
    queue: mpsc::Sender<Span>,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    /// The queue was full.
    crowded_out: AtomicU64,
    /// The collector did not take them.
    not_delivered: AtomicU64,
}

/// Makes spans of what one listener tells.
pub(crate) struct Tracer {
    traces: Arc<Traces>,
    listen: SocketAddr,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The target's name and port, where there is one for all clients.
    target: Option<(String, u16)>,
    /// Where connections of the pool go.
    pooled: BTreeMap<u64, SocketAddr>,
}

// === impl Traces ===

impl Traces {
    pub(crate) fn new(events: Events) -> Arc<Self> {
        Arc::new(Self {
            lane: RwLock::default(),
            counts: Arc::default(),
            tasks: Mutex::default(),
            events,
        })
    }

    /// From now on spans go there. What waits already still goes where it was to go.
    pub(crate) fn follow(&self, collector: Option<Collector>) {
        let mut lane = self.lane.write().unwrap_or_else(PoisonError::into_inner);
        let unchanged = match (lane.as_ref(), &collector) {
            (Some(lane), Some(collector)) => lane.collector.is(collector),
            (lane, collector) => lane.is_none() && collector.is_none(),
        };
        if unchanged {
            return;
        }
        *lane = collector.and_then(|collector| {
            let collector = Arc::new(collector);
            let mut seed = [0; 16];
            let random = aws_lc_rs::default_provider().secure_random;
            if random.fill(&mut seed).is_err() {
                // Identifiers that another process might have as well would join what does not belong together.
                (self.events)(Event::Warning {
                    name: "traces-not-delivered",
                    text: "this host has no random numbers for identifiers".into(),
                });
                return None;
            }
            let (queue, spans) = mpsc::channel(QUEUE);
            let (counts, events) = (Arc::clone(&self.counts), Arc::clone(&self.events));
            let sending = exporter::send(Arc::clone(&collector), spans, counts, events);
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.retain(|task| !task.is_finished());
            tasks.push(tokio::spawn(sending));
            Some(Arc::new(Lane {
                collector,
                seed,
                made: AtomicU64::new(0),
                queue,
            }))
        });
    }

    /// Waits until the last spans are sent, within reason.
    pub(crate) async fn finish(&self) {
        self.follow(None);
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let deadline = tokio::time::Instant::now() + LAST_WORDS;
        for mut task in tasks {
            if tokio::time::timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
            }
        }
    }

    /// Counters in Prometheus' text format.
    pub(crate) fn write(&self, text: &mut String) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "# HELP longhaul_spans_sent_total Spans of traces that the collector has taken.\n\
             # TYPE longhaul_spans_sent_total counter\n\
             longhaul_spans_sent_total {}\n\
             # HELP longhaul_spans_lost_total Spans of traces that the collector did not get.\n\
             # TYPE longhaul_spans_lost_total counter\n\
             longhaul_spans_lost_total{{why=\"queue-full\"}} {}\n\
             longhaul_spans_lost_total{{why=\"not-delivered\"}} {}\n",
            count(&counts.sent),
            count(&counts.crowded_out),
            count(&counts.not_delivered),
        );
    }

    fn lane(&self) -> Option<Arc<Lane>> {
        self.lane
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

// === impl Collector ===

impl Collector {
    /// Reads the files that the configuration names.
    pub(crate) fn prepare(tracing: &Tracing) -> Result<Self, TlsError> {
        let sides = TlsSides {
            server: tracing.endpoint.tls.clone(),
            ..TlsSides::default()
        };
        let protocols = Protocols {
            server: &["http/1.1"],
            ..Protocols::default()
        };
        // Of the places for clients' handshakes none is asked for.
        let handshakes = Handshakes::load(&sides, protocols, 0)?;
        Ok(Self {
            tracing: tracing.clone(),
            handshakes,
        })
    }

    /// Whether both are the same collector, trusted by the same authorities.
    fn is(&self, other: &Self) -> bool {
        self.tracing == other.tracing && self.handshakes.are_of_the_same_files(&other.handshakes)
    }
}

// === impl Lane ===

impl Lane {
    /// Of a client's connection: known before the connection is over, so that what is below it can name it.
    fn of_connection(&self, listen: SocketAddr, client: u64) -> (Id<16>, Id<8>) {
        let digest = self.digest("connection", &format!("{listen} {client}"));
        (Id::from_start(&digest), Id::from_start(&digest[16..]))
    }

    fn fresh(&self) -> Id<8> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        Id::from_start(&self.digest("span", &number.to_string()))
    }

    fn digest(&self, kind: &str, what: &str) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.seed);
        digest.update(kind);
        digest.update(what);
        digest.finalize().into()
    }

    /// Whether a trace that begins here is one of the share. Its identifier decides, so that all of its spans agree.
    fn samples(&self, trace: Id<16>) -> bool {
        const BILLION: u64 = 1_000_000_000;
        trace.low_bits() % BILLION < u64::from(self.collector.tracing.share.as_per_billion())
    }

    fn send(&self, span: Span, counts: &Counts) {
        if self.queue.try_send(span).is_err() {
            counts.crowded_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// === impl Tracer ===

impl Tracer {
    pub(crate) fn new(traces: Arc<Traces>, listen: SocketAddr) -> Self {
        Self {
            traces,
            listen,
            state: Mutex::default(),
        }
    }

    /// What clients are relayed to from now on.
    pub(crate) fn aim(&self, front: &Front) {
        let mut targets = front.targets();
        let target = targets.next().filter(|_| targets.next().is_none());
        self.state().target = target.map(|target| (target.host.clone(), target.port));
    }

    pub(crate) fn notice(&self, event: &Event) {
        if let Event::Connected {
            connection, peer, ..
        } = event
        {
            self.state().pooled.insert(*connection, *peer);
        } else if let Event::Closed { connection, .. } = event {
            self.state().pooled.remove(connection);
        } else if let Event::ConnectionDone(done) = event
            && let Some(lane) = self.traces.lane()
        {
            self.connection(&lane, done);
        } else if matches!(event, Event::RequestDone { .. })
            && let Some(lane) = self.traces.lane()
        {
            self.request(&lane, event);
        }
    }

    /// Whether anything is told to a collector.
    pub(crate) fn is_on(&self) -> bool {
        self.traces.lane().is_some()
    }

    /// A client that spoke HTTP has left.
    pub(crate) fn left(&self, client: u64, peer: SocketAddr, stayed: Duration, requests: u64) {
        let Some(lane) = self.traces.lane() else {
            return;
        };
        let (trace, id) = lane.of_connection(self.listen, client);
        if !lane.samples(trace) {
            return;
        }
        let mut span = Span::new(trace, id, None, Kind::Server, "connection");
        span.lasted(SystemTime::now(), stayed);
        self.between(&mut span, peer);
        span.says("longhaul.requests", requests);
        lane.send(span, &self.traces.counts);
    }

    fn connection(&self, lane: &Lane, done: &ConnectionDone) {
        let (trace, id) = lane.of_connection(self.listen, done.client);
        if !lane.samples(trace) {
            return;
        }
        let now = SystemTime::now();
        let lasted = Duration::from_secs_f64(done.seconds);
        let began = now.checked_sub(lasted).unwrap_or(now);
        // What a client that speaks without TLS begins with takes no time.
        let met = |step: &&Step| {
            step.phase != Phase::ClientHandshake
                || done.client_tls.is_some()
                || done.phase == step.phase
        };
        for step in done.steps.iter().filter(met) {
            let mut span = self.step(lane, trace, id, step, done);
            span.lasted(began + step.began + step.took, step.took);
            lane.send(span, &self.traces.counts);
        }
        let mut span = Span::new(trace, id, None, Kind::Server, "connection");
        span.lasted(now, lasted);
        self.between(&mut span, done.peer);
        if let Some(client) = done.stands_for {
            span.says("longhaul.stands_for", client.to_string());
        }
        if let Some(target) = &done.asked_for {
            span.says("longhaul.asked_for", target.clone());
        }
        span.ended(done.ended_by, done.phase, done.error.as_deref());
        span.moved(done.bytes_up, done.bytes_down);
        lane.send(span, &self.traces.counts);
    }

    /// What was done before bytes flowed.
    fn step(
        &self,
        lane: &Lane,
        trace: Id<16>,
        parent: Id<8>,
        step: &Step,
        done: &ConnectionDone,
    ) -> Span {
        let (name, kind, tls) = match step.phase {
            Phase::ClientHandshake => ("tls handshake", Kind::Internal, done.client_tls.as_ref()),
            Phase::ServerHandshake => ("tls handshake", Kind::Client, done.server_tls.as_ref()),
            Phase::Connecting => ("connect", Kind::Client, None),
            phase @ (Phase::RequestHead
            | Phase::RequestBody
            | Phase::ResponseHead
            | Phase::ResponseBody
            | Phase::Tunnel
            | Phase::ProxyHeader
            | Phase::Asking
            | Phase::Data
            | Phase::Closing) => (phase.as_str(), Kind::Internal, None),
        };
        let mut span = Span::new(trace, lane.fresh(), Some(parent), kind, name);
        if kind == Kind::Client {
            self.towards(&mut span, done.server);
        }
        if let Some(tls) = tls {
            span.tls(tls);
        }
        if done.phase == step.phase {
            span.ended(done.ended_by, done.phase, done.error.as_deref());
        }
        span
    }

    fn request(&self, lane: &Lane, event: &Event) {
        let Event::RequestDone {
            client,
            peer: _,
            connection,
            method,
            path,
            status,
            bytes_up,
            bytes_down,
            seconds,
            hot,
            hot_ratio: _,
            ended_by,
            phase,
            error,
            client_tls: _,
            parent,
        } = event
        else {
            return;
        };
        // Without a method, there was no request: the connection's own span tells.
        if method == "-" {
            return;
        }
        let (own, connection_id) = lane.of_connection(self.listen, *client);
        let (trace, above) = match parent {
            Some(parent) if !parent.sampled => return,
            Some(parent) => (Id(parent.trace), Id(parent.span)),
            None if !lane.samples(own) => return,
            None => (own, connection_id),
        };
        let mut span = Span::exchange(trace, lane.fresh(), above, method);
        span.lasted(SystemTime::now(), Duration::from_secs_f64(*seconds));
        if parent.is_some() && lane.samples(own) {
            span.links.push(Link::to(own, connection_id));
        }
        span.path(path);
        let pooled = connection.and_then(|id| self.state().pooled.get(&id).copied());
        self.towards(&mut span, pooled);
        span.says("longhaul.hot", *hot);
        span.ended(*ended_by, *phase, error.as_deref());
        if let Some(status) = *status {
            span.status(status, *ended_by == EndedBy::Completed);
        }
        span.moved(*bytes_up, *bytes_down);
        lane.send(span, &self.traces.counts);
    }

    /// A client, and where it came in.
    fn between(&self, span: &mut Span, peer: SocketAddr) {
        span.says("network.transport", "tcp");
        span.says("client.address", peer.ip().to_string());
        span.says("client.port", u64::from(peer.port()));
        span.says("network.peer.address", peer.ip().to_string());
        span.says("network.peer.port", u64::from(peer.port()));
        span.says("server.address", self.listen.ip().to_string());
        span.says("server.port", u64::from(self.listen.port()));
    }

    /// The target, and the address that was connected to.
    fn towards(&self, span: &mut Span, peer: Option<SocketAddr>) {
        span.says("network.transport", "tcp");
        let target = self.state().target.clone();
        let named = target.or_else(|| peer.map(|peer| (peer.ip().to_string(), peer.port())));
        if let Some((host, port)) = named {
            span.says("server.address", host);
            // A service's port is in its records.
            let port = Some(port).filter(|&port| port != 0);
            if let Some(port) = port.or_else(|| peer.map(|peer| peer.port())) {
                span.says("server.port", u64::from(port));
            }
        }
        if let Some(peer) = peer {
            span.says("network.peer.address", peer.ip().to_string());
            span.says("network.peer.port", u64::from(peer.port()));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each field is valid whatever its holder was doing when it panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
