//! Arms against the first of their cell.

use record::lab::{Arm, Comparison, Measure};

use crate::evidence::Measured;
use crate::statistics::{
    cliffs_delta, difference_interval, mann_whitney, quantile, ratio_interval, shift,
    shift_of_pairs, signed_rank,
};

/// Pairs stand for their arms where they are at least this share of each: an interrupted run has a few
/// transfers more on one side, failures take some from either.
const SHARE_IN_PAIRS: f64 = 0.8;

/// Below this many pairs, or samples on a side, no interval is given and pairing gains nothing.
const FEWEST_PAIRS: usize = 5;

/// Every other arm against the first. `measured` belongs to `arms`, place by place.
pub(crate) fn comparisons(
    arms: &[Arm],
    measured: &[&Measured],
    measure: Measure,
    seed: u64,
) -> Vec<Comparison> {
    let mut both = arms.iter().zip(measured);
    let Some((first, against)) = both.next() else {
        return Vec::new();
    };
    both.filter_map(|(arm, measured)| {
        let samples = samples(arm, measured, first, against, measure)?;
        Some(Comparison {
            arm: arm.name.clone(),
            against: first.name.clone(),
            ..compare(&samples, measure, seed)
        })
    })
    .collect()
}

/// Values of two arms, the n-th of one belonging to the n-th of the other where they are paired.
struct Samples {
    of_arm: Vec<f64>,
    of_other: Vec<f64>,
    paired: bool,
}

/// `None` where one side has none.
fn samples(
    arm: &Arm,
    measured: &Measured,
    first: &Arm,
    against: &Measured,
    measure: Measure,
) -> Option<Samples> {
    let all = |arm: &Arm| match measure {
        Measure::Time => arm.samples_s.clone(),
        Measure::Rate => arm.samples_bps.clone(),
    };
    let (of_arm, of_other) = (all(arm), all(first));
    let others = against.by_round();
    let pairs: Vec<(f64, f64)> = measured
        .by_round()
        .iter()
        .filter_map(|(place, transfer)| {
            let other = others.get(place)?;
            Some((transfer.value(measure)?, other.value(measure)?))
        })
        .collect();
    let most = of_arm.len().max(of_other.len());
    #[expect(clippy::cast_precision_loss, reason = "counts of transfers")]
    let enough = pairs.len() as f64 >= most as f64 * SHARE_IN_PAIRS;
    if pairs.len() >= FEWEST_PAIRS && enough {
        let (of_arm, of_other) = pairs.into_iter().unzip();
        return Some(Samples {
            of_arm,
            of_other,
            paired: true,
        });
    }
    (!of_arm.is_empty() && !of_other.is_empty()).then_some(Samples {
        of_arm,
        of_other,
        paired: false,
    })
}

