//! Rate and loss by a numbered train of full-sized packets in each direction.

use std::time::{Duration, Instant};

use link::{Direction, DirectionSpec, LossSpec, Order, PathSpec};
use units::{Bytes, LossRate, Rate};

use crate::probe::message::{self, Inbox, Message};
use crate::probe::reading::{DirectionReading, RATE_TOLERANCE, Unmeasured};
use crate::probe::{PathReading, ProbeError, Sockets};

/// IP bytes of each packet: a full Ethernet MTU.
const IP_BYTES: u64 = PACKET as u64;
const PACKET: usize = 1500;
/// How long a train is: long enough that 50 us of jitter are 0.05 %, short enough to disturb nobody.
const SPAN: Duration = Duration::from_millis(100);
/// Fewest packets that make a slope.
const FEWEST: u64 = 20;
/// Both trains run at once up to here, which takes half the time; beyond it one after the other, because
/// one thread on two processors, shared with the emulator, is to fill both. (Seen: 500 Mbit/s both ways at
/// once is the limit with single packets.)
const FASTEST_AT_ONCE: Rate = Rate::mbit_per_s(200);
/// How often packets are sent, unless the bottleneck needs them more often.
const TICK: Duration = Duration::from_millis(1);
/// A wait shorter than this is spent awake: a timer would end it late.
const SHORTEST_WAIT: Duration = Duration::from_micros(100);
/// Packets that leave in one superpacket: what fits 64 KiB.
const SUPERPACKET: u64 = 44;
/// Beyond what the path should take, how long to wait for what may be lost.
const PATIENCE: Duration = Duration::from_millis(100);
/// Whoever did not look at the clock for so long did not run: waits here are a tenth of it.
const STANDSTILL: Duration = Duration::from_millis(10);
/// A machine that stands still for longer than this in all is too busy to measure with.
const STANDSTILLS: Duration = Duration::from_secs(1);

/// Fills in the rates of both directions and adds the losses met.
pub(super) fn measure(
    path: &PathSpec,
    sockets: &Sockets,
    reading: &mut PathReading,
) -> Result<(), ProbeError> {
    let mut trains = Vec::new();
    for direction in Direction::BOTH {
        match Train::plan(direction, path.direction(direction), sockets.headers) {
            Ok(train) => trains.push(train),
            Err(why) => reading.direction_mut(direction).rate = Err(why),
        }
    }
    if trains.iter().all(|train| train.rate <= FASTEST_AT_ONCE) {
        run(&mut trains, sockets)?;
    } else {
        for train in &mut trains {
            run(std::slice::from_mut(train), sockets)?;
        }
    }
    for train in trains {
        train.conclude(reading.direction_mut(train.direction));
    }
    Ok(())
}

/// Sends `trains` at once and waits until all have arrived.
fn run(trains: &mut [Train], sockets: &Sockets) -> Result<(), ProbeError> {
    let mut inbox = Inbox::new();
    let started = Instant::now();
    let of_all = |span: fn(&Train) -> Duration| trains.iter().map(span);
    let mut deadline = of_all(|train| train.deadline).max().unwrap_or_default();
    let latest = deadline + STANDSTILLS;
    let tick = of_all(|train| train.tick).min().unwrap_or(TICK);
    let mut looked = Duration::ZERO;
    loop {
        // The clock before the sockets: what has come by then is read. Time in which this thread did not run is
        // no packet's.
        let now = started.elapsed();
        let gap = now.saturating_sub(looked);
        if gap > STANDSTILL {
            deadline = (deadline + gap).min(latest);
        }
        looked = now;
        let (mut sending, mut pending) = (false, false);
        for train in &mut *trains {
            train.send_due(sockets, started)?;
            train.receive(sockets, &mut inbox)?;
            sending |= train.sent < train.count;
            pending |= !train.is_complete();
        }
        if !pending || now >= deadline {
            break;
        }
        let wait = if sending { tick } else { TICK };
        if wait >= SHORTEST_WAIT {
            sockets.wait(wait)?;
        }
    }
    Ok(())
}

/// The rate that a train can measure in a direction, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Basis {
    pub(super) rate: Rate,
    /// Without a policer it is a bottleneck, which delays packets instead of dropping them.
    policed: Option<Policed>,
}

/// How a policer's rate can be seen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Policed {
    /// Bytes that pass before the rate shows.
    bucket: Bytes,
    /// Share of what passes that the path loses behind it.
    lost: f64,
}

