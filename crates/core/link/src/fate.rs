use crate::spec::{Direction, LossSpec};

/// What becomes of a packet behind the bottleneck.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It arrives.
    Delivered,
    /// It is lost.
    Lost,
}

/// Keeps the loss stage's draws apart from those of stages to come (duplication, corruption), which
/// will draw from the same seed, direction and index.
const LOSS_STAGE: u64 = 0x6c6f_7373;

// === impl LossSpec ===

impl LossSpec {
    /// The fate of the packet with index `n` (from 0) among those offered to `direction` of a path with
    /// this `seed`. A pure function: a test computes the list of losses before it sends a packet.
    #[must_use]
    pub fn fate(&self, seed: u64, direction: Direction, n: u64) -> Fate {
        let lost = match self {
            Self::None => false,
            Self::Bernoulli(rate) => draw(seed, direction, LOSS_STAGE, n) < rate.as_per_billion(),
            Self::Listed(list) => list.binary_search(&n).is_ok(),
        };
        if lost { Fate::Lost } else { Fate::Delivered }
    }
}

/// A number from 0 to 10^9 - 1, uniform and independent for each combination of arguments.
fn draw(seed: u64, direction: Direction, stage: u64, n: u64) -> u32 {
    let direction = match direction {
        Direction::Forward => 0,
        Direction::Backward => 1,
    };
    // Two rounds, because neighbouring seeds and neighbouring packets must not share their luck.
    let hash = mix(mix(seed ^ (stage << 1 | direction)) ^ n);
    let scaled = (u128::from(hash) * 1_000_000_000) >> 64;
    // Below 10^9 after the shift, so it always fits.
    u32::try_from(scaled).unwrap_or(u32::MAX)
}

/// The output function of `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014, figure 16, with Stafford's
/// constants as in `java.util.SplittableRandom`).
const fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
