//! From snapshots of sockets and samples of the queue to the series of one transfer.

use std::collections::BTreeSet;

use record::lab::{Series, SeriesPoint};

use super::sampler::{Reading, Snapshot};

/// What waited at the bottleneck at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct QueueSample {
    /// Seconds since 1970.
    pub(super) at_unix_s: f64,
    /// IP bytes that waited, towards the origin and towards the client.
    pub(super) forward: u64,
    pub(super) backward: u64,
}

/// What a block's transfers looked like from inside.
#[derive(Clone, Debug, Default)]
pub(super) struct Observation {
    /// Seconds between two looks.
    pub(super) interval_s: f64,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) queue: Vec<QueueSample>,
    /// Whether payload goes towards the origin.
    pub(super) upwards: bool,
}

// === impl Observation ===

impl Observation {
    /// The transfer between two moments, in seconds since 1970; `None` where nothing was seen of it. Flows
    /// at work at the same time are added up, the RTT is the mean of theirs; connections that only wait, as
    /// in a relay's pool, are left out.
    pub(super) fn series(&self, from_s: f64, to_s: f64) -> Option<Series> {
        let mut points = Vec::new();
        let mut resent = 0;
        let mut before: Option<&Snapshot> = None;
        let snapshots = self.of_transfer(from_s, to_s);
        for snapshot in &snapshots {
            if snapshot.at_unix_s >= from_s && !snapshot.sockets.is_empty() {
                let active = active(before, snapshot);
                let some = |sum: u64| (!active.is_empty()).then_some(sum);
                resent += before.map_or(0, |before| resent_between(before, snapshot));
                points.push(SeriesPoint {
                    at_s: snapshot.at_unix_s - from_s,
                    goodput_bps: before.and_then(|before| goodput(before, snapshot)),
                    cwnd: some(active.iter().map(|reading| reading.cwnd).sum()),
                    rtt_s: mean_rtt(&active),
                    in_flight: some(active.iter().map(|reading| reading.in_flight).sum()),
                    queue: self.queue_at(snapshot.at_unix_s),
                    retransmissions: Some(resent),
                });
            }
            before = Some(snapshot);
        }
        (!points.is_empty()).then_some(Series {
            interval_s: self.interval_s,
            points,
        })
    }

    /// What was seen until the end of a transfer, without sockets of the one before: those that were there
    /// already and gained nothing later than their last acknowledgement's way back, a round trip.
    fn of_transfer(&self, from_s: f64, to_s: f64) -> Vec<Snapshot> {
        let until = to_s + self.interval_s;
        let seen = self.snapshots.iter().filter(|look| look.at_unix_s <= until);
        let mut snapshots: Vec<Snapshot> = seen.cloned().collect();
        let mut old = BTreeSet::new();
        let mut at_work = BTreeSet::new();
        let mut before: Option<&Snapshot> = None;
        for snapshot in &snapshots {
            for (cookie, reading) in &snapshot.sockets {
                let known = before.and_then(|before| before.sockets.get(cookie));
                let late_s = from_s + reading.rtt_s.unwrap_or_default();
                if snapshot.at_unix_s < from_s {
                    old.insert(*cookie);
                } else if snapshot.at_unix_s > late_s
                    && known.is_none_or(|known| known.acknowledged < reading.acknowledged)
                {
                    at_work.insert(*cookie);
                }
            }
            before = Some(snapshot);
        }
        for snapshot in &mut snapshots {
            let belongs = |cookie: &u64| !old.contains(cookie) || at_work.contains(cookie);
            snapshot.sockets.retain(|cookie, _| belongs(cookie));
        }
        snapshots
    }

    /// Payload bits per second that were acknowledged between two moments, by looks at least as far apart as
    /// two intervals.
    pub(super) fn goodput_between(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let inside: Vec<&Snapshot> = self
            .snapshots
            .iter()
            .filter(|snapshot| (from_s..=to_s).contains(&snapshot.at_unix_s))
            .collect();
        let (first, last) = (inside.first()?, inside.last()?);
        let seconds = last.at_unix_s - first.at_unix_s;
        if seconds < 2.0 * self.interval_s {
            return None;
        }
        let bytes: u64 = inside.windows(2).map(|pair| gained(pair[0], pair[1])).sum();
        Some(bits(bytes) / seconds)
    }

    fn queue_at(&self, at_unix_s: f64) -> Option<u64> {
        let distance = |sample: &&QueueSample| (sample.at_unix_s - at_unix_s).abs();
        let nearest = self
            .queue
            .iter()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        (distance(&nearest) <= self.interval_s).then_some(if self.upwards {
            nearest.forward
        } else {
            nearest.backward
        })
    }
}

