//! Bodies of fuzz targets: bytes in, a checked document out. Plain functions, so that tests replay them.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr};

use capture::Observations;
use connections::{Tracked, Tracker};
use record::explain::{Capture, Document};
use units::{SeqNum, Time};
use wire::{Endpoint, Host, Observation, SackBlocks, Segment, TcpFlags, TcpOptions, Timestamps};

use crate::{CATALOGUE, Options, explain};

/// The whole way from the bytes of a file; what was read ahead of an error stands.
#[must_use]
pub fn fuzz_file(bytes: &[u8]) -> Document {
    let mut observations = Observations::new(bytes);
    let mut tracker = Tracker::new();
    while let Ok(Some(observation)) = observations.next_observation() {
        tracker.observe(&observation);
    }
    checked(&tracker.finish())
}

/// The way from packets, ten bytes for each: most random files hold no packet, and most random packets
/// belong to no connection.
#[must_use]
pub fn fuzz_packets(bytes: &[u8]) -> Document {
    let mut tracker = Tracker::new();
    let mut talks = [Talk::default(); 4];
    let mut at = Time::ZERO;
    for (frame, packet) in (1..).zip(bytes.as_chunks::<10>().0) {
        let talk = usize::from(packet[0] & 3);
        let micros = u64::from(packet[1]) << (packet[2] & 15);
        at += Duration::from_micros(micros);
        if let Some(state) = talks.get_mut(talk) {
            let segment = state.segment(talk, packet, at, frame);
            tracker.observe(&Observation::Tcp(segment));
        }
    }
    checked(&tracker.finish())
}

/// Both ends of a connection, as far as random packets have any.
#[derive(Clone, Copy, Debug, Default)]
struct Talk {
    /// What client and server have sent up to now.
    next: [u32; 2],
}

impl Talk {
    fn segment(
        &mut self,
        talk: usize,
        packet: &[u8; 10],
        at: Time,
        frame: u64,
    ) -> Segment<'static> {
        const FLAGS: [u16; 8] = [0x10, 0x10, 0x18, 0x10, 0x02, 0x12, 0x11, 0x14];
        const PAYLOADS: [&[u8]; 8] = [
            b"",
            b"",
            b"PUT /b/k?x-id=PutObject HTTP/1.1\r\nExpect: 100-continue\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"\x17\x03\x03\x01\x00",
            b"SSH-2.0-OpenSSH_9.6\r\n",
        ];
        let [
            who,
            _,
            flags,
            seq,
            ack,
            len_high,
            len_low,
            window,
            payload,
            options,
        ] = *packet;
        let side = usize::from(who >> 2 & 1);
        let flags = TcpFlags::from_bits(FLAGS[usize::from(flags >> 5)]);
        let syn = flags.contains(TcpFlags::SYN);
        let length = if syn {
            0
        } else {
            u32::from(u16::from_be_bytes([len_high & 0x3f, len_low]))
        };
        // Mostly where the last one ended, sometimes somewhat before or behind, seldom far away.
        let moved = |from: u32, by: u8| match by {
            0..160 => from,
            160..250 => from.wrapping_add_signed((i32::from(by) - 205) * 724),
            250.. => from.wrapping_mul(u32::from(by)),
        };
        let seq = moved(self.next[side], seq);
        let ack = moved(self.next[1 - side], ack);
        let end = seq.wrapping_add(length + u32::from(syn));
        if SeqNum::new(end).distance_from(SeqNum::new(self.next[side])) > 0 {
            self.next[side] = end;
        }
        let mut sack = SackBlocks::default();
        if options & 1 != 0 {
            let left = SeqNum::new(ack) + u32::from(options) * 100;
            sack.push(left, left + 1448);
        }
        let port = 40_000 + u16::try_from(talk).unwrap_or(0);
        let ends = [(1, port), (2, 443)].map(|(last, port)| Endpoint {
            host: Host::Ip(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))),
            port,
        });
        let payload = PAYLOADS[usize::from(payload & 7)];
        let captured = usize::try_from(length).unwrap_or(0).min(payload.len());
        Segment {
            at,
            frame,
            source: ends[side],
            destination: ends[1 - side],
            flags,
            seq: SeqNum::new(seq),
            ack: flags.contains(TcpFlags::ACK).then_some(SeqNum::new(ack)),
            window: u16::from(window) << (window & 7),
            payload_len: length,
            payload: &payload[..captured],
            options: TcpOptions {
                mss: (syn && options & 2 != 0).then_some(1460),
                window_scale: (syn && options & 4 != 0).then_some(options >> 4),
                sack_permitted: syn && options & 8 != 0,
                sack,
                timestamps: (options & 16 != 0).then(|| Timestamps {
                    value: u32::try_from(at.as_nanos() / 1_000_000).unwrap_or(u32::MAX),
                    echo: u32::from(options) << 4,
                }),
            },
            ip_id: (options & 32 != 0).then_some(u16::from(who)),
            ttl: Some(window),
            ecn: None,
            header_len: 52,
        }
    }
}

/// A document whose seconds sum to the durations, whose findings are those of the catalogue, and which comes
/// out the same again.
fn checked(tracked: &Tracked) -> Document {
    const RESOLUTION: f64 = 1e-6;
    let options = || Options {
        captures: vec![Capture::default()],
        series: true,
        ..Options::default()
    };
    let document = explain(tracked, options());
    assert_eq!(document, explain(tracked, options()), "the same again");
    for connection in &document.connections {
        let directions = &connection.directions;
        for direction in [&directions.client_to_server, &directions.server_to_client] {
            let sum: f64 = direction.limits.values().sum();
            let off = (sum - connection.duration_s).abs();
            // Captures of ages lose digits of a float.
            let tolerated = RESOLUTION.max(connection.duration_s * 1e-9);
            assert!(off <= tolerated, "{sum} is not {}", connection.duration_s);
        }
    }
    for finding in &document.findings {
        let known = CATALOGUE.iter().any(|entry| entry.name == finding.name);
        assert!(known, "`{}` is not in the catalogue", finding.name);
    }
    // Some captures make no scenario; none makes a panic.
    drop(crate::scenario(&document));
    drop(crate::change(&document, &document));
    document
}
