use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use units::{SeqNum, Time};
use wire::{Segment, TcpFlags};

use crate::packet::{Mark, Repeat, Role};
use crate::ranges::Ranges;

/// What a SYN offered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SynOptions {
    /// Maximum segment size in bytes.
    pub mss: Option<u16>,
    /// Window-scale shift, at most 14.
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: bool,
    /// The window field, never scaled on a SYN.
    pub window: u16,
    /// Time to live or hop limit at the tap, where captured.
    pub ttl: Option<u8>,
}

/// One round-trip sample: the span from a segment to the ACK that names its last byte, as the tap saw
/// them. It covers the path from the tap to the receiver and back, not the way to the sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RttSample {
    /// When the ACK was seen.
    pub at: Time,
    /// The span.
    pub rtt: Duration,
}

/// One direction of a connection: the bytes one side sent, and what came back for them.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// The side's SYN or SYN-ACK, where captured.
    pub syn: Option<SynOptions>,
    /// Packets from this side.
    pub packets: u64,
    /// Packets with payload.
    pub segments: u64,
    /// Payload bytes in all of them, copies by the capture left out.
    pub payload_bytes: u64,
    /// Position of the stream's first byte: zero, or the first one known where the SYN is missing.
    pub start: i64,
    /// Position after the last byte sent.
    pub end: i64,
    /// Distinct bytes that the capture holds.
    pub seen_bytes: u64,
    /// Bytes sent again.
    pub repeated_bytes: u64,
    /// Segments with bytes sent again, as indices into [`crate::Connection::packets`].
    pub repeats: Vec<usize>,
    /// Segments that came late but were not sent again.
    pub out_of_order: u64,
    /// Packets that the capture saw twice.
    pub copies: u64,
    /// Segments with numbers outside any window.
    pub strays: u64,
    /// Bare ACKs from this side.
    pub pure_acks: u64,
    /// D-SACK blocks that this side sent: bytes which it received twice.
    pub duplicate_sacks: u64,
    /// Highest position which the peer acknowledged.
    pub acked: Option<i64>,
    /// Round-trip samples by Karn's rule, from bare ACKs only: an ACK that rides on data may have waited
    /// for the application.
    pub rtt: Vec<RttSample>,
    /// The shortest of them, those of earlier parts of the connection included.
    pub least_rtt: Option<Duration>,
    /// Smallest and largest window field behind the SYN, as sent.
    pub window_fields: Option<(u16, u16)>,
    /// Largest payload in one packet; above the MSS it shows offload.
    pub largest_segment: u32,
    /// How many segments are as large as that.
    pub largest_segments: u64,
    /// How many of those came directly behind another one that was not pushed: a cut stream does that, and
    /// messages of one size do not.
    pub largest_in_row: u64,
    /// IP and TCP header bytes of its latest data segment; zero where the source does not say.
    pub header_len: u16,
    /// Round-trip samples by echoed timestamps, in microseconds: from the segment whose timestamp an ACK echoes that
    /// moves the edge on. They also tell of segments that were sent again (RFC 7323 §4).
    pub stamped_us: Vec<u32>,
    /// Largest number of bytes sent and acknowledged neither by number nor by SACK blocks, at the tap.
    pub max_in_flight: u64,
    /// First and last packet with payload.
    pub data: Option<(Mark, Mark)>,
    /// The first FIN.
    pub fin: Option<Mark>,
    /// The first SACK block of each of the peer's ACKs that has one beyond its edge.
    pub sacked: Vec<SackedRange>,
    /// The first RST.
    pub reset: Option<Mark>,
}

/// What the peer holds beyond a hole, as one of its ACKs says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SackedRange {
    /// When the ACK was seen.
    pub at: Time,
    /// Position of its first byte.
    pub from: i64,
    /// Position after its last byte.
    pub to: i64,
}

impl Flow {
    /// Distinct bytes by sequence number, whether or not the capture holds them all.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.start.abs_diff(self.end)
    }

    /// Bytes within the stream that the capture does not hold. Where the peer acknowledged them, it is
    /// the capture that lost them, not the network.
    #[must_use]
    pub const fn unseen_bytes(&self) -> u64 {
        self.bytes().saturating_sub(self.seen_bytes)
    }
}

