use core::fmt;

/// The states of RFC 9293 section 3.3.2. A listener is not a connection: see
/// [`Connection::accept`](crate::Connection::accept).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// A SYN was sent.
    SynSent,
    /// SYNs went both ways, ours is not acknowledged.
    SynReceived,
    /// Data may flow.
    Established,
    /// We closed, our FIN is not acknowledged.
    FinWait1,
    /// We closed, the peer has not.
    FinWait2,
    /// The peer closed, we have not.
    CloseWait,
    /// Both closed at once, our FIN is not acknowledged.
    Closing,
    /// The peer closed first, our FIN is not acknowledged.
    LastAck,
    /// Both are closed; old segments are waited for.
    TimeWait,
    /// There is no connection any more.
    Closed,
}

// === impl State ===

impl State {
    /// Whether the peer's SYN has been taken.
    pub(crate) const fn synchronised(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived | Self::Closed)
    }

    /// Whether the peer may still send data.
    pub(crate) const fn receives(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether what was written may still have to be sent.
    pub(crate) const fn sends(self) -> bool {
        matches!(
            self,
            Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck
        )
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
            Self::Closed => "CLOSED",
        })
    }
}
