use core::time::Duration;

use units::{SeqNum, Time};
use wire::{TcpFlags, TcpOptions, Timestamps};

use crate::config::Config;
use crate::hold::Hold;
use crate::output::{Event, Output, Pending, Placement};
use crate::receiver::Receiver;
use crate::rtt::{INITIAL_RTO, RttEstimator};
use crate::segment::{Segment, unwrap, wrap};
use crate::sender::{Fragment, Report, Sender, SenderView};
use crate::state::State;

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    state: State,
    iss: SeqNum,
    sender: Sender,
    receiver: Receiver,
    negotiated: Negotiated,
    handshake: Handshake,
    timestamps: Clock,
    time_wait_until: Option<Time>,
    events: Pending,
    readable_told: bool,
    /// A bare segment that leaves before anything else.
    urgent: Option<Bare>,
    held: Hold,
    held_since: Time,
    held_for: [Duration; HOLDS],
}

const HOLDS: usize = Hold::Application as usize + 1;

/// What both SYNs agreed on.
#[derive(Clone, Copy, Debug, Default)]
struct Negotiated {
    /// Largest segment that the peer takes.
    mss: u16,
    /// By how much the peer's windows are shifted; `None` where not both scale.
    peer_shift: Option<u8>,
    sack: bool,
    timestamps: bool,
}

/// The SYN under way.
#[derive(Clone, Copy, Debug)]
struct Handshake {
    /// When it is sent again; `None` when there is none.
    due_at: Option<Time>,
    sent_at: Option<Time>,
    attempts: u32,
    send: bool,
}

/// RFC 7323 section 4: a clock of milliseconds, with an offset of its own for each connection.
#[derive(Clone, Copy, Debug)]
struct Clock {
    offset: u32,
    /// TS.Recent, and when it came.
    recent: Option<(u32, Time)>,
}

/// Segments without payload that need no place in a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Bare {
    /// An acknowledgement of where we are, also as the answer to something unacceptable.
    Ack,
    /// One byte before the window, which makes the peer answer (Linux `tcp_xmit_probe_skb`).
    WindowProbe,
    Reset,
}

/// RFC 9293 section 3.7.1: without an MSS option.
const DEFAULT_MSS: u16 = 536;
/// Room that timestamps take in every segment.
const TIMESTAMP_BYTES: u16 = 12;

// === impl Connection ===

impl Connection {
    /// Opens a connection; `iss` is the initial sequence number, which RFC 9293 section 3.4.1 asks to be
    /// hard to guess on a real network.
    #[must_use]
    pub fn connect(config: &Config, now: Time, iss: SeqNum) -> Self {
        let mut connection = Self::new(config, now, iss, State::SynSent);
        connection.handshake.send = true;
        connection
    }

    /// Answers a SYN; `None` where `segment` is none, or carries what a SYN to a listener must not.
    #[must_use]
    pub fn accept(config: &Config, now: Time, segment: &Segment, iss: SeqNum) -> Option<Self> {
        let flags = segment.flags;
        let listened = flags.contains(TcpFlags::SYN)
            && !flags.contains(TcpFlags::ACK)
            && !flags.contains(TcpFlags::RST)
            && !flags.contains(TcpFlags::FIN);
        if !listened {
            return None;
        }
        let mut connection = Self::new(config, now, iss, State::SynReceived);
        connection.take_syn(now, segment);
        connection.handshake.send = true;
        Some(connection)
    }

    fn new(config: &Config, now: Time, iss: SeqNum, state: State) -> Self {
        let segment = u32::from(full_segment(
            config.mss,
            config.timestamps && state == State::SynReceived,
        ));
        Self {
            config: config.clone(),
            state,
            iss,
            sender: Sender::new(config),
            receiver: Receiver::new(
                config.receive_buffer,
                config.ack_policy,
                segment,
                config.initial_cwnd,
                config.window_scaling,
            ),
            negotiated: Negotiated::default(),
            handshake: Handshake {
                due_at: None,
                sent_at: None,
                attempts: 0,
                send: false,
            },
            timestamps: Clock {
                // Any offset will do that differs between connections.
                offset: iss.get().rotate_left(16) ^ 0x5bd1_e995,
                recent: None,
            },
            time_wait_until: None,
            events: Pending::default(),
            readable_told: false,
            urgent: None,
            held: Hold::Handshake,
            held_since: now,
            held_for: [Duration::ZERO; HOLDS],
        }
    }

