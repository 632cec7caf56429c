use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use units::Time;

use crate::ranges::Ranges;

/// What was sent and is not yet acknowledged, segment by segment, with what is known about each.
///
/// Segments are numbered in the order of their bytes; a retransmission keeps its number. Every ACK costs
/// as much as the segments that it says something new about, whatever is outstanding.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    sent: VecDeque<Sent>,
    /// Number of the first in `sent`.
    first: u64,
    sacked: Ranges,
    /// Transmissions in the order of time. An entry is stale where its segment has a later one, or is
    /// not in flight any more; stale entries are dropped when they come to the front.
    by_time: VecDeque<(Time, u64)>,
    /// Numbers of segments to be sent again; stale where they are not lost any more.
    to_repair: VecDeque<u64>,
    flight: Flight,
    lost: u32,
    sacked_count: u32,
}

/// One segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) start: u64,
    /// Sequence space, FIN included.
    pub(crate) len: u32,
    pub(crate) fin: bool,
    pub(crate) fate: Fate,
    pub(crate) transmissions: u32,
    /// Whether what is in flight of it is a repair.
    pub(crate) repaired: bool,
    /// When it was last sent.
    pub(crate) at: Time,
    pub(crate) stamp: RateStamp,
}

/// Segments in flight, and how many of them are repairs (`retrans_out`).
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    segments: u32,
    repairs: u32,
}

/// What the sender believes about a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    InFlight,
    Lost,
    Sacked,
}

/// The state of delivery when a segment was sent (Linux `tcp_rate_skb_sent`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateStamp {
    pub(crate) delivered: u64,
    pub(crate) delivered_at: Time,
    pub(crate) flight_started_at: Time,
    pub(crate) application_limited: bool,
    pub(crate) in_flight: u32,
    pub(crate) lost: u64,
}

/// What an ACK newly reports as delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivery {
    /// Segments.
    pub(crate) segments: u32,
    /// Of the newest transmission among them: when it was sent, its end, whether it was a repetition.
    pub(crate) newest: Option<Newest>,
    /// When the newest segment that was sent only once was sent.
    pub(crate) unambiguous_at: Option<Time>,
    /// Lowest end of those that were sent only once.
    pub(crate) original_end: Option<u64>,
    /// Whether any was sent more than once.
    pub(crate) repeated: bool,
    /// Whether a segment that was sent only once arrived after one with higher bytes.
    pub(crate) reordered: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest {
    pub(crate) at: Time,
    pub(crate) end: u64,
    pub(crate) repeated: bool,
    pub(crate) stamp: RateStamp,
}

// === impl Sent ===

impl Sent {
    pub(crate) const fn end(&self) -> u64 {
        self.start + self.len as u64
    }
}

// === impl Flight ===

impl Flight {
    const fn join(&mut self, sent: &mut Sent, repaired: bool) {
        sent.fate = Fate::InFlight;
        sent.repaired = repaired;
        self.segments += 1;
        self.repairs += repaired as u32;
    }

    /// For a segment that is in flight.
    const fn leave(&mut self, sent: &mut Sent, fate: Fate) {
        self.segments -= 1;
        self.repairs -= sent.repaired as u32;
        sent.repaired = false;
        sent.fate = fate;
    }
}

// === impl Delivery ===

impl Delivery {
    fn add(&mut self, sent: &Sent, highest_before: u64) {
        self.segments += 1;
        let repeated = sent.transmissions > 1;
        self.repeated |= repeated;
        let newer = self
            .newest
            .is_none_or(|newest| (sent.at, sent.end()) > (newest.at, newest.end));
        if newer {
            self.newest = Some(Newest {
                at: sent.at,
                end: sent.end(),
                repeated,
                stamp: sent.stamp,
            });
        }
        if !repeated {
            self.unambiguous_at = self.unambiguous_at.max(Some(sent.at));
            let end = sent.end();
            self.original_end = Some(self.original_end.map_or(end, |known| known.min(end)));
            self.reordered |= sent.end() < highest_before;
        }
    }
}

// === impl Scoreboard ===

impl Scoreboard {
    /// Segments in flight: sent, neither delivered nor lost.
    pub(crate) const fn in_flight(&self) -> u32 {
        self.flight.segments
    }

    /// Repetitions in flight, tail loss probes apart.
    pub(crate) const fn repairs_in_flight(&self) -> u32 {
        self.flight.repairs
    }

    /// Whether anything outstanding was sent again (`tcp_any_retrans_done`), as far as it can hold up what
    /// is acknowledged.
    pub(crate) fn was_repaired(&self) -> bool {
        let first = self.sent.front();
        self.flight.repairs > 0 || first.is_some_and(|sent| sent.transmissions > 1)
    }