/// The working state behind a [`Flow`].
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowState {
    pub(crate) flow: Flow,
    /// A sequence number and its position, moved along so that differences stay below 2^31.
    anchor: Option<(SeqNum, i64)>,
    seen: Ranges,
    /// Segments whose ACK would give a round-trip sample: end, time, and whether any of it was repeated.
    outstanding: VecDeque<Outstanding>,
    /// What the peer holds beyond a hole, as its SACK blocks say.
    held: Ranges,
    /// Recent packets, to know a copy when it comes.
    recent: Recent,
    /// Where each hole ends, ascending, and when data beyond it was seen first.
    holes: VecDeque<(i64, Time)>,
    /// Where the latest piece that came late ended.
    late_to: Option<i64>,
    /// ACKs of this flow's data that did not advance, since the last that did.
    duplicate_acks: u32,
    /// Whether the peer's SACK blocks point beyond the acknowledged edge.
    peer_holds_more: bool,
    /// Last new data, repeat, or advance of the acknowledged edge.
    last_progress_at: Option<Time>,
    /// Positions below this are repaired within the current recovery.
    recovery: Option<(i64, Repeat)>,
    /// The receiver has closed its window.
    zero_window: bool,
    /// Payload of the latest data segment, where more of its message was to follow.
    pub(crate) cut_len: Option<u32>,
    /// Timestamps of this side that the peer may still echo, each with the first packet that bore it.
    stamps: VecDeque<(u32, Time)>,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    to: i64,
    at: Time,
    repeated: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Identity {
    ip_id: u16,
    seq: u32,
    ack: Option<u32>,
    window: u16,
    len: u32,
    flags: TcpFlags,
}

/// The latest packets of a side. Their identifications stand apart, since each packet is compared with all of
/// them and differs from nearly all by that alone.
#[derive(Clone, Debug)]
struct Recent {
    ids: [u16; RECENT],
    identities: Vec<Identity>,
    /// Where the next one goes.
    next: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            ids: [0; RECENT],
            identities: Vec::new(),
            next: 0,
        }
    }
}

impl Recent {
    /// Whether this packet is among the latest; if not, it is from now on.
    fn holds_or_takes(&mut self, identity: Identity) -> bool {
        // Zero stands for no packet: those have no identification that could be compared.
        if self.ids.contains(&identity.ip_id) && self.identities.contains(&identity) {
            return true;
        }
        if let Some(id) = self.ids.get_mut(self.next) {
            *id = identity.ip_id;
        }
        match self.identities.get_mut(self.next) {
            Some(place) => *place = identity,
            None => self.identities.push(identity),
        }
        self.next = (self.next + 1) % RECENT;
        false
    }
}

/// Farther than any window allows (RFC 7323 §2.3 limits windows to 2^30 bytes).
const MAX_JUMP: i64 = 1 << 30;
/// Copies made by a capture follow within few packets.
const RECENT: usize = 64;
/// Segments kept for round-trip samples: a window of 1 GiB of full segments is larger, but then samples
/// are plenty.
const MAX_OUTSTANDING: usize = 65_536;
/// Holes kept at a time, for when they appeared: more than a round trip of dense losses leaves.
const MAX_HOLES: usize = 4_096;
/// Timestamps tick once per millisecond: more than a second's worth.
const MAX_STAMPS: usize = 2_048;
/// tshark's rule: what fills a hole within 3 ms, or the path's RTT where that is known, came late.
const REORDERING: Duration = Duration::from_millis(3);
/// Linux never waits less before it retransmits by timer (`TCP_RTO_MIN`, include/net/tcp.h).
const MIN_RTO: Duration = Duration::from_millis(200);

impl FlowState {
    /// The position of `seq` in this stream; `None` if no window reaches there.
    pub(crate) fn position(&mut self, seq: SeqNum) -> Option<i64> {
        let (anchor, at) = *self.anchor.get_or_insert((seq, 0));
        let distance = i64::from(seq.distance_from(anchor));
        if distance.abs() > MAX_JUMP {
            return None;
        }
        Some(at.saturating_add(distance))
    }

    /// The first byte after a SYN is position zero.
    pub(crate) fn on_syn(&mut self, segment: &Segment<'_>) {
        let first_byte = segment.seq + 1;
        if self.flow.syn.is_none() {
            self.anchor = Some((first_byte, 0));
            self.flow.start = 0;
            self.flow.end = self.flow.end.max(0);
        }
        self.flow.syn = Some(SynOptions {
            mss: segment.options.mss,
            window_scale: segment.options.window_scale.map(|shift| shift.min(14)),
            sack_permitted: segment.options.sack_permitted,
            timestamps: segment.options.timestamps.is_some(),
            window: segment.window,
            ttl: segment.ttl,
        });
    }

