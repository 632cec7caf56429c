//! Order statistics, as the lab computes them.

/// The `share` quantile by linear interpolation between order statistics (Hyndman and Fan's type 7).
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sample counts are far below 2^52 and the position lies between 0 and the count"
)]
pub(crate) fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = position.floor();
    let (low, high) = (
        sorted[below as usize],
        sorted[(position.ceil() as usize).min(last)],
    );
    Some(low + (high - low) * (position - below))
}

/// The 95 % percentile-bootstrap interval of the median; `None` below five samples.
pub(crate) fn median_interval(samples: &[f64], seed: u64) -> Option<(f64, f64)> {
    const RESAMPLES: usize = 2_000;
    if samples.len() < 5 {
        return None;
    }
    let mut state = seed;
    let mut draw = || {
        state = mix(state);
        // The remainder is biased by less than samples / 2^64.
        usize::try_from(state % samples.len() as u64).unwrap_or(0)
    };
    let mut resample = vec![0.0; samples.len()];
    let medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            for slot in &mut resample {
                *slot = samples[draw()];
            }
            quantile(&resample, 0.5)
        })
        .collect();
    Some((quantile(&medians, 0.025)?, quantile(&medians, 0.975)?))
}

/// `SplitMix64`: one seed, many that share nothing.
pub(crate) const fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
