use core::ops::AddAssign;
use core::time::Duration;

use units::Time;

/// For how long what held a stream's sending back, as its own end sees it; the times add up to those of the
/// stream. Names are of the house's vocabulary of limits where it has one for it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Holds {
    /// The application had nothing to send (`application`).
    pub application: Duration,
    /// All was sent and on its way (`propagation`).
    pub propagation: Duration,
    /// The application at the other end did not take what it had been sent (`receive-window`).
    pub receiver: Duration,
    /// No connection delivered anything: all were gone or stalled (`loss-recovery`).
    pub outage: Duration,
    /// Connections were still getting faster (`slow-start`).
    pub warming: Duration,
    /// The path carried what it could (`bottleneck`).
    pub path: Duration,
}

/// One of [`Holds`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Holding {
    #[default]
    Application,
    Propagation,
    Receiver,
    Outage,
    Warming,
    Path,
}

/// What holds a stream now, and what has held it so far.
///
/// Judged whenever something happens to the stream, and the time since the last such moment counts for what was
/// found then: what changes in between is noticed at the next frame or acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ledger {
    now: Holding,
    since: Time,
    holds: Holds,
}

impl Ledger {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            now: Holding::default(),
            since: now,
            holds: Holds::default(),
        }
    }

    pub(crate) fn turn(&mut self, to: Holding, now: Time) {
        self.holds = self.until(now);
        self.since = self.since.max(now);
        self.now = to;
    }

    /// All until `now`.
    pub(crate) fn until(&self, now: Time) -> Holds {
        let mut holds = self.holds;
        *holds.of(self.now) += now.since(self.since);
        holds
    }
}

impl AddAssign for Holds {
    fn add_assign(&mut self, other: Self) {
        self.application += other.application;
        self.propagation += other.propagation;
        self.receiver += other.receiver;
        self.outage += other.outage;
        self.warming += other.warming;
        self.path += other.path;
    }
}

impl Holds {
    const fn of(&mut self, holding: Holding) -> &mut Duration {
        match holding {
            Holding::Application => &mut self.application,
            Holding::Propagation => &mut self.propagation,
            Holding::Receiver => &mut self.receiver,
            Holding::Outage => &mut self.outage,
            Holding::Warming => &mut self.warming,
            Holding::Path => &mut self.path,
        }
    }

    /// What has come since `earlier`, a sum of the same streams or of fewer.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            application: self.application.saturating_sub(earlier.application),
            propagation: self.propagation.saturating_sub(earlier.propagation),
            receiver: self.receiver.saturating_sub(earlier.receiver),
            outage: self.outage.saturating_sub(earlier.outage),
            warming: self.warming.saturating_sub(earlier.warming),
            path: self.path.saturating_sub(earlier.path),
        }
    }

    /// All of them together: how long the stream has been there.
    pub fn total(&self) -> Duration {
        self.application + self.propagation + self.receiver + self.outage + self.warming + self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_counts_for_what_held_it_and_the_sum_is_the_whole() {
        let at = Time::from_millis;
        let mut ledger = Ledger::new(at(10));
        ledger.turn(Holding::Warming, at(15));
        ledger.turn(Holding::Path, at(40));
        // A clock that stands still, or a late word of the past, counts for nothing.
        ledger.turn(Holding::Receiver, at(40));
        ledger.turn(Holding::Path, at(30));
        let holds = ledger.until(at(100));
        assert_eq!(holds.application, Duration::from_millis(5));
        assert_eq!(holds.warming, Duration::from_millis(25));
        assert_eq!(holds.receiver, Duration::ZERO);
        assert_eq!(holds.path, Duration::from_millis(60));
        assert_eq!(holds.total(), Duration::from_millis(90));
    }
}
