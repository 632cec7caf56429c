//! Asks the kernel about all connections, once a second.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use record::page::Severity;
use sys::sock_diag::{SockDiag, SockDiagError, TcpSocket};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::past::Point;
use super::{State, Watch};

/// Between two readings at least: what changes on a page while somebody looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// A reading takes at most this part of the time, one twentieth of a processor: on a host with very many
/// sockets it is asked more rarely instead.
const PART: u32 = 20;
/// Sockets that are taken in while others wait for the lock: some hundred microseconds.
const AT_ONCE: usize = 256;

/// Asks for as long as it is polled and somebody holds `watch`.
async fn keep_reading(watch: Weak<Watch>) {
    let mut due = Instant::now();
    let mut kernel = None;
    loop {
        sleep_until(due).await;
        let begun = Instant::now();
        let Some(watch) = watch.upgrade() else {
            return;
        };
        let asked = kernel.take();
        // A list of ten thousand sockets takes tens of milliseconds, in which this thread has others to serve.
        let reading = spawn_blocking(move || read(&watch, asked));
        match reading.await {
            Ok(answered) => kernel = answered,
            // The runtime is going down.
            Err(_) => return,
        }
        due = begun + INTERVAL.max(begun.elapsed() * PART);
    }
}

/// One reading; returns the way to the next one.
fn read(watch: &Watch, kernel: Option<SockDiag>) -> Option<SockDiag> {
    let listed = list(watch, kernel);
    let now = watch.now();
    match listed {
        Ok((kernel, sockets)) => {
            take_in(watch, sockets, now);
            Some(kernel)
        }
        Err(error) => {
            let mut state = watch.state();
            state.interval = None;
            let text = format!(
                "what holds connections back is not known: {}",
                crate::chain(&error)
            );
            state
                .alerts
                .raise(Severity::Warning, "no-readings", "", &text, now);
            None
        }
    }
}

fn list(
    watch: &Watch,
    kernel: Option<SockDiag>,
) -> Result<(SockDiag, Vec<TcpSocket>), SockDiagError> {
    let mut kernel = match kernel {
        Some(kernel) => kernel,
        None => SockDiag::open()?,
    };
    let nobody = watch.state().by_ends.is_empty();
    let sockets = if nobody {
        Vec::new()
    } else {
        kernel.tcp_sockets()?
    };
    Ok((kernel, sockets))
}

fn take_in(watch: &Watch, sockets: Vec<TcpSocket>, now: Duration) {
    let mut all = Point {
        to: now,
        ..Point::default()
    };
    let mut sockets = sockets.into_iter().peekable();
    while sockets.peek().is_some() {
        let mut state = watch.state();
        for socket in sockets.by_ref().take(AT_ONCE) {
            if let Some(point) = state.read(socket, now) {
                all.add(&point);
            }
        }
    }
    let mut state = watch.state();
    state.alerts.clear("no-readings", "", now);
    let newest = state.traffic.newest();
    all.span = newest.map_or(INTERVAL, |newest| now.saturating_sub(newest.to));
    state.interval = Some(all.span);
    state.traffic.push(all);
}

// === impl State ===

impl State {
    /// Takes in what the kernel says of a socket, where it is one of ours.
    fn read(&mut self, socket: TcpSocket, now: Duration) -> Option<Point> {
        let &(id, side) = self.by_ends.get(&(socket.local, socket.peer))?;
        self.open.get_mut(&id)?.read(side, socket, now)
    }

    /// Open connections by what holds them back; one counts once per limit.
    pub(super) fn census(&self) -> BTreeMap<record::LimitName, u64> {
        let mut census = BTreeMap::new();
        for connection in self.open.values() {
            let mut limits: Vec<_> = connection.limits().collect();
            limits.sort_unstable();
            limits.dedup();
            for limit in limits {
                *census.entry(limit).or_insert(0) += 1;
            }
        }
        census
    }
}

/// The task that asks, which ends with this.
pub(crate) struct Reader(tokio::task::AbortHandle);

impl Reader {
    pub(crate) fn start(watch: &Arc<Watch>) -> Self {
        let reading = keep_reading(Arc::downgrade(watch));
        Self(tokio::spawn(reading).abort_handle())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}
