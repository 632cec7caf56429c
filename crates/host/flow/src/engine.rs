//! What carries a flow: the kernel's TCP or our own. Both offer the same blocking calls.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use record::flow::{Sample, Setting};
use units::{Bytes, Rate};

/// How often a waiting thread looks whether it was stopped.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// How the sockets of one end shall be made.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SocketOptions {
    /// Where connections come from; the port may be 0.
    pub bind: Option<SocketAddr>,
    /// `None` for the default.
    pub congestion_control: Option<String>,
    /// Rate of payload above which nothing leaves.
    pub pace: Option<Rate>,
    /// Fixed size of the send buffer.
    pub send_buffer: Option<Bytes>,
    /// Fixed size of the receive buffer.
    pub receive_buffer: Option<Bytes>,
}

/// One connection. All calls block, and may come from several threads at once.
pub trait Stream: fmt::Debug + Send + Sync {
    /// As `Read::read`: 0 is the end.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    /// As `Write::write_vectored`: how many bytes were taken.
    fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Lets a read fail with `WouldBlock` or `TimedOut` that has waited for so long; `None` for ever.
    fn limit_wait(&self, longest: Option<Duration>) -> io::Result<()>;
    /// Ends both directions; calls that wait come back.
    fn shut_down(&self);
    /// Ends the sending direction behind what was written.
    fn finish(&self) -> io::Result<()>;
    /// How TCP stands; times are left at zero. `None` where it cannot be asked any more.
    fn sample(&self) -> Option<Sample>;
    /// The congestion control in effect.
    fn congestion_control(&self) -> Option<String>;
    /// Makes both take effect on an open connection.
    fn adjust(
        &self,
        congestion_control: Option<&str>,
        pace: Option<Rate>,
    ) -> Result<Vec<Setting>, EngineError>;
    /// Our address.
    fn local(&self) -> Option<SocketAddr>;
    /// The peer's.
    fn peer(&self) -> Option<SocketAddr>;
}

/// A connection with what was set on it.
#[derive(Debug)]
pub struct Opened {
    /// The connection.
    pub stream: Arc<dyn Stream>,
    /// Options that were set and read back.
    pub settings: Vec<Setting>,
}

/// Connections that come in.
pub trait Listener: fmt::Debug + Send + Sync {
    /// Waits for the next connection; `None` after [`stop`](Self::stop).
    fn accept(&self) -> Option<Result<Opened, EngineError>>;
    /// Makes `accept` come back.
    fn stop(&self);
    /// Where it listens, with the real port.
    fn local(&self) -> SocketAddr;
}

/// A TCP.
pub trait Engine: fmt::Debug + Send + Sync {
    /// Opens a connection and waits until it is open, or until `given_up` says that nobody wants it any more;
    /// the source of that error is [`io::ErrorKind::Interrupted`].
    fn connect(
        &self,
        address: SocketAddr,
        options: &SocketOptions,
        given_up: &dyn Fn() -> bool,
    ) -> Result<Opened, EngineError>;
    /// Listens.
    fn listen(
        &self,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> Result<Box<dyn Listener>, EngineError>;
}

/// A TCP did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// No connection.
    #[error("cannot connect to {address}")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The source address is not to be had.
    #[error("cannot bind to {address}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// No listener.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A connection that came could not be taken.
    #[error("cannot accept a connection on {address}")]
    Accept {
        /// The listener.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// This TCP has no such knob, or cannot turn it on an open connection.
    #[error("our own TCP cannot set {what} here")]
    Unsupported {
        /// The setting.
        what: &'static str,
    },
    /// A socket option is not in effect.
    #[error("a setting of this flow is not in effect")]
    Setting(#[source] sys::socket::ApplyError),
}
