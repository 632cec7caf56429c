mod delivery_rate;
mod reports;
mod spurious;
mod timers;
mod validation;

use alloc::boxed::Box;
use core::time::Duration;

use congestion::{Controller, Parameters};
use units::{Rate, Time};

use crate::config::{Config, Pacing};
use crate::hold::Hold;
use crate::probes::{Purpose, TailProbe, Timer};
use crate::recovery::{Phase, Rack, Reduction};
use crate::rtt::RttEstimator;
use crate::scoreboard::{Fate, Scoreboard, Sent};
use crate::sender::delivery_rate::RateState;
use crate::sender::spurious::{TimeoutCheck, Undo};
use crate::sender::validation::{Pipe, Usage};

/// The sending half: what may leave, what is lost, and when to ask.
///
/// Offsets count from our SYN, so the first byte of data is 1.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, not states of one machine"
)]
pub(crate) struct Sender {
    config: Config,
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) board: Scoreboard,
    pub(crate) rtt: RttEstimator,
    /// Payload of a full segment.
    mss: u32,
    sack: bool,
    /// Whether both ends take congestion marks, and whether the peer must be told of a reduction.
    ecn: bool,
    tell_reduction: bool,
    /// First unacknowledged (SND.UNA), next to be sent (SND.NXT), end of what was written.
    una: u64,
    nxt: u64,
    written: u64,
    /// Whether a FIN follows what was written.
    closing: bool,
    refused: bool,
    /// What may be written beyond what is acknowledged, at this moment.
    send_buffer: u64,
    /// End of the last segment sent short of the MSS.
    short_end: u64,
    window: Window,
    phase: Phase,
    reduction: Option<Reduction>,
    /// A repair leaves next, whatever is in flight.
    repair_owed: bool,
    rack: Rack,
    timer: Option<Timer>,
    tail_probe: Option<TailProbe>,
    probe_due: bool,
    /// A window too small for a full segment is used all the same, once.
    crumb_due: bool,
    window_probes: u32,
    timeouts: u32,
    duplicate_acks: u32,
    /// RFC 6582 section 3.2 step 1: recovery does not begin again below this.
    recover: u64,
    first_repair_at: Option<Time>,
    undo: Option<Undo>,
    timeout_check: TimeoutCheck,
    pacer: Pacer,
    rate: RateState,
    usage: Usage,
    pipe: Pipe,
    last_sent_at: Option<Time>,
    counters: Counters,
}

/// What the peer allows.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// Right edge.
    edge: u64,
    /// Peer's offset and our offset at the last update (SND.WL1, SND.WL2).
    from: u64,
    acked: u64,
    largest: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pacer {
    next_at: Time,
    /// Segments that may follow at once, in the packet that the last one was a part of.
    burst: u32,
}

/// What a packet that a device cuts may hold in bytes (`GSO_LEGACY_MAX_SIZE`, headers taken off).
const MOST_OFFLOADED: u64 = 65_000;
/// Below this rate in bit/s segments leave alone (`bbr_min_tso_rate`).
const LEAST_OFFLOADED: u64 = 1_200_000;

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    retransmissions: u64,
    segments: u64,
    timeouts: u64,
    spurious: u64,
}

/// A look at a sender, as `TCP_INFO` gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderView {
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; `u32::MAX` where none was set.
    pub ssthresh: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Payload of a full segment.
    pub mss: u32,
    /// Bytes sent and not acknowledged.
    pub outstanding: u64,
    /// Bytes that the peer's window still allows.
    pub window: u64,
    /// Smoothed RTT.
    pub smoothed_rtt: Option<Duration>,
    /// Smallest RTT.
    pub min_rtt: Option<Duration>,
    /// Bytes acknowledged since the beginning.
    pub acknowledged: u64,
    /// Data segments sent, repetitions included.
    pub segments: u64,
    /// Data segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reductions that were taken back as spurious.
    pub spurious: u64,
}

/// What an acknowledgement field tells, with the peer's offset of the segment that carried it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) window: u64,
    /// Whether the segment carried data, SYN or FIN, so that it cannot be a duplicate ACK.
    pub(crate) occupied: bool,
    /// Whether the peer echoes a congestion mark.
    pub(crate) marked: bool,
    /// When the segment that is echoed left, in whole milliseconds, where timestamps are in use.
    pub(crate) echoed_at: Option<Time>,
}

