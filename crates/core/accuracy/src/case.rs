use core::time::Duration;

use link::PathSpec;
use record::LimitName;
use sim::Side;
use tcp::Config;

/// A transfer whose limit is known because it was built that way.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it was built for.
    pub cause: LimitName,
    /// Which form of it, such as `no-scaling`.
    pub form: &'static str,
    /// Whether nothing but `cause` should hold it back for most of its time, so that the dominant limit
    /// is decided by construction.
    pub single: bool,
    /// Which of several draws.
    pub seed: u64,
    pub(crate) path: PathSpec,
    pub(crate) client: Config,
    pub(crate) server: Config,
    /// The end that sends the data which is judged.
    pub(crate) sender: Side,
    pub(crate) script: Vec<Message>,
    pub(crate) reader: Reader,
    /// How long the end that is closed last keeps its half open.
    pub(crate) linger: Duration,
}

/// Bytes that one end writes once it has read the message before.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) from: Side,
    /// After the message before was read; or, where that was its own, after that was written.
    pub(crate) after: Duration,
    /// Each with the pause ahead of it.
    pub(crate) pieces: Vec<(Duration, u64)>,
    /// The first payload bytes, where they mean something to an analyser.
    pub(crate) head: &'static [u8],
}

/// How the data is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reader {
    /// At once.
    Eager,
    /// Not at all for this long, each time so many bytes were read.
    Pausing(u64, Duration),
}

/// Where a capture is made.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Tap {
    /// On the host that sends the data.
    Sender,
    /// Half-way.
    Middle,
    /// On the host that receives it.
    Receiver,
}

impl Tap {
    /// All of them, along the data's way.
    pub const ALL: [Self; 3] = [Self::Sender, Self::Middle, Self::Receiver];

    /// `sender`, `middle` or `receiver`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Middle => "middle",
            Self::Receiver => "receiver",
        }
    }
}

// === impl Message ===

impl Message {
    pub(crate) fn new(from: Side, after: Duration, bytes: u64) -> Self {
        Self {
            from,
            after,
            pieces: vec![(Duration::ZERO, bytes)],
            head: &[],
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(_, bytes)| bytes).sum()
    }
}

pub(crate) const fn peer(side: Side) -> Side {
    match side {
        Side::Near => Side::Far,
        Side::Far => Side::Near,
    }
}
