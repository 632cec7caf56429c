use tcp::{EcnCodepoint, Segment};
use units::SeqNum;
use wire::{TcpFlags, TcpOptions, Timestamps};

/// A segment under way, and the end it goes to.
///
/// A packet is moved five times between its two ends, and a fast path holds thousands of them: at the size
/// of a [`Segment`], moving them was a third of a simulation's time. So what nearly every segment lacks
/// (the options of a SYN, SACK blocks) lies apart.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) to: usize,
    seq: SeqNum,
    /// Zero without the flag `acknowledges`.
    ack: SeqNum,
    payload: u32,
    /// Zero without the flag `stamped`.
    timestamps: Timestamps,
    flags: TcpFlags,
    window: u16,
    acknowledges: bool,
    stamped: bool,
    ecn: EcnCodepoint,
    /// All options, where there are others than timestamps.
    rare: Option<Box<TcpOptions>>,
}

// === impl Packet ===

impl Packet {
    pub(crate) fn new(to: usize, segment: &Segment) -> Self {
        let options = &segment.options;
        let common = options.sack.is_empty()
            && options.mss.is_none()
            && options.window_scale.is_none()
            && !options.sack_permitted;
        let nothing = Timestamps { value: 0, echo: 0 };
        Self {
            to,
            seq: segment.seq,
            ack: segment.ack.unwrap_or(SeqNum::new(0)),
            payload: segment.payload,
            timestamps: options.timestamps.unwrap_or(nothing),
            flags: segment.flags,
            window: segment.window,
            acknowledges: segment.ack.is_some(),
            stamped: options.timestamps.is_some(),
            ecn: segment.ecn,
            rare: (!common).then(|| Box::new(*options)),
        }
    }

    /// The segment as it arrives.
    pub(crate) fn segment(&self) -> Segment {
        let options = match &self.rare {
            Some(options) => **options,
            None => TcpOptions {
                timestamps: self.stamped.then_some(self.timestamps),
                ..TcpOptions::default()
            },
        };
        Segment {
            seq: self.seq,
            ack: self.acknowledges.then_some(self.ack),
            flags: self.flags,
            window: self.window,
            payload: self.payload,
            options,
            ecn: self.ecn,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::SackBlocks;

    use super::*;

    #[test]
    fn a_segment_arrives_as_it_left() {
        let plain = Segment {
            seq: SeqNum::new(7),
            ack: Some(SeqNum::new(0)),
            flags: TcpFlags::ACK,
            window: 502,
            payload: 1448,
            options: TcpOptions::default(),
            ecn: EcnCodepoint::Ect0,
        };
        let mut sack = SackBlocks::default();
        sack.push(SeqNum::new(1), SeqNum::new(2));
        let timestamps = Some(Timestamps { value: 1, echo: 0 });
        let all_options = [
            TcpOptions::default(),
            TcpOptions {
                timestamps,
                ..TcpOptions::default()
            },
            TcpOptions {
                timestamps,
                sack,
                ..TcpOptions::default()
            },
            TcpOptions {
                mss: Some(1460),
                ..TcpOptions::default()
            },
            TcpOptions {
                window_scale: Some(0),
                ..TcpOptions::default()
            },
            TcpOptions {
                sack_permitted: true,
                timestamps,
                ..TcpOptions::default()
            },
        ];
        for options in all_options {
            for ack in [None, plain.ack] {
                let sent = Segment {
                    ack,
                    options,
                    ..plain
                };
                assert_eq!(Packet::new(3, &sent).segment(), sent);
            }
        }
    }

    #[test]
    fn a_packet_is_small() {
        assert!(size_of::<Packet>() <= 48, "{}", size_of::<Packet>());
    }
}
