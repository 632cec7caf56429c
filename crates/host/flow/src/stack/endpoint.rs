//! One connection: the endpoint that counts, its bytes, and the threads that wait for it.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use congestion::Algorithm;
use record::flow::{Sample, Setting};
use tcp::{Config, Connection, Event, Hold, Output, ReceiveBuffer, Segment, State};
use units::{Rate, Time};
use wire::TcpFlags;

use super::ring::Ring;
use super::{Key, Shared, packet};
use crate::engine::{EngineError, LOOK, Stream};
use crate::live::locked;
use crate::pattern::to_u64;

/// How far behind its clock an endpoint may be served: what a timer that comes late has missed is made up
/// for, so that a paced rate is kept, but a machine that slept does not burst for longer than this.
const BEHIND: Duration = Duration::from_millis(10);
/// Payload of a superpacket at most: with headers it must stay below 64 KiB.
const SUPERPACKET: u32 = 65_000;

/// A connection and all that belongs to it.
#[derive(Debug)]
pub(super) struct Endpoint {
    shared: Weak<Shared>,
    key: Key,
    local: SocketAddr,
    algorithm: Algorithm,
    inside: Mutex<Inside>,
    /// Something changed that a thread may wait for.
    changed: Condvar,
}

#[derive(Debug)]
pub(super) struct Inside {
    connection: Connection,
    outgoing: Ring,
    incoming: Ring,
    /// Bytes written so far: the offset of the next one.
    written: u64,
    /// Bytes read so far.
    read: u64,
    established: bool,
    peer_closed: bool,
    /// How it ended, if it has.
    ended: Option<io::ErrorKind>,
    /// The application has gone: what still comes is thrown away.
    abandoned: bool,
    longest_wait: Option<Duration>,
    /// When the endpoint wants to be asked again.
    pub(super) due_at: Option<Time>,
    superpacket: Superpacket,
    headers: Vec<u8>,
    scratch: Vec<u8>,
}

/// Segments that leave as one packet.
#[derive(Debug, Default)]
struct Superpacket {
    segment: Option<(Segment, u64)>,
    /// Payload of each but the last.
    each: u32,
    /// A shorter one has come: nothing may follow.
    full: bool,
}

// === impl Endpoint ===

impl Endpoint {
    pub(super) fn new(
        shared: &Arc<Shared>,
        key: Key,
        connection: Connection,
        config: &Config,
    ) -> Self {
        let window = match config.receive_buffer {
            ReceiveBuffer::Fixed(bytes) => bytes.get(),
            ReceiveBuffer::Autotuned { max, .. } => max.get(),
        };
        Self {
            shared: Arc::downgrade(shared),
            key,
            local: SocketAddr::new(shared.address, key.port),
            algorithm: config.algorithm,
            inside: Mutex::new(Inside {
                connection,
                outgoing: Ring::new(config.send_buffer.get()),
                // A peer may be in the middle of a superpacket when the window ends.
                incoming: Ring::new(window.saturating_add(1 << 16)),
                written: 0,
                read: 0,
                established: false,
                peer_closed: false,
                ended: None,
                abandoned: false,
                longest_wait: None,
                due_at: None,
                superpacket: Superpacket::default(),
                headers: Vec::new(),
                scratch: Vec::new(),
            }),
            changed: Condvar::new(),
        }
    }

