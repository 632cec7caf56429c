//! Samples that several tests look at.

/// Hollander and Wolfe (1973), page 29: scores before and after therapy.
#[expect(clippy::approx_constant, reason = "a score that happens to be near pi")]
pub(super) const DEPRESSION: ([f64; 9], [f64; 9]) = (
    [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30],
    [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29],
);

/// Hollander and Wolfe (1973), page 69: at term and at 12 to 26 weeks.
pub(super) const PERMEABILITY: ([f64; 10], [f64; 5]) = (
    [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46],
    [1.15, 0.88, 0.90, 0.74, 1.21],
);

pub(super) const TIED: ([f64; 8], [f64; 7]) = (
    [1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 7.0, 8.0],
    [2.0, 3.0, 3.0, 4.0, 5.0, 5.0, 9.0],
);

/// `numpy.arange(60) * 37 % 61 / 10.0`.
pub(super) fn first_of_sixty() -> Vec<f64> {
    (0..60).map(|n| f64::from(n * 37 % 61) / 10.0).collect()
}

/// `numpy.arange(60) * 29 % 53 / 10.0 + 0.7`.
pub(super) fn second_of_sixty() -> Vec<f64> {
    (0..60)
        .map(|n| f64::from(n * 29 % 53) / 10.0 + 0.7)
        .collect()
}

pub(super) fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!(
        (value - expected).abs() <= tolerance,
        "{value} instead of {expected}"
    );
}
