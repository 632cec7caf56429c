//! How far ranges have come, how fast they are, and which of them should be relieved.

use std::time::{Duration, Instant};

/// Less is not worth a request of its own.
const WORTH_ASKING: u64 = 128 << 10;
/// The next range is as long as what its connection brings in so many round trips: each costs one more in which it brings
/// nothing, and one that is slow must not have much for which others could wait.
const ROUND_TRIPS: u64 = 3;

/// How far a range has come, and how far it is to go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// First byte that was asked for.
    first: u64,
    /// First byte that has not arrived.
    pub(super) at: u64,
    /// First byte that others read.
    pub(super) end: u64,
    /// When its answer came.
    answered: Option<Instant>,
    /// A moment not long ago, at first that, and the first byte that had not arrived then.
    mark: Option<(Instant, u64)>,
    /// Bytes a second in the round trip before that moment.
    recent: Option<f64>,
    /// When it was over.
    over: Option<Instant>,
}

/// When a range is relieved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mercy {
    /// At less than this part of what most of them reach.
    slower: f64,
    /// And if it would not be here in so many round trips: the helper's first byte takes one.
    later: u32,
}

/// While there is enough to do, since a connection that has grown is lost by it.
pub(super) const BESIDE_OTHERS: Mercy = Mercy {
    slower: 0.25,
    later: 5,
};
/// While all others have nothing to do.
pub(super) const AT_THE_END: Mercy = Mercy {
    slower: 0.75,
    later: 2,
};

/// The range that would take longest of those that deserve `mercy`, and the byte from which another should read in its stead so
/// that both are done at the same time; `None` where nobody would gain. Most bring `usual` bytes a second.
pub(super) fn slowest(
    ranges: &[Progress],
    usual: f64,
    mercy: Mercy,
    now: Instant,
    rtt: Duration,
) -> Option<(usize, u64)> {
    let (index, left, rate) = ranges
        .iter()
        .enumerate()
        .filter(|(_, range)| range.at < range.end)
        .filter_map(|(index, range)| Some((index, range.end - range.at, range.rate(now, rtt)?)))
        .filter(|(_, _, rate)| *rate < mercy.slower * usual)
        .max_by(|one, other| (seconds(one.1, one.2)).total_cmp(&seconds(other.1, other.2)))?;
    if seconds(left, rate) < (mercy.later * rtt).as_secs_f64() {
        return None;
    }
    // The helper has its first byte after a round trip, and is taken to be as fast as most.
    let both = (float(left) - rate * rtt.as_secs_f64()) / (rate + usual);
    let taken = bytes(usual, Duration::from_secs_f64(both.max(0.0)));
    // Small rests are not cut in two.
    let taken = if taken + WORTH_ASKING > left {
        left
    } else {
        taken
    };
    Some((index, ranges[index].end - taken))
}

/// What most of `rates` reach.
pub(super) fn usual(rates: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut rates: Vec<f64> = rates.into_iter().collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

/// Seconds for `bytes` at `rate` bytes a second.
fn seconds(bytes: u64, rate: f64) -> f64 {
    float(bytes) / rate
}

/// What comes at `rate` bytes a second.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "far less than 2^53"
)]
fn bytes(rate: f64, time: Duration) -> u64 {
    (rate * time.as_secs_f64()) as u64
}

#[allow(clippy::cast_precision_loss, reason = "far less than 2^53")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

// === impl Progress ===

impl Progress {
    /// Asked for from `first` up to `end`.
    pub(super) fn of(first: u64, end: u64) -> Self {
        Self {
            first,
            at: first,
            end,
            answered: None,
            mark: None,
            recent: None,
            over: None,
        }
    }

    /// Its answer is here.
    pub(super) fn answered(&mut self, now: Instant) {
        self.answered = Some(now);
        self.mark = Some((now, self.at));
    }

    /// So many bytes more.
    pub(super) fn arrived(&mut self, bytes: u64, now: Instant, rtt: Duration) {
        self.at += bytes;
        let over = self.at == self.end;
        self.over = over.then_some(now);
        // What comes within a part of a round trip tells little, unless there is nothing else.
        if let Some((then, at)) = self.mark
            && (now - then >= rtt || over && self.recent.is_none())
        {
            self.recent = Some(float(self.at - at) / (now - then).as_secs_f64().max(1e-6));
            self.mark = Some((now, self.at));
        }
    }

    /// Bytes a second of late; `None` until its answer has been here for a round trip.
    pub(super) fn rate(&self, now: Instant, rtt: Duration) -> Option<f64> {
        let (then, at) = self.mark?;
        let since = now.saturating_duration_since(then);
        if self.over.is_none() && since > 2 * rtt {
            // Nothing has come for a long time.
            return Some(float((self.at - at).max(1)) / since.as_secs_f64());
        }
        self.recent
    }