/// A data segment to be sent.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what a header says, bit by bit"
)]
pub(crate) struct Fragment {
    pub(crate) start: u64,
    pub(crate) payload: u32,
    pub(crate) fin: bool,
    pub(crate) push: bool,
    /// Whether it was sent before.
    pub(crate) repeated: bool,
    /// Whether it tells the peer that the window was reduced (CWR).
    pub(crate) reduced: bool,
}

/// `TCP_INIT_CWND`: a send buffer holds twice as many segments at least.
const LEAST_BUFFERED: u32 = 10;

// === impl Sender ===

impl Sender {
    pub(crate) fn new(config: &Config) -> Self {
        let mss = u32::from(config.mss);
        let mut sender = Self {
            controller: start(config, mss),
            board: Scoreboard::default(),
            rtt: RttEstimator::new(config.min_rto),
            mss,
            sack: false,
            ecn: false,
            tell_reduction: false,
            una: 0,
            nxt: 1,
            written: 1,
            closing: false,
            refused: false,
            send_buffer: 0,
            short_end: 0,
            window: Window::default(),
            phase: Phase::Open,
            reduction: None,
            repair_owed: false,
            rack: Rack::new(),
            timer: None,
            tail_probe: None,
            probe_due: false,
            crumb_due: false,
            window_probes: 0,
            timeouts: 0,
            duplicate_acks: 0,
            recover: 0,
            first_repair_at: None,
            undo: None,
            timeout_check: TimeoutCheck::Off,
            pacer: Pacer::default(),
            rate: RateState::default(),
            usage: Usage::default(),
            pipe: Pipe::default(),
            last_sent_at: None,
            counters: Counters::default(),
            config: config.clone(),
        };
        sender.expand_buffer();
        sender
    }

    /// The handshake is complete: `mss` is what a full segment carries, `window` what the peer offered.
    pub(crate) fn establish(
        &mut self,
        now: Time,
        mss: u32,
        (sack, ecn): (bool, bool),
        window: u64,
        from: u64,
    ) {
        self.mss = mss.max(1);
        self.sack = sack;
        self.ecn = ecn;
        self.una = 1;
        self.controller = start(&self.config, self.mss);
        self.expand_buffer();
        self.window = Window {
            edge: 1 + window,
            from,
            acked: 1,
            largest: window,
        };
        self.rate.delivered_at = now;
        self.rate.flight_started_at = now;
        self.usage.since = now;
    }

    pub(crate) const fn una(&self) -> u64 {
        self.una
    }

    /// Whether `ack` is older than any window that the peer has offered (RFC 5961 section 5.2).
    pub(crate) const fn is_ancient(&self, ack: u64) -> bool {
        ack.saturating_add(self.window.largest) < self.una
    }

    pub(crate) const fn nxt(&self) -> u64 {
        self.nxt
    }

    pub(crate) fn view(&self) -> SenderView {
        SenderView {
            cwnd: self.cwnd(),
            ssthresh: self.controller.ssthresh(),
            in_flight: self.in_flight(),
            mss: self.mss,
            outstanding: self.nxt - self.una.min(self.nxt),
            window: self.window.edge.saturating_sub(self.nxt),
            smoothed_rtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min(),
            acknowledged: self.una.saturating_sub(1),
            segments: self.counters.segments,
            retransmissions: self.counters.retransmissions,
            timeouts: self.counters.timeouts,
            spurious: self.counters.spurious,
        }
    }

    /// Payload of a segment at most, beside the options that every segment has.
    pub(crate) const fn mss(&self) -> u32 {
        self.mss
    }

    /// Accepts at most `bytes` and returns how many.
    pub(crate) fn write(&mut self, now: Time, bytes: u64) -> u64 {
        let held = self.written - self.una.clamp(1, self.written);
        let room = self.send_buffer.saturating_sub(held);
        let accepted = bytes.min(room);
        self.refused = accepted < bytes;
        if accepted > 0 {
            self.restart_if_idle(now);
            self.written += accepted;
        }
        accepted
    }

    /// Whether a write that was refused would find room for something worth waking up for.
    pub(crate) fn take_writable(&mut self) -> bool {
        if !self.refused {
            return false;
        }
        if self.config.send_buffer_grows && self.has_room_for_more() {
            self.expand_buffer();
        }
        let held = self.written - self.una.clamp(1, self.written);
        // `sk_stream_is_writeable`: a third of the buffer is free.
        let writable = held.saturating_mul(3) <= self.send_buffer.saturating_mul(2);
        if writable {
            self.refused = false;
        }
        writable
    }

