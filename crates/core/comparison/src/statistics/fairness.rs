//! What flows on one path do to each other.

use super::quantiles::float;

/// Jain's fairness index of what flows got: the square of their sum over n times the sum of their squares
/// (Jain, Chiu and Hawe, DEC-TR-301, 1984). 1 where all got the same, 1/n where one got everything.
/// `None` for fewer than two flows, or where none got anything.
#[must_use]
pub fn jain(rates: &[f64]) -> Option<f64> {
    if rates.len() < 2 {
        return None;
    }
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (squares > 0.0).then(|| sum * sum / (float(rates.len()) * squares))
}

/// The share of their throughput that flows lose beside another: (alone - beside) / alone (Ware, Mukerjee,
/// Seshan and Sherry, *Beyond Jain's Fairness Index*, `HotNets` 2019, section 4). 0 is none, 1 is all of
/// it, and below 0 they did better in company. Both sides list the same flows; their sums are compared.
/// `None` without flows or where they got nothing alone.
#[must_use]
pub fn harm(alone: &[f64], beside: &[f64]) -> Option<f64> {
    let (alone, beside) = (alone.iter().sum::<f64>(), beside.iter().sum::<f64>());
    (alone > 0.0).then(|| (alone - beside) / alone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::assert_near;

    #[test]
    fn jain_of_known_shares() {
        assert_near(jain(&[5.0, 5.0, 5.0]).unwrap(), 1.0, 1e-12);
        assert_near(jain(&[7.0, 0.0, 0.0, 0.0]).unwrap(), 0.25, 1e-12);
        // Where k of n flows share equally and the others get nothing, the index is k/n.
        assert_near(jain(&[1.0, 1.0, 0.0, 0.0, 0.0]).unwrap(), 0.4, 1e-12);
        assert_eq!(jain(&[3.0]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    #[test]
    fn harm_is_what_company_costs() {
        // A flow of 15 Mbit/s alone has 10 beside another: a third is lost.
        assert_near(harm(&[15e6], &[10e6]).unwrap(), 1.0 / 3.0, 1e-12);
        assert_near(harm(&[4.0, 6.0], &[3.0, 2.0]).unwrap(), 0.5, 1e-12);
        assert_near(harm(&[4.0], &[5.0]).unwrap(), -0.25, 1e-12);
        assert_eq!(harm(&[], &[]), None);
    }
}
