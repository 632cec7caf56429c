//! Who has an address? ARP (RFC 826) and IPv6 neighbour discovery (RFC 4861).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use units::Time;

use crate::frame::Frame;
use crate::ip::Datagram;

/// A question for the link-layer address of a host, or the answer. Whoever asks cannot send before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Resolution {
    /// When the capture saw it.
    pub at: Time,
    /// Its number in the capture.
    pub frame: u64,
    /// Who asks; `None` where an answer does not say to whom it goes, as printed ones.
    pub asker: Option<IpAddr>,
    /// Whose address is wanted.
    pub asked: IpAddr,
    /// Whether this is the answer.
    pub answer: bool,
}

impl Resolution {
    /// `ARP` or `NDP`.
    #[must_use]
    pub const fn protocol(&self) -> &'static str {
        match self.asked {
            IpAddr::V4(_) => "ARP",
            IpAddr::V6(_) => "NDP",
        }
    }

    /// The ARP packet at `start`; `None` for announcements, probes, and what was cut short.
    pub(crate) fn arp(bytes: Frame<'_>, start: usize, at: Time, frame: u64) -> Option<Self> {
        const REQUEST: [u8; 2] = [0, 1];
        const REPLY: [u8; 2] = [0, 2];
        const IPV4: [u8; 2] = [8, 0];
        let head = bytes.array::<8>("ARP header", start).ok()?;
        let [_, _, p0, p1, hardware_len, 4, o0, o1] = *head else {
            return None;
        };
        let answer = match [o0, o1] {
            REQUEST => false,
            REPLY => true,
            _ => return None,
        };
        let address = |at: usize| {
            let octets = bytes.array::<4>("ARP protocol address", at).ok()?;
            Some(Ipv4Addr::from(*octets))
        };
        let hardware_len = usize::from(hardware_len);
        let sender = address(start + 8 + hardware_len)?;
        let target = address(start + 12 + 2 * hardware_len)?;
        // Announcements have one address twice, probes none (RFC 5227 §1.1).
        if [p0, p1] != IPV4 || sender == target || sender.is_unspecified() {
            return None;
        }
        let (asker, asked) = if answer {
            (target, sender)
        } else {
            (sender, target)
        };
        Some(Self {
            at,
            frame,
            asker: Some(IpAddr::V4(asker)),
            asked: IpAddr::V4(asked),
            answer,
        })
    }

    /// A neighbour solicitation or, where it is an `answer`, advertisement (RFC 4861 §4.3, §4.4).
    pub(crate) fn discovered(
        bytes: Frame<'_>,
        datagram: &Datagram,
        answer: bool,
        at: Time,
        frame: u64,
    ) -> Option<Self> {
        let target = bytes.array::<16>("target address", datagram.transport + 8);
        let asker = if answer {
            datagram.destination
        } else {
            datagram.source
        };
        // Detection of duplicates asks from no address, and is answered to all nodes (RFC 4862 §5.4).
        (!asker.is_unspecified() && !asker.is_multicast()).then_some(Self {
            at,
            frame,
            asker: Some(asker),
            asked: IpAddr::V6(Ipv6Addr::from(*target.ok()?)),
            answer,
        })
    }
}