    /// Waits until the handshake is over, or until nobody wants it any more.
    pub(super) fn opened(&self, given_up: &dyn Fn() -> bool) -> io::Result<()> {
        let mut inside = locked(&self.inside);
        self.flush(&mut inside);
        loop {
            if let Some(kind) = inside.ended {
                return Err(kind.into());
            }
            if inside.established {
                return Ok(());
            }
            if given_up() {
                drop(inside);
                self.shut_down();
                return Err(io::ErrorKind::Interrupted.into());
            }
            let waited = self.changed.wait_timeout(inside, LOOK);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes a segment off the wire; whether the handshake ended with it.
    pub(super) fn take(&self, now: Time, segment: &Segment, payload: &[u8]) -> bool {
        let mut inside = locked(&self.inside);
        self.catch_up(&mut inside, now);
        let before = inside.established;
        if let Some(placement) = inside.connection.handle_segment(now, segment) {
            let skip = usize::try_from(placement.skip).unwrap_or(usize::MAX);
            let length = usize::try_from(placement.len).unwrap_or(usize::MAX);
            let wanted = payload.get(skip..).unwrap_or_default();
            inside
                .incoming
                .put(placement.offset, &wanted[..wanted.len().min(length)]);
        }
        self.flush(&mut inside);
        inside.established && !before
    }

    /// Lets the endpoint do what is due.
    pub(super) fn wake(&self, now: Time) -> Option<Time> {
        let mut inside = locked(&self.inside);
        self.catch_up(&mut inside, now);
        inside.due_at
    }

    /// Does what was due until `now`, each at its own time.
    fn catch_up(&self, inside: &mut Inside, now: Time) {
        while let Some(due) = inside.due_at.filter(|&due| due <= now) {
            let at = due.max(now.saturating_sub(BEHIND));
            inside.connection.handle_timeout(at);
            self.flush_at(inside, Some(at));
            // A timer that does not move on is asked again later.
            if inside.due_at.is_some_and(|next| next <= at) {
                return;
            }
        }
    }

    /// Whether it is over and may be forgotten.
    pub(super) fn is_over(&self) -> bool {
        locked(&self.inside).connection.state() == State::Closed
    }

    pub(super) fn is_busy(&self) -> bool {
        let state = locked(&self.inside).connection.state();
        !matches!(state, State::Closed | State::TimeWait)
    }

    /// Sends what the endpoint wants to send now.
    fn flush(&self, inside: &mut Inside) {
        self.flush_at(inside, None);
    }

    /// Sends what the endpoint wants to send, and notes what it says.
    fn flush_at(&self, inside: &mut Inside, at: Option<Time>) {
        let Some(shared) = self.shared.upgrade() else {
            inside.ended = Some(io::ErrorKind::NotConnected);
            self.changed.notify_all();
            return;
        };
        loop {
            let now = at.unwrap_or_else(|| shared.now());
            match inside.connection.poll_output(now) {
                Output::Transmit { segment, offset } => {
                    if !inside.superpacket.append(&segment, offset) {
                        self.send(&shared, inside);
                        inside.superpacket.begin(segment, offset);
                    }
                }
                Output::Event(event) => {
                    if inside.note(event, now) {
                        self.changed.notify_all();
                    }
                }
                Output::Timeout(at) => {
                    self.send(&shared, inside);
                    let earlier = at.is_some() && inside.due_at.is_none_or(|due| at < Some(due));
                    inside.due_at = at;
                    if earlier {
                        shared.wake_driver();
                    }
                    return;
                }
            }
        }
    }

    fn send(&self, shared: &Shared, inside: &mut Inside) {
        let Some((segment, offset)) = inside.superpacket.segment.take() else {
            return;
        };
        let each = inside.superpacket.each;
        let Ok(header) = packet::headers(
            &mut inside.headers,
            shared.address,
            &self.key,
            &segment,
            each,
        ) else {
            // Nothing that an endpoint says is too long for a packet; were it, it would be sent again.
            return;
        };
        let length = usize::try_from(segment.payload).unwrap_or(0);
        let (first, rest) = inside.outgoing.at(offset, length);
        let payload = if rest.is_empty() {
            first
        } else {
            inside.scratch.clear();
            inside.scratch.extend_from_slice(first);
            inside.scratch.extend_from_slice(rest);
            &inside.scratch
        };
        // A device that does not take it is a network that loses it.
        if let Err(error) = shared.device.write(header, &inside.headers, payload) {
            tracing::debug!(%error, "A packet was not taken by the device");
        }
    }

    /// Waits for `ready`, which says what to give back.
    fn when<T>(
        &self,
        limited: bool,
        mut ready: impl FnMut(&mut Inside) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        let mut inside = locked(&self.inside);
        loop {
            // What a late timer still owes goes first: sending now would make that lateness final.
            if let Some(shared) = self.shared.upgrade() {
                self.catch_up(&mut inside, shared.now());
            }
            if let Some(answer) = ready(&mut inside) {
                self.flush(&mut inside);
                return answer;
            }
            match inside.longest_wait.filter(|_| limited) {
                None => inside = wait(&self.changed, inside),
                Some(longest) => {
                    let waited = self.changed.wait_timeout(inside, longest);
                    let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    if timeout.timed_out() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    inside = guard;
                }
            }
        }
    }
}

fn wait<'a>(changed: &Condvar, inside: MutexGuard<'a, Inside>) -> MutexGuard<'a, Inside> {
    changed.wait(inside).unwrap_or_else(PoisonError::into_inner)
}