/// Longest time that a train may take to empty a policer's bucket.
const LONGEST_EMPTYING: Duration = Duration::from_secs(1);
/// Longest time that it may take to tell a policer's rate from the losses behind it.
const LONGEST_TELLING: Duration = Duration::from_secs(2);
/// Packets that have to be counted per share that is lost. Of `n` packets `n p` are lost, give or take
/// `sqrt(n p)`; five times that is the tolerance of the rate, 1 % of `n`, where `n = p (5 / 0.01)^2`.
const COUNTED_PER_SHARE_LOST: f64 = 250_000.0;

// === impl Basis ===

impl Basis {
    /// `None` where no rate holds at any moment, or none that a short train can show.
    pub(super) fn of(spec: &DirectionSpec) -> Option<Self> {
        if let Some(rate) = spec.steady_rate() {
            return Some(Self {
                rate,
                policed: None,
            });
        }
        let policer = spec.policer?;
        // The train comes twice as fast; a bottleneck in between would bring a rate of its own.
        let twice = Rate::bit_per_s(policer.rate.bits_per_s().saturating_mul(2));
        let bare = spec.rate.is_none_or(|rate| rate >= twice)
            && spec.trace.is_none()
            && spec.schedule.is_empty();
        let emptying = policer.burst.checked_div(policer.rate)?;
        let policed = Policed {
            bucket: policer.burst,
            lost: share_lost(spec)?,
        };
        let telling = Bytes::new(policed.packets() * IP_BYTES).checked_div(policer.rate)?;
        let short = emptying <= LONGEST_EMPTYING && telling <= LONGEST_TELLING;
        (bare && short).then_some(Self {
            rate: policer.rate,
            policed: Some(policed),
        })
    }
}

/// The share of packets that is lost at random behind a policer; `None` where no share tells how many of a
/// train are.
fn share_lost(spec: &DirectionSpec) -> Option<f64> {
    let lost = match &spec.loss {
        LossSpec::None => 0.0,
        LossSpec::Bernoulli(share) => share.as_f64(),
        LossSpec::GilbertElliott(_) | LossSpec::Every(_) | LossSpec::Listed(_) => return None,
    };
    // A damaged packet is dropped by who receives it.
    Some(1.0 - (1.0 - lost) * (1.0 - spec.corrupt.as_f64()))
}

impl Policed {
    /// Fewest packets by which its rate can be told from the losses behind it.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most 250,000, and not negative"
    )]
    fn packets(self) -> u64 {
        (self.lost * COUNTED_PER_SHARE_LOST).ceil() as u64
    }
}

struct Train {
    direction: Direction,
    /// As asked.
    rate: Rate,
    /// From this packet on the policer's bucket is empty, and those that arrive count, not their numbers.
    policed_from: Option<u64>,
    /// Share of the packets that the bottleneck lets pass and that arrive, where they are counted.
    arriving: f64,
    /// Whether a packet that arrives means that those before it have arrived or are lost.
    in_order: bool,
    count: u64,
    /// Packets sent at once in the beginning, so that the bottleneck has work while the sender sleeps.
    burst: u64,
    /// Packets that may wait at the bottleneck: a sender that woke late must not catch up into a full
    /// queue.
    backlog: u64,
    /// At which the rest is sent, a little faster than the bottleneck.
    pace: Rate,
    /// Between two sendings.
    tick: Duration,
    deadline: Duration,
    /// Room for a superpacket, and the bytes of each packet in it.
    payload: Vec<u8>,
    segment: u16,
    sent: u64,
    /// When the bottleneck, if it is as asked, has sent everything, and how long it had nothing to send.
    busy_until: Duration,
    idle: Duration,
    /// Number and arrival time.
    arrived: Vec<(u64, Duration)>,
    /// By number.
    seen: Vec<bool>,
}

// === impl Train ===

