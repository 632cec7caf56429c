//! Connections that are there before a download wants them.
//!
//! Over a long path a large download reads many ranges at once, each by a line of its own. Where these have to be made for it, all wait a
//! round trip for them. So once a large object has passed, in either direction, there are as many as the next download will want, and one
//! harmless request each makes them and keeps them open. These count against what the origin bears like all others: where it is busy, they
//! wait for the next look. Where no large object has passed for a while the lines are let go.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use super::line::Spare;
use super::{Ask, IDLE_LIMIT, Line, Origin};
use crate::gateway::Gateway;
use crate::path::LONG;

/// How often somebody looks whether all is ready.
const LOOK: Duration = Duration::from_secs(1);
/// A line that has rested so long is used, before the limit ends it.
const RESTED: Duration = IDLE_LIMIT.saturating_sub(Duration::from_secs(10));
/// How long an origin that does not answer well is left alone.
const PAUSE: Duration = Duration::from_secs(30);

/// Keeps what downloads need ready while large objects pass. Never ends.
pub(crate) async fn keep(gateway: Gateway) {
    loop {
        sleep(LOOK).await;
        let origin = gateway.origin();
        let Some((bucket, lines)) = wanted(&gateway) else {
            origin.let_go();
            continue;
        };
        if !origin.make_ready(&bucket, lines, gateway.permits()).await {
            sleep(PAUSE).await;
        }
    }
}

/// As many lines as the next large download will use, and a bucket that may be asked about.
fn wanted(gateway: &Gateway) -> Option<(String, usize)> {
    let bucket = gateway.large_of_late()?;
    let path = gateway.origin().path();
    // What has passed has told how long the path is; at what rate, not always yet.
    let known = path.rtt() >= Some(LONG) && path.rate().is_some();
    known.then(|| (bucket, gateway.reading_plan().parallel))
}

impl Origin {
    /// Makes lines until there are as many as are `wanted`, those in use included, and uses those that have rested long, as far as there
    /// are `permits`. `false` where the origin did not answer well, or not at all: then it is left alone for a while.
    async fn make_ready(&self, bucket: &str, wanted: usize, permits: &Arc<Semaphore>) -> bool {
        self.let_go();
        let mut permits = iter::from_fn(|| Arc::clone(permits).try_acquire_owned().ok());
        let mut lines = self.take_rested(&mut permits);
        let connected = Arc::strong_count(&self.shared.connected) - 1;
        let missing = permits.take(wanted.saturating_sub(connected));
        lines.extend(missing.map(|permit| (permit, self.line_of(None))));
        // All at once: a pool behind them lends a connection that one has left to the next.
        let touched = lines.into_iter().map(async |(permit, line)| {
            let well = line.touch(bucket).await;
            drop(permit);
            well
        });
        join_all(touched).await.into_iter().all(|well| well)
    }

    /// Ends the lines that have rested too long, also where nobody asks for one.
    fn let_go(&self) {
        self.shared.lines().retain(Spare::is_open);
    }

    /// As many of those that have rested long as there are permits.
    fn take_rested(
        &self,
        permits: impl Iterator<Item = OwnedSemaphorePermit>,
    ) -> Vec<(OwnedSemaphorePermit, Line)> {
        let mut lines = self.shared.lines();
        let rested = lines.extract_if(.., |spare| spare.has_rested(RESTED));
        // No line is taken out without a permit, which is asked for first.
        let rested: Vec<_> = permits.zip(rested).collect();
        drop(lines);
        rested
            .into_iter()
            .map(|(permit, spare)| (permit, self.line_of(Some(spare))))
            .collect()
    }
}

