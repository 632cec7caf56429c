//! The matrix: paths, algorithms and what goes over them.

use std::fmt;
use std::time::Duration;

use link::{LossSpec, PathSpec};
use units::{Bytes, LossRate, Rate};

/// One path with one algorithm and one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) rtt: Duration,
    pub(crate) rate: Rate,
    /// Losses per 10^9 packets, both ways.
    pub(crate) loss: u32,
    /// Whether they are at places of which both hosts think alike, instead of at the seed's.
    pub(crate) placed: bool,
    /// The queue in quarters of the path's product.
    pub(crate) queue_quarters: u64,
    pub(crate) algorithm: &'static str,
    pub(crate) bytes: u64,
}

/// Kernel and simulator in one cell: seconds to the last byte, one for each seed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) kernel: Vec<f64>,
    pub(crate) simulated: Vec<f64>,
}

const ALGORITHMS: [&str; 3] = ["reno", "cubic", "bbr"];

// === impl Cell ===

impl Cell {
    /// `rtt` in ms, `rate` in Mbit/s, `loss` in 10^-4; an object of `seconds` at the full rate.
    pub(crate) fn new(
        rtt: u64,
        rate: u64,
        loss: u32,
        queue_quarters: u64,
        algorithm: &'static str,
        seconds: f64,
    ) -> Self {
        let rate = Rate::mbit_per_s(rate);
        let full = Duration::from_secs_f64(seconds);
        Self {
            rtt: Duration::from_millis(rtt),
            rate,
            loss: loss * 100_000,
            placed: false,
            queue_quarters,
            algorithm,
            bytes: rate.checked_mul(full).map_or(0, Bytes::get),
        }
    }

    /// RTT x rate x loss x queue x algorithm.
    pub(crate) fn matrix() -> Vec<Self> {
        let mut cells = Vec::new();
        for rtt in [10, 40, 160] {
            for rate in [5, 20, 80] {
                for loss in [0, 10, 100] {
                    for queue in [2, 8] {
                        for algorithm in ALGORITHMS {
                            // A path full of losses is slow for whoever listens to them.
                            let seconds = if loss == 100 { 0.5 } else { 2.0 };
                            cells.push(Self::new(rtt, rate, loss, queue, algorithm, seconds));
                        }
                    }
                }
            }
        }
        cells
    }

    /// Ten cells that differ in everything.
    ///
    /// Losses are placed. Where they fall by chance some end slow start a round before the queue overflows, or a
    /// round after; then one packet more or less that either host has sent decides between two courses that
    /// differ by a third of the whole time, and a median of three seeds shows either.
    pub(crate) fn subset() -> Vec<Self> {
        let mut cells = vec![
            Self::new(10, 20, 0, 2, "reno", 1.0),
            Self::new(10, 20, 10, 8, "cubic", 1.0),
            Self::new(10, 80, 0, 8, "bbr", 1.0),
            Self::new(40, 5, 0, 8, "cubic", 1.5),
            Self::new(40, 20, 10, 2, "reno", 1.0),
            Self::new(40, 20, 10, 2, "bbr", 1.0),
            Self::new(40, 80, 0, 2, "cubic", 1.0),
            Self::new(160, 20, 0, 8, "reno", 1.0),
            Self::new(160, 20, 0, 2, "bbr", 1.0),
            Self::new(160, 5, 10, 8, "cubic", 1.5),
        ];
        for cell in &mut cells {
            cell.placed = cell.loss > 0;
        }
        cells
    }

    pub(crate) fn path(&self, seed: u64) -> PathSpec {
        let product = self.rate.checked_mul(self.rtt).map_or(0, Bytes::get);
        // Room for some segments at least, as every router has.
        let queue = Bytes::new((product * self.queue_quarters / 4).max(16 * 1500));
        let loss = match LossRate::per_billion(self.loss) {
            None | Some(LossRate::ZERO) => LossSpec::None,
            Some(_) if self.placed => LossSpec::Listed(self.places(seed)),
            Some(share) => LossSpec::Bernoulli(share),
        };
        PathSpec::symmetric(self.rtt, Some(self.rate), queue, loss, seed)
    }
}

impl Cell {
    /// As many losses as the share says, evenly over the transfer: the first in the middle of slow start, for it
    /// to end there. Each seed shifts them a little.
    fn places(&self, seed: u64) -> Vec<u64> {
        const FIRST: u64 = 50;
        let every = 1_000_000_000 / u64::from(self.loss);
        let packets = self.bytes / 1448;
        let first = FIRST + 3 * seed;
        (first..packets)
            .step_by(usize::try_from(every).unwrap_or(usize::MAX))
            .collect()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ms, {} Mbit/s, loss {} %, queue {} BDP, {}, {} kB",
            self.rtt.as_millis(),
            self.rate.bits_per_s() / 1_000_000,
            f64::from(self.loss) / 1e7,
            f64::from(u32::try_from(self.queue_quarters).unwrap_or(0)) / 4.0,
            self.algorithm,
            self.bytes / 1000,
        )
    }
}

// === impl Outcome ===

impl Outcome {
    /// By how much the simulated median exceeds the kernel's, as a share of it.
    pub(crate) fn difference(&self) -> f64 {
        median(&self.simulated) / median(&self.kernel) - 1.0
    }
}

pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value at `share` of the sorted values, between its neighbours where it falls between two.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = f64::from(u32::try_from(last).unwrap_or(u32::MAX)) * share;
    let below = (0..=last)
        .take_while(|&index| f64::from(u32::try_from(index).unwrap_or(u32::MAX)) <= place)
        .last()
        .unwrap_or(0);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}
