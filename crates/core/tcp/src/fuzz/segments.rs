use core::time::Duration;

use units::{SeqNum, Time};
use wire::{SackBlocks, TcpFlags, TcpOptions, Timestamps};

use super::choices::Choices;
use crate::{Connection, EcnCodepoint, Output, Segment};

const OURS: SeqNum = SeqNum::new(1_000);
const THEIRS: SeqNum = SeqNum::new(5_000);

/// Any segments into any state, between anything that an application does. The endpoint must come to
/// rest, its books must agree, it must never send what was not written nor take back a promised window.
pub fn fuzz_segments(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let config = choices.config();
    let mut now = Time::from_millis(5);
    let syn = Segment {
        flags: TcpFlags::SYN,
        ack: None,
        ..segment(&mut choices)
    };
    let connection = choices
        .flag()
        .then(|| Connection::accept(&config, now, &syn, OURS))
        .flatten()
        .unwrap_or_else(|| Connection::connect(&config, now, OURS));
    let mut subject = Subject {
        connection,
        last: None,
        written: 0,
        edge: None,
    };
    subject.drain(now);
    while !choices.is_over() {
        now += Duration::from_micros(match choices.byte() {
            0..120 => 0,
            120..230 => u64::from(choices.short()),
            230.. => u64::from(choices.word()),
        });
        subject.step(now, &mut choices);
        subject.drain(now);
    }
}

/// The endpoint, and what its peer can know of it.
struct Subject {
    connection: Connection,
    last: Option<Segment>,
    written: u64,
    /// The right edge of the window that it promised.
    edge: Option<SeqNum>,
}

// === impl Subject ===

impl Subject {
    fn step(&mut self, now: Time, choices: &mut Choices<'_>) {
        let connection = &mut self.connection;
        match choices.byte() % 16 {
            0 | 1 => {
                let bytes = u64::from(choices.short()) * 2;
                self.written += connection.write(now, bytes);
            }
            2 => {
                connection.read(now, choices.short().into());
            }
            3 => connection.handle_timeout(now),
            4 if choices.byte() < 32 => connection.close(),
            4 if choices.byte() < 4 => connection.abort(),
            5 if choices.byte() < 64 => connection.set_path_mtu(now, choices.short(), 20),
            6..12 => {
                let plausible = plausible(self.last.as_ref(), choices);
                connection.handle_segment(now, &plausible);
            }
            _ => {
                connection.handle_segment(now, &segment(choices));
            }
        }
    }

    fn drain(&mut self, now: Time) {
        for outputs in 0.. {
            assert!(outputs < 100_000, "it never comes to rest");
            match self.connection.poll_output(now) {
                Output::Transmit { segment, offset } => self.check(&segment, offset),
                Output::Event(_) => {}
                // A moment that has passed must be cleared by handling it.
                Output::Timeout(Some(at)) if at <= now => self.connection.handle_timeout(now),
                Output::Timeout(_) => break,
            }
        }
        self.connection.assert_consistent();
    }

    fn check(&mut self, segment: &Segment, offset: u64) {
        self.last = Some(*segment);
        let end = offset + u64::from(segment.payload);
        assert!(
            segment.payload == 0 || end <= self.written,
            "sent up to {end}, written {}",
            self.written
        );
        let Some(ack) = segment.ack else { return };
        let unscaled = [TcpFlags::SYN, TcpFlags::RST];
        if unscaled.iter().any(|&flag| segment.flags.contains(flag)) {
            return;
        }
        let edge = ack + (u32::from(segment.window) << self.connection.window_shift());
        if let Some(before) = self.edge {
            let moved = edge.distance_from(before);
            assert!(
                moved >= 0,
                "the right edge moved back by {}",
                -i64::from(moved)
            );
        }
        self.edge = Some(edge);
    }
}

/// The next number of the peer, and all that was sent acknowledged; some of it may be changed.
fn plausible(last: Option<&Segment>, choices: &mut Choices<'_>) -> Segment {
    let mut segment = segment(choices);
    let Some(last) = last else { return segment };
    let exact = choices.byte();
    if exact & 1 == 0 {
        segment.seq = last.ack.unwrap_or(THEIRS);
    }
    if exact & 2 == 0 {
        segment.ack = Some(last.seq + last.sequence_len());
        segment.flags = segment.flags.union(TcpFlags::ACK);
    }
    if exact & 4 == 0 {
        segment.options.timestamps = last.options.timestamps.map(|ours| Timestamps {
            value: ours.echo,
            echo: ours.value,
        });
    }
    if exact & 8 == 0 {
        segment.flags = TcpFlags::ACK;
        if last.flags.contains(TcpFlags::SYN) {
            segment.flags = TcpFlags::ACK.union(TcpFlags::SYN);
        }
    }
    segment
}

fn segment(choices: &mut Choices<'_>) -> Segment {
    let flags = TcpFlags::from_bits(choices.short() & 0xff);
    let acknowledged = OURS + choices.distance();
    let mut sack = SackBlocks::default();
    for _ in 0..choices.byte() % 4 {
        let left = OURS + choices.distance();
        sack.push(left, left + u32::from(choices.short() >> 3));
    }
    Segment {
        seq: THEIRS + choices.distance(),
        ack: flags.contains(TcpFlags::ACK).then_some(acknowledged),
        flags,
        window: choices.short(),
        payload: match choices.byte() {
            0..128 => 0,
            128..250 => u32::from(choices.short() >> 5),
            250.. => choices.word() >> 8,
        },
        options: TcpOptions {
            mss: choices.maybe(Choices::short),
            window_scale: choices.maybe(Choices::byte),
            sack_permitted: choices.flag(),
            sack,
            timestamps: choices.maybe(|choices| Timestamps {
                value: choices.distance(),
                echo: choices.distance(),
            }),
        },
        ecn: EcnCodepoint::from_bits(choices.byte()),
    }
}