    /// Whether this very packet was seen before. Retransmissions by Linux, Windows and the BSDs carry a
    /// new IP identification; where there is none, or it is always zero, nothing is called a copy.
    pub(crate) fn is_copy(&mut self, segment: &Segment<'_>) -> bool {
        let Some(ip_id) = segment.ip_id.filter(|id| *id != 0) else {
            return false;
        };
        let identity = Identity {
            ip_id,
            seq: segment.seq.get(),
            ack: segment.ack.map(SeqNum::get),
            window: segment.window,
            len: segment.payload_len,
            flags: segment.flags,
        };
        let copy = self.recent.holds_or_takes(identity);
        self.flow.copies += u64::from(copy);
        copy
    }

    /// A packet of this side advertises the window field `window`.
    pub(crate) fn on_window(&mut self, window: u16) {
        let (least, most) = self.flow.window_fields.unwrap_or((window, window));
        self.flow.window_fields = Some((least.min(window), most.max(window)));
    }

    /// What goes on in another part of the connection: everything that is needed to read the packets to come,
    /// and nothing that was counted. `handshake` is the half of set-up which crosses the path to the receiver.
    pub(crate) fn continued(mut self, handshake: Option<Duration>) -> Self {
        let flow = &self.flow;
        self.flow = Flow {
            syn: flow.syn,
            start: flow.end,
            end: flow.end,
            acked: flow.acked,
            least_rtt: flow.least_rtt.into_iter().chain(handshake).min(),
            header_len: flow.header_len,
            ..Flow::default()
        };
        self.seen = Ranges::default();
        self
    }

    /// A packet of this side bears the timestamp `value`.
    pub(crate) fn on_stamp(&mut self, value: u32, at: Time) {
        if self
            .stamps
            .back()
            .is_some_and(|(last, _)| SeqNum::new(value).distance_from(SeqNum::new(*last)) <= 0)
        {
            return;
        }
        if self.stamps.len() == MAX_STAMPS {
            self.stamps.pop_front();
        }
        self.stamps.push_back((value, at));
    }

    /// How long ago this side's timestamp `echo` was seen first. Older ones are not echoed any more.
    pub(crate) fn age_of(&mut self, echo: u32, now: Time) -> Option<NonZeroU32> {
        while let Some(&(value, at)) = self.stamps.front() {
            let distance = SeqNum::new(value).distance_from(SeqNum::new(echo));
            if distance == 0 {
                let micros = now.checked_since(at)?.as_micros();
                return NonZeroU32::new(u32::try_from(micros).ok()?.max(1));
            }
            if distance > 0 {
                return None;
            }
            self.stamps.pop_front();
        }
        None
    }

    /// Whether a packet without payload at `from` asks for an acknowledgment of what was acknowledged long ago, as Linux
    /// does (`tcp_xmit_probe_skb` in `net/ipv4/tcp_output.c`); others repeat the last byte.
    pub(crate) fn is_keep_alive(&self, from: i64) -> bool {
        let flow = &self.flow;
        let known = flow.syn.is_some() || flow.data.is_some();
        let all_acked = flow.acked.is_none_or(|acked| acked >= flow.end);
        known && all_acked && from.checked_add(1) == Some(flow.end)
    }

    /// Payload from this side at `[from, to)`; `index` is the packet's place in the connection.
    /// No repeat can fill a hole sooner than `loop_time` after it appeared.
    pub(crate) fn on_data(
        &mut self,
        index: usize,
        mark: Mark,
        from: i64,
        len: u32,
        loop_time: Option<Duration>,
    ) -> Role {
        let to = from.saturating_add(i64::from(len));
        let first = self.flow.data.is_none();
        if first && self.flow.syn.is_none() {
            self.flow.start = self.flow.acked.map_or(from, |acked| acked.min(from));
            self.flow.end = self.flow.start;
        }
        let role = self.role(mark.at, from, to, len, loop_time);
        let fresh = self.seen.insert(from, to);
        self.flow.seen_bytes = self.seen.total();
        match role {
            Role::New => {
                if from > self.flow.end {
                    self.note_hole(from, mark.at);
                }
                self.flow.end = self.flow.end.max(to);
            }
            Role::OutOfOrder => {
                self.flow.out_of_order += 1;
                self.late_to = Some(to);
            }
            Role::Repeated(_) => {
                self.flow.repeats.push(index);
                // Where the capture lacks the first sending, the bytes are fresh only to it.
                let new = if to > self.flow.end { fresh } else { 0 };
                self.flow.repeated_bytes += u64::from(len).saturating_sub(new).max(1);
            }
            Role::Syn
            | Role::Ack
            | Role::Copy
            | Role::KeepAlive
            | Role::WindowProbe
            | Role::End
            | Role::Stray => return role,
        }
        self.flow.start = self.flow.start.min(from);
        self.flow.data = Some((self.flow.data.map_or(mark, |(first, _)| first), mark));
        self.track(mark.at, from, to, role);
        self.move_anchor(to);
        let flight = self
            .flow
            .acked
            .map_or(self.flow.start, |acked| acked)
            .abs_diff(self.flow.end)
            .saturating_sub(self.held.total());
        if self.flow.acked.is_none_or(|acked| acked < self.flow.end) {
            self.flow.max_in_flight = self.flow.max_in_flight.max(flight);
        }
        role
    }