impl Stream for Endpoint {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(shared) = self.shared.upgrade() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        self.when(true, |inside| {
            if inside.abandoned {
                return Some(Ok(0));
            }
            let there = inside.connection.readable();
            if there > 0 {
                let most = to_u64(buffer.len());
                let count = inside.connection.read(shared.now(), most.min(there));
                let length = usize::try_from(count).unwrap_or(0);
                let (first, rest) = inside.incoming.at(inside.read, length);
                buffer[..first.len()].copy_from_slice(first);
                buffer[first.len()..length].copy_from_slice(rest);
                inside.read += count;
                return Some(Ok(length));
            }
            if let Some(kind) = inside.ended {
                return Some(Err(kind.into()));
            }
            inside.peer_closed.then_some(Ok(0))
        })
    }

    fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(shared) = self.shared.upgrade() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.when(false, |inside| {
            if let Some(kind) = inside.ended {
                return Some(Err(kind.into()));
            }
            if inside.abandoned {
                return Some(Err(io::ErrorKind::BrokenPipe.into()));
            }
            let taken = inside.connection.write(shared.now(), to_u64(wanted));
            if taken == 0 && wanted > 0 {
                return None;
            }
            let mut left = usize::try_from(taken).unwrap_or(0);
            for piece in pieces {
                let part = &piece[..piece.len().min(left)];
                inside.outgoing.put(inside.written, part);
                inside.written += to_u64(part.len());
                left -= part.len();
            }
            Some(Ok(usize::try_from(taken).unwrap_or(0)))
        })
    }

    fn limit_wait(&self, longest: Option<Duration>) -> io::Result<()> {
        locked(&self.inside).longest_wait = longest;
        Ok(())
    }

    fn shut_down(&self) {
        let mut inside = locked(&self.inside);
        inside.abandoned = true;
        if let Some(shared) = self.shared.upgrade() {
            inside.throw_away(shared.now());
        }
        inside.connection.close();
        self.flush(&mut inside);
        self.changed.notify_all();
    }

    fn finish(&self) -> io::Result<()> {
        let mut inside = locked(&self.inside);
        inside.connection.close();
        self.flush(&mut inside);
        Ok(())
    }

    fn sample(&self) -> Option<Sample> {
        let now = self.shared.upgrade()?.now();
        let inside = locked(&self.inside);
        let view = inside.connection.sender();
        let mss = u64::from(view.mss);
        let held = |wanted: fn(Hold) -> bool| {
            let spans = inside.connection.holds(now);
            let sum: Duration = spans
                .filter(|(hold, _)| wanted(*hold))
                .map(|(_, span)| span)
                .sum();
            Some(sum.as_secs_f64())
        };
        Some(Sample {
            acknowledged: view.acknowledged,
            cwnd: u64::from(view.cwnd).saturating_mul(mss),
            ssthresh: (view.ssthresh != u32::MAX)
                .then(|| u64::from(view.ssthresh).saturating_mul(mss)),
            rtt_s: view.smoothed_rtt.map_or(0.0, |rtt| rtt.as_secs_f64()),
            min_rtt_s: view.min_rtt.map(|rtt| rtt.as_secs_f64()),
            in_flight: u64::from(view.in_flight).saturating_mul(mss),
            retransmits: view.retransmissions,
            peer_window: Some(view.window.saturating_add(view.outstanding)),
            busy_s: held(|hold| !matches!(hold, Hold::Application | Hold::Handshake)),
            rwnd_limited_s: held(|hold| hold == Hold::ReceiveWindow),
            sndbuf_limited_s: held(|hold| hold == Hold::SendBuffer),
            ..Sample::default()
        })
    }

    fn congestion_control(&self) -> Option<String> {
        let name = match self.algorithm {
            Algorithm::NewReno => "newreno",
            Algorithm::Cubic(_) => "cubic",
            Algorithm::HighSpeed => "highspeed",
            Algorithm::WestwoodPlus => "westwood+",
            Algorithm::Bbr => "bbr",
            Algorithm::Bbr3 => "bbr3",
            Algorithm::Fixed => "none",
        };
        Some(name.to_owned())
    }

    fn adjust(
        &self,
        congestion_control: Option<&str>,
        pace: Option<Rate>,
    ) -> Result<Vec<Setting>, EngineError> {
        match (congestion_control, pace) {
            (None, None) => Ok(Vec::new()),
            _ => Err(EngineError::Unsupported {
                what: "congestion control or pace of an open connection",
            }),
        }
    }

    fn local(&self) -> Option<SocketAddr> {
        Some(self.local)
    }

    fn peer(&self) -> Option<SocketAddr> {
        Some(self.key.peer)
    }
}

