use alloc::vec::Vec;

use units::LossRate;

use crate::chance::{Dice, Draw, Walk};
use crate::spec::Direction;

/// Which packets of a direction are lost, by their index (from 0) among the packets offered to it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum LossSpec {
    /// None.
    #[default]
    None,
    /// Each independently with this probability, decided by the path's seed.
    Bernoulli(LossRate),
    /// In bursts, decided by the path's seed.
    GilbertElliott(GilbertElliott),
    /// The n-th, the 2 n-th and so on: indices n - 1, 2 n - 1, ...
    Every(u64),
    /// Exactly these indices, ascending.
    Listed(Vec<u64>),
}

/// Loss in bursts (Gilbert 1960, Elliott 1963): a chain that moves with every packet offered between a
/// good and a bad state, each with a probability of loss of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(
    feature = "serde",
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
pub struct GilbertElliott {
    /// Probability with which the packet after a good one is a bad one (`p`).
    pub to_bad: LossRate,
    /// Probability with which the packet after a bad one is a good one (`r`); bad states last `1 / r`
    /// packets on average.
    pub to_good: LossRate,
    /// Loss in the bad state (`1 - h`).
    pub loss_in_bad: LossRate,
    /// Loss in the good state (`1 - k`).
    pub loss_in_good: LossRate,
}

/// What becomes of a packet behind the bottleneck.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It arrives.
    Delivered,
    /// It is lost.
    Lost,
}

/// The loss stage under way.
#[derive(Debug)]
pub(crate) struct Losses {
    original: Dice,
    copy: Dice,
    start: Dice,
    step: Dice,
    /// Whether the chain is in its bad state.
    walk: Walk<bool>,
}

// === impl LossSpec ===

impl LossSpec {
    /// The fate of the packet with index `n` (from 0) among those offered to `direction` of a path with
    /// this `seed`. A pure function: a test computes the list of losses before it sends a packet. Takes
    /// up to a millisecond for [`LossSpec::GilbertElliott`], whose chain is walked to `n`.
    #[must_use]
    pub fn fate(&self, seed: u64, direction: Direction, n: u64) -> Fate {
        if Losses::new(seed, direction).is_lost(self, n) {
            Fate::Lost
        } else {
            Fate::Delivered
        }
    }
}

// === impl GilbertElliott ===

impl GilbertElliott {
    /// Gilbert's simple model: everything is lost in bad states, which last `burst` packets on average,
    /// and nothing between them, so that `loss` of all packets are lost. `None` where no chain does
    /// that: a burst is at least one packet, and not everything can be lost.
    #[must_use]
    pub fn from_means(loss: LossRate, burst: u32) -> Option<Self> {
        let lost = u64::from(loss.as_per_billion());
        let whole = u64::from(LossRate::ONE.as_per_billion());
        let burst = u64::from(burst);
        // In balance as many packets enter the bad state as leave it: (1 - loss) p = loss r.
        let to_bad = (lost * whole).checked_div((whole - lost).checked_mul(burst)?)?;
        let to_good = whole.checked_div(burst)?;
        let share = |billionths| LossRate::per_billion(u32::try_from(billionths).ok()?);
        Some(Self {
            to_bad: share(to_bad)?,
            to_good: share(to_good)?,
            loss_in_bad: LossRate::ONE,
            loss_in_good: LossRate::ZERO,
        })
    }

    /// The share of packets that meet the bad state in the long run: p / (p + r), in billionths.
    fn bad_share(&self) -> LossRate {
        let (p, r) = (
            u64::from(self.to_bad.as_per_billion()),
            u64::from(self.to_good.as_per_billion()),
        );
        let share = (p * 1_000_000_000).checked_div(p + r).unwrap_or(0);
        u32::try_from(share)
            .ok()
            .and_then(LossRate::per_billion)
            .unwrap_or(LossRate::ZERO)
    }
}

// === impl Losses ===

impl Losses {
    pub(crate) fn new(seed: u64, direction: Direction) -> Self {
        let dice = |draw| Dice::new(seed, direction, draw);
        Self {
            original: dice(Draw::Loss),
            copy: dice(Draw::CopyLoss),
            start: dice(Draw::ChainStart),
            step: dice(Draw::ChainStep),
            walk: Walk::default(),
        }
    }

    /// Forgets the state of a chain, because from now on it is another chain's.
    pub(crate) fn change_spec(&mut self) {
        self.walk = Walk::default();
    }

    /// Whether packet `n` is lost.
    pub(crate) fn is_lost(&mut self, spec: &LossSpec, n: u64) -> bool {
        self.decide(spec, n, self.original)
    }

    /// Whether the copy of packet `n` is lost: by a draw of its own, but in the same state of a chain.
    pub(crate) fn is_copy_lost(&mut self, spec: &LossSpec, n: u64) -> bool {
        self.decide(spec, n, self.copy)
    }

    fn decide(&mut self, spec: &LossSpec, n: u64, dice: Dice) -> bool {
        match spec {
            LossSpec::None => false,
            LossSpec::Bernoulli(rate) => dice.hits(n, *rate),
            LossSpec::GilbertElliott(model) => {
                let loss = if self.is_bad(model, n) {
                    model.loss_in_bad
                } else {
                    model.loss_in_good
                };
                dice.hits(n, loss)
            }
            LossSpec::Every(period) => (n + 1).is_multiple_of(*period),
            LossSpec::Listed(list) => list.binary_search(&n).is_ok(),
        }
    }

    fn is_bad(&mut self, model: &GilbertElliott, n: u64) -> bool {
        let (start, step) = (self.start, self.step);
        self.walk.state(
            n,
            |n| start.hits(n, model.bad_share()),
            |bad, n| {
                if bad {
                    !step.hits(n, model.to_good)
                } else {
                    step.hits(n, model.to_bad)
                }
            },
        )
    }
}
