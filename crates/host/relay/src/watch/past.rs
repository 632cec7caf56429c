//! A bounded memory of readings: the last minute as it was, what is older in coarser steps.

use std::collections::VecDeque;
use std::time::Duration;

use limit::kernel::Division;
use record::page::{Moment, Stretch};
use record::{LimitName, LimitSeconds};

/// Points that are kept as they were read: a minute at one a second.
const FINE: usize = 60;
/// Points of each coarser kind: five minutes of ten seconds each, then half an hour of a minute each.
const COARSE: usize = 30;
/// Fine points in a coarse one, and coarse ones in a coarsest.
const PER_COARSE: usize = 10;
const PER_COARSEST: usize = 6;

/// Readings of one direction, or of many together.
///
/// A span in which nothing moves and nobody has anything to send is one point, however long it lasts: a
/// connection at rest costs next to nothing, and one that never rests at most some 20 kB per
/// direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    fine: VecDeque<Point>,
    coarse: VecDeque<Point>,
    coarsest: VecDeque<Point>,
}

/// What lies between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Point {
    /// When it ended.
    pub(super) to: Duration,
    pub(super) span: Duration,
    /// Seconds per limit, by precedence.
    pub(super) limits_s: [f32; LimitName::ALL.len()],
    /// Payload that was acknowledged.
    pub(super) bytes: u64,
    /// At its end.
    pub(super) rtt: Duration,
    pub(super) cwnd: u64,
    pub(super) in_flight: u64,
    /// Segments sent again.
    pub(super) retransmissions: u64,
}

// === impl Past ===

impl Past {
    pub(super) fn push(&mut self, point: Point) {
        if let Some(last) = self.fine.back_mut()
            && last.is_rest()
            && point.is_rest()
        {
            last.append(&point);
            return;
        }
        self.fine.push_back(point);
        pass_on(&mut self.fine, FINE, &mut self.coarse, PER_COARSE);
        pass_on(&mut self.coarse, COARSE, &mut self.coarsest, PER_COARSEST);
        while self.coarsest.len() > COARSE {
            self.coarsest.pop_front();
        }
    }

    /// Oldest first.
    pub(super) fn points(&self) -> impl DoubleEndedIterator<Item = &Point> {
        let older = self.coarsest.iter().chain(&self.coarse);
        older.chain(&self.fine)
    }

    pub(super) fn moments(&self) -> Vec<Moment> {
        self.points().map(Point::moment).collect()
    }

    /// What prevailed in the last `window`, oldest first, neighbours that are alike as one.
    pub(super) fn band(&self, window: Duration) -> Vec<Stretch> {
        let mut band: Vec<Stretch> = Vec::new();
        let mut left = window;
        for point in self.points().rev() {
            let span = point.span.min(left);
            left -= span;
            if span.is_zero() {
                break;
            }
            let Some(limit) = point.prevailing() else {
                continue;
            };
            match band.last_mut() {
                Some(stretch) if stretch.limit == limit => stretch.seconds += span.as_secs_f64(),
                _ => band.push(Stretch {
                    limit,
                    seconds: span.as_secs_f64(),
                }),
            }
        }
        band.reverse();
        band
    }

    /// The share of the last `window` in which something held it back that is not its own silence.
    pub(super) fn held(&self, window: Duration) -> f64 {
        let band = self.band(window);
        let idle = |stretch: &&Stretch| {
            matches!(stretch.limit, LimitName::Application | LimitName::Closing)
        };
        let all: f64 = band.iter().map(|stretch| stretch.seconds).sum();
        let at_rest: f64 = band
            .iter()
            .filter(idle)
            .map(|stretch| stretch.seconds)
            .sum();
        if all > 0.0 { 1.0 - at_rest / all } else { 0.0 }
    }

    pub(super) fn newest(&self) -> Option<&Point> {
        self.fine.back()
    }
}

/// Makes one point of the oldest `per`, once there are more than `most` beside them.
fn pass_on(from: &mut VecDeque<Point>, most: usize, to: &mut VecDeque<Point>, per: usize) {
    if from.len() < most + per {
        return;
    }
    let mut oldest = from.drain(..per);
    let Some(mut whole) = oldest.next() else {
        return;
    };
    oldest.for_each(|point| whole.append(&point));
    to.push_back(whole);
}

// === impl Point ===

impl Point {
    /// Adds times per limit.
    pub(super) fn divide(&mut self, division: &Division) {
        for (name, held) in division.shares() {
            *self.of(name) += held.as_secs_f32();
        }
    }

