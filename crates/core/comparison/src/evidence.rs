//! What a run hands over: transfers as they were measured, and what was seen beside them.

use std::collections::{BTreeMap, BTreeSet};

use record::LimitSeconds;
use record::lab::{Leg, Measure, PathCheck, Series};

use crate::summary;

/// One transfer as it was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transfer {
    /// Its place within its block, from zero.
    pub position: usize,
    /// What the client waited, in seconds.
    pub seconds: f64,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Payload bits per second over the last half, where that was measured.
    pub steady_bps: Option<f64>,
    /// Why it does not count: an error of the client, or another digest in the store than was sent.
    pub failure: Option<String>,
    /// What the hosts' kernels counted from its start to the start of the next, or to the end of its block:
    /// by host and name, such as `origin: TcpRetransSegs`. What was not counted is left out.
    pub counters: BTreeMap<String, u64>,
}

/// Everything measured in one arm for one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Transfers in the order in which they ran.
    pub transfers: Vec<Transfer>,
    /// Mean seconds per limit and transfer, of the payload's way across the WAN.
    pub limits: LimitSeconds,
    /// The same for every hop of the payload.
    pub legs: Vec<Leg>,
    /// The first transfer through a pool that was connected but not primed.
    pub first_unprimed: Option<Transfer>,
    /// TCP's state over the transfer that took the median time.
    pub series: Option<Series>,
    /// Flows that shared the path.
    pub rivals: Option<Rivals>,
    /// Blocks repeated because the path was off.
    pub invalid_blocks: u64,
    /// What was off about them.
    pub invalid_because: Vec<String>,
}

/// Payload bits per second of every flow on a path that an arm shares with others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rivals {
    /// Of each rival flow without the arm's transfers.
    pub alone_bps: Vec<f64>,
    /// Of each rival flow beside them, in the same order.
    pub beside_bps: Vec<f64>,
    /// Of each of the arm's flows over the same time.
    pub own_bps: Vec<f64>,
}

// === impl Rivals ===

impl Rivals {
    /// Flow by flow the mean of what was measured beside several transfers; `None` of none.
    pub fn mean(parts: &[Self]) -> Option<Self> {
        let first = parts.first()?;
        let mean = |flows: fn(&Self) -> &Vec<f64>| {
            let each = (0..flows(first).len()).map(|flow| {
                let rates: Vec<f64> = parts
                    .iter()
                    .filter_map(|part| flows(part).get(flow).copied())
                    .collect();
                summary::mean(&rates).unwrap_or_default()
            });
            each.collect()
        };
        Some(Self {
            alone_bps: mean(|part| &part.alone_bps),
            beside_bps: mean(|part| &part.beside_bps),
            own_bps: mean(|part| &part.own_bps),
        })
    }
}

/// What `explain` predicted for an arm, in seconds, with its derivation.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Index of the workload.
    pub workload: usize,
    /// Seconds.
    pub seconds: f64,
    /// How it was computed.
    pub derivation: String,
}

/// All that a run has measured; keyed by `(arm, workload)` as indices of the scenario.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Factors and their values, of a sweep.
    pub factors: BTreeMap<String, String>,
    /// Transfers by cell.
    pub measured: BTreeMap<(usize, usize), Measured>,
    /// Path checks of the whole run.
    pub path: PathCheck,
    /// Why the path does not count, where it does not.
    pub invalid_path: Option<String>,
    /// Predictions written before their arm ran.
    pub predictions: Vec<Predicted>,
}

// === impl Measured ===

impl Measured {
    /// Transfers that count.
    pub(crate) fn good(&self) -> impl Iterator<Item = &Transfer> + Clone {
        let transfers = self.transfers.iter();
        transfers.filter(|transfer| transfer.failure.is_none())
    }

    /// What transfers that count are judged by, in the order in which they ran: seconds, or payload bits per
    /// second of those whose payload is known.
    #[must_use]
    pub fn values(&self, measure: Measure) -> Vec<f64> {
        let values = self.good().map(|transfer| transfer.value(measure));
        values.flatten().collect()
    }