impl Line {
    /// Asks something harmless, and leaves the line to whoever comes next. Whether the origin answered well.
    async fn touch(mut self, bucket: &str) -> bool {
        // Many at once, perhaps beside a transfer, would say that the path is longer than it is.
        let answer = self.try_send(Ask::new(Method::HEAD, bucket, "")).await;
        self.flight = None;
        answer.is_ok_and(|answer| !answer.status().is_server_error())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use units::Rate;

    use super::super::line::tests::{origin, read};
    use super::*;
    use crate::config::GatewayOptions;
    use crate::journal::Journal;

    /// Of an origin that is not busy.
    fn free() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(100))
    }

    #[tokio::test]
    async fn an_origin_that_is_busy_is_asked_no_more_than_it_bears() {
        let (origin, mut connections) = origin(usize::MAX).await;
        let permits = Arc::new(Semaphore::new(2));
        assert!(origin.make_ready("b", 5, &permits).await);
        for _ in 0..2 {
            connections.recv().await.unwrap();
        }
        assert!(connections.try_recv().is_err());
        let long_ago = Instant::now().checked_sub(RESTED).unwrap();
        for spare in &mut *origin.shared.lines() {
            spare.since = long_ago;
        }
        let rested = || {
            let lines = origin.shared.lines();
            let rested = |spare: &&Spare| spare.has_rested(RESTED);
            (lines.iter().filter(rested).count(), lines.len())
        };
        let busy = Arc::clone(&permits).try_acquire_many_owned(2).unwrap();
        assert!(origin.make_ready("b", 5, &permits).await);
        assert_eq!(rested(), (2, 2));
        drop(busy);
        let busy = Arc::clone(&permits).try_acquire_owned().unwrap();
        assert!(origin.make_ready("b", 5, &permits).await);
        assert_eq!(rested(), (1, 2));
        drop(busy);
        assert_eq!(permits.available_permits(), 2);
    }

    #[tokio::test]
    async fn there_are_as_many_lines_as_are_wanted_those_in_use_included() {
        let (origin, mut connections) = origin(usize::MAX).await;
        let mut used = origin.line();
        read(&mut used).await;
        connections.recv().await.unwrap();
        assert!(origin.make_ready("b", 5, &free()).await);
        for _ in 0..4 {
            connections.recv().await.unwrap();
        }
        assert_eq!(origin.shared.lines().len(), 4);
        assert!(origin.make_ready("b", 5, &free()).await);
        drop(used);
        assert!(origin.make_ready("b", 5, &free()).await);
        for _ in 0..5 {
            let mut line = origin.line();
            read(&mut line).await;
            std::mem::forget(line);
        }
        assert!(connections.try_recv().is_err());
    }

    #[tokio::test]
    async fn one_that_has_rested_long_is_used_and_one_that_has_not_is_left_alone() {
        let (origin, mut connections) = origin(2).await;
        assert!(origin.make_ready("b", 2, &free()).await);
        let long_ago = Instant::now().checked_sub(RESTED).unwrap();
        origin.shared.lines()[0].since = long_ago;
        assert!(origin.make_ready("b", 2, &free()).await);
        let rested = |spare: &Spare| spare.has_rested(RESTED);
        assert!(!origin.shared.lines().iter().any(rested));
        for _ in 0..2 {
            connections.recv().await.unwrap();
        }
        assert!(connections.try_recv().is_err());
    }

    #[tokio::test]
    async fn what_nobody_has_used_for_long_is_let_go() {
        let (origin, _connections) = origin(usize::MAX).await;
        assert!(origin.make_ready("b", 2, &free()).await);
        let long_ago = Instant::now().checked_sub(IDLE_LIMIT).unwrap();
        origin.shared.lines()[0].since = long_ago;
        origin.let_go();
        assert_eq!(origin.shared.lines().len(), 1);
        // Its connection ends a moment later.
        while Arc::strong_count(&origin.shared.connected) > 2 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn an_origin_that_does_not_answer_well_is_told_apart() {
        let (origin, _connections) = origin(usize::MAX).await;
        assert!(!origin.make_ready("sick", 3, &free()).await);
    }

    #[tokio::test]
    async fn nothing_is_made_ready_before_a_large_object_has_passed_over_a_long_path_of_known_rate()
    {
        let gateway = |path_rate| {
            let options = GatewayOptions {
                path_rate,
                ..GatewayOptions::of_a_test("127.0.0.1:0", "http://127.0.0.1:1")
            };
            let config = options.resolve(|_| Some("some".into())).unwrap();
            Gateway::new(config, Journal::default())
        };
        let far = gateway(Some(Rate::mbit_per_s(1000)));
        far.origin().path().answered(Duration::from_millis(200));
        assert_eq!(wanted(&far), None);
        far.large_passes("photos");
        assert_eq!(wanted(&far), Some(("photos".into(), 192)));
        let near = gateway(Some(Rate::mbit_per_s(1000)));
        near.large_passes("photos");
        assert_eq!(wanted(&near), None);
        near.origin().path().answered(Duration::from_millis(2));
        assert_eq!(wanted(&near), None);
        let unknown = gateway(None);
        unknown.large_passes("photos");
        unknown.origin().path().answered(Duration::from_millis(200));
        assert_eq!(wanted(&unknown), None);
    }
}
