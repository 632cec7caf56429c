//! How far ranges have come, how fast they are, and which of them should be relieved.

use std::time::{Duration, Instant};

use crate::path::Flight;

/// An answer that takes longer is taken for one that never comes. Stores with busy disks take seconds.
const UNANSWERED: Duration = Duration::from_secs(5);
/// Less is not worth a request of its own.
const WORTH_ASKING: u64 = 128 << 10;

/// How far a range has come, and how far it is to go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// First byte that was asked for.
    first: u64,
    /// First byte that has not arrived.
    pub(super) at: u64,
    /// First byte that others read.
    pub(super) end: u64,
    asked: Instant,
    /// Whether a connection of it has broken.
    broke: bool,
    /// When its answer came.
    answered: Option<Instant>,
    /// A moment not long ago, at first that, and the first byte that had not arrived then.
    mark: Option<(Instant, u64)>,
    /// The round trip before that moment, and the one before that.
    recent: Option<Round>,
    before: Option<Round>,
    /// When it was over.
    over: Option<Instant>,
}

/// What came in a round trip or a little more.
#[derive(Clone, Copy, Debug)]
struct Round {
    bytes: u64,
    time: Duration,
}

/// So many tenths of what came in a round trip are surely in the window.
const SURE: u64 = 9;
/// A window grows that is so many times larger than the one before.
const GROWS: f64 = 1.3;

/// When a range is relieved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mercy {
    /// At less than this part of what most of them reach.
    slower: f64,
    /// And if it would not be here in so many round trips: the helper's first byte takes one.
    later: f64,
}

/// While there is enough to do: a connection is lost by it, and one that nobody waits for yet may still grow.
pub(super) const BESIDE_OTHERS: Mercy = Mercy {
    slower: 0.1,
    later: 10.0,
};
/// While others have nothing to do: all is asked for, or memory holds no more before the first of them is here.
pub(super) const OTHERS_REST: Mercy = Mercy {
    slower: 1.0,
    later: 2.0,
};

/// As [`OTHERS_REST`], where who would help has yet to open its window: by slow start it takes some round trips more.
pub(super) const BY_A_BEGINNER: Mercy = Mercy {
    slower: 1.0,
    later: 8.0,
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
    let (index, rate, round_trips) = ranges
        .iter()
        .enumerate()
        .filter(|(_, range)| range.at < range.end)
        .filter_map(|(index, range)| {
            let (rate, round_trips) = range.pace(now, rtt)?;
            Some((index, rate, round_trips))
        })
        .filter(|(_, rate, _)| *rate < mercy.slower * usual)
        .max_by(|one, other| one.2.total_cmp(&other.2))?;
    if round_trips < mercy.later {
        return None;
    }
    let left = ranges[index].end - ranges[index].at;
    // The helper has its first byte after a round trip, and is taken to be as fast as most.
    let both = (float(left) - rate * rtt.as_secs_f64()) / (rate + usual);
    let taken = bytes(usual, Duration::from_secs_f64(both.max(0.0)));
    // Small rests are not cut in two.
    let taken = if taken + WORTH_ASKING > left {
        left
    } else {
        taken
    };
    let helper = rtt.as_secs_f64() + float(taken) / usual;
    if helper >= float(left) / rate {
        return None;
    }
    Some((index, ranges[index].end - taken))
}