    /// Those that were asked for and went wrong, the one through an unprimed pool too.
    pub(crate) fn failures(&self) -> impl Iterator<Item = &str> {
        let transfers = self.transfers.iter().chain(&self.first_unprimed);
        transfers.filter_map(|transfer| transfer.failure.as_deref())
    }

    /// Kernel counters summed over all transfers, those that failed too.
    pub(crate) fn counters(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (name, count) in self.transfers.iter().flat_map(|one| &one.counters) {
            *sums.entry(name.clone()).or_default() += count;
        }
        sums
    }

    /// Kernel counters of transfers that count, one after the other as in [`values`](Self::values).
    pub(crate) fn counters_by_run(&self) -> BTreeMap<String, Vec<u64>> {
        let names = self.good().flat_map(|one| one.counters.keys());
        let names: BTreeSet<&String> = names.collect();
        let of = |name: &String| {
            let counts = self.good().map(|one| one.counters.get(name).copied());
            counts.map(Option::unwrap_or_default).collect()
        };
        let columns = names.into_iter().map(|name| (name.clone(), of(name)));
        columns.collect()
    }

    /// Transfers that count, each with its round: how many blocks of this arm came before. A block ends
    /// where positions begin again.
    pub(crate) fn by_round(&self) -> BTreeMap<(usize, usize), &Transfer> {
        let mut round = 0;
        let mut last = None;
        let mut placed = BTreeMap::new();
        for transfer in &self.transfers {
            if last.is_some_and(|last| transfer.position <= last) {
                round += 1;
            }
            last = Some(transfer.position);
            if transfer.failure.is_none() {
                placed.insert((round, transfer.position), transfer);
            }
        }
        placed
    }
}

// === impl Transfer ===

impl Transfer {
    /// What it is judged by; `None` where that is not known.
    pub(crate) fn value(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::Time => Some(self.seconds),
            Measure::Rate => self.goodput_bps(None),
        }
    }

    /// Segments sent again by all hosts but rivals; `None` where no host's kernel counted anything.
    #[must_use]
    pub fn retransmissions(&self) -> Option<u64> {
        summary::retransmitted(&self.counters)
    }

    /// Payload bits per second; `None` where the payload or the time is not known. `payload` is what a
    /// transfer should move, for those who do not count what arrived.
    pub(crate) fn goodput_bps(&self, payload: Option<u64>) -> Option<f64> {
        let bytes = if self.bytes > 0 { self.bytes } else { payload? };
        (self.seconds > 0.0).then(|| bits(bytes) / self.seconds)
    }
}

/// Bits in so many bytes.
#[expect(
    clippy::cast_precision_loss,
    reason = "what a transfer moves is far below 2^52 bytes"
)]
pub(crate) const fn bits(bytes: u64) -> f64 {
    bytes as f64 * 8.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_worth_its_rate_and_not_its_duration() {
        let stream = |bytes, failure: Option<&str>| Transfer {
            seconds: 2.0,
            bytes,
            failure: failure.map(str::to_owned),
            ..Transfer::default()
        };
        let measured = Measured {
            transfers: vec![
                stream(1_000, None),
                stream(9_000, Some("reset")),
                stream(3_000, None),
            ],
            ..Measured::default()
        };
        assert_eq!(measured.values(Measure::Rate), [4_000.0, 12_000.0]);
        assert_eq!(measured.values(Measure::Time), [2.0, 2.0]);
    }

    #[test]
    fn rivals_are_averaged_flow_by_flow_however_many_transfers_there_were() {
        let part = |alone: f64, beside: [f64; 2]| Rivals {
            alone_bps: vec![alone; 2],
            beside_bps: beside.to_vec(),
            own_bps: vec![1.0],
        };
        assert_eq!(Rivals::mean(&[]), None);
        let mean = Rivals::mean(&[part(9.0, [2.0, 5.0]), part(9.0, [4.0, 7.0])]);
        assert_eq!(mean, Some(part(9.0, [3.0, 6.0])));
    }
}
