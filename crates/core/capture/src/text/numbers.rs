//! From printed sequence numbers back to those of the headers.
//!
//! tcpdump prints absolute numbers on SYNs and, for a connection it meets later, on the first segment
//! with an ACK; afterwards it prints differences to those (unless `-S` is given). A report may show only
//! some of the lines, so nothing tells for sure whether a number is a difference. It is taken for
//! whichever of the two lies nearer to what the connection is about to send.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use core::net::IpAddr;

use units::SeqNum;
use wire::{Endpoint, Host, SackBlocks, TcpFlags, TcpOptions};

use super::line::PrintedSegment;

/// Numbers as the header had them.
pub(super) struct Restored {
    pub(super) seq: SeqNum,
    pub(super) ack: Option<SeqNum>,
    pub(super) options: TcpOptions,
}

/// All connections of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversations {
    names: BTreeMap<Box<str>, u32>,
    directions: BTreeMap<Key, [Direction; 2]>,
}

/// The two ends of a connection, the smaller first.
type Key = [(Party, u16); 2];

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Party {
    Ip(IpAddr),
    Name(u32),
}

/// What one side sends.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    /// What printed differences count from.
    base: Option<Base>,
    /// The number after the last one seen.
    next: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Base {
    number: u32,
    /// From a SYN, hence certain. Otherwise it is the first number seen, which may have been a
    /// difference itself.
    initial: bool,
}

impl Conversations {
    pub(super) fn restore(&mut self, printed: &PrintedSegment<'_>) -> Restored {
        let source = self.party(printed.source);
        let destination = self.party(printed.destination);
        let forward = source <= destination;
        let key = if forward {
            [source, destination]
        } else {
            [destination, source]
        };
        let [one, other] = self.directions.entry(key).or_default();
        let (sender, receiver) = if forward { (one, other) } else { (other, one) };
        restore(sender, receiver, printed)
    }

    fn party(&mut self, endpoint: Endpoint<'_>) -> (Party, u16) {
        let party = match endpoint.host {
            Host::Ip(address) => Party::Ip(address),
            Host::Name(name) => Party::Name(self.name(name)),
        };
        (party, endpoint.port)
    }

    /// A number for a name, so that looking up a connection allocates nothing.
    fn name(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.names.get(name) {
            return number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.insert(name.into(), number);
        number
    }
}

fn restore(
    sender: &mut Direction,
    receiver: &mut Direction,
    printed: &PrintedSegment<'_>,
) -> Restored {
    let syn = printed.flags.contains(TcpFlags::SYN);
    let acknowledges = printed.flags.contains(TcpFlags::ACK);
    if syn {
        let initial = printed.seq.unwrap_or(0);
        sender.begin(initial);
        if let Some(ack) = printed.ack {
            receiver.acknowledged_initial(ack.wrapping_sub(1));
        }
    }
    let seq = match printed.seq {
        // tcpdump converts numbers only of segments with an ACK, and not those of SYNs.
        Some(seq) if syn || !acknowledges => seq,
        Some(seq) => sender.number(seq, seq),
        // Only segments that take no sequence space are printed without.
        None => sender.next.unwrap_or(0),
    };
    let ack = printed.ack.map(|ack| {
        if syn {
            ack
        } else {
            receiver.number(ack, ack.wrapping_sub(1))
        }
    });
    let takes = printed
        .payload_len
        .wrapping_add(u32::from(syn))
        .wrapping_add(u32::from(printed.flags.contains(TcpFlags::FIN)));
    if printed.seq.is_some() && (acknowledges || syn) {
        sender.reach(seq.wrapping_add(takes));
    }
    if let Some(ack) = ack {
        receiver.reach(ack);
    }
    let mut sack = SackBlocks::default();
    for (left, right) in printed.options.sack() {
        let (left, right) = (receiver.number(left, left), receiver.number(right, right));
        sack.push(SeqNum::new(left), SeqNum::new(right));
    }
    Restored {
        seq: SeqNum::new(seq),
        ack: ack.map(SeqNum::new),
        options: TcpOptions {
            mss: printed.options.mss,
            window_scale: printed.options.window_scale,
            sack_permitted: printed.options.sack_permitted,
            sack,
            timestamps: printed.options.timestamps,
        },
    }
}

// === impl Direction ===

impl Direction {
    /// A SYN: the start of this direction, or of its successor with the same ports.
    fn begin(&mut self, initial: u32) {
        let again = self
            .base
            .is_some_and(|base| base.initial && base.number == initial);
        if !again {
            *self = Self {
                base: Some(Base {
                    number: initial,
                    initial: true,
                }),
                next: None,
            };
        }
    }

    /// A SYN-ACK tells the other side's initial number, even where its SYN was not printed.
    fn acknowledged_initial(&mut self, initial: u32) {
        self.begin(initial);
    }

    /// The number that was printed as `printed`. `base_if_first` is what differences count from if
    /// this is the first number of the direction.
    fn number(&mut self, printed: u32, base_if_first: u32) -> u32 {
        // Within 16 MiB of zero a base says nothing, because differences lie there too. 0.8 % of all
        // initial numbers do; those connections are read as tcpdump prints by default.
        const TELLING: u32 = 16 << 20;
        // No window is larger (RFC 7323 §2.3), so a sum beyond it is no sum.
        const WINDOW_MAX: u32 = 1 << 30;
        let Some(base) = self.base else {
            self.base = Some(Base {
                number: base_if_first,
                initial: false,
            });
            return printed;
        };
        let sum = base.number.wrapping_add(printed);
        let telling = distance(base.number, 0) >= TELLING;
        let is_difference = match self.next {
            Some(next) if telling => {
                let (as_sum, as_printed) = (distance(sum, next), distance(printed, next));
                as_sum <= as_printed && as_sum < WINDOW_MAX
            }
            _ => base.initial,
        };
        if is_difference { sum } else { printed }
    }

    fn reach(&mut self, number: u32) {
        let ahead = |next| SeqNum::new(number).distance_from(SeqNum::new(next)) > 0;
        if self.next.is_none_or(ahead) {
            self.next = Some(number);
        }
    }
}

fn distance(a: u32, b: u32) -> u32 {
    SeqNum::new(a).distance_from(SeqNum::new(b)).unsigned_abs()
}
