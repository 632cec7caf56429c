//! What a path does, measured by packets between its ends and by nothing else.
//!
//! Round-trip time: UDP echoes, spaced, median. Rate: a UDP train in each direction, a little faster than the
//! path should be, so that its bottleneck is never idle; the slope of arrival times over packet numbers is
//! the time per packet. Loss: the numbers that are missing.
//!
//! Both ends are sockets of this process in two namespaces, served by one thread, and arrival times are the
//! kernel's: the probe's own delays cancel. The kernel carries the packets of a train in superpackets
//! (`UDP_SEGMENT`, `UDP_GRO`), so that one thread can fill gigabits. A sender that was too slow all the same
//! knows it, and says so instead of a rate. When the probe returns, its packets have left the path.

mod echo;
mod message;
mod reading;
mod train;

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::panic;
use std::thread;
use std::time::{Duration, Instant};

use link::{Direction, PathSpec};
use sys::datagram::{DatagramError, DatagramSocket};
use sys::namespace::NetworkNamespace;
use sys::realtime::{self, Priority, wait_readable};

pub use reading::{DirectionReading, PathReading, RATE_TOLERANCE, RTT_TOLERANCE, Unmeasured};

/// One end of a path.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Where its socket lives.
    pub namespace: &'a NetworkNamespace,
    /// An address there that the other end has a route to.
    pub address: IpAddr,
}

/// How much to measure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Depth {
    /// The round-trip time: costs 1.3 round trips and a handful of small packets.
    RoundTrip,
    /// The rate of both directions as well: 100 ms of traffic and another half round trip.
    Thorough,
}

/// The path could not be measured at all; a path that is not as asked is no error but a reading.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// No sockets.
    #[error("cannot open the probe's sockets")]
    Open {
        /// What failed.
        #[source]
        source: DatagramError,
    },
    /// No thread could be started.
    #[error("cannot start a thread for the probe")]
    Thread {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A socket failed under way; most likely there is no route to the other end.
    #[error("cannot {operation} a probe packet")]
    Exchange {
        /// What was tried.
        operation: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Measures what lies between `near` and `far`, whose settings should be `path`.
///
/// On a thread of its own at real-time priority, if that is to be had: a probe that waits for a processor
/// cannot fill a fast path, and stamps its echoes too early.
pub fn measure(
    path: &PathSpec,
    near: End<'_>,
    far: End<'_>,
    depth: Depth,
) -> Result<PathReading, ProbeError> {
    let sockets = Sockets::open(near, far)?;
    thread::scope(|scope| {
        let observer = thread::Builder::new().name("probe".to_owned());
        let measuring = observer.spawn_scoped(scope, || {
            realtime::request(Priority::Low, false);
            observe(path, &sockets, depth)
        });
        let measuring = measuring.map_err(|source| ProbeError::Thread { source })?;
        measuring
            .join()
            .unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}

fn observe(path: &PathSpec, sockets: &Sockets, depth: Depth) -> Result<PathReading, ProbeError> {
    let started = Instant::now();
    let mut reading = PathReading::new(path);
    echo::measure(path, sockets, &mut reading)?;
    if depth == Depth::Thorough {
        train::measure(path, sockets, &mut reading)?;
    }
    reading.took = started.elapsed();
    Ok(reading)
}

/// Both ends.
struct Sockets {
    near: DatagramSocket,
    far: DatagramSocket,
    /// IP and UDP header bytes of every packet.
    headers: usize,
}

// === impl Sockets ===

impl Sockets {
    fn open(near: End<'_>, far: End<'_>) -> Result<Self, ProbeError> {
        let headers = 8 + if near.address.is_ipv4() { 20 } else { 40 };
        let near = (near.namespace, near.address);
        let (near, far) = DatagramSocket::pair(near, (far.namespace, far.address))
            .map_err(|source| ProbeError::Open { source })?;
        Ok(Self { near, far, headers })
    }

    const fn sender(&self, direction: Direction) -> &DatagramSocket {
        match direction {
            Direction::Forward => &self.near,
            Direction::Backward => &self.far,
        }
    }

    const fn receiver(&self, direction: Direction) -> &DatagramSocket {
        self.sender(direction.opposite())
    }

    fn send(&self, direction: Direction, bytes: &[u8]) -> Result<(), ProbeError> {
        let sent = self.sender(direction).send(bytes);
        sent.map_err(|source| ProbeError::Exchange {
            operation: "send",
            source,
        })
    }

    /// Sends packets of `segment` bytes each; `false` where there is no room for them at the moment.
    fn send_segments(
        &self,
        direction: Direction,
        bytes: &[u8],
        segment: u16,
    ) -> Result<bool, ProbeError> {
        match self.sender(direction).send_segments(bytes, segment) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(source) => Err(ProbeError::Exchange {
                operation: "send",
                source,
            }),
        }
    }

    /// Until something arrives at either end, or `timeout`.
    fn wait(&self, timeout: Duration) -> Result<(), ProbeError> {
        wait_readable([self.near.as_fd(), self.far.as_fd()], Some(timeout))
            .map(|_| ())
            .map_err(|source| ProbeError::Exchange {
                operation: "wait for",
                source,
            })
    }
}
