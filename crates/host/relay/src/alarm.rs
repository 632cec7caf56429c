//! Time limits of what is nearly always over at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

/// A timer for one deadline after the other.
///
/// Each request of a client moves the moment at which its silence ends the connection. Timers set anew each time
/// cost some 3 % of a small request, so this one stays where it is as long as the next deadline is later, and is
/// set to that when it rings too early.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
}

// === impl Alarm ===

impl Alarm {
    /// Waits until `deadline`.
    pub(crate) async fn ring(&mut self, deadline: Instant) {
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            sleep.as_mut().await;
            if sleep.deadline() >= deadline {
                return;
            }
            sleep.as_mut().reset(deadline);
        }
    }
}

/// As [`tokio::time::timeout`], without a timer for what is done when it is first asked. The future is the caller's, since each
/// move of one copies it.
pub(crate) async fn within<F: Future>(
    patience: Duration,
    future: Pin<&mut F>,
) -> Result<F::Output, Elapsed> {
    at_once_or_by(future, || Instant::now() + patience).await
}

/// As [`tokio::time::timeout_at`], in the same way.
pub(crate) async fn until<F: Future>(
    deadline: Instant,
    future: Pin<&mut F>,
) -> Result<F::Output, Elapsed> {
    at_once_or_by(future, || deadline).await
}

async fn at_once_or_by<F: Future>(
    mut future: Pin<&mut F>,
    deadline: impl FnOnce() -> Instant,
) -> Result<F::Output, Elapsed> {
    let first = poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
    match first.await {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => timeout_at(deadline(), future).await,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn an_alarm_rings_at_each_deadline_whether_the_next_is_later_or_earlier() {
        let mut alarm = Alarm::default();
        let start = Instant::now();
        for seconds in [3, 60, 61, 62, 62, 100, 99] {
            let deadline = start + seconds * SECOND;
            alarm.ring(deadline).await;
            assert!(Instant::now() >= deadline, "{seconds}");
            assert!(Instant::now() < start + 100 * SECOND + SECOND / 10);
        }
        // Given up and moved, to both sides.
        let now = Instant::now();
        for seconds in [60, 75, 50, 80, 30] {
            assert!(alarm.ring(now + seconds * SECOND).now_or_never().is_none());
        }
        alarm.ring(now + 40 * SECOND).await;
        let after = now.elapsed();
        assert!(after >= 40 * SECOND && after < 41 * SECOND, "{after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_done_in_time_is_given_up() {
        assert_eq!(within(SECOND, pin!(async { 7 })).await, Ok(7));
        let start = Instant::now();
        let later = pin!(tokio::time::sleep(SECOND / 2));
        assert!(within(SECOND, later).await.is_ok());
        let mut never = pin!(pending::<()>());
        assert!(within(SECOND, never.as_mut()).await.is_err());
        assert!(until(start + 2 * SECOND, never).await.is_err());
        assert!(start.elapsed() >= 2 * SECOND);
    }
}