    // --- what the application does ---------------------------------------------------------------

    /// The state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Appends `bytes` bytes to the stream, as far as the send buffer has room, and returns how many.
    /// After a short write [`Event::Writable`] comes when a third of the buffer is free.
    pub fn write(&mut self, now: Time, bytes: u64) -> u64 {
        let open = !self.sender.is_closing() && self.state != State::Closed;
        if open {
            self.sender.write(now, bytes)
        } else {
            0
        }
    }

    /// Bytes that can be read.
    #[must_use]
    pub const fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Takes at most `most` bytes off the received stream and returns how many.
    pub fn read(&mut self, now: Time, most: u64) -> u64 {
        self.readable_told = false;
        self.receiver.read(now, most)
    }

    /// Sends a FIN behind what was written; data can still be received.
    pub fn close(&mut self) {
        match self.state {
            // RFC 9293 section 3.10.4 queues the FIN of SYN-RECEIVED until ESTABLISHED, and in SYN-SENT
            // forgets the connection with all that was written to it. We queue in both cases;
            // [`abort`](Self::abort) forgets.
            State::SynSent | State::SynReceived => self.sender.close(),
            State::Established => {
                self.sender.close();
                self.state = State::FinWait1;
            }
            State::CloseWait => {
                self.sender.close();
                self.state = State::LastAck;
            }
            State::FinWait1
            | State::FinWait2
            | State::Closing
            | State::LastAck
            | State::TimeWait
            | State::Closed => {}
        }
    }

    /// Ends the connection with a RST; what was written and not acknowledged is lost.
    pub fn abort(&mut self) {
        if self.state.synchronised() || self.state == State::SynReceived {
            self.urgent = Some(Bare::Reset);
        }
        self.state = State::Closed;
    }

    /// The sending half at this moment.
    #[must_use]
    pub fn sender(&self) -> SenderView {
        self.sender.view()
    }

    /// What keeps this end from sending more, and since when.
    #[must_use]
    pub const fn hold(&self) -> (Hold, Time) {
        (self.held, self.held_since)
    }

