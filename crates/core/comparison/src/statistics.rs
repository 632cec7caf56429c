//! Statistics of repeated transfers: order statistics and a bootstrap interval, nothing that assumes a
//! normal distribution. Completion times over a WAN have steps (round trips) and tails (timeouts), and
//! means describe neither.

use crate::SplitMix64;

/// The `share` quantile (0 to 1) by linear interpolation between order statistics (Hyndman and Fan's
/// type 7, the default of R and `NumPy`). `None` without samples.
#[must_use]
pub fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, share)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sample counts are far below 2^52 and the position lies between 0 and the count"
)]
fn quantile_of_sorted(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = position.floor();
    let (low, high) = (
        sorted[below as usize],
        sorted[(position.ceil() as usize).min(last)],
    );
    Some(low + (high - low) * (position - below))
}

/// The 95 % percentile-bootstrap interval of the median, from 2,000 resamples drawn with `seed`. `None`
/// below five samples, where such an interval would pretend to know more than there is.
#[must_use]
pub fn median_interval(samples: &[f64], seed: u64) -> Option<(f64, f64)> {
    const RESAMPLES: usize = 2_000;
    if samples.len() < 5 {
        return None;
    }
    let mut random = SplitMix64::new(seed);
    let mut resample = vec![0.0; samples.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            for slot in &mut resample {
                *slot = samples[random.below(samples.len())];
            }
            quantile(&resample, 0.5)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    Some((
        quantile_of_sorted(&medians, 0.025)?,
        quantile_of_sorted(&medians, 0.975)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_known_samples() {
        let samples = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&samples, 0.0), Some(1.0));
        assert_eq!(quantile(&samples, 0.5), Some(2.5));
        assert_eq!(quantile(&samples, 1.0), Some(4.0));
        let high = quantile(&samples, 0.95).unwrap();
        assert!((high - 3.85).abs() < 1e-12, "{high}");
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn the_interval_covers_the_median_and_narrows_with_more_samples() {
        let samples = |count: u32| (0..count).map(|n| f64::from(n % 10)).collect::<Vec<_>>();
        let width = |count| {
            let (low, high) = median_interval(&samples(count), 1).unwrap();
            assert!(low <= 4.5 && 4.5 <= high, "{low} to {high} misses 4.5");
            high - low
        };
        assert!(
            width(400) < width(20) / 2.0,
            "20 times the samples, less than half the width"
        );
        assert_eq!(median_interval(&[1.0; 4], 1), None);
    }

    #[test]
    fn one_seed_gives_one_interval() {
        let samples: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(median_interval(&samples, 7), median_interval(&samples, 7));
    }
}
