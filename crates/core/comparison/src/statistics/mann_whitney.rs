//! The U test for samples without pairs (Mann and Whitney, *Annals of Mathematical Statistics* 18(1),
//! 1947).

use super::quantiles::float;
use super::ranks::{Ranks, Test, nearly_normal, two_sided};

/// Up to this many samples on both sides every division of the ranks is counted.
const EXACT: usize = 20;

/// Whether values of one side tend to be larger than the other's.
///
/// Up to 20 samples on each side p is exact, ties included: the distribution is that of all divisions of
/// the pooled ranks. Beyond, the normal approximation with correction for ties and continuity (Hollander
/// and Wolfe, *Nonparametric Statistical Methods*, 4.1). `None` without samples, or where all are equal.
#[must_use]
pub fn mann_whitney(samples: &[f64], against: &[f64]) -> Option<Test> {
    if samples.is_empty() || against.is_empty() {
        return None;
    }
    let pooled: Vec<f64> = samples.iter().chain(against).copied().collect();
    let ranks = Ranks::of(&pooled);
    let sum: usize = ranks.doubled.iter().take(samples.len()).sum();
    if ranks.doubled.iter().all(|rank| *rank == ranks.doubled[0]) {
        return None;
    }
    if samples.len().max(against.len()) <= EXACT {
        return Some(Test {
            p: two_sided(&sums_of_choices(&ranks.doubled, samples.len()), sum),
            name: "Mann-Whitney U, exact",
        });
    }
    let (m, n) = (float(samples.len()), float(against.len()));
    let all = m + n;
    let u = float(sum) / 2.0 - m * (m + 1.0) / 2.0;
    let variance = m * n / 12.0 * (all + 1.0 - ranks.ties / (all * (all - 1.0)));
    Some(Test {
        p: nearly_normal(u, m * n / 2.0, variance)?,
        name: "Mann-Whitney U, normal approximation",
    })
}

/// How many choices of `chosen` ranks have each sum. At most 40 over 20 of them: exact in an `f64`.
fn sums_of_choices(ranks: &[usize], chosen: usize) -> Vec<f64> {
    let sums = ranks.iter().sum::<usize>() + 1;
    let mut weights = vec![vec![0.0; sums]; chosen + 1];
    weights[0][0] = 1.0;
    for rank in ranks {
        for count in (1..=chosen).rev() {
            let (fewer, more) = weights.split_at_mut(count);
            let (Some(from), Some(to)) = (fewer.last(), more.first_mut()) else {
                continue;
            };
            for (to, from) in to.iter_mut().skip(*rank).zip(from) {
                *to += from;
            }
        }
    }
    weights.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::{
        PERMEABILITY, TIED, assert_near, first_of_sixty, second_of_sixty,
    };

    /// Hollander and Wolfe (1973), page 69: permeability of the human chorioamnion; R's `?wilcox.test`
    /// gives 0.1272 for one side.
    #[test]
    fn the_published_example_of_hollander_and_wolfe() {
        let test = mann_whitney(&PERMEABILITY.0, &PERMEABILITY.1).unwrap();
        assert_near(test.p, 0.254_412_254_412_254_4, 1e-12);
        assert_eq!(test.name, "Mann-Whitney U, exact");
    }

    /// The example of `SciPy`'s documentation: p = 0.1111.
    #[test]
    fn ages_at_diagnosis() {
        let (men, women) = ([19.0, 22.0, 16.0, 29.0, 24.0], [20.0, 11.0, 17.0, 12.0]);
        assert_near(mann_whitney(&men, &women).unwrap().p, 1.0 / 9.0, 1e-12);
    }

    /// `SciPy` 1.17.1, `mannwhitneyu(..., method=PermutationMethod(n_resamples=inf))`.
    #[test]
    fn ties_are_counted_exactly() {
        let test = mann_whitney(&TIED.0, &TIED.1).unwrap();
        assert_near(test.p, 0.308_313_908_313_908_3, 1e-12);
    }

    /// `SciPy` 1.17.1, `mannwhitneyu(g1, g2, method="asymptotic")`; ties are among them.
    #[test]
    fn many_samples_are_approximated_as_scipy_does() {
        let test = mann_whitney(&first_of_sixty(), &second_of_sixty()).unwrap();
        assert_near(test.p, 0.530_477_940_730_558_4, 1e-9);
        assert_eq!(test.name, "Mann-Whitney U, normal approximation");
    }

    #[test]
    fn samples_apart_leave_no_doubt_and_equal_ones_say_nothing() {
        let (low, high): (Vec<f64>, Vec<f64>) =
            (0..20).map(|n| (f64::from(n), f64::from(n + 100))).unzip();
        // 2 over (40 choose 20).
        assert_near(
            mann_whitney(&low, &high).unwrap().p,
            2.0 / 137_846_528_820.0,
            1e-20,
        );
        assert_eq!(mann_whitney(&[3.0; 4], &[3.0; 5]), None);
        assert_eq!(mann_whitney(&[], &low), None);
    }
}
