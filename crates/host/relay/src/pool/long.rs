//! Long uploads that wait for a primed connection.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::traffic::Waiters;

/// What a new connection sends in its first flight: ten segments (RFC 6928).
const FIRST_FLIGHT: u64 = 14_600;

/// Round trips that a new connection takes for so many bytes on an empty path: its handshake, and one for each window, the next
/// twice the last. Nobody waits longer for a connection whose window is open.
pub(super) fn slow_start(bytes: u64) -> u32 {
    let flights = (bytes / FIRST_FLIGHT + 1).ilog2() + 1;
    1 + flights
}

/// How many primed connections are in the hands of requests, and how many uploads wait for one.
#[derive(Debug, Default)]
pub(super) struct LongUploads {
    lent: AtomicUsize,
    pub(super) waiting: Waiters,
    /// Told when a primed connection is idle again, or will not be; wakes in the order of asking.
    pub(super) moved: Notify,
}

// === impl LongUploads ===

impl LongUploads {
    /// A request has taken a primed connection.
    pub(super) fn taken(&self) {
        self.lent.fetch_add(1, Ordering::Relaxed);
    }

    /// A request has done with a primed connection; whether that was the last one.
    pub(super) fn left(&self) -> bool {
        self.lent.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// How many primed connections requests will give back.
    pub(super) fn lent(&self) -> usize {
        self.lent.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_connection_doubles_its_window_each_round_trip() {
        // 14.6 kB, then 29.2, 58.4, ...: 1 MiB is in the seventh.
        let cases = [
            (1, 2),
            (14_599, 2),
            (14_600, 3),
            (43_799, 3),
            (1 << 20, 8),
            (4 << 20, 10),
        ];
        for (bytes, round_trips) in cases {
            assert_eq!(slow_start(bytes), round_trips, "{bytes}");
        }
    }
}