    /// For how long each reason has held this end back until `now`; the sum is its age.
    pub fn holds(&self, now: Time) -> impl Iterator<Item = (Hold, Duration)> + '_ {
        const ALL: [Hold; HOLDS] = [
            Hold::Handshake,
            Hold::Closing,
            Hold::Recovery,
            Hold::ReceiveWindow,
            Hold::SlowStart,
            Hold::CongestionAvoidance,
            Hold::Pacing,
            Hold::Nagle,
            Hold::SendBuffer,
            Hold::Propagation,
            Hold::Application,
        ];
        ALL.into_iter().zip(self.held_for).map(move |(hold, span)| {
            let current = if hold == self.held {
                now.since(self.held_since)
            } else {
                Duration::ZERO
            };
            (hold, span + current)
        })
    }

    // --- what the network does -------------------------------------------------------------------

    /// Takes a segment of the peer. The answer says where its payload belongs, if any of it is wanted.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment) -> Option<Placement> {
        match self.state {
            State::Closed => None,
            State::SynSent => {
                self.handle_in_syn_sent(now, segment);
                None
            }
            State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck
            | State::TimeWait => self.handle_synchronised(now, segment),
        }
    }

    /// To be called when the moment of [`Output::Timeout`] has come; harmless at any other.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.handshake.due_at.is_some_and(|at| at <= now) {
            self.handshake.due_at = None;
            if self.handshake.attempts > self.config.syn_retries {
                self.end(Event::TimedOut);
                return;
            }
            self.handshake.send = true;
        }
        if self.time_wait_until.is_some_and(|at| at <= now) {
            self.time_wait_until = None;
            self.state = State::Closed;
        }
        self.receiver.acks.on_timeout(now);
        if self.state.sends() {
            match self.sender.on_timeout(now) {
                Ok(false) => {}
                Ok(true) => self.urgent = Some(Bare::WindowProbe),
                Err(()) => self.end(Event::TimedOut),
            }
        }
    }

    /// What this end wants next; call until it answers [`Output::Timeout`].
    pub fn poll_output(&mut self, now: Time) -> Output {
        if let Some(bare) = self.urgent.take() {
            return self.transmit_bare(now, bare);
        }
        if self.handshake.send {
            self.handshake.send = false;
            return self.transmit_syn(now);
        }
        if self.state.sends()
            && let Some(fragment) = self.sender.poll(now)
        {
            return self.transmit_fragment(now, fragment);
        }
        if self.state.synchronised() && self.receiver.acks.now {
            return self.transmit_bare(now, Bare::Ack);
        }
        if let Some(event) = self.events.pop() {
            return Output::Event(event);
        }
        if self.state.sends() {
            self.sender.settle(now);
        }
        self.account(now);
        Output::Timeout(self.next_timeout(now))
    }

    fn next_timeout(&self, now: Time) -> Option<Time> {
        let earliest = |one: Option<Time>, other: Option<Time>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let mut at = earliest(self.handshake.due_at, self.time_wait_until);
        if self.state.synchronised() {
            at = earliest(at, self.receiver.acks.due_at);
        }
        if self.state.sends() {
            at = earliest(at, self.sender.timer());
            at = earliest(at, self.sender.paced_at(now));
        }
        at
    }

    /// Books the time since the last change to what held us back in it.
    fn account(&mut self, now: Time) {
        let hold = match self.state {
            State::SynSent | State::SynReceived => Hold::Handshake,
            State::Established | State::CloseWait => self.sender.hold(now),
            State::FinWait1 | State::Closing | State::LastAck => {
                let hold = self.sender.hold(now);
                let done = matches!(hold, Hold::Application | Hold::Propagation);
                if done { Hold::Closing } else { hold }
            }
            State::FinWait2 | State::TimeWait | State::Closed => Hold::Closing,
        };
        if hold != self.held {
            self.held_for[self.held as usize] += now.since(self.held_since);
            self.held = hold;
            self.held_since = now;
        }
    }

    // --- segments of the peer --------------------------------------------------------------------

    fn handle_in_syn_sent(&mut self, now: Time, segment: &Segment) {
        // RFC 9293 section 3.10.7.3.
        let acceptable = segment.ack.is_none_or(|ack| ack == wrap(1, self.iss));
        let (syn, reset) = (
            segment.flags.contains(TcpFlags::SYN),
            segment.flags.contains(TcpFlags::RST),
        );
        if reset {
            if acceptable && segment.ack.is_some() {
                self.end(Event::Reset);
            }
            return;
        }
        if !acceptable {
            // A reset for a segment of some older connection would need that segment's numbers; the
            // peer's own repetition of the SYN exchange resolves it without.
            return;
        }
        if !syn {
            return;
        }
        self.take_syn(now, segment);
        if segment.ack.is_some() {
            self.sample_handshake(now);
            self.establish(now, segment);
            self.receiver.acks.now = true;
        } else {
            // Both opened at once.
            self.state = State::SynReceived;
            self.handshake.send = true;
        }
    }

    fn take_syn(&mut self, now: Time, segment: &Segment) {
        let options = &segment.options;
        self.negotiated = Negotiated {
            mss: options.mss.unwrap_or(DEFAULT_MSS).max(64),
            peer_shift: options
                .window_scale
                .filter(|_| self.config.window_scaling)
                .map(|shift| shift.min(14)),
            sack: self.config.sack && options.sack_permitted,
            timestamps: self.config.timestamps && options.timestamps.is_some(),
        };
        self.timestamps.recent = options
            .timestamps
            .filter(|_| self.negotiated.timestamps)
            .map(|timestamps| (timestamps.value, now));
        self.receiver.synchronise(segment.seq);
    }

    fn sample_handshake(&mut self, now: Time) {
        // Karn's rule: only a SYN that was sent once tells the round trip.
        if let Some(sent_at) = self
            .handshake
            .sent_at
            .filter(|_| self.handshake.attempts == 1)
        {
            self.sender.rtt.sample(now, now.since(sent_at));
        } else if self.handshake.attempts > 1 {
            // RFC 6298 section 5.7: after a lost SYN, 3 s until the first sample.
            self.sender.rtt = RttEstimator::new(self.config.min_rto);
        }
    }

    fn establish(&mut self, now: Time, segment: &Segment) {
        self.state = State::Established;
        self.handshake.due_at = None;
        self.receiver
            .establish(now, self.negotiated.peer_shift.is_some());
        let mss = self.negotiated.mss.min(self.config.mss);
        let payload = full_segment(mss, self.negotiated.timestamps);
        // The window of a SYN is never scaled; that of the ACK which ends the handshake is.
        let shift = if segment.flags.contains(TcpFlags::SYN) {
            0
        } else {
            self.negotiated.peer_shift.unwrap_or(0)
        };
        let window = u64::from(segment.window) << shift;
        self.sender
            .establish(now, payload.into(), self.negotiated.sack, window, 1);
        self.events.push(Event::Established);
        if self.sender.is_closing() {
            self.state = State::FinWait1;
        }
    }

    fn handle_synchronised(&mut self, now: Time, segment: &Segment) -> Option<Placement> {
        let start = unwrap(segment.seq, self.receiver.next(), self.receiver.start)?;
        let syn = segment.flags.contains(TcpFlags::SYN);
        if self.state == State::SynReceived && syn && start == 0 && segment.ack.is_none() {
            // The SYN again: our answer was lost.
            self.handshake.send = true;
            return None;
        }
        if self.is_old(segment, now) {
            self.acknowledge();
            return None;
        }
        if !self.receiver.acceptable(start, segment.sequence_len()) {
            if !segment.flags.contains(TcpFlags::RST) {
                self.take_unacceptable(now, start, segment);
            }
            return None;
        }
        if segment.flags.contains(TcpFlags::RST) {
            //= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
            //# If the RST bit is set and the sequence number exactly matches the
            //# next expected sequence number (RCV.NXT), then TCP MUST reset the
            //# connection.
            if start == self.receiver.next() {
                self.end(Event::Reset);
            } else {
                self.acknowledge();
            }
            return None;
        }
        if syn {
            //= https://www.rfc-editor.org/rfc/rfc5961#section-4.2
            //# If the SYN bit is set, irrespective of the sequence number, TCP
            //# MUST send an ACK (also referred to as challenge ACK) to the remote
            //# peer
            self.acknowledge();
            return None;
        }
        self.remember_timestamp(now, segment, start);
        if !self.take_acknowledgement(now, segment, start) {
            return None;
        }
        self.take_payload(now, segment, start)
    }

    /// An unacceptable segment is answered with where we are; its ACK field may still be news.
    fn take_unacceptable(&mut self, now: Time, start: u64, segment: &Segment) {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
        //# If an incoming segment is not acceptable, an acknowledgment should be
        //# sent in reply (unless the RST bit is set, if so drop the segment and
        //# return)
        if self.state == State::TimeWait && segment.flags.contains(TcpFlags::FIN) {
            self.time_wait_until = Some(now + self.config.time_wait);
        }
        if segment.payload > 0 && start < self.receiver.next() {
            // All of it is old: say so by D-SACK.
            let fin = segment.flags.contains(TcpFlags::FIN);
            self.receiver
                .take(now, start, segment.payload, fin, false, Duration::ZERO);
        }
        self.acknowledge();
    }

    /// PAWS (RFC 7323 section 5.3): older than what was taken before.
    fn is_old(&self, segment: &Segment, now: Time) -> bool {
        let (Some(timestamps), Some((recent, at))) =
            (segment.options.timestamps, self.timestamps.recent)
        else {
            return false;
        };
        // After 24 days of silence the clock may have wrapped (section 5.5).
        let outdated = now.since(at) > Duration::from_hours(24 * 24);
        let before = SeqNum::new(timestamps.value).distance_from(SeqNum::new(recent)) < 0;
        before && !outdated && !segment.flags.contains(TcpFlags::RST)
    }

    fn remember_timestamp(&mut self, now: Time, segment: &Segment, start: u64) {
        //= https://www.rfc-editor.org/rfc/rfc7323#section-4.3
        //# (2) If:
        //#     SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent
        //#     then SEG.TSval is copied to TS.Recent; otherwise, the TSval is ignored.
        if let Some(timestamps) = segment.options.timestamps
            && self.negotiated.timestamps
            && start <= self.receiver.next()
        {
            self.timestamps.recent = Some((timestamps.value, now));
        }
    }

    /// Returns whether the segment is to be processed further.
    fn take_acknowledgement(&mut self, now: Time, segment: &Segment, start: u64) -> bool {
        // RFC 9293 section 3.10.7.4, fifth: without the ACK bit the segment is dropped.
        let Some(ack) = segment.ack else { return false };
        let Some(to) = unwrap(ack, self.sender.una().max(1), self.iss) else {
            self.acknowledge();
            return false;
        };
        if self.state == State::SynReceived {
            if to != 1 {
                self.urgent = Some(Bare::Reset);
                return false;
            }
            self.sample_handshake(now);
            self.establish(now, segment);
        }
        if to > self.sender.nxt() {
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
            //# If the ACK acks something not yet sent (SEG.ACK > SND.NXT),
            //# then send an ACK, drop the segment, and return.
            self.acknowledge();
            return false;
        }
        let shift = self.negotiated.peer_shift.unwrap_or(0);
        let echoed_at = self.echoed_at(now, segment);
        if let Some(at) = echoed_at {
            self.receiver.sample_rtt(segment.payload, now.since(at));
        }
        if to >= self.sender.una() {
            let report = Report {
                to,
                from: start,
                window: u64::from(segment.window) << shift,
                occupied: segment.sequence_len() > 0,
                echoed_at,
            };
            let (near, iss) = (self.sender.una(), self.iss);
            let place = |seq| unwrap(seq, near, iss);
            let blocks = segment
                .options
                .sack
                .iter()
                .filter_map(|(left, right)| Some((place(left)?, place(right)?)));
            self.sender.on_report(now, &report, blocks);
            if self.sender.take_writable() {
                self.events.push(Event::Writable);
            }
        }
        if self.sender.fin_acknowledged() {
            self.on_fin_acknowledged(now);
        }
        self.state != State::Closed
    }

    /// The moment at which the segment left that is echoed here, in whole milliseconds.
    fn echoed_at(&self, now: Time, segment: &Segment) -> Option<Time> {
        let timestamps = segment
            .options
            .timestamps
            .filter(|_| self.negotiated.timestamps)?;
        let age = self.timestamps.value(now).wrapping_sub(timestamps.echo);
        // An age of weeks is a peer that echoes nonsense.
        let age = Duration::from_millis(age.into());
        let millis = now.as_nanos() / 1_000_000;
        let back = u64::try_from(age.as_millis()).ok()?;
        millis.checked_sub(back).map(Time::from_millis)
    }

    fn take_payload(&mut self, now: Time, segment: &Segment, start: u64) -> Option<Placement> {
        let fin = segment.flags.contains(TcpFlags::FIN);
        if segment.payload == 0 && !fin {
            return None;
        }
        if !self.state.receives() {
            return None;
        }
        let pushed = segment.flags.contains(TcpFlags::PSH);
        let rto = self.sender.rtt.timeout();
        let taken = self
            .receiver
            .take(now, start, segment.payload, fin, pushed, rto);
        if taken.readable && !self.readable_told {
            self.readable_told = true;
            self.events.push(Event::Readable);
        }
        if taken.finished {
            self.on_peer_fin(now);
        }
        taken.placement
    }

    fn on_peer_fin(&mut self, now: Time) {
        self.events.push(Event::PeerClosed);
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            State::SynSent
            | State::SynReceived
            | State::CloseWait
            | State::Closing
            | State::LastAck
            | State::TimeWait
            | State::Closed => {}
        }
    }

    fn on_fin_acknowledged(&mut self, now: Time) {
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.end(Event::Closed),
            State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait2
            | State::CloseWait
            | State::TimeWait
            | State::Closed => {}
        }
    }

    fn enter_time_wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.time_wait_until = Some(now + self.config.time_wait);
        self.events.push(Event::Closed);
    }

    fn end(&mut self, event: Event) {
        self.state = State::Closed;
        self.handshake.due_at = None;
        self.handshake.send = false;
        self.time_wait_until = None;
        self.events.push(event);
    }

    fn acknowledge(&mut self) {
        if self.urgent.is_none() {
            self.urgent = Some(Bare::Ack);
        }
    }

    // --- segments of ours ------------------------------------------------------------------------

    fn transmit_syn(&mut self, now: Time) -> Output {
        let answer = self.state == State::SynReceived;
        self.handshake.sent_at = Some(now);
        let wait = INITIAL_RTO.saturating_mul(1 << self.handshake.attempts.min(7));
        self.handshake.attempts += 1;
        self.handshake.due_at = Some(now + wait);
        let offer = |ours: bool, theirs: bool| ours && (!answer || theirs);
        let timestamps = offer(self.config.timestamps, self.negotiated.timestamps);
        let scaling = offer(
            self.config.window_scaling,
            self.negotiated.peer_shift.is_some(),
        );
        let options = TcpOptions {
            mss: Some(self.config.mss),
            window_scale: scaling.then(|| self.receiver.shift()),
            sack_permitted: offer(self.config.sack, self.negotiated.sack),
            timestamps: timestamps.then(|| self.timestamps.option(now)),
            ..TcpOptions::default()
        };
        let flags = if answer {
            TcpFlags::SYN.union(TcpFlags::ACK)
        } else {
            TcpFlags::SYN
        };
        let segment = Segment {
            seq: self.iss,
            ack: answer.then(|| wrap(self.receiver.next(), self.receiver.start)),
            flags,
            window: self.receiver.offer_initial_window(),
            payload: 0,
            options,
        };
        Output::Transmit { segment, offset: 0 }
    }

    fn transmit_fragment(&mut self, now: Time, fragment: Fragment) -> Output {
        let mut flags = TcpFlags::ACK;
        if fragment.fin {
            flags = flags.union(TcpFlags::FIN);
        }
        if fragment.push && fragment.payload > 0 {
            flags = flags.union(TcpFlags::PSH);
        }
        if fragment.payload > 0 {
            self.receiver.acks.on_data_sent(now);
        }
        let segment = Segment {
            payload: fragment.payload,
            ..self.segment(now, fragment.start, flags)
        };
        Output::Transmit {
            segment,
            offset: fragment.start.saturating_sub(1),
        }
    }

    fn transmit_bare(&mut self, now: Time, bare: Bare) -> Output {
        let nxt = self.sender.nxt();
        let segment = match bare {
            Bare::Ack => self.segment(now, nxt, TcpFlags::ACK),
            Bare::WindowProbe => {
                let before = self.sender.una().saturating_sub(1);
                self.segment(now, before, TcpFlags::ACK)
            }
            Bare::Reset => self.segment(now, nxt, TcpFlags::RST.union(TcpFlags::ACK)),
        };
        Output::Transmit { segment, offset: 0 }
    }

    /// A segment from `start` that acknowledges where we are.
    fn segment(&mut self, now: Time, start: u64, flags: TcpFlags) -> Segment {
        let timestamps = self.negotiated.timestamps;
        let mut options = TcpOptions {
            timestamps: timestamps.then(|| self.timestamps.option(now)),
            ..TcpOptions::default()
        };
        if self.negotiated.sack && (self.receiver.has_ahead() || self.receiver.has_duplicate()) {
            // Forty bytes of options hold four blocks, or three beside timestamps.
            options.sack = self.receiver.sack_blocks(if timestamps { 3 } else { 4 });
        }
        let window = self.receiver.offer_window();
        Segment {
            seq: wrap(start, self.iss),
            ack: Some(wrap(self.receiver.next(), self.receiver.start)),
            flags,
            window,
            payload: 0,
            options,
        }
    }
}

// === impl Clock ===

impl Clock {
    fn value(&self, now: Time) -> u32 {
        let millis = now.as_nanos() / 1_000_000;
        wrap(millis, SeqNum::new(self.offset)).get()
    }

    fn option(&self, now: Time) -> Timestamps {
        Timestamps {
            value: self.value(now),
            echo: self.recent.map_or(0, |(value, _)| value),
        }
    }
}

/// Payload of a full segment within `mss`, which counts options as payload (RFC 6691).
const fn full_segment(mss: u16, timestamps: bool) -> u16 {
    if timestamps {
        mss.saturating_sub(TIMESTAMP_BYTES)
    } else {
        mss
    }
}

#[cfg(test)]
impl Connection {
    pub(crate) fn assert_consistent(&self) {
        self.sender.board.assert_consistent();
    }
}
