use super::bootstrap::median_interval;
use super::quantiles::quantile;

/// Fewer samples than this never end an experiment: a bootstrap interval of very few samples is too
/// narrow, and one that is looked at after every block is caught at its narrowest.
const FEWEST: usize = 10;

/// The stopping rule for an asked precision: whether the 95 % interval of the median lies within
/// `precision` (a share of one) of the median on both sides. Below ten samples never.
#[must_use]
pub fn is_precise(samples: &[f64], precision: f64, seed: u64) -> bool {
    if samples.len() < FEWEST {
        return false;
    }
    let (Some(median), Some((low, high))) =
        (quantile(samples, 0.5), median_interval(samples, seed))
    else {
        return false;
    };
    let within = precision * median.abs();
    median - low <= within && high - median <= within
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 and a spread of 10 to both sides, in a fixed order.
    fn spread(count: u32) -> Vec<f64> {
        (0..count).map(|n| 90.0 + f64::from(n * 31 % 21)).collect()
    }

    #[test]
    fn the_more_samples_the_more_precise() {
        let mut counts = (5..200).step_by(5);
        let mut needed = |precision| counts.find(|n| is_precise(&spread(*n), precision, 1));
        let (coarse, fine) = (needed(0.08).unwrap(), needed(0.03).unwrap());
        assert!(coarse >= 10, "{coarse}");
        assert!(fine > 2 * coarse, "{coarse} and {fine}");
        assert!(!is_precise(&spread(200), 0.0, 1));
    }

    #[test]
    fn equal_samples_are_precise_once_there_are_ten() {
        assert!(!is_precise(&[5.0; 9], 0.01, 1));
        assert!(is_precise(&[5.0; 10], 0.01, 1));
        assert!(!is_precise(&[], 0.01, 1));
    }
}
