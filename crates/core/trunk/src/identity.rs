//! Who a session, a connection and a stream are.

use core::fmt;

/// Which end of a trunk this is. Only the initiator opens WAN connections; both ends open streams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// The relay that connects: the near one.
    Initiator,
    /// The relay that is connected to: the far one.
    Acceptor,
}

/// One life of a trunk: what both ends must agree on before a connection may join.
///
/// `trunk` names the pair for as long as the near relay keeps it; `epoch` counts its lives. A near relay
/// that restarts, or that learns of a far relay's restart, goes on with a higher epoch, so no frame of an
/// earlier life is ever taken for one of this.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Session {
    /// 128 bits that nobody can guess, made by the near relay. Whoever knows them can join the trunk
    /// where the WAN is plain, so they are not logged ([`fmt::Display`] prints the first four bytes).
    pub trunk: [u8; 16],
    /// Higher in every later life. Nanoseconds of the wall clock at start will do.
    pub epoch: u64,
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trunk
            .iter()
            .take(4)
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "/{}", self.epoch)
    }
}

/// One WAN connection, by the number that the initiator gave it. Never used twice in a session.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ConnectionId(pub(crate) u32);

impl ConnectionId {
    /// The number on the wire, for logs and metrics.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.0)
    }
}

/// One stream. The initiator's are even, the acceptor's odd; each side counts up and uses none twice.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct StreamId(pub(crate) u64);

impl StreamId {
    /// The number on the wire, for logs and metrics.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The end that opened it.
    pub const fn opener(self) -> Role {
        if self.0.is_multiple_of(2) {
            Role::Initiator
        } else {
            Role::Acceptor
        }
    }

    /// The opener's how-manieth stream this is, from zero.
    pub(crate) const fn index(self) -> u64 {
        self.0 / 2
    }

    /// The `index`-th stream that `opener` opens.
    pub(crate) const fn nth(opener: Role, index: u64) -> Self {
        match opener {
            Role::Initiator => Self(index * 2),
            Role::Acceptor => Self(index * 2 + 1),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}
