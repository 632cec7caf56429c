//! Statistics of repeated transfers: order statistics, bootstrap intervals and rank tests, nothing that
//! assumes a normal distribution. Completion times over a WAN have steps (round trips) and tails
//! (timeouts), and means describe neither.

mod bootstrap;
mod effect;
mod fairness;
mod mann_whitney;
mod precision;
mod quantiles;
mod ranks;
mod rfc6349;
mod wilcoxon;

pub use bootstrap::{Interval, difference_interval, median_interval, ratio_interval};
pub use effect::{cliffs_delta, shift, shift_of_pairs};
pub use fairness::{harm, jain};
pub use mann_whitney::mann_whitney;
pub use precision::is_precise;
pub use quantiles::quantile;
pub use ranks::Test;
pub use rfc6349::{buffer_delay, tcp_efficiency, transfer_time_ratio};
pub use wilcoxon::signed_rank;

#[cfg(test)]
mod tests;
