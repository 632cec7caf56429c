use units::{SeqNum, Time};
use wire::{Endpoint, TcpFlags, TcpOptions};

/// A segment without its addresses: all that two endpoints tell each other.
///
/// The payload is a length. A driver that has real bytes finds them by the offset that
/// [`Output::Transmit`](crate::Output::Transmit) carries beside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Number of the first byte, or of the SYN.
    pub seq: SeqNum,
    /// The acknowledgement number, where the ACK flag is set.
    pub ack: Option<SeqNum>,
    /// The flags.
    pub flags: TcpFlags,
    /// The window field, unscaled.
    pub window: u16,
    /// Payload bytes.
    pub payload: u32,
    /// The options.
    pub options: TcpOptions,
    /// What the IP header says about congestion.
    pub ecn: EcnCodepoint,
}

/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EcnCodepoint {
    /// The transport does not take marks.
    #[default]
    NotEct,
    /// It does; the second codepoint.
    Ect1,
    /// It does; the codepoint that senders use.
    Ect0,
    /// A router marked the packet instead of dropping it.
    Ce,
}

// === impl Segment ===

impl Segment {
    /// Sequence space it takes: payload and one each for SYN and FIN (RFC 9293 section 3.4).
    #[must_use]
    pub fn sequence_len(&self) -> u32 {
        self.payload
            .saturating_add(u32::from(self.flags.contains(TcpFlags::SYN)))
            .saturating_add(u32::from(self.flags.contains(TcpFlags::FIN)))
    }

    /// Bytes of TCP options with Linux' padding, a multiple of four.
    #[must_use]
    pub fn options_len(&self) -> u32 {
        let options = &self.options;
        let mut length = 0;
        if options.mss.is_some() {
            length += 4;
        }
        if options.window_scale.is_some() {
            length += 4;
        }
        // Linux puts SACK-permitted into the padding of the timestamps (`tcp_options_write`); the
        // writer of crate `wire` spends four bytes on it. A SYN's four bytes decide nothing.
        if options.sack_permitted {
            length += 4;
        }
        if options.timestamps.is_some() {
            length += 12;
        }
        if !options.sack.is_empty() {
            length += 4;
            for _ in options.sack.iter() {
                length += 8;
            }
        }
        length
    }

    /// Bytes of the IPv4 packet that carries it.
    #[must_use]
    pub fn ipv4_len(&self) -> u32 {
        (40 + self.options_len()).saturating_add(self.payload)
    }

    /// The answer of a host that knows no connection to which it belongs (RFC 9293 section 3.10.7.1);
    /// none to a reset.
    #[must_use]
    pub fn refusal(&self) -> Option<Self> {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.1
        //# An incoming segment containing a RST is discarded.
        if self.flags.contains(TcpFlags::RST) {
            return None;
        }
        let (seq, ack, flags) = match self.ack {
            Some(ack) => (ack, None, TcpFlags::RST),
            None => (
                SeqNum::new(0),
                Some(self.seq + self.sequence_len()),
                TcpFlags::RST.union(TcpFlags::ACK),
            ),
        };
        Some(Self {
            seq,
            ack,
            flags,
            window: 0,
            payload: 0,
            options: TcpOptions::default(),
            ecn: EcnCodepoint::NotEct,
        })
    }

    /// Flags, numbers and options of an observed segment.
    #[must_use]
    pub fn observed(segment: &wire::Segment<'_>) -> Self {
        Self {
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags,
            window: segment.window,
            payload: segment.payload_len,
            options: segment.options,
            ecn: EcnCodepoint::from_bits(segment.ecn.unwrap_or(0)),
        }
    }

    /// As a capture would show it, for writers of packets; `payload` may be shorter than the length.
    #[must_use]
    pub fn observation<'a>(
        &self,
        at: Time,
        frame: u64,
        source: Endpoint<'a>,
        destination: Endpoint<'a>,
        payload: &'a [u8],
    ) -> wire::Segment<'a> {
        wire::Segment {
            at,
            frame,
            source,
            destination,
            flags: self.flags,
            seq: self.seq,
            ack: self.ack,
            window: self.window,
            payload_len: self.payload,
            payload,
            options: self.options,
            ip_id: None,
            ttl: None,
            ecn: Some(self.ecn.bits()),
            // At most 20 + 60.
            header_len: u16::try_from(40 + self.options_len()).unwrap_or(80),
        }
    }
}

// === impl EcnCodepoint ===

impl EcnCodepoint {
    /// From the two low bits of the traffic class.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// As the two low bits of the traffic class.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }

    /// Whether a router may mark the packet instead of dropping it.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// Places a sequence number beside an offset that is known to be near: within 2^31, which windows of up
/// to 1 GiB guarantee (RFC 7323 section 2.3). `None` before the stream's beginning.
pub(crate) fn unwrap(seq: SeqNum, near: u64, start: SeqNum) -> Option<u64> {
    let distance = seq.distance_from(wrap(near, start));
    near.checked_add_signed(i64::from(distance))
}

/// The sequence number of an offset.
pub(crate) fn wrap(offset: u64, start: SeqNum) -> SeqNum {
    let [.., a, b, c, d] = offset.to_be_bytes();
    start + u32::from_be_bytes([a, b, c, d])
}