    /// How long a range its connection should read next: a window is what came in the last round trip, and at least what
    /// came in less.
    pub(super) fn next(&self, rtt: Duration) -> Option<u64> {
        let window = bytes(self.recent?, rtt).min(self.at - self.first);
        Some(window.saturating_mul(ROUND_TRIPS))
    }

    /// From its answer to its end.
    pub(super) fn mean(&self) -> Option<f64> {
        Some(float(self.at - self.first) / (self.over? - self.answered?).as_secs_f64().max(1e-6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RTT: Duration = Duration::from_millis(200);
    const MIB: u64 = 1 << 20;

    /// Ranges of 4 MiB, side by side, which have got so far in a second.
    fn ranges(now: Instant, got: &[u64]) -> Vec<Progress> {
        let began = now.checked_sub(Duration::from_secs(1)).unwrap();
        let range = |(number, got): (u64, &u64)| {
            let first = number * 4 * MIB;
            Progress {
                first,
                at: first + got,
                end: first + 4 * MIB,
                answered: Some(began),
                mark: Some((began, first)),
                recent: Some(float(*got)),
                over: (*got == 4 * MIB).then_some(now),
            }
        };
        (0..).zip(got).map(range).collect()
    }

    fn relieved(ranges: &[Progress], now: Instant, rtt: Duration) -> Option<(usize, u64)> {
        let rates = ranges.iter().filter_map(|range| range.rate(now, rtt));
        slowest(ranges, usual(rates)?, BESIDE_OTHERS, now, rtt)
    }

    #[test]
    fn the_slow_one_keeps_what_it_brings_while_the_helper_reads_the_rest() {
        let now = Instant::now();
        let ranges = ranges(now, &[MIB / 4, 4 * MIB, 4 * MIB]);
        let (index, cut) = relieved(&ranges, now, RTT).unwrap();
        assert_eq!(index, 0);
        // 3.75 MiB are left: 0.25 MiB/s for 0.2 s, then 4.25 MiB/s together, which take 0.87 s.
        let kept = float(cut - ranges[0].at) / float(MIB);
        assert!((kept - 0.25 * (0.2 + 0.87)).abs() < 0.01, "{kept} MiB");
    }

    #[test]
    fn who_stands_still_is_relieved_of_all() {
        let now = Instant::now();
        let ranges = ranges(now, &[0, 4 * MIB, 3 * MIB]);
        assert_eq!(relieved(&ranges, now, RTT), Some((0, ranges[0].at)));
    }

    #[test]
    fn equals_are_left_alone_and_so_are_those_that_are_nearly_done() {
        let now = Instant::now();
        for got in [
            &[2 * MIB, 2 * MIB, 3 * MIB][..],
            &[MIB, MIB],
            // A quarter of a MiB is left at 0.75 MiB/s: done in 1.7 round trips.
            &[4 * MIB, 4 * MIB],
            &[],
        ] {
            assert_eq!(relieved(&ranges(now, got), now, RTT), None, "{got:?}");
        }
        let mut nearly = ranges(now, &[MIB, 4 * MIB, 4 * MIB]);
        nearly[0].end = nearly[0].at + MIB / 4;
        assert_eq!(relieved(&nearly, now, RTT), None);
        nearly[0].mark = None;
        nearly[0].end = 4 * MIB;
        assert_eq!(relieved(&nearly, now, RTT), None, "not yet answered");
    }

    #[test]
    fn the_next_range_is_three_windows_long() {
        let now = Instant::now();
        let mut range = Progress::of(MIB, 4 * MIB);
        assert_eq!(range.next(RTT), None);
        range.answered(now);
        // Half a MiB in each of six round trips.
        for number in 1..=6 {
            range.arrived(MIB / 2, now + number * RTT, RTT);
        }
        let next = range.next(RTT).unwrap();
        assert!((3 * MIB / 2 - 3..=3 * MIB / 2).contains(&next), "{next}");
        // All in a part of a round trip: the window holds that, and may hold more.
        let mut range = Progress::of(MIB, 2 * MIB);
        range.answered(now);
        range.arrived(MIB, now + RTT / 10, RTT);
        assert_eq!(range.next(RTT), Some(3 * MIB));
    }

    proptest! {
        #[test]
        fn a_cut_lies_within_what_is_left(got in proptest::collection::vec(0..=4 * MIB, 1..12), rtt_ms in 1_u64..500) {
            let now = Instant::now();
            let ranges = ranges(now, &got);
            if let Some((index, cut)) = relieved(&ranges, now, Duration::from_millis(rtt_ms)) {
                prop_assert!(ranges[index].at <= cut && cut < ranges[index].end);
            }
        }
    }
}