    pub(crate) const fn lost(&self) -> u32 {
        self.lost
    }

    pub(crate) const fn sacked(&self) -> u32 {
        self.sacked_count
    }

    /// Segments not yet acknowledged by number.
    pub(crate) fn outstanding(&self) -> u32 {
        u32::try_from(self.sent.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn first(&self) -> Option<&Sent> {
        self.sent.front()
    }

    /// Highest offset that was reported by SACK.
    fn highest_sacked(&self) -> u64 {
        self.sacked.iter().next_back().map_or(0, |range| range.end)
    }

    pub(crate) fn push(&mut self, sent: Sent) {
        self.by_time
            .push_back((sent.at, self.first + self.sent.len() as u64));
        self.flight.segments += 1;
        self.sent.push_back(sent);
    }

    /// Everything below `to` has arrived.
    pub(crate) fn acknowledge(&mut self, to: u64, delivery: &mut Delivery) {
        let highest = self.highest_sacked();
        while let Some(front) = self.sent.front_mut() {
            if front.end() > to {
                if front.start < to {
                    // A part of a segment, as middleboxes that cut segments cause.
                    let cut = u32::try_from(to - front.start).unwrap_or(front.len);
                    front.start = to;
                    front.len -= cut.min(front.len);
                }
                break;
            }
            let Some(mut sent) = self.sent.pop_front() else {
                break;
            };
            self.first += 1;
            match sent.fate {
                Fate::Sacked => self.sacked_count -= 1,
                Fate::InFlight => {
                    self.flight.leave(&mut sent, Fate::Sacked);
                    delivery.add(&sent, highest);
                }
                Fate::Lost => {
                    self.lost -= 1;
                    delivery.add(&sent, highest);
                }
            }
        }
        if !self.sacked.is_empty() {
            self.sacked.forget_below(to);
        }
        if self.sent.is_empty() {
            self.by_time.clear();
            self.to_repair.clear();
        }
    }

    /// `range` has arrived above a hole.
    pub(crate) fn sack(&mut self, range: Range<u64>, delivery: &mut Delivery) {
        if self.sacked.covers(&range) {
            return;
        }
        let highest = self.highest_sacked();
        let before = self.sacked.clone_overlapping(&range);
        let merged = self.sacked.insert(range.clone());
        let mut index = self.index_beyond(range.start);
        while let Some(sent) = self.sent.get_mut(index) {
            if sent.start >= range.end {
                break;
            }
            // Jump over what earlier blocks reported already.
            if let Some(known) = before.as_ref().filter(|known| known.contains(&sent.start)) {
                let end = known.end.min(range.end);
                let next = self.index_beyond(end);
                if next > index {
                    index = next;
                    continue;
                }
            } else if merged.start <= sent.start
                && sent.end() <= merged.end
                && sent.fate != Fate::Sacked
            {
                match sent.fate {
                    Fate::InFlight => self.flight.leave(sent, Fate::Sacked),
                    Fate::Lost => {
                        sent.fate = Fate::Sacked;
                        self.lost -= 1;
                    }
                    Fate::Sacked => {}
                }
                self.sacked_count += 1;
                delivery.add(sent, highest);
            }
            index += 1;
        }
    }

    /// Where the first segment stands that reaches beyond `offset`; the length, where none does.
    fn index_beyond(&self, offset: u64) -> usize {
        // Nearly all segments are equally long: a good guess saves a search through memory that is cold.
        if let Some(first) = self.sent.front().filter(|first| first.len > 0) {
            let guess = offset.saturating_sub(first.start) / u64::from(first.len);
            let guess = usize::try_from(guess).unwrap_or(usize::MAX);
            let holds = |sent: &Sent| sent.start <= offset && offset < sent.end();
            if self.sent.get(guess).is_some_and(holds) {
                return guess;
            }
        }
        self.sent.partition_point(|sent| sent.end() <= offset)
    }

    /// Marks what was sent so long before the newest delivered transmission that it must be lost
    /// (RFC 8985 section 6.2 step 5). Returns how many segments, and when to look again.
    pub(crate) fn detect_by_time(
        &mut self,
        now: Time,
        newest: (Time, u64),
        wait: Duration,
    ) -> (u32, Option<Time>) {
        let mut found = 0;
        while let Some(&(at, number)) = self.by_time.front() {
            let sent = number
                .checked_sub(self.first)
                .and_then(|index| self.sent.get_mut(usize::try_from(index).ok()?))
                .filter(|sent| sent.fate == Fate::InFlight && sent.at == at);
            let Some(sent) = sent else {
                self.by_time.pop_front();
                continue;
            };
            //= https://www.rfc-editor.org/rfc/rfc8985#section-6.2
            //# If RACK_sent_after(RACK.xmit_ts, RACK.end_seq,
            //#                    Segment.xmit_ts, Segment.end_seq):
            if newest <= (at, sent.end()) {
                return (found, None);
            }
            let due = at + wait;
            if due > now {
                // The RFC waits for the last such segment; waiting for the first finds every one in
                // its own time and needs no walk over the rest.
                return (found, Some(due));
            }
            self.flight.leave(sent, Fate::Lost);
            self.lost += 1;
            found += 1;
            self.to_repair.push_back(number);
            self.by_time.pop_front();
        }
        (found, None)
    }

    /// Marks every segment above which the peer has three more, as RFC 6675's `IsLost` does. Looks at
    /// segments below `limit` only, so that repaired ones are not judged by their first transmission.
    pub(crate) fn detect_by_count(&mut self, threshold: u32, mss: u32) -> u32 {
        let mut ranges = 0;
        let mut bytes = 0;
        let mut limit = None;
        //= https://www.rfc-editor.org/rfc/rfc6675#section-4
        //# The routine returns true when either DupThresh discontiguous SACKed sequences have arrived above
        //# 'SeqNum' or more than (DupThresh - 1) * SMSS bytes with sequence numbers greater than 'SeqNum'
        //# have been SACKed.
        for range in self.sacked.iter().rev() {
            ranges += 1;
            bytes += range.end - range.start;
            if ranges >= threshold || bytes > u64::from(threshold - 1) * u64::from(mss) {
                limit = Some(range.start);
                break;
            }
        }
        let Some(limit) = limit else { return 0 };
        let mut found = 0;
        for (index, sent) in self.sent.iter_mut().enumerate() {
            if sent.start >= limit {
                break;
            }
            if sent.fate == Fate::InFlight && sent.transmissions == 1 {
                self.flight.leave(sent, Fate::Lost);
                self.lost += 1;
                found += 1;
                self.to_repair.push_back(self.first + index as u64);
            }
        }
        found
    }

    /// The first segment is lost, whatever else is known (third duplicate ACK, partial ACK).
    pub(crate) fn lose_first(&mut self) -> u32 {
        match self.sent.front_mut() {
            Some(sent) if sent.fate == Fate::InFlight => {
                self.flight.leave(sent, Fate::Lost);
                self.lost += 1;
                self.to_repair.push_front(self.first);
                1
            }
            _ => 0,
        }
    }

    /// Everything that the peer has not reported is lost (retransmission timeout).
    pub(crate) fn lose_all(&mut self) {
        self.by_time.clear();
        self.to_repair.clear();
        for (index, sent) in self.sent.iter_mut().enumerate() {
            if sent.fate == Fate::Sacked {
                continue;
            }
            if sent.fate == Fate::InFlight {
                self.flight.leave(sent, Fate::Lost);
                self.lost += 1;
            }
            self.to_repair.push_back(self.first + index as u64);
        }
    }

    /// The peer may have dropped what it had reported (RFC 2018 section 8).
    pub(crate) fn forget_sacks(&mut self) {
        self.sacked.clear();
        for sent in &mut self.sent {
            if sent.fate == Fate::Sacked {
                self.flight.join(sent, false);
                self.sacked_count -= 1;
            }
        }
    }

    /// Cuts what is longer than `mss` into pieces and counts all of it that is under way as lost: the
    /// path will not carry it. Returns whether there was any.
    pub(crate) fn cut(&mut self, mss: u32) -> bool {
        if self
            .sent
            .iter()
            .all(|sent| sent.len <= mss || sent.fate == Fate::Sacked)
        {
            return false;
        }
        let old = core::mem::take(&mut self.sent);
        self.first += old.len() as u64;
        self.by_time.clear();
        self.to_repair.clear();
        (self.flight, self.lost, self.sacked_count) = (Flight::default(), 0, 0);
        let mut in_flight = Vec::new();
        for sent in old {
            let long = sent.len > mss && sent.fate != Fate::Sacked;
            let fate = if long { Fate::Lost } else { sent.fate };
            let end = sent.end();
            let mut start = sent.start;
            while start < end {
                let len = if long {
                    mss.min(narrow(end - start))
                } else {
                    sent.len
                };
                let last = start + u64::from(len) >= end;
                let number = self.first + self.sent.len() as u64;
                let mut piece = Sent {
                    start,
                    len,
                    fin: sent.fin && last,
                    fate,
                    repaired: false,
                    ..sent
                };
                match fate {
                    Fate::InFlight => {
                        self.flight.join(&mut piece, sent.repaired);
                        in_flight.push((sent.at, number));
                    }
                    Fate::Lost => {
                        self.lost += 1;
                        self.to_repair.push_back(number);
                    }
                    Fate::Sacked => self.sacked_count += 1,
                }
                self.sent.push_back(piece);
                start += u64::from(len);
            }
        }
        in_flight.sort_unstable();
        self.by_time.extend(in_flight);
        true
    }

    /// Nothing was lost after all: what has not been repeated is on its way. It is not judged by time again,
    /// as Linux does not (`tcp_undo_cwnd_reduction` leaves it out of the queue by time).
    pub(crate) fn restore_lost(&mut self) {
        while let Some(number) = self.to_repair.pop_front() {
            let index = number
                .checked_sub(self.first)
                .and_then(|index| usize::try_from(index).ok());
            if let Some(sent) = index.and_then(|index| self.sent.get_mut(index))
                && sent.fate == Fate::Lost
            {
                self.flight.join(sent, false);
                self.lost -= 1;
            }
        }
    }

    /// Whether a segment waits to be sent again.
    pub(crate) fn has_repairs(&mut self) -> bool {
        self.next_repair().is_some()
    }

    /// Sends the next lost segment again at `now`.
    pub(crate) fn repair(&mut self, now: Time, stamp: RateStamp) -> Option<Sent> {
        let index = self.next_repair()?;
        self.to_repair.pop_front();
        Some(self.repeat(index, now, stamp, true))
    }

    /// Sends the last segment again at `now`, whatever its fate (a tail loss probe).
    pub(crate) fn repeat_last(&mut self, now: Time, stamp: RateStamp) -> Option<Sent> {
        let index = self.sent.len().checked_sub(1)?;
        let Sent { fate, repaired, .. } = self.sent[index];
        (fate != Fate::Sacked).then(|| self.repeat(index, now, stamp, repaired))
    }

    fn repeat(&mut self, index: usize, now: Time, stamp: RateStamp, repaired: bool) -> Sent {
        let sent = &mut self.sent[index];
        match sent.fate {
            Fate::InFlight => self.flight.leave(sent, Fate::Lost),
            Fate::Lost => self.lost -= 1,
            Fate::Sacked => self.sacked_count -= 1,
        }
        self.flight.join(sent, repaired);
        sent.transmissions = sent.transmissions.saturating_add(1);
        sent.at = now;
        sent.stamp = stamp;
        self.by_time.push_back((now, self.first + index as u64));
        *sent
    }

    fn next_repair(&mut self) -> Option<usize> {
        while let Some(&number) = self.to_repair.front() {
            let index = number
                .checked_sub(self.first)
                .and_then(|index| usize::try_from(index).ok());
            if let Some(index) = index
                && self
                    .sent
                    .get(index)
                    .is_some_and(|sent| sent.fate == Fate::Lost)
            {
                return Some(index);
            }
            self.to_repair.pop_front();
        }
        None
    }

    /// Counts anew what is counted along; a mismatch is a bug of this file.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn assert_consistent(&self) {
        let count = |fate| {
            let segments = self.sent.iter().filter(|sent| sent.fate == fate);
            u32::try_from(segments.count())
        };
        assert_eq!(count(Fate::InFlight), Ok(self.flight.segments));
        let repaired = self.sent.iter().filter(|sent| sent.repaired);
        let repairs = usize::try_from(self.flight.repairs);
        assert_eq!(Ok(repaired.count()), repairs);
        assert_eq!(count(Fate::Lost), Ok(self.lost));
        assert_eq!(count(Fate::Sacked), Ok(self.sacked_count));
        let adjacent = self.sent.iter().zip(self.sent.iter().skip(1));
        adjacent.for_each(|(one, next)| assert_eq!(one.end(), next.start));
    }
}

fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten segments of a hundred bytes, one a millisecond.
    fn ten() -> Scoreboard {
        let mut board = Scoreboard::default();
        for number in 0..10 {
            board.push(Sent {
                start: 1 + 100 * number,
                len: 100,
                fin: false,
                fate: Fate::InFlight,
                transmissions: 1,
                repaired: false,
                at: Time::from_millis(number),
                stamp: RateStamp::default(),
            });
        }
        board
    }

    #[test]
    fn a_guess_finds_the_segment_that_a_search_finds() {
        let mut board = ten();
        board.sent[4].len = 50;
        let mut start = 1;
        for sent in &mut board.sent {
            sent.start = start;
            start += u64::from(sent.len);
        }
        for offset in 0..1_100 {
            let searched = board.sent.partition_point(|sent| sent.end() <= offset);
            assert_eq!(board.index_beyond(offset), searched, "{offset}");
        }
    }
}
