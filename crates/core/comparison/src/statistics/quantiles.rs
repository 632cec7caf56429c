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
pub(super) fn quantile_of_sorted(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = position.floor();
    let (low, high) = (
        sorted[below as usize],
        sorted[(position.ceil() as usize).min(last)],
    );
    Some(low + (high - low) * (position - below))
}

/// The median, which may reorder what it is given.
pub(super) fn median_of(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    quantile_of_sorted(values, 0.5)
}

/// A count as a number to calculate with.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of samples and of pairs are far below 2^52"
)]
pub(super) const fn float(count: usize) -> f64 {
    count as f64
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
}