    /// Whether the congestion window has room when all is sent that may be: then the buffer was too small
    /// (`tcp_should_expand_sndbuf`).
    fn has_room_for_more(&self) -> bool {
        let unsent = self.written - self.nxt.min(self.written);
        let sendable = unsent.min(self.window.edge.saturating_sub(self.nxt));
        let segments = narrow(sendable.div_ceil(u64::from(self.mss)));
        let in_flight = self.in_flight().saturating_add(segments);
        in_flight < self.cwnd() || self.controller.pacing_rate().is_some()
    }

    /// `tcp_sndbuf_expand`: room for as many windows as the algorithm wants, every segment in memory of
    /// its own. Large writes share memory, so that the payload may be nearly as much.
    fn expand_buffer(&mut self) {
        let most = self.config.send_buffer.get();
        if !self.config.send_buffer_grows {
            self.send_buffer = most;
            return;
        }
        // Headers and the list of fragments, then the segment's description.
        let memory = (u64::from(self.mss) + 640).next_power_of_two() + 256;
        let segments = u64::from(self.cwnd().max(LEAST_BUFFERED));
        let windows = u64::from(self.controller.buffered_windows());
        let wanted = windows.saturating_mul(segments).saturating_mul(memory);
        self.send_buffer = self.send_buffer.max(wanted.min(most));
    }

    pub(crate) const fn close(&mut self) {
        self.closing = true;
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether our FIN has been sent and acknowledged.
    pub(crate) const fn fin_acknowledged(&self) -> bool {
        self.closing && self.una > self.written
    }

    /// Whether there is data, or a FIN, that has never been sent.
    const fn has_new(&self) -> bool {
        self.nxt < self.end()
    }

    /// Offset after all that is to be sent, the FIN included.
    const fn end(&self) -> u64 {
        if self.closing {
            self.written + 1
        } else {
            self.written
        }
    }

    pub(crate) const fn timer(&self) -> Option<Time> {
        match self.timer {
            Some(timer) => Some(timer.at),
            None => None,
        }
    }

    /// The next moment at which a paced segment may leave, new or repeated, while one waits for that
    /// alone.
    pub(crate) fn paced_at(&self, now: Time) -> Option<Time> {
        if !self.blocked_by_pacing(now) {
            return None;
        }
        let waits = (self.board.lost() > 0 && self.has_room_for_repair())
            || (self.has_room_for_new() && self.next_payload().is_ok());
        waits.then_some(self.pacer.next_at)
    }

    fn cwnd(&self) -> u32 {
        match self.reduction {
            Some(reduction) => reduction.cwnd,
            None => self.controller.cwnd(),
        }
    }

    /// Segments in flight; without SACK every duplicate ACK stands for one that arrived (RFC 6582).
    fn in_flight(&self) -> u32 {
        let arrived = if self.sack { 0 } else { self.duplicate_acks };
        self.board.in_flight().saturating_sub(arrived)
    }

    // --- what leaves -----------------------------------------------------------------------------

    /// The next data segment that may leave at `now`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Fragment> {
        if self.probe_due {
            self.probe_due = false;
            if let Some(fragment) = self.probe_tail(now) {
                return Some(fragment);
            }
        }
        if self.blocked_by_pacing(now) {
            return None;
        }
        if self.timeout_check == TimeoutCheck::NewData {
            if self.in_flight() < self.cwnd()
                && let Ok(payload) = self.next_payload()
            {
                return Some(self.send_new(now, payload));
            }
            if matches!(self.phase, Phase::Loss { until } if self.nxt > until) {
                return None;
            }
            // There is nothing new that could tell.
            self.timeout_check = TimeoutCheck::Off;
        }
        if self.board.lost() > 0 && self.has_room_for_repair() && self.board.has_repairs() {
            let stamp = self.stamp(now);
            if let Some(sent) = self.board.repair(now, stamp) {
                self.on_repair(now, &sent);
                return Some(self.repetition(&sent));
            }
        }
        let payload = self.next_payload().ok()?;
        if !self.has_room_for_new() {
            return None;
        }
        Some(self.send_new(now, payload))
    }

