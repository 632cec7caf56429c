//! Percentile-bootstrap intervals (Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter
//! 13): resample what was measured, compute the statistic again, and take the middle 95 % of it.

use super::quantiles::{median_of, quantile_of_sorted};
use crate::SplitMix64;

/// Lower and upper end.
pub type Interval = (f64, f64);

/// 2,000 resamples put some 50 beyond each end, which settles its second digit.
const RESAMPLES: usize = 2_000;

/// Below this many samples such an interval would pretend to know more than there is.
const FEWEST: usize = 5;

/// The 95 % interval of the median, from resamples drawn with `seed`. `None` below five samples.
#[must_use]
pub fn median_interval(samples: &[f64], seed: u64) -> Option<Interval> {
    if samples.len() < FEWEST {
        return None;
    }
    let mut random = SplitMix64::new(seed);
    let mut resample = vec![0.0; samples.len()];
    middle((0..RESAMPLES).filter_map(|_| {
        draw(&mut random, samples, &mut resample);
        median_of(&mut resample)
    }))
}

/// The 95 % interval of the median of `samples` over the median of `against`. Where both are `paired`
/// (the n-th of one belongs to the n-th of the other), pairs are resampled, which keeps what their two
/// halves had in common. `None` below five samples on either side, or where a median of `against` is not
/// above zero.
#[must_use]
pub fn ratio_interval(
    samples: &[f64],
    against: &[f64],
    paired: bool,
    seed: u64,
) -> Option<Interval> {
    of_two(samples, against, paired, seed, |one, other| {
        (other > 0.0).then(|| one / other)
    })
}

/// The 95 % interval of the median of `samples` less the median of `against`; of the median of
/// differences where they are `paired`. `None` below five samples on either side.
#[must_use]
pub fn difference_interval(
    samples: &[f64],
    against: &[f64],
    paired: bool,
    seed: u64,
) -> Option<Interval> {
    if paired {
        return median_interval(&differences(samples, against), seed);
    }
    of_two(samples, against, false, seed, |one, other| {
        Some(one - other)
    })
}

/// Of each pair, the first less the second.
pub(super) fn differences(samples: &[f64], against: &[f64]) -> Vec<f64> {
    let pairs = samples.iter().zip(against);
    pairs.map(|(one, other)| one - other).collect()
}

fn of_two(
    samples: &[f64],
    against: &[f64],
    paired: bool,
    seed: u64,
    statistic: impl Fn(f64, f64) -> Option<f64>,
) -> Option<Interval> {
    if samples.len().min(against.len()) < FEWEST || (paired && samples.len() != against.len()) {
        return None;
    }
    let mut random = SplitMix64::new(seed);
    let (mut one, mut other) = (vec![0.0; samples.len()], vec![0.0; against.len()]);
    let mut complete = true;
    let interval = middle((0..RESAMPLES).filter_map(|_| {
        if paired {
            for (one, other) in one.iter_mut().zip(&mut other) {
                let pair = random.below(samples.len());
                (*one, *other) = (samples[pair], against[pair]);
            }
        } else {
            draw(&mut random, samples, &mut one);
            draw(&mut random, against, &mut other);
        }
        let value = statistic(median_of(&mut one)?, median_of(&mut other)?);
        complete &= value.is_some();
        value
    }));
    interval.filter(|_| complete)
}

fn draw(random: &mut SplitMix64, samples: &[f64], resample: &mut [f64]) {
    for slot in resample {
        *slot = samples[random.below(samples.len())];
    }
}

/// The middle 95 % of values.
fn middle(values: impl Iterator<Item = f64>) -> Option<Interval> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    Some((
        quantile_of_sorted(&values, 0.025)?,
        quantile_of_sorted(&values, 0.975)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::{first_of_sixty, second_of_sixty};

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

    /// `SciPy` 1.17.1, `stats.bootstrap(..., method="percentile", n_resamples=100000)`. Ends are order
    /// statistics of coarse samples, so they are off by at most one step of 0.1 (or what it makes of a
    /// ratio) with fewer resamples.
    #[test]
    fn intervals_are_those_of_scipy() {
        let (one, other) = (first_of_sixty(), second_of_sixty());
        let near = |interval: Option<Interval>, expected: Interval, step: f64| {
            let (low, high) = interval.unwrap();
            let off = (low - expected.0).abs().max((high - expected.1).abs());
            assert!(off <= step, "{low} to {high} instead of {expected:?}");
        };
        near(median_interval(&one, 1), (2.2, 3.8), 0.1);
        near(
            difference_interval(&one, &other, true, 1),
            (-0.8, 0.65),
            0.1,
        );
        near(
            difference_interval(&one, &other, false, 1),
            (-1.25, 0.85),
            0.15,
        );
        let above = |samples: &[f64]| samples.iter().map(|x| x + 1.0).collect::<Vec<_>>();
        let (one, other) = (above(&one), above(&other));
        near(
            ratio_interval(&one, &other, false, 1),
            (0.7312, 1.2286),
            0.04,
        );
        near(
            ratio_interval(&one, &other, true, 1),
            (0.7391, 1.2208),
            0.04,
        );
    }

    #[test]
    fn pairs_tell_a_small_difference_from_a_large_spread() {
        // Each pair differs by 0.1, pairs among themselves by up to 10.
        let one: Vec<f64> = (0..20).map(|n| f64::from(n * 7 % 20) / 2.0).collect();
        let other: Vec<f64> = one.iter().map(|x| x + 0.1).collect();
        let (low, high) = difference_interval(&one, &other, true, 1).unwrap();
        assert!((-0.1 - 1e-9..=-0.1 + 1e-9).contains(&low) && high - low < 1e-9);
        let (low, high) = difference_interval(&one, &other, false, 1).unwrap();
        assert!(low < -1.0 && high > 1.0, "{low} to {high}");
    }

    #[test]
    fn there_is_no_ratio_to_nothing() {
        let some = [1.0; 8];
        assert_eq!(ratio_interval(&some, &[0.0; 8], true, 1), None);
        assert_eq!(ratio_interval(&some, &some[..7], true, 1), None, "no pairs");
        assert_eq!(ratio_interval(&some, &some[..4], false, 1), None);
    }
}
