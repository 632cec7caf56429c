//! Rate and loss by a numbered train of full-sized packets in both directions at once.

use std::time::{Duration, Instant};

use link::{Direction, DirectionSpec, PathSpec};
use units::{Bytes, Rate};

use crate::probe::message::{self, Message};
use crate::probe::reading::{DirectionReading, Unmeasured};
use crate::probe::{PathReading, ProbeError, Sockets};

/// IP bytes of each packet: a full Ethernet MTU.
const IP_BYTES: u64 = PACKET as u64;
const PACKET: usize = 1500;
/// How long a train is: long enough that 50 us of jitter are 0.05 %, short enough to disturb nobody.
const SPAN: Duration = Duration::from_millis(100);
/// Fewest packets that make a slope.
const FEWEST: u64 = 20;
/// One thread sends and receives every packet on its own; beyond this it would measure itself. (Seen: at
/// 500 Mbit/s in both directions two cores shared with the emulator do not keep up.)
const FASTEST: Rate = Rate::mbit_per_s(200);
/// How often packets are sent.
const TICK: Duration = Duration::from_millis(1);
/// Beyond what the path should take, how long to wait for what may be lost.
const PATIENCE: Duration = Duration::from_millis(100);

/// Fills in the rates of both directions and adds the losses met.
pub(super) fn measure(
    path: &PathSpec,
    sockets: &Sockets,
    reading: &mut PathReading,
) -> Result<(), ProbeError> {
    let mut trains = Direction::BOTH.map(|direction| {
        let spec = path.direction(direction);
        Train::plan(direction, spec).map_err(|why| (direction, why))
    });
    let started = Instant::now();
    let deadline = trains
        .iter()
        .filter_map(|train| train.as_ref().ok())
        .map(|train| train.deadline)
        .max()
        .unwrap_or_default();
    while started.elapsed() < deadline {
        let mut pending = false;
        for train in trains.iter_mut().filter_map(|train| train.as_mut().ok()) {
            train.send_due(sockets, started.elapsed())?;
            train.receive(sockets)?;
            pending |= !train.is_complete();
        }
        if !pending {
            break;
        }
        sockets.wait(TICK)?;
    }
    for train in trains {
        match train {
            Ok(train) => train.conclude(reading.direction_mut(train.direction)),
            Err((direction, why)) => reading.direction_mut(direction).rate = Err(why),
        }
    }
    Ok(())
}

struct Train {
    direction: Direction,
    count: u64,
    /// Packets sent at once in the beginning, so that the bottleneck has work while the sender sleeps.
    burst: u64,
    /// At which the rest is sent, a little faster than the bottleneck.
    pace: Rate,
    deadline: Duration,
    sent: u64,
    /// Number and arrival time.
    arrived: Vec<(u64, Duration)>,
}

// === impl Train ===

impl Train {
    fn plan(direction: Direction, spec: &DirectionSpec) -> Result<Self, Unmeasured> {
        let rate = spec.rate.ok_or(Unmeasured::NoRateAsked)?;
        if rate > FASTEST {
            return Err(Unmeasured::TooFast);
        }
        let bytes = rate.checked_mul(SPAN).unwrap_or_default().get();
        let count = (bytes / IP_BYTES).max(FEWEST);
        let queue = spec.queue.get() / IP_BYTES;
        // The queue never holds more than the burst plus what the pace exceeds the rate by: half of it
        // and a quarter of it. Even the tightest pace exceeds the rate by more than the tolerance, so
        // that a bottleneck which is missing or too fast does not look right.
        let per_mille = (1000 * queue / 4 / count).clamp(20, 100);
        let pace = Rate::bit_per_s(rate.bits_per_s() / 1000 * (1000 + per_mille));
        let serialisation = Bytes::new(count * IP_BYTES)
            .checked_div(rate)
            .unwrap_or_default();
        Ok(Self {
            direction,
            count,
            burst: (queue / 2).clamp(2, count / 4),
            pace,
            deadline: serialisation * 5 / 4 + spec.one_way_delay * 5 / 4 + PATIENCE,
            sent: 0,
            arrived: Vec::new(),
        })
    }