    /// The peer acknowledges up to `to`.
    pub(crate) fn on_ack(&mut self, at: Time, to: i64, ack: PeerAck) {
        self.zero_window = ack.zero_window;
        let edge = self.flow.acked;
        if edge.is_none_or(|edge| to > edge) {
            self.duplicate_acks = 0;
            self.peer_holds_more = ack.holds_more;
            self.flow.acked = Some(to);
            self.held.drop_below(to);
            self.last_progress_at = Some(at);
            self.sample(at, to, ack.bare);
            self.move_anchor(to);
            if self.recovery.is_some_and(|(until, _)| to >= until) {
                self.recovery = None;
            }
        } else if edge == Some(to) && ack.bare && (!ack.window_changed || ack.holds_more) {
            //= https://www.rfc-editor.org/rfc/rfc5681#section-2
            //# An acknowledgment is considered a
            //# "duplicate" in the following algorithms when (a) the receiver of
            //# the ACK has outstanding data, (b) the incoming acknowledgment
            //# carries no data, (c) the SYN and FIN bits are both off, (d) the
            //# acknowledgment number is equal to the greatest acknowledgment
            //# received on the given connection (TCP.UNA from [RFC793]) and (e)
            //# the advertised window in the incoming acknowledgment equals the
            //# advertised window in the last incoming acknowledgment.
            // With SACK, new blocks say so whatever the window does (RFC 6675 §2).
            if self.flow.end > to {
                self.duplicate_acks = self.duplicate_acks.saturating_add(1);
            }
            self.peer_holds_more |= ack.holds_more;
        }
    }

    /// The peer holds `[left, right)` beyond a hole.
    pub(crate) fn on_sack(&mut self, at: Time, left: SeqNum, right: SeqNum) {
        if let (Some(from), Some(to)) = (self.position(left), self.position(right)) {
            self.flow.sacked.push(SackedRange { at, from, to });
            let acked = self.flow.acked.unwrap_or(from);
            self.held.insert(from.max(acked), to.min(self.flow.end));
        }
    }

    pub(crate) fn finish(mut self) -> Flow {
        if self.flow.syn.is_none()
            && let Some(acked) = self.flow.acked
            && self.flow.data.is_none()
        {
            self.flow.start = acked;
            self.flow.end = acked;
        }
        // Data that was acknowledged beyond the last segment seen was sent, though not captured. A FIN
        // takes one position more than the data; a single position beyond is more likely a FIN that the
        // capture missed than one byte.
        if let Some(acked) = self.flow.acked {
            let fin =
                i64::from(self.flow.fin.is_some() || acked == self.flow.end.saturating_add(1));
            self.flow.end = self.flow.end.max(acked.saturating_sub(fin));
        }
        self.flow
    }

    fn role(&self, at: Time, from: i64, to: i64, len: u32, loop_time: Option<Duration>) -> Role {
        if self.flow.data.is_none() || from >= self.flow.end {
            return match self.flow.acked {
                Some(acked) if self.zero_window && len == 1 && from == acked => Role::WindowProbe,
                Some(_) | None => Role::New,
            };
        }
        let acked = self.flow.acked.unwrap_or(i64::MIN);
        if len <= 1 && to <= acked && to == self.flow.end {
            return Role::KeepAlive;
        }
        if self.zero_window && len == 1 && from == acked {
            return Role::WindowProbe;
        }
        if to > self.flow.end {
            // Partly new: a sender that repacketises (RFC 9293 §3.8.1) repeats the first part.
            return Role::Repeated(self.cause(at, from, to, acked));
        }
        let unseen = self.seen.covered(from, to) == 0;
        // Three quarters leave room for the jitter of a path's shortest sample.
        let too_soon_for_a_repeat = loop_time.map(|time| time * 3 / 4);
        let reordering = self
            .flow
            .least_rtt
            .map(|rtt| rtt / 4)
            .max(too_soon_for_a_repeat)
            .map_or(REORDERING, |time| time.max(REORDERING));
        let recent_hole = self
            .hole_since(from)
            .is_some_and(|since| at.since(since) <= reordering);
        // One packet that overtook many leaves a hole which the others fill at their own pace.
        let next_of_the_late = self.late_to == Some(from);
        if unseen && (recent_hole || next_of_the_late) && to > acked {
            return Role::OutOfOrder;
        }
        Role::Repeated(self.cause(at, from, to, acked))
    }