fn compare(samples: &Samples, measure: Measure, seed: u64) -> Comparison {
    let Samples {
        of_arm,
        of_other,
        paired,
    } = samples;
    let differences: Vec<f64> = of_arm.iter().zip(of_other).map(|(a, b)| a - b).collect();
    let medians = quantile(of_arm, 0.5).zip(quantile(of_other, 0.5));
    let (test, shift, difference) = if *paired {
        (
            signed_rank(&differences),
            shift_of_pairs(&differences),
            quantile(&differences, 0.5),
        )
    } else {
        (
            mann_whitney(of_arm, of_other),
            shift(of_arm, of_other),
            medians.map(|(one, other)| one - other),
        )
    };
    let interval = difference_interval(of_arm, of_other, *paired, seed);
    let of = |wanted| measure == wanted;
    Comparison {
        ratio: medians
            .filter(|(_, other)| *other > 0.0)
            .map(|(one, other)| one / other),
        ratio_ci95: ratio_interval(of_arm, of_other, *paired, seed),
        difference_s: difference.filter(|_| of(Measure::Time)),
        difference_ci95_s: interval.filter(|_| of(Measure::Time)),
        difference_bps: difference.filter(|_| of(Measure::Rate)),
        difference_ci95_bps: interval.filter(|_| of(Measure::Rate)),
        shift,
        paired: *paired,
        p: test.map(|test| test.p),
        test: test.map_or_else(String::new, |test| test.name.to_owned()),
        effect: cliffs_delta(of_arm, of_other),
        ..Comparison::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Transfer;
    use crate::summary::{Frame, arm};

    const FRAME: Frame = Frame {
        measure: Measure::Time,
        payload: None,
        floor_s: None,
        ceiling_bps: None,
        baseline_rtt_s: 0.1,
        full_payload: 1448,
        seed: 1,
    };

    /// Blocks of five, the first transfer of each slow.
    fn measured(seconds: f64, blocks: u32) -> Measured {
        let transfer = |n: u32| {
            let position = n % 5;
            let cold = if position == 0 { 1.0 } else { 0.0 };
            Transfer {
                position: position as usize,
                seconds: seconds + cold + f64::from(n * 7 % 11) / 1e3,
                bytes: 1_000_000,
                ..Transfer::default()
            }
        };
        Measured {
            transfers: (0..5 * blocks).map(transfer).collect(),
            ..Measured::default()
        }
    }

    fn compared(one: &Measured, other: &Measured, measure: Measure) -> Comparison {
        let frame = Frame { measure, ..FRAME };
        let arms = [arm(other, &frame), arm(one, &frame)];
        comparisons(&arms, &[other, one], measure, 1).remove(0)
    }

    #[test]
    fn transfers_are_paired_by_round_and_position() {
        let (one, other) = (measured(0.21, 4), measured(0.22, 4));
        let comparison = compared(&one, &other, Measure::Time);
        assert!(comparison.paired, "{comparison:?}");
        assert_eq!(comparison.test, "Wilcoxon signed-rank, exact");
        // The difference is the same in each pair, though the first of a block takes a second more.
        let difference = comparison.difference_s.unwrap();
        assert!((difference + 0.01).abs() < 1e-9, "{difference}");
        let (low, high) = comparison.difference_ci95_s.unwrap();
        assert!((low + 0.01).abs() < 1e-9 && (high + 0.01).abs() < 1e-9);
        assert!(comparison.p.unwrap() < 1e-5);
        assert!(comparison.ratio.unwrap() < 1.0);
        assert!(comparison.effect.unwrap() < 0.0);
        assert_eq!(comparison.difference_bps, None);
    }

    #[test]
    fn a_failure_takes_its_pair_with_it_and_shifts_no_other() {
        let (mut one, other) = (measured(0.21, 4), measured(0.22, 4));
        one.transfers[5].failure = Some("reset".to_owned());
        let comparison = compared(&one, &other, Measure::Time);
        assert!(comparison.paired);
        assert!((comparison.difference_s.unwrap() + 0.01).abs() < 1e-9);
    }

    #[test]
    fn an_arm_that_was_cut_short_is_compared_without_pairs() {
        let (one, other) = (measured(0.21, 2), measured(0.22, 4));
        let comparison = compared(&one, &other, Measure::Time);
        assert!(!comparison.paired);
        assert_eq!(comparison.test, "Mann-Whitney U, exact");
        let empty = Measured::default();
        let arms = [arm(&other, &FRAME), arm(&empty, &FRAME)];
        assert!(comparisons(&arms, &[&other, &empty], Measure::Time, 1).is_empty());
    }

    #[test]
    fn streams_are_compared_by_their_rates() {
        let (one, other) = (measured(2.0, 4), measured(4.0, 4));
        let comparison = compared(&one, &other, Measure::Rate);
        assert!(comparison.ratio.unwrap() > 1.5, "{comparison:?}");
        assert!(comparison.difference_bps.unwrap() > 1e6);
        assert_eq!(comparison.difference_s, None);
        assert!(comparison.effect.unwrap() > 0.5);
    }
}
