//! `TCP_INFO` of the sockets that send across the WAN, at regular intervals while a block runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sys::namespace::{NamespaceError, NetworkNamespace};
use sys::sock_diag::{SockDiag, SockDiagError, TcpSocket};

use super::addresses::is_near;

/// All sockets of a host with a peer beyond the WAN, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snapshot {
    /// Seconds since 1970.
    pub(super) at_unix_s: f64,
    /// By the kernel's number of the socket.
    pub(super) sockets: BTreeMap<u64, Reading>,
}

/// One socket at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Payload that the peer has acknowledged.
    pub(super) acknowledged: u64,
    /// Payload that came from the peer in order.
    pub(super) received: u64,
    /// Congestion window, in bytes.
    pub(super) cwnd: u64,
    /// Bytes on their way.
    pub(super) in_flight: u64,
    /// Smoothed RTT in seconds; absent before the first.
    pub(super) rtt_s: Option<f64>,
    /// Segments sent again so far.
    pub(super) retransmissions: u64,
}

/// A sampler at work on a thread of its own. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Snapshot>, SockDiagError>>>,
}

/// Sockets could not be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// The host could not be entered.
    #[error("cannot watch the sockets of a host")]
    Namespace(#[source] NamespaceError),
    /// The kernel did not answer.
    #[error("cannot list the sockets of a host")]
    SockDiag(#[source] SockDiagError),
    /// No thread could be started.
    #[error("cannot start a thread to watch sockets")]
    Thread(#[source] std::io::Error),
}

/// Longest sleep without a look at whether the sampler should end.
const NAP: Duration = Duration::from_millis(20);

// === impl Sampler ===

impl Sampler {
    /// Samples the host every `interval` from now on.
    pub(super) fn start(
        namespace: &NetworkNamespace,
        interval: Duration,
    ) -> Result<Self, SamplerError> {
        let mut kernel = open(namespace)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            let mut snapshots = Vec::new();
            let mut next_at = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                let wait = next_at.saturating_duration_since(Instant::now());
                if !wait.is_zero() {
                    std::thread::sleep(wait.min(NAP));
                    continue;
                }
                snapshots.push(snapshot(&mut kernel)?);
                // A late sample brings no burst of samples.
                next_at = (next_at + interval).max(Instant::now());
            }
            snapshots.push(snapshot(&mut kernel)?);
            Ok(snapshots)
        };
        let thread = std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(work)
            .map_err(SamplerError::Thread)?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Ends it; what it saw, in order.
    pub(super) fn stop(mut self) -> Result<Vec<Snapshot>, SamplerError> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(snapshots)) => snapshots.map_err(SamplerError::SockDiag),
            Some(Err(panicked)) => std::panic::resume_unwind(panicked),
            None => Ok(Vec::new()),
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Bytes that the sockets of a host were given and that no peer has acknowledged.
pub(super) fn unacknowledged(namespace: &NetworkNamespace) -> Result<u64, SamplerError> {
    let mut kernel = open(namespace)?;
    let sockets = kernel.tcp_sockets().map_err(SamplerError::SockDiag)?;
    Ok(sockets
        .iter()
        .map(|socket| u64::from(socket.send_queue))
        .sum())
}

/// Seconds since 1970, as link and captures have them.
pub(super) fn unix_now_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

fn open(namespace: &NetworkNamespace) -> Result<SockDiag, SamplerError> {
    namespace
        .enter(SockDiag::open)
        .map_err(SamplerError::Namespace)?
        .map_err(SamplerError::SockDiag)
}

fn snapshot(kernel: &mut SockDiag) -> Result<Snapshot, SockDiagError> {
    let asked_s = unix_now_s();
    let sockets = kernel.tcp_sockets()?;
    let crossing = sockets.iter().filter(|socket| crosses_the_wan(socket));
    Ok(Snapshot {
        // The kernel looked somewhere in between.
        at_unix_s: f64::midpoint(asked_s, unix_now_s()),
        sockets: crossing
            .filter_map(|socket| Some((socket.cookie, reading(socket)?)))
            .collect(),
    })
}

/// Whether its ends are on different LANs.
fn crosses_the_wan(socket: &TcpSocket) -> bool {
    is_near(socket.local.ip()) != is_near(socket.peer.ip())
}

fn reading(socket: &TcpSocket) -> Option<Reading> {
    let info = socket.info.as_ref()?;
    let bytes = |count: Option<units::Bytes>| count.map_or(0, units::Bytes::get);
    Some(Reading {
        acknowledged: bytes(info.bytes_acked),
        received: bytes(info.bytes_received),
        cwnd: info.cwnd().get(),
        in_flight: info.in_flight().get(),
        rtt_s: (!info.rtt.is_zero()).then_some(info.rtt.as_secs_f64()),
        retransmissions: info.total_retrans.into(),
    })
}