/// What most of `rates` reach.
pub(super) fn usual(rates: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut rates: Vec<f64> = rates.into_iter().collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
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

/// Of what came in a round trip, what is in the window.
fn surely(bytes: u64) -> u64 {
    bytes / 10 * SURE
}

#[allow(clippy::cast_precision_loss, reason = "far less than 2^53")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

// === impl Progress ===

impl Progress {
    /// Asked for now, from `first` up to `end`.
    pub(super) fn of(first: u64, end: u64) -> Self {
        Self {
            first,
            at: first,
            end,
            asked: Instant::now(),
            broke: false,
            answered: None,
            mark: None,
            recent: None,
            before: None,
            over: None,
        }
    }

    /// Its connection has broken; another is asked for what has not arrived.
    pub(super) fn broke(&mut self, now: Instant) {
        *self = Self {
            first: self.first,
            at: self.at,
            asked: now,
            broke: true,
            ..Self::of(self.at, self.end)
        };
    }

    /// Bytes that have arrived.
    pub(super) fn here(&self) -> u64 {
        self.at - self.first
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
        let Some((then, at)) = self.mark else { return };
        let time = now.saturating_duration_since(then);
        if time >= rtt || over && self.recent.is_none() {
            // What comes after it is of the next window, unless nothing else has come.
            let before = self.at - bytes;
            let until = if time >= rtt && before > at {
                before
            } else {
                self.at
            };
            self.before = self.recent.replace(Round {
                bytes: until - at,
                time,
            });
            self.mark = Some((now, until));
        }
    }

    /// Bytes a second of late, and the round trips until it is all here; `None` until its answer has been here for one, or has
    /// been waited for so long that its connection may be dead.
    ///
    /// They are fewer where its connection's window grows from one to the next, as it does in slow start, and as it is taken to do
    /// until more has been seen.
    fn pace(&self, now: Instant, rtt: Duration) -> Option<(f64, f64)> {
        let unanswered = || {
            let since = now.saturating_duration_since(self.asked);
            (since > UNANSWERED).then_some((self.asked, self.at))
        };
        let (then, at) = self.mark.or_else(unanswered)?;
        let since = now.saturating_duration_since(then);
        let (rate, growth) = if self.over.is_none() && since > 2 * rtt {
            // Nothing has come for a long time.
            (float((self.at - at).max(1)) / since.as_secs_f64(), 1.0)
        } else {
            let rate = self.recent?.rate();
            (rate, self.before.map_or(2.0, |before| rate / before.rate()))
        };
        let windows = float(self.end - self.at) / (rate * rtt.as_secs_f64());
        let round_trips = if growth < GROWS {
            windows
        } else {
            let growth = growth.min(2.0);
            // Windows of growth, growth^2, ... times the last one.
            (1.0 + windows * (growth - 1.0) / growth).ln() / growth.ln()
        };
        Some((rate, round_trips))
    }

    /// What its connection, of which so much was known, has in flight: what came in the last round trip. What came in less may be a
    /// part of a window.
    pub(super) fn flight(&self, rtt: Duration, known: Option<Flight>) -> Option<Flight> {
        if self.broke {
            return None;
        }
        if self.over? - self.answered? < rtt {
            // Who is asked for less than a window brings less, and must not be asked for less the next time.
            let known = known.map_or(0, |known| known.sure);
            return Some(Flight {
                sure: known.max(surely(self.here())),
                grows: true,
            });
        }
        let recent = self.recent?;
        let grows = |before: Round| recent.rate() >= GROWS * before.rate();
        Some(Flight {
            sure: surely(recent.bytes),
            grows: self.before.is_some_and(grows),
        })
    }

    /// Bytes a second from its request to its end: so much its connection brings, range by range.
    pub(super) fn mean(&self) -> Option<f64> {
        if self.broke {
            return None;
        }
        Some(float(self.at - self.first) / (self.over? - self.asked).as_secs_f64().max(1e-6))
    }
}

// === impl Round ===

impl Round {
    /// Bytes a second.
    fn rate(self) -> f64 {
        float(self.bytes) / self.time.as_secs_f64().max(1e-6)
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
                asked: began,
                broke: false,
                answered: Some(began),
                mark: Some((began, first)),
                recent: Some(a_second(*got)),
                before: Some(a_second(*got)),
                over: (*got == 4 * MIB).then_some(now),
            }
        };
        (0..).zip(got).map(range).collect()
    }

    /// A round trip that took a second.
    fn a_second(bytes: u64) -> Round {
        Round {
            bytes,
            time: Duration::from_secs(1),
        }
    }

    fn relieved(ranges: &[Progress], now: Instant, rtt: Duration) -> Option<(usize, u64)> {
        let rates = ranges.iter().filter_map(|range| range.pace(now, rtt));
        let usual = usual(rates.map(|(rate, _)| rate))?;
        slowest(ranges, usual, OTHERS_REST, now, rtt)
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
    fn who_waits_for_an_answer_that_never_comes_is_relieved_in_the_end() {
        let now = Instant::now();
        let mut ranges = ranges(now, &[0, 4 * MIB, 3 * MIB]);
        ranges[0].mark = None;
        for (waited, relieved) in [
            (UNANSWERED, None),
            (UNANSWERED + RTT, Some((0, ranges[0].at))),
        ] {
            ranges[0].asked = now.checked_sub(waited).unwrap();
            assert_eq!(self::relieved(&ranges, now, RTT), relieved);
        }
    }

    #[test]
    fn what_another_connection_brought_says_nothing_about_this_one() {
        let now = Instant::now();
        let mut range = Progress::of(0, 2 * MIB);
        range.answered(now);
        range.arrived(MIB, now + RTT, RTT);
        range.broke(now + RTT);
        assert_eq!((range.here(), range.at, range.end), (MIB, MIB, 2 * MIB));
        assert!(range.pace(now + 2 * RTT, RTT).is_none());
        range.answered(now + 2 * RTT);
        range.arrived(MIB, now + 3 * RTT, RTT);
        assert!(range.flight(RTT, None).is_none() && range.mean().is_none());
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
    fn what_came_in_a_round_trip_is_in_flight() {
        let now = Instant::now();
        let mut range = Progress::of(MIB, 4 * MIB);
        assert_eq!(range.flight(RTT, None), None);
        range.answered(now);
        // Half a MiB in each of six round trips.
        for number in 1..=6 {
            range.arrived(MIB / 2, now + number * RTT, RTT);
        }
        let flight = range.flight(RTT, None).unwrap();
        assert!(flight.sure.abs_diff(MIB / 20 * SURE) < 100 && !flight.grows);
        // All in a part of a round trip: the window holds that, and may hold more.
        let mut range = Progress::of(MIB, 2 * MIB);
        range.answered(now);
        range.arrived(MIB, now + RTT / 10, RTT);
        let flight = range.flight(RTT, None).unwrap();
        assert!(flight.sure.abs_diff(MIB / 10 * SURE) < 100 && flight.grows);
        // Unless more than that was there.
        for (known, sure) in [(flight.sure - 1, flight.sure), (3 * MIB, 3 * MIB)] {
            let known = Flight {
                sure: known,
                grows: false,
            };
            let flight = range.flight(RTT, Some(known));
            assert_eq!(flight, Some(Flight { sure, grows: true }));
        }
    }

    #[test]
    fn a_connection_in_slow_start_is_left_to_grow() {
        let now = Instant::now();
        // A sixteenth of a MiB in the last round trip, and 1.9 MiB to come: 30 round trips, or five if it doubles.
        let mut ranges = ranges(now, &[MIB / 16, 4 * MIB, 4 * MIB]);
        ranges[0].end = ranges[0].at + 2 * MIB - MIB / 16;
        ranges[0].mark = Some((now, ranges[0].at));
        let round = |bytes| Round { bytes, time: RTT };
        ranges[0].recent = Some(round(MIB / 16));
        let mercy = Mercy {
            slower: 1.0,
            later: 6.0,
        };
        for (before, relieved) in [
            (Some(MIB / 16), true),
            (Some(MIB / 15), true),
            (Some(MIB / 32), false),
            (Some(MIB / 1600), false),
            // It has just begun.
            (None, false),
        ] {
            ranges[0].before = before.map(round);
            let found = slowest(&ranges, 4.0 * float(MIB), mercy, now, RTT);
            assert_eq!(found.is_some(), relieved, "{before:?}");
        }
        // What it did before counts no more once nothing comes.
        let later = now + 3 * RTT;
        assert!(slowest(&ranges, 4.0 * float(MIB), mercy, later, RTT).is_some());
    }

    #[test]
    fn a_flight_of_more_than_before_grows() {
        let now = Instant::now();
        let mut range = Progress::of(0, 3 * MIB / 4);
        range.answered(now);
        range.arrived(MIB / 4, now + RTT, RTT);
        range.arrived(MIB / 2, now + 2 * RTT, RTT);
        let flight = range.flight(RTT, None).unwrap();
        assert!(flight.sure.abs_diff(MIB / 20 * SURE) < 100 && flight.grows);
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
