use core::time::Duration;

use units::{Bytes, Rate};

use crate::preface::Limits;
use crate::{DigestKind, Guard};

/// How a trunk behaves. Every default says what it was chosen for.
#[derive(Clone, Debug)]
pub struct Config {
    /// The digest of each stream and direction, chosen by the initiator.
    pub digest: DigestKind,
    /// What the trunk may hold.
    pub memory: Memory,
    /// How many WAN connections it uses.
    pub width: Width,
    /// How connections are kept hot.
    pub padding: Padding,
    /// When it takes less from others on its path.
    pub guard: Guard,
    /// How long all connections may be gone before the streams end. A minute is what TCP applications
    /// commonly sit out themselves.
    pub outage: Duration,
    /// How often a silent connection is asked whether it lives. Below the 30 s after which the least
    /// patient middleboxes forget a connection.
    pub keep_alive: Duration,
    /// How long a connection may stay silent while something is owed, before it is given up. Its frames go
    /// over others long before ([`Config::least_stall`]); this is when its socket is closed.
    pub dead_after: Duration,
    /// The least time without an acknowledgement after which a connection counts as stalled and its frames
    /// are sent again elsewhere. The measured time is used where it is longer (four deviations above the
    /// mean, as an RTO); the least is for paths whose measured deviation is close to nothing.
    pub least_stall: Duration,
    /// How many streams the peer may have open at a time.
    pub max_streams: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            digest: DigestKind::Blake3,
            memory: Memory::default(),
            width: Width::default(),
            padding: Padding::default(),
            guard: Guard::default(),
            outage: Duration::from_mins(1),
            keep_alive: Duration::from_secs(5),
            dead_after: Duration::from_secs(15),
            least_stall: Duration::from_millis(200),
            max_streams: 16_384,
        }
    }
}

/// What a trunk may hold, in bytes of streams.
///
/// Bookkeeping comes on top: about 1 KiB for each stream, 2 KiB more for each direction that has carried
/// data under BLAKE3, and 200 bytes for each frame that is not acknowledged or out of order (at most
/// 65,536 of each). Received bytes may keep buffers alive of up to four times their length, which an honest
/// peer's do not.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Received and not yet handed to an application's socket. A stream can hold as much as is still free,
    /// so one alone holds half: 64 MiB carry 8.5 Gbit/s over 63 ms.
    pub receive: Bytes,
    /// Accepted from applications and not yet acknowledged by the peer; shared in the same way.
    pub send: Bytes,
    /// A new stream's credit before anything is known of the path. Enough for a request of 1 MiB to go out
    /// without waiting for more.
    pub first_stream_credit: Bytes,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            receive: Bytes::mib(128),
            send: Bytes::mib(128),
            first_stream_credit: Bytes::mib(2),
        }
    }
}

/// How many WAN connections.
#[derive(Clone, Copy, Debug)]
pub struct Width {
    /// At least so many. One is right where it fills the path; two also survive a dead one without a pause.
    pub min: u32,
    /// At most so many. Every further one takes a further share from others on the path.
    pub max: u32,
}

impl Default for Width {
    fn default() -> Self {
        Self { min: 1, max: 8 }
    }
}

/// What may be spent on keeping connections hot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Padding {
    /// Bytes of padding that may be spent at once on all connections together, and the most that saved up
    /// allowance can come to. Zero switches padding off. 32 MiB heat a path of 1 Gbit/s and 63 ms
    /// once: 16 MiB until its window is full, and three round trips more to see that it grows no further.
    pub burst: Bytes,
    /// How fast the allowance comes back. 1 Mbit/s is 10.8 GB a day at worst.
    pub rate: Rate,
    /// The rate to be ready for, where the operator knows it; otherwise what the trunk has measured.
    pub ready_for: Option<Rate>,
}

impl Default for Padding {
    fn default() -> Self {
        Self {
            burst: Bytes::mib(32),
            rate: Rate::mbit_per_s(1),
            ready_for: None,
        }
    }
}

/// Two settings contradict each other, or the protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadConfig {
    /// Less memory than the protocol promises the peer.
    #[error("memory.{which} of {given} is below the protocol's least, {least}")]
    Memory {
        /// Which of the three.
        which: &'static str,
        /// What was set.
        given: Bytes,
        /// What is needed.
        least: Bytes,
    },
    /// No connection at all, or more than an acknowledgement can name.
    #[error("width from {min} to {max}: 1 <= min <= max <= {limit} is needed")]
    Width {
        /// The least.
        min: u32,
        /// The most.
        max: u32,
        /// The protocol's limit.
        limit: u32,
    },
    /// Fewer streams than the protocol promises the peer.
    #[error("max_streams of {given} is below the protocol's least, {least}")]
    Streams {
        /// What was set.
        given: u32,
        /// What is needed.
        least: u32,
    },
    /// A time that would make the trunk spin or wait for ever.
    #[error("{which} cannot be zero")]
    Zero {
        /// Which time.
        which: &'static str,
    },
    /// Connections would be given up before they were asked.
    #[error("dead_after must be longer than keep_alive")]
    DeadBeforeAsked,
}

/// The most connections of a trunk: as many as an acknowledgement can name.
pub(crate) const MAX_WIDTH: u32 = 64;

impl Config {
    /// Whether the settings can be used.
    pub fn check(&self) -> Result<(), BadConfig> {
        let least = Limits::MINIMUM;
        let memory = [
            ("receive", self.memory.receive, least.trunk),
            ("send", self.memory.send, least.trunk),
            (
                "first_stream_credit",
                self.memory.first_stream_credit,
                least.stream,
            ),
        ];
        for (which, given, least) in memory {
            if given.get() < least {
                return Err(BadConfig::Memory {
                    which,
                    given,
                    least: Bytes::new(least),
                });
            }
        }
        let Width { min, max } = self.width;
        if min == 0 || min > max || max > MAX_WIDTH {
            return Err(BadConfig::Width {
                min,
                max,
                limit: MAX_WIDTH,
            });
        }
        if self.max_streams < least.streams {
            return Err(BadConfig::Streams {
                given: self.max_streams,
                least: least.streams,
            });
        }
        let times = [
            ("outage", self.outage),
            ("keep_alive", self.keep_alive),
            ("dead_after", self.dead_after),
            ("least_stall", self.least_stall),
        ];
        for (which, time) in times {
            if time.is_zero() {
                return Err(BadConfig::Zero { which });
            }
        }
        if self.dead_after <= self.keep_alive {
            return Err(BadConfig::DeadBeforeAsked);
        }
        Ok(())
    }

    /// What the peer may send before it hears more.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            stream: self
                .memory
                .first_stream_credit
                .get()
                .min(self.memory.receive.get()),
            trunk: self.memory.receive.get(),
            streams: self.max_streams,
        }
    }
}