    fn send_due(&mut self, sockets: &Sockets, elapsed: Duration) -> Result<(), ProbeError> {
        let paced = self.pace.checked_mul(elapsed).unwrap_or_default().get() / IP_BYTES;
        let due = self.count.min(self.burst + paced);
        while self.sent < due {
            let mut packet = [0; PACKET];
            let message = Message::Carriage { number: self.sent };
            packet[..message::LENGTH].copy_from_slice(&message.encode());
            sockets.send(self.direction, &packet[..PACKET - sockets.headers])?;
            self.sent += 1;
        }
        Ok(())
    }

    fn receive(&mut self, sockets: &Sockets) -> Result<(), ProbeError> {
        while let Some((message, at)) = message::receive(sockets, self.direction)? {
            if let Message::Carriage { number } = message {
                self.arrived.push((number, at));
            }
        }
        Ok(())
    }

    /// The path keeps order, so after the last packet nothing of the train is left on it.
    fn is_complete(&self) -> bool {
        self.arrived
            .last()
            .is_some_and(|&(number, _)| number + 1 == self.count)
    }

    fn conclude(&self, reading: &mut DirectionReading) {
        let mut numbers: Vec<u64> = self.arrived.iter().map(|&(number, _)| number).collect();
        numbers.sort_unstable();
        let missing = (0..self.sent).filter(|number| numbers.binary_search(number).is_err());
        reading
            .lost
            .extend(missing.map(|number| reading.sent + number));
        reading.sent += self.sent;
        reading.rate = match seconds_per_packet(&self.arrived) {
            Some(seconds) => Ok(rate_of(seconds)),
            None => Err(Unmeasured::TooFewArrived),
        };
    }
}

/// The slope of arrival time over number, by least squares: a single late packet, be it the first or the
/// last, hardly moves it.
fn seconds_per_packet(arrived: &[(u64, Duration)]) -> Option<f64> {
    let &(first_number, first_at) = arrived.first()?;
    let points: Vec<(f64, f64)> = arrived
        .iter()
        .map(|&(number, at)| {
            let number = u32::try_from(number.saturating_sub(first_number)).unwrap_or(u32::MAX);
            (f64::from(number), at.saturating_sub(first_at).as_secs_f64())
        })
        .collect();
    let n = f64::from(
        u32::try_from(points.len())
            .ok()
            .filter(|&n| u64::from(n) >= FEWEST / 2)?,
    );
    let mean = |values: fn(&(f64, f64)) -> f64| points.iter().map(values).sum::<f64>() / n;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points
        .iter()
        .map(|(x, y)| (x - x_mean) * (y - y_mean))
        .sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let slope = covariance / variance;
    (slope.is_finite() && slope > 0.0).then_some(slope)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a positive rate far below 2^53; casts from floats saturate"
)]
fn rate_of(seconds_per_packet: f64) -> Rate {
    Rate::bit_per_s((IP_BYTES as f64 * 8.0 / seconds_per_packet).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_survives_lost_and_late_packets() {
        let mut arrived: Vec<(u64, Duration)> = (0..833)
            .filter(|number| number % 50 != 7)
            .map(|number| (number, Duration::from_micros(5_000_000 + 120 * number)))
            .collect();
        if let Some(last) = arrived.last_mut() {
            last.1 += Duration::from_millis(1);
        }
        let rate = rate_of(seconds_per_packet(&arrived).unwrap()).bits_per_s();
        assert!(rate.abs_diff(100_000_000) < 50_000, "{rate}");
    }

    #[test]
    fn a_train_that_did_not_arrive_has_no_rate() {
        assert_eq!(seconds_per_packet(&[]), None);
        let at_once = vec![(3, Duration::from_secs(1)); 50];
        assert_eq!(seconds_per_packet(&at_once), None);
    }

    #[test]
    fn a_train_never_needs_more_than_the_queue() {
        for queue in [3_000, 100_000, 1 << 20, 100 << 20] {
            let spec = DirectionSpec {
                rate: Some(Rate::mbit_per_s(100)),
                queue: Bytes::new(queue),
                one_way_delay: Duration::ZERO,
                loss: link::LossSpec::None,
            };
            let train = Train::plan(Direction::Forward, &spec).unwrap();
            // When everything but the burst went out at the pace, the bottleneck has done its share.
            let excess = train.count * (train.pace.bits_per_s() - 100_000_000) / 100_000_000;
            let most = (train.burst + excess) * IP_BYTES;
            let tight = (2 + train.count * 20 / 1000) * IP_BYTES;
            assert!(most <= queue.max(tight), "{most} of {queue}");
        }
    }
}