    /// Payload of the next new segment, or what stands against it apart from the congestion window.
    fn next_payload(&self) -> Result<u32, Hold> {
        if !self.has_new() {
            return Err(self.nothing_new());
        }
        let unsent = self.written - self.nxt.min(self.written);
        let room = self.window.edge.saturating_sub(self.nxt);
        let wanted = unsent.min(u64::from(self.mss));
        if wanted > room {
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.2.1
            //# (1) if a maximum-sized segment can be sent, i.e., if:
            //#        min(D,U) >= Eff.snd.MSS
            // or at least half of the largest window ever seen (case 3); else wait for more room, or for
            // the override timeout (case 4).
            let crumb = self.config.silly_window_avoidance && !self.crumb_due;
            if room == 0 || (crumb && room * 2 < self.window.largest) {
                return Err(Hold::ReceiveWindow);
            }
            return Ok(narrow(room));
        }
        if wanted < u64::from(self.mss) && self.config.nagle && !self.closing {
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.4
            //# If there is unacknowledged data (i.e., SND.NXT > SND.UNA), then the
            //# sending TCP endpoint buffers all user data (regardless of the PSH
            //# bit) until the outstanding data has been acknowledged or until the
            //# TCP endpoint can send a full-sized segment (Eff.snd.MSS bytes).
            // Linux, and we, hold a short segment only behind another short one (Minshall's variant).
            if self.short_end > self.una {
                return Err(Hold::Nagle);
            }
        }
        Ok(narrow(wanted))
    }

    fn send_new(&mut self, now: Time, payload: u32) -> Fragment {
        let start = self.nxt;
        let end = start + u64::from(payload);
        let fin = self.closing && end == self.written;
        let len = payload + u32::from(fin);
        let stamp = self.stamp(now);
        let was_empty = self.board.outstanding() == 0;
        self.board.push(Sent {
            start,
            len,
            fin,
            fate: Fate::InFlight,
            transmissions: 1,
            repaired: false,
            at: now,
            stamp,
        });
        self.crumb_due = false;
        self.nxt = start + u64::from(len);
        if payload < self.mss {
            self.short_end = self.nxt;
        }
        self.on_transmit(now, payload);
        if was_empty
            || self
                .timer
                .is_none_or(|timer| timer.purpose != Purpose::Reorder)
        {
            self.arm(now);
        }
        Fragment {
            start,
            payload,
            fin,
            push: end == self.written || fin,
            repeated: false,
            //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.2
            //# When an ECN-Capable TCP sender reduces its congestion window for any
            //# reason (because of a retransmit timeout, a Fast Retransmit, or in
            //# response to an ECN Notification), the TCP sender sets the CWR flag in
            //# the TCP header of the first new data packet sent after the window
            //# reduction.
            reduced: payload > 0 && core::mem::take(&mut self.tell_reduction),
        }
    }

    fn repetition(&self, sent: &Sent) -> Fragment {
        Fragment {
            start: sent.start,
            payload: sent.len - u32::from(sent.fin),
            fin: sent.fin,
            push: sent.end() == self.nxt,
            repeated: true,
            reduced: false,
        }
    }

    /// The path carries segments of `mss` bytes of payload at most. What is under way and longer is cut
    /// and sent again; the window stays, because nothing speaks of congestion (RFC 1191 section 6.4).
    pub(crate) fn limit_segments(&mut self, now: Time, mss: u32) {
        let mss = mss.max(1);
        if mss >= self.mss {
            return;
        }
        self.mss = mss;
        if self.board.cut(mss) {
            self.phase = Phase::Loss { until: self.nxt };
            self.recover = self.nxt;
            self.reduction = None;
            self.timeout_check = TimeoutCheck::Off;
            self.undo = None;
            self.tail_probe = None;
            self.arm(now);
        }
    }

    fn on_repair(&mut self, now: Time, sent: &Sent) {
        self.counters.retransmissions += 1;
        self.repair_owed = false;
        if let Some(undo) = &mut self.undo {
            undo.on_repair();
        }
        self.first_repair_at = self.first_repair_at.or(Some(now));
        self.on_transmit(now, sent.len);
        // A repair is a packet of its own.
        self.pacer.burst = 0;
        if self
            .timer
            .is_none_or(|timer| timer.purpose != Purpose::Reorder)
        {
            self.arm(now);
        }
    }

