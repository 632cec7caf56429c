use core::fmt;
use core::time::Duration;

use crate::{Bytes, Milliseconds, Rate};

/// Header bytes of one full-sized data packet, and the payload it carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PacketOverhead {
    /// TCP payload per full packet, in bytes: the MSS less the TCP options that every packet carries.
    pub payload: u32,
    /// IP and TCP header bytes per packet, options included.
    pub headers: u32,
}

impl PacketOverhead {
    /// IPv4 on a 1500-byte MTU with TCP timestamps: 1448 bytes of data behind 52 of headers.
    pub const IPV4_TIMESTAMPS: Self = Self {
        payload: 1448,
        headers: 52,
    };

    /// IPv6 on a 1500-byte MTU with TCP timestamps: 1428 bytes of data behind 72 of headers.
    pub const IPV6_TIMESTAMPS: Self = Self {
        payload: 1428,
        headers: 72,
    };

    /// IP bytes that carry `payload` application bytes in full packets.
    #[must_use]
    pub fn ip_bytes(self, payload: Bytes) -> Bytes {
        let packets = payload.get().div_ceil(u64::from(self.payload).max(1));
        payload + Bytes::new(packets.saturating_mul(u64::from(self.headers)))
    }
}

/// The time below which no design can bring a transfer: unavoidable round trips x RTT, plus the IP
/// bytes of the transfer / rate. The only definition of "floor" in Longhaul; wherever a share of it is
/// claimed, its [`Display`](fmt::Display) is printed beside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Floor {
    round_trips: u32,
    rtt: Duration,
    ip_bytes: Bytes,
    rate: Rate,
    total: Duration,
}

impl Floor {
    /// The floor of a transfer of `ip_bytes` that needs `round_trips` times `rtt` whatever is done, over
    /// a path of `rate`. `None` at rate zero.
    #[must_use]
    pub fn new(round_trips: u32, rtt: Duration, ip_bytes: Bytes, rate: Rate) -> Option<Self> {
        let total = rtt
            .checked_mul(round_trips)?
            .checked_add(ip_bytes.checked_div(rate)?)?;
        Some(Self {
            round_trips,
            rtt,
            ip_bytes,
            rate,
            total,
        })
    }

    /// The floor itself.
    #[must_use]
    pub const fn total(self) -> Duration {
        self.total
    }
}

impl fmt::Display for Floor {
    /// The derivation: `1 x 200.4 ms + 106140 B at 100 Mbit/s (8.5 ms) = 208.9 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let serialisation = self.total.saturating_sub(self.rtt * self.round_trips);
        write!(
            f,
            "{} x {} ms + {} B at {} ({} ms) = {} ms",
            self.round_trips,
            Milliseconds(self.rtt),
            self.ip_bytes.get(),
            self.rate,
            Milliseconds(serialisation),
            Milliseconds(self.total),
        )
    }
}
