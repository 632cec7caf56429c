//! The signed-rank test for pairs (Wilcoxon, *Biometrics Bulletin* 1(6), 1945).

use super::quantiles::float;
use super::ranks::{Ranks, Test, nearly_normal, two_sided};

/// Up to this many pairs every assignment of signs is counted.
const EXACT: usize = 50;

/// Whether differences of pairs lie on both sides of zero alike. Differences of zero say nothing and are
/// left out, as Wilcoxon did.
///
/// Up to 50 pairs p is exact, ties included: the distribution is that of the signs, given the ranks.
/// Beyond, the normal approximation with correction for ties and continuity (Hollander and Wolfe,
/// *Nonparametric Statistical Methods*, 3.1). `None` without a difference.
#[must_use]
pub fn signed_rank(differences: &[f64]) -> Option<Test> {
    let differences: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    if differences.is_empty() {
        return None;
    }
    let sizes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    let ranks = Ranks::of(&sizes);
    let positive: usize = differences
        .iter()
        .zip(&ranks.doubled)
        .filter(|(difference, _)| **difference > 0.0)
        .map(|(_, rank)| rank)
        .sum();
    if differences.len() <= EXACT {
        return Some(Test {
            p: two_sided(&sums_of_subsets(&ranks.doubled), positive),
            name: "Wilcoxon signed-rank, exact",
        });
    }
    let n = float(differences.len());
    let mean = n * (n + 1.0) / 4.0;
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ranks.ties / 48.0;
    Some(Test {
        p: nearly_normal(float(positive) / 2.0, mean, variance)?,
        name: "Wilcoxon signed-rank, normal approximation",
    })
}

/// How many subsets of `ranks` have each sum, halved once per rank so that nothing overflows.
fn sums_of_subsets(ranks: &[usize]) -> Vec<f64> {
    let mut weights = vec![0.0; ranks.iter().sum::<usize>() + 1];
    weights[0] = 1.0;
    for rank in ranks {
        for sum in (0..weights.len()).rev() {
            let with = sum.checked_sub(*rank).map_or(0.0, |rest| weights[rest]);
            weights[sum] = f64::midpoint(weights[sum], with);
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::statistics::bootstrap::differences;
    use crate::statistics::tests::{DEPRESSION, assert_near, first_of_sixty, second_of_sixty};

    /// Hollander and Wolfe (1973), page 29: depression scores before and after; R's `?wilcox.test` gives
    /// 0.01953 for one side.
    #[test]
    fn the_published_example_of_hollander_and_wolfe() {
        let test = signed_rank(&differences(&DEPRESSION.0, &DEPRESSION.1)).unwrap();
        assert_near(test.p, 2.0 * 0.019_531_25, 1e-12);
        assert_eq!(test.name, "Wilcoxon signed-rank, exact");
    }

    /// Darwin's plants, the example of `SciPy`'s documentation: p = 0.041259765625.
    #[test]
    fn darwins_plants() {
        let heights = [6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75];
        assert_near(
            signed_rank(&heights.map(f64::from)).unwrap().p,
            0.041_259_765_625,
            1e-12,
        );
    }

    /// `SciPy` 1.17.1, `wilcoxon(d, method=PermutationMethod(n_resamples=inf))` without the zero.
    #[test]
    fn ties_are_counted_exactly() {
        let tied = [1.0, 1.0, 2.0, -2.0, 3.0, 0.0, 4.0, -1.0, 5.0, 5.0];
        assert_near(signed_rank(&tied).unwrap().p, 0.066_406_25, 1e-12);
    }

    /// `SciPy` 1.17.1, `wilcoxon(g1, g2, method="approx", correction=True)`; ties and zeros are among them.
    #[test]
    fn many_pairs_are_approximated_as_scipy_does() {
        let test = signed_rank(&differences(&first_of_sixty(), &second_of_sixty())).unwrap();
        assert_near(test.p, 0.614_042_987_454_383_7, 1e-9);
        assert_eq!(test.name, "Wilcoxon signed-rank, normal approximation");
    }

    #[test]
    fn twenty_pairs_that_all_agree_leave_no_doubt_and_none_say_nothing() {
        assert_near(
            signed_rank(&[1.0; 20]).unwrap().p,
            2.0 / f64::from(1 << 20),
            1e-15,
        );
        assert_eq!(signed_rank(&[0.0; 20]), None);
        assert_eq!(signed_rank(&[]), None);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_which_arm_comes_first(
            d in proptest::collection::vec(-20_i32..20, 1..70),
        ) {
            let d: Vec<f64> = d.into_iter().map(f64::from).collect();
            let turned: Vec<f64> = d.iter().map(|d| -d).collect();
            let (one, other) = (signed_rank(&d), signed_rank(&turned));
            prop_assert_eq!(one.is_some(), other.is_some());
            if let (Some(one), Some(other)) = (one, other) {
                prop_assert!((one.p - other.p).abs() < 1e-9, "{} and {}", one.p, other.p);
                prop_assert!((0.0..=1.0).contains(&one.p));
            }
        }
    }
}
