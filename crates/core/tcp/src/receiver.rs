use core::ops::Range;
use core::time::Duration;

use units::{SeqNum, Time};
use wire::SackBlocks;

use crate::acks::Acks;
use crate::autotune::Autotune;
use crate::config::Config;
use crate::output::Placement;
use crate::ranges::Ranges;
use crate::segment::wrap;

/// The receiving half: what has arrived, what is acknowledged, what the peer may send.
///
/// Offsets count from the peer's SYN, so the first byte of data is 1.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) start: SeqNum,
    pub(crate) acks: Acks,
    /// Offset of the first byte that has not arrived (RCV.NXT).
    next: u64,
    read_to: u64,
    /// What has arrived beyond a hole.
    ahead: Ranges,
    /// Ranges of `ahead` in the order of their last change, for SACK.
    recent: [Option<Range<u64>>; 3],
    duplicate: Option<Range<u64>>,
    fin: Option<u64>,
    /// Right edge of the window that the peer knows.
    edge: u64,
    /// `next` when the last acknowledgement left.
    acknowledged: u64,
    shift: u8,
    tuning: Autotune,
    /// Largest segment seen.
    mss: u32,
    report_duplicates: bool,
    sack: bool,
    avoid_crumbs: bool,
}

/// How a segment's payload was taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) placement: Option<Placement>,
    /// There is more to read than before.
    pub(crate) readable: bool,
    /// The peer's FIN has been reached.
    pub(crate) finished: bool,
}

// === impl Receiver ===

impl Receiver {
    /// `segment` is what full segments are expected to carry.
    pub(crate) fn new(config: &Config, segment: u32) -> Self {
        let scaled = config.window_scaling;
        let tuning = Autotune::new(config.receive_buffer, segment, config.initial_cwnd, scaled);
        Self {
            start: SeqNum::new(0),
            acks: Acks::new(config.ack_policy, config.merged_reports),
            next: 0,
            read_to: 1,
            ahead: Ranges::default(),
            recent: [None, None, None],
            duplicate: None,
            fin: None,
            edge: 0,
            acknowledged: 0,
            shift: scale_for(tuning.max(), scaled),
            tuning,
            mss: 536.min(segment),
            sack: false,
            report_duplicates: config.duplicate_sack,
            avoid_crumbs: config.silly_window_avoidance,
        }
    }

    /// The peer's SYN arrived; `scaled` and `sack` say what both sides do.
    pub(crate) fn synchronise(&mut self, start: SeqNum, scaled: bool, sack: bool) {
        self.start = start;
        self.sack = sack;
        if !scaled {
            self.shift = 0;
        }
        self.next = 1;
        self.edge = 1 + self.tuning.initial_window();
    }

    /// The handshake is complete.
    pub(crate) const fn establish(&mut self, now: Time) {
        self.tuning.start(now);
        self.acknowledged = self.next;
    }

    pub(crate) const fn shift(&self) -> u8 {
        self.shift
    }

    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that can be read.
    pub(crate) const fn readable(&self) -> u64 {
        self.data_end().saturating_sub(self.read_to)
    }

    pub(crate) const fn finished(&self) -> bool {
        match self.fin {
            Some(fin) => self.next > fin,
            None => false,
        }
    }

    /// Offset after the data that has arrived in order, the FIN not counted.
    const fn data_end(&self) -> u64 {
        if self.finished() {
            self.next - 1
        } else {
            self.next
        }
    }

    /// Whether a segment touches the window (RFC 9293 section 3.10.7.4, first check).
    pub(crate) const fn acceptable(&self, start: u64, len: u32) -> bool {
        let window = self.edge.saturating_sub(self.next);
        let end = start + len as u64;
        // The four cases of the table in RFC 9293 section 3.10.7.4.
        match (len, window) {
            (0, 0) => start == self.next,
            // The table ends before the edge. A sender whose data filled the window and was lost has its
            // next number at the edge, and its acknowledgements must be heard (Linux `tcp_sequence`).
            (0, _) => self.next <= start && start <= self.edge,
            (_, 0) => false,
            (_, _) => start < self.edge && end > self.next,
        }
    }

