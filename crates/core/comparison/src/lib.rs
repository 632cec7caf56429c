//! Arms compared: in what order blocks run, what their samples say, which assertions hold.
//!
//! Lab and simulator do the same experiment by different means; everything between "these transfers took
//! so long" and the result document is here, so that their answers can be laid side by side. Pure: no
//! clock, no process, and one seed gives one answer on every machine.

mod assertions;
mod cell;
mod contrast;
mod evidence;
mod random;
mod schedule;
mod statistics;
mod stopping;
mod summary;

pub use assertions::assertions;
pub use cell::{cells, measure};
pub use evidence::{Evidence, Measured, Predicted, Rivals, Transfer};
pub use random::SplitMix64;
pub use schedule::{Block, conduct, draw, round, rounds};
pub use statistics::{
    Interval, Test, buffer_delay, cliffs_delta, difference_interval, harm, is_precise, jain,
    mann_whitney, median_interval, quantile, ratio_interval, shift, shift_of_pairs, signed_rank,
    tcp_efficiency, transfer_time_ratio,
};
pub use stopping::further_round;
