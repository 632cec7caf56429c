//! Who is inside, counted by those who are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// How many streams of one listener are being served by reactors.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    count: AtomicUsize,
    emptied: Notify,
}

/// One of them, for as long as this lives.
#[derive(Debug)]
pub(super) struct Guest(Arc<Inside>);

impl Inside {
    pub(super) fn enter(self: &Arc<Self>) -> Guest {
        self.count.fetch_add(1, Ordering::Relaxed);
        Guest(Arc::clone(self))
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Resolves when nobody is inside.
    pub(crate) async fn empty(&self) {
        loop {
            let mut emptied = std::pin::pin!(self.emptied.notified());
            // Before the count is read: who leaves after that is heard of.
            emptied.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            emptied.await;
        }
    }
}

impl Guest {
    pub(super) fn is_of(&self, inside: &Arc<Inside>) -> bool {
        Arc::ptr_eq(&self.0, inside)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::Release) == 1 {
            self.0.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_waits_hears_when_the_last_has_left() {
        let inside = Arc::new(Inside::default());
        inside.empty().await;
        let guests = [inside.enter(), inside.enter()];
        assert_eq!(inside.count(), 2);
        let waiting = tokio::spawn({
            let inside = Arc::clone(&inside);
            async move { inside.empty().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        std::thread::spawn(|| drop(guests)).join().unwrap();
        waiting.await.unwrap();
    }
}
