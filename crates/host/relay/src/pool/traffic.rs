//! Who uses a pool's connections, so that priming can stay out of their way.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Requests that hold a connection, or wait for one.
pub(super) struct Traffic {
    /// Connections in the hands of requests.
    busy: AtomicUsize,
    /// Requests that wait for a connection.
    waiting: Waiters,
    started: Instant,
    /// When a connection came out of a request's hands last, in nanoseconds from `started`; 0 for never.
    left: AtomicU64,
    /// Told when a connection was taken, brought back or lost.
    changed: Notify,
}

/// How many wait for something.
#[derive(Debug, Default)]
pub(super) struct Waiters(AtomicUsize);

/// One more that waits, for as long as this lives.
pub(super) struct Waiting<'a>(&'a Waiters);

// === impl Traffic ===

impl Traffic {
    pub(super) fn new() -> Self {
        Self {
            busy: AtomicUsize::new(0),
            waiting: Waiters::default(),
            started: Instant::now(),
            left: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    /// A request has taken a connection.
    pub(super) fn arrive(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// A connection has come out of a request's hands.
    pub(super) fn leave(&self) {
        let since = self.started.elapsed().as_nanos().max(1);
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.left.store(since, Ordering::Relaxed);
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }

    /// Something else has changed that those who wait want to see.
    pub(super) fn stir(&self) {
        self.changed.notify_waiters();
    }

    pub(super) fn wait(&self) -> Waiting<'_> {
        let waiting = self.waiting.enter();
        self.changed.notify_waiters();
        waiting
    }

    /// Whether requests wait for a connection: then nothing else may hold one.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.any()
    }

    /// Waits until no request has used a connection for a `lull`, or one waits, but no longer than `patience`.
    ///
    /// A gap between two requests of one client is shorter than a round trip, which what is sent into the gap
    /// takes: without a lull, it would stand in the next request's way.
    pub(super) async fn quiet(&self, lull: Duration, patience: Duration) {
        let deadline = Instant::now() + patience;
        loop {
            let changed = self.changed.notified();
            if self.is_wanted() {
                return;
            }
            let wake = match self.calm_from(lull) {
                Some(calm) if calm <= Instant::now() => return,
                Some(calm) => calm.min(deadline),
                None => deadline,
            };
            let elapsed = timeout_at(wake, changed).await.is_err();
            if elapsed && wake == deadline {
                return;
            }
        }
    }

    /// From when on the path counts as unused; `None` while a request uses it.
    fn calm_from(&self, lull: Duration) -> Option<Instant> {
        if self.busy.load(Ordering::Relaxed) > 0 {
            return None;
        }
        Some(match self.left.load(Ordering::Relaxed) {
            0 => self.started,
            left => self.started + Duration::from_nanos(left) + lull,
        })
    }
}

// === impl Waiters ===

impl Waiters {
    pub(super) fn enter(&self) -> Waiting<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }

    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

// === impl Waiting ===

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_calm_before_the_first_request_and_a_lull_after_the_last() {
        let traffic = Traffic::new();
        let lull = Duration::from_millis(200);
        assert!(traffic.calm_from(lull).unwrap() <= Instant::now());
        traffic.arrive();
        traffic.arrive();
        assert_eq!(traffic.calm_from(lull), None);
        traffic.leave();
        assert_eq!(traffic.calm_from(lull), None);
        let before = Instant::now();
        traffic.leave();
        let calm = traffic.calm_from(lull).unwrap();
        assert!(
            calm >= before + lull,
            "a gap between two requests is no lull"
        );
        assert!(calm <= Instant::now() + lull);
    }

    #[tokio::test]
    async fn quiet_lasts_a_lull_and_ends_at_once_for_who_waits() {
        let traffic = Traffic::new();
        let (lull, never) = (Duration::from_millis(20), Duration::from_hours(1));
        traffic.quiet(never, never).await;
        traffic.arrive();
        let before = Instant::now();
        traffic.leave();
        traffic.quiet(lull, never).await;
        assert!(before.elapsed() >= lull);
        traffic.arrive();
        let _waiting = traffic.wait();
        traffic.quiet(never, never).await;
    }
}
