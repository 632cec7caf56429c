use tcp::Segment;
use units::SeqNum;
use wire::{SackBlocks, TcpFlags, Timestamps};

/// Numbers on the wire and in a script: there both sides' sequence numbers count from their SYNs, and the
/// host's timestamps from its first one.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The host's initial sequence number, once it has sent its SYN.
    host: Option<SeqNum>,
    /// The first value of its timestamps.
    clock: Option<u32>,
}

/// The peer's initial sequence number: its data wraps soon.
const PEER: SeqNum = SeqNum::new(4_294_960_000);
/// Stands for the host's before that is known.
const UNKNOWN: SeqNum = SeqNum::new(1_000_000_000);

// === impl Numbers ===

impl Numbers {
    /// As the host must see it.
    pub(super) fn wired(&self, segment: &Segment) -> Segment {
        let host = self.host.unwrap_or(UNKNOWN);
        let mut wired = renumbered(segment, |seq| PEER + seq.get(), |seq| host + seq.get());
        wired.options.timestamps = segment.options.timestamps.map(|stamps| Timestamps {
            value: stamps.value,
            echo: stamps.echo.wrapping_add(self.clock.unwrap_or(0)),
        });
        wired
    }

    /// As the script says it.
    pub(super) fn scripted(&mut self, segment: &Segment) -> Segment {
        if segment.flags.contains(TcpFlags::SYN) {
            self.host = Some(segment.seq);
        }
        let host = self.host.unwrap_or(UNKNOWN);
        let since =
            |start: SeqNum| move |seq: SeqNum| SeqNum::new(seq.get().wrapping_sub(start.get()));
        let mut plain = renumbered(segment, since(host), since(PEER));
        plain.options.timestamps = segment.options.timestamps.map(|stamps| {
            let clock = *self.clock.get_or_insert(stamps.value);
            Timestamps {
                value: stamps.value.wrapping_sub(clock),
                echo: stamps.echo,
            }
        });
        plain
    }
}

fn renumbered(
    segment: &Segment,
    own: impl Fn(SeqNum) -> SeqNum,
    other: impl Fn(SeqNum) -> SeqNum,
) -> Segment {
    let mut sack = SackBlocks::default();
    for (left, right) in segment.options.sack.iter() {
        sack.push(other(left), other(right));
    }
    let mut segment = Segment {
        seq: own(segment.seq),
        ack: segment.ack.map(&other),
        ..*segment
    };
    segment.options.sack = sack;
    segment
}
