use core::f64::consts::TAU;

use units::LossRate;

use crate::spec::Direction;

/// A stage that draws. Each has luck of its own from the same seed, direction and packet number.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(crate) enum Draw {
    Loss = 0x6c6f_7373,
    CopyLoss = 0x6c6f_7332,
    ChainStart = 0x6368_7374,
    ChainStep = 0x6368_7370,
    Jitter = 0x6a69_7474,
    Reorder = 0x7265_6f72,
    Duplicate = 0x6475_706c,
    Corrupt = 0x636f_7272,
    CopyCorrupt = 0x636f_7232,
    Red = 0x7265_6421,
}

/// Draws that depend on seed, direction, stage and packet number, and on nothing else: neither on the
/// time nor on what was drawn before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dice {
    key: u64,
}

/// The state of a chain that moves with every packet, at the packet last asked for.
///
/// A chain starts anew every [`BLOCK`] packets, so that the state at any packet is found without
/// walking through all packets before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk<S> {
    at: Option<(u64, S)>,
}

/// Packets between two starts of a chain: so many that what the start changes in a burst's mean length
/// is far below what anyone can measure, so few that walking them takes less than a millisecond.
const BLOCK: u64 = 1 << 16;

// === impl Dice ===

impl Dice {
    pub(crate) const fn new(seed: u64, direction: Direction, draw: Draw) -> Self {
        let direction = match direction {
            Direction::Forward => 0,
            Direction::Backward => 1,
        };
        Self {
            key: mix(seed ^ ((draw as u64) << 1 | direction)),
        }
    }

    /// 64 uniform bits for packet `n`. Two rounds of mixing in all, because neighbouring seeds and
    /// neighbouring packets must not share their luck.
    pub(crate) const fn bits(self, n: u64) -> u64 {
        mix(self.key ^ n)
    }

    /// Whether packet `n` belongs to `share` of all packets.
    pub(crate) fn hits(self, n: u64, share: LossRate) -> bool {
        let scaled = (u128::from(self.bits(n)) * 1_000_000_000) >> 64;
        scaled < u128::from(share.as_per_billion())
    }

    /// Uniform between 0 and 1, both excluded.
    pub(crate) fn unit(self, n: u64) -> f64 {
        unit(self.bits(n))
    }

    /// From the standard normal distribution (Box and Muller, 1958).
    pub(crate) fn normal(self, n: u64) -> f64 {
        let first = self.bits(n);
        let second = mix(first);
        libm::sqrt(-2.0 * libm::log(unit(first))) * libm::cos(TAU * unit(second))
    }
}

/// The middle of one of 2^52 equal parts of the interval from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "52 bits are exact")]
fn unit(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// The output function of `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014, figure 16, with Stafford's
/// constants as in `java.util.SplittableRandom`).
const fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

// === impl Walk ===

impl<S: Copy> Walk<S> {
    /// The state at packet `n`, where `start` gives it at the beginning of a block and `step` from one
    /// packet to the next. Cheap when packets are asked for in their order.
    pub(crate) fn state(
        &mut self,
        n: u64,
        start: impl Fn(u64) -> S,
        step: impl Fn(S, u64) -> S,
    ) -> S {
        let block = n - n % BLOCK;
        let known = self.at.filter(|&(at, _)| (block..=n).contains(&at));
        let (mut at, mut state) = known.unwrap_or_else(|| (block, start(block)));
        while at < n {
            at += 1;
            state = step(state, at);
        }
        self.at = Some((n, state));
        state
    }
}