    /// Adds what another one says, of the same time.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, seconds) in self.limits_s.iter_mut().zip(other.limits_s) {
            *sum += seconds;
        }
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        self.retransmissions = self.retransmissions.saturating_add(other.retransmissions);
    }

    /// What prevailed; of two that held as long, the one that has precedence.
    pub(super) fn prevailing(&self) -> Option<LimitName> {
        let mut most = None;
        for (name, seconds) in LimitName::ALL.into_iter().zip(self.limits_s) {
            if seconds > most.map_or(0.0, |(_, seconds)| seconds) {
                most = Some((name, seconds));
            }
        }
        most.map(|(name, _)| name)
    }

    pub(super) fn limits(&self) -> LimitSeconds {
        let all = LimitName::ALL.into_iter().zip(self.limits_s);
        let held = all.filter(|(_, seconds)| *seconds > 0.0);
        held.map(|(name, seconds)| (name, f64::from(seconds)))
            .collect()
    }

    pub(super) fn of(&mut self, name: LimitName) -> &mut f32 {
        // Names are declared in the order of `ALL`: a test of `record` holds them together.
        &mut self.limits_s[name as usize]
    }

    pub(super) fn goodput_bps(&self) -> f64 {
        if self.span.is_zero() {
            return 0.0;
        }
        bits(self.bytes) / self.span.as_secs_f64()
    }

    /// Adds what comes right after it.
    fn append(&mut self, later: &Self) {
        for (sum, seconds) in self.limits_s.iter_mut().zip(later.limits_s) {
            *sum += seconds;
        }
        self.to = later.to;
        self.span += later.span;
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.rtt = later.rtt;
        self.cwnd = later.cwnd;
        self.in_flight = later.in_flight;
        self.retransmissions = self.retransmissions.saturating_add(later.retransmissions);
    }

    /// Whether nothing moved and nobody had anything to send.
    fn is_rest(&self) -> bool {
        let mut held = LimitName::ALL.into_iter().zip(self.limits_s);
        let idle = held.all(|(name, seconds)| seconds == 0.0 || name == LimitName::Application);
        idle && self.bytes == 0 && self.retransmissions == 0
    }

    fn moment(&self) -> Moment {
        Moment {
            to_s: self.to.as_secs_f64(),
            seconds: self.span.as_secs_f64(),
            limits_s: self.limits(),
            goodput_bps: self.goodput_bps(),
            rtt_s: Some(self.rtt.as_secs_f64()).filter(|rtt| *rtt > 0.0),
            cwnd_bytes: self.cwnd,
            in_flight_bytes: self.in_flight,
            retransmissions: self.retransmissions,
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "bytes of one reading, for a picture"
)]
fn bits(bytes: u64) -> f64 {
    bytes as f64 * 8.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(at_s: u64, limit: LimitName, bytes: u64) -> Point {
        let mut point = Point {
            to: Duration::from_secs(at_s),
            span: Duration::from_secs(1),
            bytes,
            ..Point::default()
        };
        *point.of(limit) = 1.0;
        point
    }

    fn seconds(past: &Past) -> f64 {
        past.points().map(|point| point.span.as_secs_f64()).sum()
    }

    #[test]
    fn rest_is_one_point_however_long_it_lasts() {
        let mut past = Past::default();
        for at in 1..=10_000 {
            past.push(point(at, LimitName::Application, 0));
        }
        assert_eq!(past.points().count(), 1);
        assert!((seconds(&past) - 10_000.0).abs() < 1e-6);
    }

    #[test]
    fn the_newest_minute_is_fine_and_all_is_bounded() {
        let mut past = Past::default();
        for at in 1..=100_000 {
            past.push(point(at, LimitName::Bottleneck, 1000));
        }
        assert!(past.points().count() <= FINE + PER_COARSE + 2 * COARSE + PER_COARSEST);
        let newest: Vec<_> = past.points().rev().take(FINE).collect();
        assert!(newest.iter().all(|point| point.span.as_secs() == 1));
        let covered = seconds(&past);
        assert!((2000.0..2500.0).contains(&covered), "{covered} s");
        let moments = past.moments();
        assert!(
            moments
                .iter()
                .all(|one| (one.goodput_bps - 8000.0).abs() < 1.0)
        );
    }

    #[test]
    fn a_band_ends_now_and_neighbours_that_are_alike_are_one_stretch() {
        let mut past = Past::default();
        for (at, limit) in (1..).zip([
            LimitName::SlowStart,
            LimitName::ReceiveWindow,
            LimitName::ReceiveWindow,
            LimitName::Bottleneck,
        ]) {
            past.push(point(at, limit, 10));
        }
        let stretch = |limit, seconds| Stretch { limit, seconds };
        let band = past.band(Duration::from_millis(2500));
        let expected = [
            stretch(LimitName::ReceiveWindow, 1.5),
            stretch(LimitName::Bottleneck, 1.0),
        ];
        assert_eq!(band, expected);
        assert!((past.held(Duration::from_secs(9)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn names_index_in_the_order_of_their_list() {
        for (index, name) in LimitName::ALL.into_iter().enumerate() {
            assert_eq!(name as usize, index);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_but_what_is_too_old(lengths in prop::collection::vec((0_u64..3, 1_u64..40), 1..60)) {
            let mut past = Past::default();
            let (mut at, mut sent) = (0, 0);
            for (bytes, times) in lengths {
                for _ in 0..times {
                    at += 1;
                    let limit = if bytes == 0 { LimitName::Application } else { LimitName::SlowStart };
                    past.push(point(at, limit, bytes));
                    sent += bytes;
                }
            }
            let spans: Vec<_> = past.points().collect();
            for pair in spans.windows(2) {
                prop_assert_eq!(pair[0].to + pair[1].span, pair[1].to);
            }
            for point in &spans {
                let held: f32 = point.limits_s.iter().sum();
                prop_assert!((held - point.span.as_secs_f32()).abs() < 1e-2);
            }
            let kept: u64 = spans.iter().map(|point| point.bytes).sum();
            prop_assert_eq!(kept, sent, "2400 points at most, which the coarsest still hold");
        }
    }
}