    /// Takes an acceptable segment of `len` bytes of payload from `start`, possibly with a FIN behind.
    pub(crate) fn take(
        &mut self,
        now: Time,
        start: u64,
        len: u32,
        fin: bool,
        pushed: bool,
        rto: Duration,
    ) -> Taken {
        let end = start + u64::from(len);
        if fin && self.fin.is_none() && end < self.edge.max(self.next + 1) {
            self.fin = Some(end);
        }
        let before = self.next;
        // Bytes behind a FIN do not exist, whoever sends them.
        let last = self.fin.map_or(self.edge, |fin| fin.min(self.edge));
        let wanted = start.max(self.next)..end.min(last.max(self.next));
        let mut taken = Taken::default();

        if len > 0 && start < self.next {
            //= https://www.rfc-editor.org/rfc/rfc2883#section-4
            //# A D-SACK block is only used to report a duplicate contiguous sequence of data received by
            //# the receiver in the most recent packet.
            self.duplicate = self.report_duplicates.then(|| start..end.min(self.next));
            if wanted.is_empty() {
                self.acks.at_once();
            }
        }
        if !wanted.is_empty() {
            taken.placement = Some(Placement {
                offset: wanted.start - 1,
                skip: narrow(wanted.start - start),
                len: narrow(wanted.end - wanted.start),
            });
            if len > self.mss {
                self.mss = len;
                self.tuning.measure_segment(len);
            }
            if wanted.start == self.next {
                self.advance(wanted.end);
            } else {
                // A FIN has a number of its own, which reports cover like a byte (RFC 2018 section 3).
                let fin = u64::from(self.fin == Some(wanted.end));
                self.keep_ahead(now, wanted.start..wanted.end + fin);
                self.tuning.on_ahead(self.extent());
                // Without SACK the window stands still, so that the duplicate ACKs are seen as such.
                let held = self.readable() + self.ahead.bytes();
                if self.sack && self.tuning.on_data(len, self.mss, held) {
                    self.acks.window_grew();
                }
            }
        }
        if fin && len == 0 && start > self.next && self.fin == Some(start) {
            self.keep_ahead(now, start..start + 1);
        }
        if let Some(fin) = self.fin
            && before <= fin
            && (self.next == fin || self.next == fin + 1)
        {
            self.next = fin + 1;
            taken.finished = true;
            self.acks.at_once();
        }
        if self.next > before && !taken.finished {
            let window = self.edge.saturating_sub(before);
            let waiting = self.next - self.acknowledged;
            self.acks
                .on_data(now, pushed, waiting, self.mss, window, rto);
            let held = self.readable() + self.ahead.bytes();
            if self.tuning.on_data(len, self.mss, held) {
                self.acks.window_grew();
            }
            //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
            //# In addition, a TCP receiver SHOULD send an immediate ACK
            //# when the incoming segment fills in all or part of a gap in the
            //# sequence space.
            if self.next > end.max(before) {
                self.acks.now = true;
            } else if !self.ahead.is_empty() && !self.acks.now {
                self.report_hole(now, false);
            }
        }
        taken.readable = self.data_end() > before;
        taken
    }

    /// A segment of `len` bytes echoes a time of ours; one of the peer's largest size tells how long the
    /// round trip takes.
    pub(crate) fn sample_rtt(&mut self, now: Time, len: u32, echoed: Time) {
        if len >= self.mss && len > 0 {
            self.tuning.sample_rtt(now, echoed, self.readable() > 0);
        }
    }

    /// Takes at most `most` bytes off the queue and returns how many.
    pub(crate) fn read(&mut self, now: Time, most: u64) -> u64 {
        let count = most.min(self.readable());
        if count == 0 {
            return 0;
        }
        self.read_to += count;
        let (unread, extent) = (self.readable(), self.extent());
        self.tuning.on_read(now, self.read_to, unread, extent);
        let waiting = self.next - self.acknowledged;
        if self.readable() == 0 {
            self.acks.on_drained(waiting, self.mss);
        }
        // `tcp_cleanup_rbuf`: tell the peer when reading has at least doubled the window.
        let known = self.edge.saturating_sub(self.next);
        if 2 * known <= self.tuning.limit() {
            let new = self.room();
            if new > 0 && new >= 2 * known {
                self.acks.now = true;
            }
        }
        count
    }

    /// The window field of a segment that leaves now, and the promise it makes. With `tells_all` it is the
    /// acknowledgement that is due, and another one need not follow.
    pub(crate) fn offer_window(&mut self, tells_all: bool) -> u16 {
        let unit = 1 << self.shift;
        // Up, because a little more than promised is in the buffer anyway (Linux `__tcp_select_window`).
        let room = self.room().div_ceil(unit) * unit;
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
        //# A TCP receiver SHOULD NOT shrink the window, i.e., move the right
        //# window edge to the left (SHLD-14).
        let most = u64::from(u16::MAX) << self.shift;
        let kept = self.edge.saturating_sub(self.next).div_ceil(unit) * unit;
        let window = room.max(kept).min(most);
        self.edge = self.edge.max(self.next + window);
        self.acknowledged = self.next;
        if tells_all {
            self.acks.on_sent();
        }
        u16::try_from(window >> self.shift).unwrap_or(u16::MAX)
    }