    fn on_transmit(&mut self, now: Time, payload: u32) {
        self.counters.segments += 1;
        self.usage.sent = true;
        self.last_sent_at = Some(now);
        if let Some(reduction) = &mut self.reduction {
            reduction.on_sent();
        }
        if let Some(rate) = self.pacing_rate() {
            // Segments are far below the 2 GiB from which on this would saturate.
            let bits = u64::from(payload).saturating_mul(8_000_000_000);
            let gap = Duration::from_nanos(bits / rate.bits_per_s().max(1));
            if self.pacer.next_at <= now {
                self.pacer.next_at = now;
                self.pacer.burst = self.burst(rate);
            }
            self.pacer.next_at += gap;
            self.pacer.burst = self.pacer.burst.saturating_sub(1);
        }
    }

    /// Segments that leave in one packet at `rate` (`tcp_tso_autosize`).
    fn burst(&self, rate: Rate) -> u32 {
        if !self.config.segmentation_offload || rate.bits_per_s() < LEAST_OFFLOADED {
            return 1;
        }
        // A millisecond's worth (`sk_pacing_shift`), and more where the path is so short that bursts do no
        // harm (`tcp_tso_rtt_log`).
        let millisecond = rate.bytes_per_s() >> 10;
        let halvings = self.rtt.min().map_or(u128::MAX, |rtt| rtt.as_micros() >> 9);
        let short = u32::try_from(halvings).ok();
        let short = short.and_then(|halvings| MOST_OFFLOADED.checked_shr(halvings));
        let bytes = millisecond + short.unwrap_or(0);
        narrow(bytes.min(MOST_OFFLOADED) / u64::from(self.mss)).max(2)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let own = self.controller.pacing_rate();
        match self.config.pacing {
            Pacing::Off => own,
            Pacing::AtMost(most) => Some(own.map_or(most, |rate| rate.min(most))),
            Pacing::Window => own.or_else(|| {
                let rtt = self.rtt.smoothed()?.as_nanos();
                // `tcp_pacing_ss_ratio` 200 and `tcp_pacing_ca_ratio` 120.
                let percent = if self.controller.cwnd() < self.controller.ssthresh() / 2 {
                    200
                } else {
                    120
                };
                let bits = u128::from(self.cwnd()) * u128::from(self.mss) * 8 * percent;
                let rate = (bits * 10_000_000).checked_div(rtt)?;
                u64::try_from(rate).ok().map(Rate::bit_per_s)
            }),
        }
    }

    /// Whether the next segment is further ahead of its time than may be. Whoever waits does so until its
    /// very time, so that a whole quantum follows, and the rate stays exact.
    fn blocked_by_pacing(&self, now: Time) -> bool {
        let early = self.pacer.next_at > now && self.pacer.burst == 0;
        early && self.pacer.next_at > now + self.config.pacing_quantum
    }

    fn has_room_for_repair(&self) -> bool {
        self.repair_owed || self.in_flight() < self.cwnd()
    }

    //= https://www.rfc-editor.org/rfc/rfc3042#section-2
    //# When a TCP sender has previously unsent data queued for transmission
    //# it SHOULD use the Limited Transmit algorithm, which calls for a TCP
    //# sender to transmit new data upon the arrival of the first two
    //# consecutive duplicate ACKs when the following conditions are
    //# satisfied:
    // What is reported, or stands for a duplicate ACK, leaves the flight, and a new segment takes its place. Without
    // limited transmit it does so only once a loss is known.
    fn has_room_for_new(&self) -> bool {
        let flight = if self.phase == Phase::Open && !self.config.limited_transmit {
            self.board.outstanding()
        } else {
            self.in_flight()
        };
        flight < self.cwnd()
    }

    const fn nothing_new(&self) -> Hold {
        if self.nxt > self.una {
            if self.refused {
                Hold::SendBuffer
            } else {
                Hold::Propagation
            }
        } else {
            Hold::Application
        }
    }
}

fn start(config: &Config, mss: u32) -> Box<dyn Controller> {
    config.algorithm.start(&Parameters {
        initial_cwnd: config.initial_cwnd,
        initial_ssthresh: config
            .initial_ssthresh
            .map(|bytes| narrow(bytes.get() / u64::from(mss.max(1))).max(2)),
        mss,
        paced: config.pacing != Pacing::Off,
        seed: config.seed,
        tuning: config.tuning,
    })
}

/// Timestamps count whole milliseconds.
fn floor_millis(at: Time) -> Time {
    Time::from_millis(at.as_nanos() / 1_000_000)
}

fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
