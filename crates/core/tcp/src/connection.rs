mod incoming;
mod keep_alive;
mod outgoing;

use core::time::Duration;

use units::{SeqNum, Time};
use wire::{TcpFlags, Timestamps};

use crate::config::Config;
use crate::hold::Hold;
use crate::output::{Event, Output, Pending, Placement};
use crate::receiver::Receiver;
use crate::segment::{Segment, wrap};
use crate::sender::{Sender, SenderView};
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
    /// When something unacceptable without data was last answered.
    unacceptable_at: Option<Time>,
    challenges: Challenges,
    keep_alive: Probing,
    /// A congestion mark came, and the peer has not yet said that it reduced its window.
    echo_mark: bool,
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
    /// Whether both ends take congestion marks.
    ecn: bool,
}

/// Answers to segments that may be forged, and since when they are counted.
#[derive(Clone, Copy, Debug, Default)]
struct Challenges {
    since: Time,
    count: u32,
}

/// Whether a silent peer is still there.
#[derive(Clone, Copy, Debug, Default)]
struct Probing {
    /// When the peer was last heard.
    heard_at: Time,
    sent: u32,
    sent_at: Time,
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

/// `TCP_MIN_SND_MSS`: whoever says less wants every byte in a packet of its own.
const LEAST_MSS: u16 = 48;
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
            receiver: Receiver::new(config, segment),
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
            unacceptable_at: None,
            challenges: Challenges::default(),
            keep_alive: Probing {
                heard_at: now,
                ..Probing::default()
            },
            echo_mark: false,
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

    /// Whether an acknowledgement is to be sent at once. Nothing else can come of a
    /// [`read`](Self::read).
    #[must_use]
    pub const fn owes_acknowledgement(&self) -> bool {
        self.receiver.acks.now
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

    /// The path carries IP packets of `mtu` bytes at most, of which the IP header takes `ip_header` (20
    /// for IPv4, 40 for IPv6). Segments only ever become smaller; what is under way and too long is cut
    /// and sent again at once. The caller has made sure that the news concerns this connection: RFC 5927
    /// section 4 says how.
    pub fn set_path_mtu(&mut self, now: Time, mtu: u16, ip_header: u16) {
        let mss = mtu.saturating_sub(ip_header).saturating_sub(20);
        let payload = full_segment(mss.max(LEAST_MSS), self.negotiated.timestamps);
        self.sender.limit_segments(now, payload.into());
    }

    // --- what the network does -------------------------------------------------------------------

    /// Takes a segment of the peer. The answer says where its payload belongs, if any of it is wanted.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment) -> Option<Placement> {
        self.keep_alive.heard_at = now;
        self.keep_alive.sent = 0;
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
        self.probe_silence(now);
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
            at = earliest(at, self.probe_at());
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

#[cfg(any(test, feature = "fuzz"))]
impl Connection {
    pub(crate) fn assert_consistent(&self) {
        self.sender.board.assert_consistent();
    }

    /// By how much the windows are shifted that this end announces after its SYN.
    pub(crate) const fn window_shift(&self) -> u8 {
        self.receiver.shift()
    }
}
