use core::fmt;

/// A more exact cause within a limit.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Detail {
    /// Slow start from the connection's initial window.
    Initial,
    /// Slow start again after idle time (RFC 5681 §4.1).
    AfterIdle,
    /// Slow start again after a retransmission timeout.
    AfterTimeout,
    /// The receiver's window stays as it is.
    Static,
    /// The receiver's window grows while the transfer runs, but not fast enough.
    Growing,
    /// The window cannot exceed 65,535 bytes: scaling was not agreed (RFC 7323).
    NoScaling,
    /// The receiver closed its window: the reading application is too slow.
    ZeroWindow,
    /// Repair after duplicate ACKs or SACK.
    FastRetransmit,
    /// Repair after the retransmission timer, the silence before it included.
    Timeout,
    /// The end of a flight was lost, and nothing came back that would have shown it.
    TailLoss,
    /// Slow start ended without a loss, far below the path's capacity.
    LowSsthresh,
    /// A protocol above TCP waits for its own window (SSH channel).
    PeerWindow,
}

impl Detail {
    /// The name as documents carry it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::AfterIdle => "after-idle",
            Self::AfterTimeout => "after-timeout",
            Self::Static => "static",
            Self::Growing => "growing",
            Self::NoScaling => "no-scaling",
            Self::ZeroWindow => "zero-window",
            Self::FastRetransmit => "fast-retransmit",
            Self::Timeout => "timeout",
            Self::TailLoss => "tail-loss",
            Self::LowSsthresh => "low-ssthresh",
            Self::PeerWindow => "peer-window",
        }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a span is `unknown`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// The capture left bare ACKs out.
    Filtered,
    /// The capture holds one direction only.
    OneDirection,
    /// Nothing in the capture gives a round-trip time.
    NoRtt,
    /// The capture ends before the acknowledgment.
    CutOff,
    /// The scale of the window is not known, and the congestion window alone does not explain the wait.
    WindowScaleUnknown,
    /// Too few round trips to tell one cause from another.
    TooShort,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filtered => {
                "bare ACKs are not in the capture, so what released each segment, and how the windows \
                 grew in between, cannot be known"
            }
            Self::OneDirection => "only one direction is in the capture",
            Self::NoRtt => "nothing in the capture gives a round-trip time",
            Self::CutOff => "the capture ends before the acknowledgment",
            Self::WindowScaleUnknown => {
                "the handshake is missing, so the window's scale is not known"
            }
            Self::TooShort => "too few round trips to tell one cause from another",
        })
    }
}
