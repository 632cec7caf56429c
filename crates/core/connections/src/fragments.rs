use alloc::collections::VecDeque;
use core::net::IpAddr;

use units::SeqNum;
use wire::{Endpoint, FirstFragment, Fragment, Host, Observation, Segment, TcpFlags, TcpOptions};

/// Segments whose packets were cut on the way: makes each fragment a segment of its own.
///
/// A fragment that comes before the first one of its packet cannot be told from anything else; hosts send them in
/// order.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    open: VecDeque<Open>,
}

/// A packet of which the first fragment was seen.
#[derive(Clone, Debug)]
struct Open {
    source: IpAddr,
    destination: IpAddr,
    id: u32,
    /// Bytes of the TCP header.
    header_len: u32,
    /// Its position in sequence space.
    payload_at: SeqNum,
    head: Segment<'static>,
}

impl Fragments {
    /// More packets on their way in pieces at a time would be an attack.
    const MOST: usize = 64;

    /// The segment in `observation`, or the part of one; `None` where it holds none, or nobody knows of which
    /// connection.
    pub fn join<'a>(&mut self, observation: &Observation<'a>) -> Option<Segment<'a>> {
        match observation {
            Observation::Tcp(segment) => Some(*segment),
            Observation::FirstFragment(first) => Some(self.first(first)),
            Observation::Fragment(fragment) => self.later(fragment),
            Observation::IcmpEcho(_)
            | Observation::IcmpError(_)
            | Observation::Resolution(_)
            | Observation::Other(_) => None,
        }
    }

    fn first<'a>(&mut self, first: &FirstFragment<'a>) -> Segment<'a> {
        let segment = first.segment;
        if let (Host::Ip(source), Host::Ip(destination)) =
            (segment.source.host, segment.destination.host)
        {
            let end = |host, port| Endpoint {
                host: Host::Ip(host),
                port,
            };
            self.open.truncate(Self::MOST - 1);
            self.open.push_front(Open {
                source,
                destination,
                id: first.id,
                header_len: first.header_len,
                payload_at: segment.seq + u32::from(segment.flags.contains(TcpFlags::SYN)),
                head: Segment {
                    at: segment.at,
                    frame: segment.frame,
                    source: end(source, segment.source.port),
                    destination: end(destination, segment.destination.port),
                    flags: segment.flags,
                    seq: segment.seq,
                    ack: segment.ack,
                    window: segment.window,
                    payload_len: segment.payload_len,
                    payload: &[],
                    // What was said once need not be heard again.
                    options: TcpOptions {
                        timestamps: segment.options.timestamps,
                        ..TcpOptions::default()
                    },
                    ip_id: None,
                    ttl: segment.ttl,
                    ecn: segment.ecn,
                    header_len: segment.header_len,
                },
            });
        }
        Segment {
            // The end of the stream stands behind all of the segment.
            flags: segment.flags.without(TcpFlags::FIN),
            ..segment
        }
    }

    fn later<'a>(&self, fragment: &Fragment<'a>) -> Option<Segment<'a>> {
        let open = self.open.iter().find(|open| {
            (open.id, open.source, open.destination)
                == (fragment.id, fragment.source, fragment.destination)
        })?;
        let before = fragment.offset.checked_sub(open.header_len)?;
        let mut flags = open.head.flags.without(TcpFlags::SYN);
        if !fragment.last {
            flags = flags.without(TcpFlags::FIN);
        }
        Some(Segment {
            at: fragment.at,
            frame: fragment.frame,
            flags,
            seq: open.payload_at + before,
            payload_len: fragment.len,
            payload: fragment.bytes,
            ttl: Some(fragment.ttl),
            ecn: Some(fragment.ecn),
            header_len: fragment.header_len,
            ..open.head
        })
    }
}
