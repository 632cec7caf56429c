use alloc::string::String;

use wire::IcmpReason;

use crate::packet::{Mark, Side};

/// What a router or a host said about a packet of a connection, by ICMP.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    /// When and where it was seen.
    pub mark: Mark,
    /// Who said it.
    pub from: String,
    /// Whose packet it is about.
    pub side: Side,
    /// What became of the packet.
    pub reason: IcmpReason,
}

impl Notice {
    /// The largest IP packet that goes on, in bytes, where one was too big and the router says so (RFC 1191, RFC
    /// 8201).
    #[must_use]
    pub const fn mtu(&self) -> Option<u32> {
        match self.reason {
            IcmpReason::TooBig { mtu } => mtu,
            IcmpReason::NoRoute
            | IcmpReason::HostUnreachable
            | IcmpReason::PortUnreachable
            | IcmpReason::Prohibited
            | IcmpReason::Unreachable
            | IcmpReason::TimeExceeded => None,
        }
    }
}
