use alloc::vec::Vec;
use core::time::Duration;

use units::{Rate, Time};

use crate::fate::LossSpec;
use crate::spec::DirectionSpec;

/// Settings that take effect at a moment and, if wanted, end again or come back.
///
/// While several changes are in effect, the later in the list wins, setting by setting. When one ends,
/// what it covered is back.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(
    feature = "serde",
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
pub struct Change {
    /// When it takes effect, counted from the start of the schedule.
    pub at: Duration,
    /// How long it lasts; for good where absent.
    pub lasts: Option<Duration>,
    /// After how long it takes effect again, counted from `at`; once where absent.
    pub every: Option<Duration>,
    /// The bottleneck's rate.
    pub rate: Option<Rate>,
    /// Propagation delay: a handover to a longer or a shorter way.
    pub one_way_delay: Option<Duration>,
    /// Loss. Chains of a change's own run from packet 0 on, whenever it takes effect, so that a packet's
    /// fate depends on its number and the change alone.
    pub loss: Option<LossSpec>,
    /// Nothing passes.
    pub outage: Option<Outage>,
}

/// What becomes of packets while nothing passes. Those that are on the wire already arrive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Outage {
    /// The bottleneck sends them into the void: a broken link that routing has not noticed.
    Drop,
    /// The bottleneck stands still and the queue holds them, as far as it reaches: a radio link whose
    /// modem waits for its turn, or for the next satellite.
    Hold,
}

/// A schedule under way: the settings of a moment, which only moves on.
#[derive(Debug)]
pub(crate) struct Schedule {
    base_rate: Option<Rate>,
    base_delay: Duration,
    changes: Vec<Change>,
    started_at: Time,
    settings: Settings,
    /// When the settings may be others.
    until: Time,
}

/// A bottleneck that outages, one behind the other, have kept from carrying a single bit so often carries nothing any more. Where their
/// periods and those of a trace go together it would indeed never, and a search for the moment would have no end.
pub(crate) const MOST_OUTAGES: u32 = 1_000_000;

/// What the changes may change.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Settings {
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: Duration,
    /// The change whose loss holds; the direction's own where absent.
    pub(crate) loss: Option<usize>,
    pub(crate) outage: Option<Outage>,
}

// === impl Change ===

impl Change {
    /// Whether it is in effect `elapsed` after the schedule's start, and when that may be otherwise.
    fn at(&self, elapsed: Duration) -> (bool, Option<Duration>) {
        let Some(since) = elapsed.checked_sub(self.at) else {
            return (false, Some(self.at));
        };
        let Some(lasts) = self.lasts else {
            return (true, None);
        };
        let Some(every) = self
            .every
            .map(|every| every.as_nanos())
            .filter(|&every| every > 0)
        else {
            let active = since < lasts;
            return (active, active.then(|| self.at.saturating_add(lasts)));
        };
        let phase = since.as_nanos() % every;
        let left = |end: u128| Duration::from_nanos(u64::try_from(end - phase).unwrap_or(u64::MAX));
        if phase < lasts.as_nanos() {
            (true, Some(elapsed + left(lasts.as_nanos())))
        } else {
            (false, Some(elapsed + left(every)))
        }
    }
}

// === impl Schedule ===

impl Schedule {
    pub(crate) fn new(spec: &DirectionSpec) -> Self {
        let mut schedule = Self {
            base_rate: spec.rate,
            base_delay: spec.one_way_delay,
            changes: spec.schedule.clone(),
            started_at: Time::ZERO,
            settings: Settings::default(),
            until: Time::ZERO,
        };
        schedule.settle(Time::ZERO);
        schedule
    }

    /// Counts from `now` on.
    pub(crate) fn start(&mut self, now: Time) {
        self.started_at = now;
        self.settle(now);
    }

    /// Moves on to `at`, if that is later.
    #[inline]
    pub(crate) fn reach(&mut self, at: Time) -> Settings {
        if at >= self.until {
            self.settle(at);
        }
        self.settings
    }

    pub(crate) const fn settings(&self) -> Settings {
        self.settings
    }

    /// Before this moment nothing changes.
    pub(crate) const fn until(&self) -> Time {
        self.until
    }

    /// The loss of the present settings, where it isn't the direction's own.
    pub(crate) fn loss(&self, settings: Settings) -> Option<&LossSpec> {
        self.changes.get(settings.loss?)?.loss.as_ref()
    }

    #[cold]
    fn settle(&mut self, at: Time) {
        let elapsed = at.since(self.started_at);
        let mut settings = Settings {
            rate: self.base_rate,
            delay: self.base_delay,
            loss: None,
            outage: None,
        };
        let mut until = Time::MAX;
        for (number, change) in self.changes.iter().enumerate() {
            let (active, next) = change.at(elapsed);
            if let Some(next) = next {
                until = until.min(self.started_at + next);
            }
            if active {
                settings.rate = change.rate.or(settings.rate);
                settings.delay = change.one_way_delay.unwrap_or(settings.delay);
                settings.loss = change.loss.as_ref().map(|_| number).or(settings.loss);
                settings.outage = change.outage.or(settings.outage);
            }
        }
        self.settings = settings;
        self.until = until;
    }
}

// === impl Settings ===

impl Settings {
    pub(crate) fn is_held(self) -> bool {
        self.outage == Some(Outage::Hold)
    }
}
