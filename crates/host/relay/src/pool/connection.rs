use std::io;
use std::net::SocketAddr;
use std::sync::Weak;
use std::thread::{self, ThreadId};

use sys::socket::IdleState;
use sys::tcp_info::TcpInfo;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use units::Bytes;

use crate::event::Missing;
use crate::transport::Transport;
use crate::upstream::Place;

/// An open connection to the origin.
pub(crate) struct Connection {
    pub(crate) id: u64,
    pub(crate) stream: Transport,
    pub(crate) peer: SocketAddr,
    pub(crate) born: Instant,
    /// The thread whose runtime watches it.
    pub(super) home: ThreadId,
    /// When it last carried something.
    pub(crate) used: Instant,
    /// Requests served.
    pub(crate) requests: u64,
    /// Priming requests answered: the origin counts them like any other.
    pub(crate) primings: u64,
    /// What both windows should hold, once it has been primed to that.
    pub(crate) hot_window: Option<Bytes>,
    /// Whether the kernel halves its window for each RTO of silence.
    pub(crate) forgets_windows: bool,
    /// Whether its cooling has been told.
    pub(crate) told_cool: bool,
    /// The client whose request it has served last, while that client is there: see [`Before`](super::Before).
    pub(super) kept_for: Weak<()>,
    /// Where it counts as open.
    pub(super) _place: Option<Place>,
    /// The permit for its existence.
    pub(super) _slot: OwnedSemaphorePermit,
}

/// How surely a connection must be alive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Liveness {
    /// The kernel is asked: what is sent on it could not be sent again.
    Sure,
    /// What the runtime has been told will do, at a system call less without TLS: the request is sent again where it meets an end.
    /// What an origin says unasked in this very moment would be taken for its answer, as what is on its way always would.
    Likely,
}

/// How a connection's windows compare with their target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Temperature {
    /// Never primed, or the kernel does not tell.
    Unprimed,
    /// Both windows hold the target.
    Hot,
    /// One does not, any more.
    Cooled {
        info: Box<TcpInfo>,
        target: Bytes,
        why: String,
    },
}

impl Connection {
    /// Compares the windows with their target.
    ///
    /// Where the kernel forgets windows, it does so at the next send (`tcp_cwnd_restart` in
    /// `net/ipv4/tcp_output.c`), so `TCP_INFO` still shows the old one.
    pub(crate) fn temperature(&self) -> Temperature {
        let Some(target) = self.hot_window else {
            return Temperature::Unprimed;
        };
        let Ok(info) = TcpInfo::of(self.stream.tcp()) else {
            return Temperature::Unprimed;
        };
        let why = if self.forgets_windows && self.used.elapsed() >= info.rto {
            Some("idle for longer than its retransmission timeout".to_owned())
        } else {
            match missing(&info, target).first() {
                None => None,
                Some(Missing::Cwnd) => Some(format!("cwnd is down to {} B", info.cwnd().get())),
                Some(Missing::PeerWindow) => Some("the origin's window has shrunk".to_owned()),
            }
        };
        match why {
            None => Temperature::Hot,
            Some(why) => Temperature::Cooled {
                info: Box::new(info),
                target,
                why,
            },
        }
    }

    /// Has this thread's runtime watch it, so that what comes wakes no other thread. One with TLS stays where it was made.
    pub(super) fn settle(mut self) -> io::Result<Self> {
        let here = thread::current().id();
        self.stream = match self.stream {
            Transport::Plain(stream) if self.home != here => {
                self.home = here;
                Transport::Plain(TcpStream::from_std(stream.into_std()?)?)
            }
            stays @ (Transport::Plain(_) | Transport::Tls(_)) => stays,
        };
        Ok(self)
    }

    /// Whether it was primed, and both windows hold a good part of the target yet: it brings a long upload on its way
    /// at once. One that losses have cooled does, one whose priming a request has interrupted may not.
    pub(crate) fn is_open(&self) -> bool {
        match self.temperature() {
            Temperature::Hot => true,
            Temperature::Unprimed => false,
            Temperature::Cooled { info, target, .. } => {
                let rests = self.forgets_windows && self.used.elapsed() >= info.rto;
                !rests && missing(&info, Bytes::new(target.get() / 4)).is_empty()
            }
        }
    }

    /// Requests that the origin has counted on it.
    pub(crate) fn asked(&self) -> u64 {
        self.requests + self.primings
    }

    /// Whether the connection ended while nobody looked, as far as `liveness` tells.
    pub(crate) fn lost(&mut self, liveness: Liveness) -> Option<&'static str> {
        let state = match liveness {
            Liveness::Sure => self.stream.idle_state(),
            Liveness::Likely => self.stream.heard_state(),
        };
        match state {
            IdleState::Quiet => None,
            IdleState::Finished => Some("the origin closed it"),
            IdleState::Unsolicited => Some("the origin sent bytes that nobody asked for"),
            IdleState::Failed => Some("it was reset or timed out"),
        }
    }
}

/// Which windows are smaller than `target`.
///
/// A sixteenth less passes: windows move in segments and round by the window scale, and a reading right
/// after data is short of what the origin has not taken from its buffer yet.
pub(super) fn missing(info: &TcpInfo, target: Bytes) -> Vec<Missing> {
    let enough = Bytes::new(target.get() - target.get() / 16);
    let mut missing = Vec::new();
    if info.cwnd() < enough {
        missing.push(Missing::Cwnd);
    }
    // Before kernel 5.4 the peer's window is not told; then cwnd has to stand for both, since it grows
    // only while it is what limits.
    if info.snd_wnd.is_some_and(|window| window < enough) {
        missing.push(Missing::PeerWindow);
    }
    missing
}

impl Temperature {
    pub(crate) fn is_hot(&self) -> bool {
        *self == Self::Hot
    }
}
