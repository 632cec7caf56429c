//! How large a difference is, beside whether there is one.

use super::quantiles::{float, median_of, quantile_of_sorted};

/// Beyond this many values on a side their evenly spaced quantiles stand for them: a shift is a median
/// over all pairs, and a million pairs settle more digits than anybody reads.
const MOST: usize = 1_000;

/// The share of pairs of a value of `samples` and one of `against` in which the first is larger, less the
/// share in which it is smaller: -1 to 1 (Cliff, *Psychological Bulletin* 114(3), 1993). `None` without
/// samples on either side.
#[must_use]
pub fn cliffs_delta(samples: &[f64], against: &[f64]) -> Option<f64> {
    if samples.is_empty() || against.is_empty() {
        return None;
    }
    let mut sorted = against.to_vec();
    sorted.sort_by(f64::total_cmp);
    let dominance: f64 = samples
        .iter()
        .map(|value| {
            let smaller = sorted.partition_point(|other| other < value);
            let not_larger = sorted.partition_point(|other| other <= value);
            float(smaller) - float(sorted.len() - not_larger)
        })
        .sum();
    Some(dominance / (float(samples.len()) * float(against.len())))
}

/// The Hodges-Lehmann estimate of how far `samples` are shifted from `against`: the median of all
/// differences between them (Hodges and Lehmann, *Annals of Mathematical Statistics* 34(2), 1963).
#[must_use]
pub fn shift(samples: &[f64], against: &[f64]) -> Option<f64> {
    let (samples, against) = (thinned(samples), thinned(against));
    let pairs = samples
        .iter()
        .flat_map(|one| against.iter().map(move |other| one - other));
    median_of(&mut pairs.collect::<Vec<f64>>())
}

/// The same for differences of pairs: the median of the means of every two of them, each with itself
/// included (Walsh averages).
#[must_use]
pub fn shift_of_pairs(differences: &[f64]) -> Option<f64> {
    let differences = thinned(differences);
    let means = differences.iter().enumerate().flat_map(|(index, one)| {
        let others = differences.iter().take(index + 1);
        others.map(move |other| f64::midpoint(*one, *other))
    });
    median_of(&mut means.collect::<Vec<f64>>())
}

fn thinned(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    if sorted.len() <= MOST {
        return sorted;
    }
    sorted.sort_by(f64::total_cmp);
    (0..MOST)
        .filter_map(|step| quantile_of_sorted(&sorted, (float(step) + 0.5) / float(MOST)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::bootstrap::differences;
    use crate::statistics::tests::{DEPRESSION, PERMEABILITY, TIED, assert_near};

    /// `numpy.median` of all differences, and of all Walsh averages, for the data of Hollander and Wolfe.
    #[test]
    fn shifts_of_the_published_examples() {
        assert_near(
            shift(&PERMEABILITY.0, &PERMEABILITY.1).unwrap(),
            0.305,
            1e-12,
        );
        let differences = differences(&DEPRESSION.0, &DEPRESSION.1);
        assert_near(shift_of_pairs(&differences).unwrap(), 0.46, 1e-12);
    }

    /// `numpy.sign(numpy.subtract.outer(x, y)).mean()`.
    #[test]
    fn dominance_counts_pairs() {
        let delta = |(one, other): (&[f64], &[f64])| cliffs_delta(one, other).unwrap();
        assert_near(delta((&PERMEABILITY.0, &PERMEABILITY.1)), 0.4, 1e-12);
        assert_near(delta((&TIED.0, &TIED.1)), -0.321_428_571_428_571_45, 1e-12);
        assert_near(delta((&[1.0, 2.0], &[3.0])), -1.0, 1e-12);
        assert_near(delta((&[2.0], &[2.0])), 0.0, 1e-12);
        assert_eq!(cliffs_delta(&[], &[1.0]), None);
    }

    #[test]
    fn very_many_samples_keep_their_shift() {
        let many = |offset: f64| {
            (0..5_000)
                .map(|n| f64::from(n) + offset)
                .collect::<Vec<_>>()
        };
        let found = shift(&many(250.0), &many(0.0)).unwrap();
        assert!((249.0..=251.0).contains(&found), "{found}");
        let found = shift_of_pairs(&many(-2_000.0)).unwrap();
        assert!((498.0..=501.0).contains(&found), "{found}");
    }
}