/// Sockets with something in flight, or that brought something to its end since the look before.
fn active<'a>(before: Option<&Snapshot>, after: &'a Snapshot) -> Vec<&'a Reading> {
    let moved = |cookie: &u64, reading: &Reading| {
        let old = before.and_then(|before| before.sockets.get(cookie));
        old.is_none_or(|old| old.acknowledged < reading.acknowledged)
    };
    after
        .sockets
        .iter()
        .filter(|(cookie, reading)| reading.in_flight > 0 || moved(cookie, reading))
        .map(|(_, reading)| reading)
        .collect()
}

fn resent_between(before: &Snapshot, after: &Snapshot) -> u64 {
    let resent = after.sockets.iter().map(|(cookie, reading)| {
        let known = before
            .sockets
            .get(cookie)
            .map_or(0, |old| old.retransmissions);
        reading.retransmissions.saturating_sub(known)
    });
    resent.sum()
}

/// Bytes that were acknowledged meanwhile. A socket that is gone took its last bytes with it.
fn gained(before: &Snapshot, after: &Snapshot) -> u64 {
    let gained = after.sockets.iter().map(|(cookie, reading)| {
        let known = before.sockets.get(cookie).map_or(0, |old| old.acknowledged);
        reading.acknowledged.saturating_sub(known)
    });
    gained.sum()
}

fn goodput(before: &Snapshot, after: &Snapshot) -> Option<f64> {
    let seconds = after.at_unix_s - before.at_unix_s;
    (seconds > 0.0).then(|| bits(gained(before, after)) / seconds)
}

fn mean_rtt(active: &[&Reading]) -> Option<f64> {
    let rtts: Vec<f64> = active.iter().filter_map(|reading| reading.rtt_s).collect();
    #[expect(clippy::cast_precision_loss, reason = "a count of sockets")]
    let count = rtts.len() as f64;
    (!rtts.is_empty()).then(|| rtts.iter().sum::<f64>() / count)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "what one transfer carries is far below 2^53 bits"
)]
pub(super) fn bits(bytes: u64) -> f64 {
    bytes as f64 * 8.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn snapshot(at_unix_s: f64, acknowledged: &[(u64, u64)]) -> Snapshot {
        let reading = |acknowledged| Reading {
            acknowledged,
            cwnd: 14_480,
            rtt_s: Some(0.1),
            ..Reading::default()
        };
        Snapshot {
            at_unix_s,
            sockets: acknowledged
                .iter()
                .map(|(cookie, bytes)| (*cookie, reading(*bytes)))
                .collect::<BTreeMap<_, _>>(),
        }
    }

    fn observation() -> Observation {
        Observation {
            interval_s: 1.0,
            snapshots: vec![
                snapshot(10.0, &[(1, 100)]),
                snapshot(11.0, &[(1, 1_100), (2, 1_000)]),
                snapshot(12.0, &[(2, 2_000)]),
                snapshot(13.0, &[]),
                snapshot(14.0, &[(3, 9)]),
            ],
            queue: vec![QueueSample {
                at_unix_s: 11.1,
                forward: 3_000,
                backward: 7,
            }],
            upwards: true,
        }
    }

    #[test]
    fn flows_are_added_up_and_only_what_is_new_is_goodput() {
        let series = observation().series(10.5, 12.5).unwrap();
        let goodput: Vec<f64> = series
            .points
            .iter()
            .filter_map(|point| point.goodput_bps)
            .collect();
        assert_eq!(goodput, [16_000.0, 8_000.0]);
        assert_eq!(series.points[0].cwnd, Some(28_960));
        assert_eq!(series.points[0].queue, Some(3_000));
        assert!((series.points[1].at_s - 1.5).abs() < 1e-9);
        assert_eq!(series.points[1].queue, Some(3_000));
    }

    #[test]
    fn the_tail_of_the_transfer_before_is_left_out() {
        let observation = Observation {
            snapshots: vec![
                snapshot(9.0, &[(1, 900)]),
                // Its last acknowledgement comes within a round trip, 0.1 s.
                snapshot(10.05, &[(1, 1_000), (2, 0)]),
                snapshot(11.0, &[(1, 1_000), (2, 500)]),
            ],
            ..observation()
        };
        let series = observation.series(10.0, 12.0).unwrap();
        let windows: Vec<Option<u64>> = series.points.iter().map(|point| point.cwnd).collect();
        assert_eq!(windows, [Some(14_480), Some(14_480)]);
        let goodput = series.points[1].goodput_bps.unwrap();
        assert!((goodput - 4_000.0 / 0.95).abs() < 1e-6, "{goodput}");
    }

    #[test]
    fn what_was_not_seen_is_absent() {
        assert_eq!(observation().series(20.0, 21.0), None);
        assert_eq!(observation().goodput_between(10.0, 11.0), None);
        let steady = observation().goodput_between(10.0, 12.0).unwrap();
        assert!((steady - 12_000.0).abs() < 1e-9, "{steady}");
    }
}
