//! How a trunk keeps its connections hot, and when it makes room for others: as they are written.

use document::Problems;
use serde::{Deserialize, Serialize};
use trunk::{DigestKind, Guard, Padding};
use units::{Bytes, LossRate, Rate, Span};

/// See [`Padding`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PaddingOptions {
    /// Bytes that may be spent at once on all connections together; `0 B` switches padding off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Bytes>,
    /// How fast they come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The path's rate, where it is known; otherwise it is found out by padding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_for: Option<Rate>,
}

/// See [`Guard`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GuardOptions {
    /// `false`: whatever the trunk does to others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The delay that queues may add; half of the path's round trip and at least 20 ms where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queueing_delay: Option<Span>,
    /// The share of bytes that may be sent again while delay rises, such as `2 %`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmissions: Option<LossRate>,
}

/// See [`DigestKind`].
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DigestOption {
    /// 256 bits that nobody can forge.
    #[default]
    Blake3,
    /// 128 bits that find accidents, at a fraction of the CPU time.
    Xxh3,
}

// === impl PaddingOptions ===

impl PaddingOptions {
    pub(super) fn resolve(&self) -> Padding {
        let defaults = Padding::default();
        Padding {
            burst: self.burst.unwrap_or(defaults.burst),
            rate: self.rate.unwrap_or(defaults.rate),
            ready_for: self.ready_for,
        }
    }
}

// === impl GuardOptions ===

impl GuardOptions {
    pub(super) fn resolve(&self, problems: &mut Problems) -> Guard {
        /// Of a thousand million.
        const THOUSANDTH: u32 = 1_000_000;
        let defaults = Guard::default();
        let queueing = self.queueing_delay.map(Span::get);
        if queueing.is_some_and(|delay| delay.is_zero()) {
            problems.tell(
                "queueing-delay",
                "every packet exceeds 0 s; enabled = false switches the guard off",
            );
        }
        let share = self.retransmissions.map(LossRate::as_per_billion);
        if share.is_some_and(|share| share < THOUSANDTH) {
            problems.tell("retransmissions", "it is 0.1 % or more, which is its grain");
        }
        Guard {
            enabled: self.enabled.unwrap_or(defaults.enabled),
            queueing,
            retransmissions: share.map_or(defaults.retransmissions, |share| share / THOUSANDTH),
        }
    }
}

impl From<DigestOption> for DigestKind {
    fn from(option: DigestOption) -> Self {
        match option {
            DigestOption::Blake3 => Self::Blake3,
            DigestOption::Xxh3 => Self::Xxh3,
        }
    }
}
