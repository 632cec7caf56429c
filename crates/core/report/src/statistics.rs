//! The few numbers that a picture needs beyond its record.

/// Values in order, without what is not a number.
pub(crate) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values
        .into_iter()
        .filter(|value| value.is_finite())
        .collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle of sorted values, between the two in the middle where their number is even.
pub(crate) fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len().is_multiple_of(2) {
        Some(f64::midpoint(*sorted.get(middle - 1)?, upper))
    } else {
        Some(upper)
    }
}

/// The value below which `share` of sorted values lie, between neighbours (Hyndman and Fan 1996, type 7).
pub(crate) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = u32::try_from(sorted.len().checked_sub(1)?).ok()?;
    let place = share.clamp(0.0, 1.0) * f64::from(last);
    let below = (0..=last).rev().find(|index| f64::from(*index) <= place)?;
    let low = *sorted.get(usize::try_from(below).ok()?)?;
    let high = sorted
        .get(usize::try_from(below).ok()? + 1)
        .copied()
        .unwrap_or(low);
    Some(low + (high - low) * (place - f64::from(below)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0]), Some(1.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 5.0]), Some(3.0));
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 0.25), Some(2.0));
        assert_eq!(quantile(&values, 0.9), Some(4.6));
        assert_eq!(quantile(&values, 1.0), Some(5.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn what_is_not_a_number_is_left_out() {
        assert_eq!(sorted([2.0, f64::NAN, 1.0, f64::INFINITY]), [1.0, 2.0]);
    }
}
