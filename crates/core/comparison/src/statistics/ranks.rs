//! What the rank tests share: ranks with ties, sums of ranks counted exactly, the normal distribution.

use super::quantiles::float;

/// What a rank test says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Test {
    /// Two-sided probability of ranks at least this uneven, were there no difference.
    pub p: f64,
    /// The test's name for people.
    pub name: &'static str,
}

/// Ranks from 1; equal values share the mean of their ranks. Doubled, because a mean of two whole
/// numbers may end in a half.
#[derive(Debug)]
pub(super) struct Ranks {
    pub(super) doubled: Vec<usize>,
    /// Sum of t^3 - t over groups of t equal values.
    pub(super) ties: f64,
}

impl Ranks {
    pub(super) fn of(values: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
        let mut doubled = vec![0; values.len()];
        let mut ties = 0.0;
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            let smallest = values[*first];
            let equal = rest
                .iter()
                .take_while(|index| values[**index].total_cmp(&smallest).is_eq());
            let (group, after) = rest.split_at(equal.count());
            let below = order.len() - rest.len();
            for index in group {
                // The ranks are below + 1 to below + len; twice their mean:
                doubled[*index] = 2 * below + group.len() + 1;
            }
            let t = float(group.len());
            ties += t * t * t - t;
            rest = after;
        }
        Self { doubled, ties }
    }
}

/// The two-sided p of a value among counted outcomes: twice the smaller tail, at most 1.
/// `weights[s]` is proportional to the probability of `s`.
pub(super) fn two_sided(weights: &[f64], observed: usize) -> f64 {
    let all: f64 = weights.iter().sum();
    let below: f64 = weights.iter().take(observed + 1).sum();
    let above: f64 = weights.iter().skip(observed).sum();
    (2.0 * below.min(above) / all).min(1.0)
}

/// The two-sided p of a statistic that is nearly normal, with half a step of continuity correction.
/// `None` where it has no spread.
pub(super) fn nearly_normal(observed: f64, mean: f64, variance: f64) -> Option<f64> {
    let distance = ((observed - mean).abs() - 0.5).max(0.0);
    (variance > 0.0).then(|| libm::erfc(distance / (2.0 * variance).sqrt()).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_their_ranks() {
        let ranks = Ranks::of(&[5.0, 1.0, 3.0, 3.0, 5.0, 5.0]);
        // 1, then 2 and 3 shared, then 4, 5 and 6 shared.
        assert_eq!(ranks.doubled, [10, 2, 5, 5, 10, 10]);
        assert_eq!(format!("{}", ranks.ties), "30", "6 + 24");
        assert!(Ranks::of(&[]).doubled.is_empty());
    }
}