    /// The window of our SYN, unscaled.
    pub(crate) fn offer_initial_window(&mut self) -> u16 {
        self.acknowledged = self.next;
        u16::try_from(self.tuning.initial_window()).unwrap_or(u16::MAX)
    }

    /// Blocks that report what lies beyond holes, newest first; at most `most`.
    pub(crate) fn sack_blocks(&mut self, most: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let mut count = 0;
        let start = self.start;
        let mut push = |range: &Range<u64>| {
            if count < most {
                blocks.push(wrap(range.start, start), wrap(range.end, start));
                count += 1;
            }
        };
        if let Some(duplicate) = self.duplicate.take() {
            push(&duplicate);
        }
        //= https://www.rfc-editor.org/rfc/rfc2018#section-4
        //# The first SACK block (i.e., the one immediately following the kind and length fields in the
        //# option) MUST specify the contiguous block of data containing the segment which triggered
        //# this ACK, unless that segment advanced the Acknowledgment Number field in the header.
        // The next ones are those reported most recently; RFC 2883 puts the duplicate before them.
        for range in self.recent.iter().flatten() {
            push(range);
        }
        blocks
    }

    pub(crate) fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    pub(crate) const fn has_duplicate(&self) -> bool {
        self.duplicate.is_some()
    }

    /// How far what lies beyond holes reaches over the first missing byte.
    fn extent(&self) -> u64 {
        let end = self.ahead.iter().next_back().map_or(0, |last| last.end);
        end.saturating_sub(self.next)
    }

    fn advance(&mut self, to: u64) {
        self.next = to;
        if self.ahead.is_empty() {
            return;
        }
        while let Some(first) = self.ahead.first().filter(|first| first.start <= self.next) {
            self.next = self.next.max(first.end);
            let next = self.next;
            self.ahead.forget_below(next);
        }
        let next = self.next;
        self.remember(None, |range| range.start > next);
    }

    fn keep_ahead(&mut self, now: Time, range: Range<u64>) {
        // RFC 2883 section 4.2.2: a part that was received before is reported like a whole segment.
        if self.report_duplicates
            && let Some(known) = self.ahead.clone_overlapping(&range)
        {
            self.duplicate = Some(range.start.max(known.start)..range.end.min(known.end));
        }
        let newest = self.recent[0].clone();
        let merged = self.ahead.insert(range);
        let apart = newest.is_none_or(|newest| newest.start != merged.start);
        self.remember(Some(merged.clone()), |range| {
            range.end < merged.start || range.start > merged.end
        });
        self.report_hole(now, apart);
    }

    fn report_hole(&mut self, now: Time, apart: bool) {
        if self.sack && self.duplicate.is_none() {
            self.acks.on_hole(now, self.next, apart, self.tuning.rtt());
        } else {
            // Duplicate ACKs are counted where there is no SACK (RFC 5681 section 3.2).
            self.acks.now = true;
        }
    }

    /// Puts `newest` before those of the remembered ranges that still stand.
    fn remember(&mut self, newest: Option<Range<u64>>, stands: impl Fn(&Range<u64>) -> bool) {
        let old = core::mem::take(&mut self.recent);
        let kept = old.into_iter().flatten().filter(stands);
        for (slot, range) in self.recent.iter_mut().zip(newest.into_iter().chain(kept)) {
            *slot = Some(range);
        }
    }

    /// What may be offered now, before rounding.
    fn room(&self) -> u64 {
        let held = self.readable() + self.ahead.bytes();
        let free = self.tuning.limit().saturating_sub(held);
        let mss = u64::from(self.mss);
        // RFC 9293 section 3.8.6.2.2: the edge is not advanced by less than a segment or half the buffer,
        // or the peer would be invited to send crumbs (silly window syndrome).
        let least = (self.tuning.limit() / 2).min(mss);
        if self.avoid_crumbs && (free < least || free < self.tuning.limit() >> 4) {
            return 0;
        }
        let offered = free.min(self.tuning.offered());
        if self.shift > 0 {
            return offered;
        }
        // Without a scale the window moves in whole segments.
        let known = self.edge.saturating_sub(self.next);
        if known + mss <= offered || known > offered {
            if offered > mss {
                offered / mss * mss
            } else {
                offered
            }
        } else {
            known
        }
    }
}

/// The shift with which `max` fits into 16 bits (RFC 7323 section 2.2), at least 7 as Linux' default
/// buffers give.
fn scale_for(max: u64, scaled: bool) -> u8 {
    if !scaled {
        return 0;
    }
    // RFC 7323 section 2.3 ends at 14, so that a window stays below 2^30.
    (0..14)
        .find(|shift| u16::try_from(max >> shift).is_ok())
        .unwrap_or(14)
}

fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