    /// Data behind a hole that ends at `to` was seen.
    fn note_hole(&mut self, to: i64, at: Time) {
        let acked = self.flow.acked.unwrap_or(i64::MIN);
        while self
            .holes
            .front()
            .is_some_and(|(end, _)| *end <= acked || self.holes.len() >= MAX_HOLES)
        {
            self.holes.pop_front();
        }
        self.holes.push_back((to, at));
    }

    /// When the hole at `position` appeared. Where losses are dense, others have appeared since.
    fn hole_since(&self, position: i64) -> Option<Time> {
        let index = self.holes.partition_point(|(end, _)| *end <= position);
        self.holes.get(index).map(|(_, since)| *since)
    }

    fn cause(&self, at: Time, from: i64, to: i64, acked: i64) -> Repeat {
        if to <= acked {
            return Repeat::Spurious;
        }
        let silent_for = self.last_progress_at.map(|last| at.since(last));
        let patience = self
            .flow
            .least_rtt
            .map_or(MIN_RTO, |rtt| (rtt + rtt / 4).max(MIN_RTO));
        let timer_ran_out = silent_for.is_some_and(|silence| silence >= patience);
        if let Some((until, cause)) = self.recovery
            && from < until
            && !timer_ran_out
        {
            return cause;
        }
        if self.duplicate_acks >= 3 || (self.duplicate_acks >= 1 && self.peer_holds_more) {
            return Repeat::Fast;
        }
        // The end of a flight, which nothing behind it can show as missing: a probe (RFC 8985 §7) or,
        // for a single segment, perhaps the timer; the loss is that of a tail either way. The same bytes
        // once more are the timer's.
        if to == self.flow.end && from >= acked && self.recovery.is_none() {
            return Repeat::TailProbe;
        }
        if timer_ran_out {
            Repeat::Timeout
        } else {
            Repeat::Unknown
        }
    }

    fn track(&mut self, at: Time, from: i64, to: i64, role: Role) {
        if let Role::Repeated(cause) = role {
            for segment in &mut self.outstanding {
                segment.repeated |= segment.to > from;
            }
            if self.recovery.is_none_or(|(until, _)| from >= until) {
                self.recovery = Some((self.flow.end.max(to), cause));
            }
            self.flow.end = self.flow.end.max(to);
        } else if role == Role::New && self.outstanding.len() < MAX_OUTSTANDING {
            self.outstanding.push_back(Outstanding {
                to,
                at,
                repeated: false,
            });
        }
        self.last_progress_at = Some(at);
    }

    fn sample(&mut self, at: Time, to: i64, bare: bool) {
        let mut newest = None;
        let mut tainted = false;
        while let Some(segment) = self.outstanding.front().copied() {
            if segment.to > to {
                break;
            }
            self.outstanding.pop_front();
            // Karn's algorithm (RFC 6298 §3): no sample from a repeated segment; nor from those behind
            // it, whose ACK waited for the repair.
            tainted |= segment.repeated;
            newest = Some(segment);
        }
        if let Some(segment) = newest
            && !tainted
            && bare
            && segment.to == to
            && let Some(rtt) = at.checked_since(segment.at)
        {
            self.flow.least_rtt = Some(self.flow.least_rtt.map_or(rtt, |least| least.min(rtt)));
            self.flow.rtt.push(RttSample { at, rtt });
        }
    }

    /// Keeps the anchor near the stream's edge, so that 2^31 of distance is never reached.
    fn move_anchor(&mut self, to: i64) {
        if let Some((seq, at)) = self.anchor {
            let distance = to.saturating_sub(at);
            if let Ok(forward) = u32::try_from(distance) {
                self.anchor = Some((seq + forward, to));
            }
        }
    }
}

/// What an acknowledgment says besides its number.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts of one packet"
)]
pub(crate) struct PeerAck {
    /// No payload, SYN, FIN or RST.
    pub(crate) bare: bool,
    /// The window field differs from the one before.
    pub(crate) window_changed: bool,
    /// The window is closed.
    pub(crate) zero_window: bool,
    /// SACK blocks beyond the acknowledged edge.
    pub(crate) holds_more: bool,
}