impl Train {
    fn plan(
        direction: Direction,
        spec: &DirectionSpec,
        headers: usize,
    ) -> Result<Self, Unmeasured> {
        let Basis { rate, policed } = Basis::of(spec).ok_or(Unmeasured::NoRateAsked)?;
        let bytes = rate.checked_mul(SPAN).unwrap_or_default().get();
        let mut count = (bytes / IP_BYTES).max(FEWEST);
        let queue = spec.queue.in_bytes(Bytes::new(IP_BYTES)).get() / IP_BYTES;
        // The queue never holds more than the burst plus what the pace exceeds the rate by: half of it
        // and a quarter of it. Even the tightest pace exceeds the rate by more than the tolerance, so
        // that a bottleneck which is missing or too fast does not look right.
        let per_mille = (1000 * queue / 4 / count).clamp(20, 100);
        let mut pace = Rate::bit_per_s(rate.bits_per_s() / 1000 * (1000 + per_mille));
        let mut burst = (queue / 2).clamp(2, count / 4);
        let mut backlog = (queue - queue / 8).max(2);
        let mut policed_from = None;
        let mut arriving = 1.0;
        if let Some(policed) = policed {
            // At twice the rate a bucket loses as much as passes: it is empty after twice its size.
            let emptying = 2 * policed.bucket.get() / IP_BYTES + FEWEST;
            policed_from = Some(emptying);
            arriving = 1.0 - policed.lost;
            count = emptying + 2 * count.max(policed.packets());
            pace = Rate::bit_per_s(rate.bits_per_s() * 2);
            burst = 2;
            // A policer has no queue; what waits behind it is not what is measured.
            backlog = u64::MAX;
        }
        let time = |packets| {
            let bytes = Bytes::new(packets * IP_BYTES);
            bytes.checked_div(rate).unwrap_or_default()
        };
        let segment = PACKET - headers;
        let room = usize::try_from(SUPERPACKET).unwrap_or(1) * segment;
        Ok(Self {
            direction,
            rate,
            policed_from,
            arriving,
            in_order: spec.order == Order::Kept
                && spec.reorder.is_none()
                && spec.duplicate == LossRate::ZERO,
            count,
            burst,
            backlog,
            pace,
            // The burst must last until the next packets come.
            tick: TICK.min(time(burst) / 2),
            deadline: time(count) * 5 / 4 + spec.one_way_delay * 5 / 4 + PATIENCE,
            payload: vec![0; room],
            // Below 1500.
            segment: u16::try_from(segment).unwrap_or(u16::MAX),
            sent: 0,
            busy_until: Duration::ZERO,
            idle: Duration::ZERO,
            arrived: Vec::new(),
            // Trains are short: below 2^32 packets.
            seen: vec![false; usize::try_from(count).unwrap_or(0)],
        })
    }

    fn send_due(&mut self, sockets: &Sockets, started: Instant) -> Result<(), ProbeError> {
        let paced = self
            .pace
            .checked_mul(started.elapsed())
            .unwrap_or_default()
            .get()
            / IP_BYTES;
        let due = self.count.min(self.burst + paced);
        while self.sent < due {
            let room = self.backlog.saturating_sub(self.waiting(started.elapsed()));
            let packets = (due - self.sent).min(SUPERPACKET).min(room);
            if packets == 0 {
                return Ok(());
            }
            let segment = usize::from(self.segment);
            let numbered = (self.sent..self.sent + packets).zip(self.payload.chunks_mut(segment));
            let mut length = 0;
            for (number, bytes) in numbered {
                let message = Message::Carriage { number };
                bytes[..message::LENGTH].copy_from_slice(&message.encode());
                length += segment;
            }
            let bytes = &self.payload[..length];
            if !sockets.send_segments(self.direction, bytes, self.segment)? {
                return Ok(());
            }
            self.sent += packets;
            self.note_sent(started.elapsed(), packets);
        }
        Ok(())
    }

    /// Packets at the bottleneck that is asked for, of which the first may have left in part.
    fn waiting(&self, now: Duration) -> u64 {
        let busy = self.busy_until.saturating_sub(now);
        let bytes = self.rate.checked_mul(busy).unwrap_or_default().get();
        bytes.div_ceil(IP_BYTES)
    }

    /// Follows the bottleneck that is asked for: did it ever wait for the sender?
    fn note_sent(&mut self, now: Duration, packets: u64) {
        if self.sent > packets {
            self.idle += now.saturating_sub(self.busy_until);
        }
        let bytes = Bytes::new(packets * IP_BYTES);
        self.busy_until =
            self.busy_until.max(now) + bytes.checked_div(self.rate).unwrap_or_default();
    }

    fn receive(&mut self, sockets: &Sockets, inbox: &mut Inbox) -> Result<(), ProbeError> {
        let (arrived, seen) = (&mut self.arrived, &mut self.seen);
        inbox.empty(sockets, self.direction, |message, at| {
            if let Message::Carriage { number } = message
                && let Some(seen) = usize::try_from(number).ok().and_then(|n| seen.get_mut(n))
            {
                // Of copies only the first counts.
                if !std::mem::replace(seen, true) {
                    arrived.push((number, at));
                }
            }
            Ok(())
        })
    }