// === impl Inside ===

impl Inside {
    /// Notes what the endpoint says; whether somebody may wait for it.
    fn note(&mut self, event: Event, now: Time) -> bool {
        match event {
            Event::Established => self.established = true,
            Event::Readable => {
                if self.abandoned {
                    self.throw_away(now);
                }
            }
            Event::Writable => {}
            Event::PeerClosed => self.peer_closed = true,
            Event::Closed => {
                self.ended = Some(io::ErrorKind::NotConnected);
            }
            Event::Reset => {
                self.ended = Some(if self.established {
                    io::ErrorKind::ConnectionReset
                } else {
                    io::ErrorKind::ConnectionRefused
                });
            }
            Event::TimedOut => self.ended = Some(io::ErrorKind::TimedOut),
        }
        true
    }

    fn throw_away(&mut self, now: Time) {
        let there = self.connection.readable();
        self.read += self.connection.read(now, there);
    }
}

// === impl Superpacket ===

impl Superpacket {
    fn begin(&mut self, segment: Segment, offset: u64) {
        self.each = segment.payload.max(1);
        self.full = segment.payload == 0 || segment.flags != TcpFlags::ACK;
        self.segment = Some((segment, offset));
    }

    /// Whether `next` leaves as part of the same packet.
    fn append(&mut self, next: &Segment, offset: u64) -> bool {
        let Some((segment, start)) = &mut self.segment else {
            return false;
        };
        let pushed = TcpFlags::ACK.union(TcpFlags::PSH);
        let follows = !self.full
            && offset == *start + u64::from(segment.payload)
            && next.payload > 0
            && next.payload <= self.each
            && segment.payload + next.payload <= SUPERPACKET
            && (next.flags == TcpFlags::ACK || next.flags == pushed)
            && (next.ack, next.window, next.options)
                == (segment.ack, segment.window, segment.options);
        if follows {
            segment.payload += next.payload;
            segment.flags = next.flags;
            self.full = next.payload < self.each || next.flags != TcpFlags::ACK;
        }
        follows
    }
}