    /// On a path that keeps order nothing of the train is left after its last packet.
    fn is_complete(&self) -> bool {
        let last_came = self.seen.last().copied().unwrap_or(true);
        (self.in_order && last_came) || self.arrived.len() == self.seen.len()
    }

    fn conclude(&self, reading: &mut DirectionReading) {
        let missing = (0..self.sent).zip(&self.seen).filter(|(_, seen)| !**seen);
        reading
            .lost
            .extend(missing.map(|(number, _)| reading.sent + number));
        reading.sent += self.sent;
        reading.rate = match self.seconds_per_packet() {
            None => Err(Unmeasured::TooFewArrived),
            // A bottleneck that had to wait looks slower than it is by the same share.
            Some(_) if self.starved() => Err(Unmeasured::SenderTooSlow),
            Some(seconds) => Ok(rate_of(seconds)),
        };
    }

    fn seconds_per_packet(&self) -> Option<f64> {
        let Some(from) = self.policed_from else {
            return seconds_per_packet(&self.arrived);
        };
        let late = self.arrived.iter().filter(|(number, _)| *number >= from);
        let counted: Vec<_> = (0..).zip(late.map(|&(_, at)| at)).collect();
        // Those that are lost behind the policer took its time as well.
        seconds_per_packet(&counted).map(|seconds| seconds * self.arriving)
    }

    fn starved(&self) -> bool {
        self.idle > self.busy_until.mul_f64(RATE_TOLERANCE / 2.0)
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
    use link::Policer;

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
                queue: Bytes::new(queue).into(),
                ..DirectionSpec::default()
            };
            let train = Train::plan(Direction::Forward, &spec, 28).unwrap();
            // When everything but the burst went out at the pace, the bottleneck has done its share.
            let excess = train.count * (train.pace.bits_per_s() - 100_000_000) / 100_000_000;
            let most = (train.burst + excess) * IP_BYTES;
            let tight = (2 + train.count * 20 / 1000) * IP_BYTES;
            assert!(most <= queue.max(tight), "{most} of {queue}");
        }
    }

    #[test]
    fn losses_behind_a_policer_do_not_look_like_another_rate() {
        let policed = |per_billion| DirectionSpec {
            policer: Some(Policer {
                rate: Rate::mbit_per_s(10),
                burst: Bytes::new(64_000),
            }),
            loss: LossSpec::Bernoulli(LossRate::per_billion(per_billion).unwrap()),
            ..DirectionSpec::default()
        };
        let mut train = Train::plan(Direction::Forward, &policed(5_000_000), 28).unwrap();
        let from = train.policed_from.unwrap();
        // Every second packet passes, one each 1.2 ms, and of those every 200th is lost.
        for number in (from..train.count).step_by(2) {
            let passed = (number - from) / 2;
            if passed % 200 != 100 {
                let at = Duration::from_micros(1_200 * passed);
                train.arrived.push((number, at));
            }
        }
        assert!(train.arrived.len() > 1_200);
        let rate = rate_of(train.seconds_per_packet().unwrap()).bits_per_s();
        assert!(rate.abs_diff(10_000_000) < 20_000, "{rate}");
        // Five times the losses would take five times as long to tell from.
        let refused = Train::plan(Direction::Forward, &policed(25_000_000), 28).err();
        assert_eq!(refused, Some(Unmeasured::NoRateAsked));
    }

    #[test]
    fn a_sender_that_lets_the_bottleneck_wait_knows_it() {
        let spec = DirectionSpec {
            rate: Some(Rate::mbit_per_s(120)),
            queue: Bytes::new(1_000_000).into(),
            ..DirectionSpec::default()
        };
        // A packet takes 100 us. One that comes 400 us late in 100 ms is none too many, 600 us are.
        for (late_us, starved) in [(400, false), (600, true)] {
            let mut train = Train::plan(Direction::Forward, &spec, 28).unwrap();
            for position in 0..1000_u64 {
                let late = if position < 500 { 0 } else { late_us };
                train.sent += 1;
                train.note_sent(Duration::from_micros(position * 100 + late), 1);
            }
            assert_eq!(train.starved(), starved, "{late_us} us, {:?}", train.idle);
        }
    }
}
