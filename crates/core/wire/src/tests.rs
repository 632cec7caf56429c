mod beside;
mod flow;
mod frames;
mod http;
mod round_trip;
mod tls;
mod tunnels;

use core::net::IpAddr;

use std::vec::Vec;

use units::{SeqNum, Time};

use crate::{
    Endpoint, Host, LinkType, Observation, Segment, TcpFlags, TcpOptions, Timestamps, decode, write,
};

/// A data segment of a modern connection.
fn segment(payload: &[u8]) -> Segment<'_> {
    let end = |last, port| Endpoint {
        host: Host::Ip(IpAddr::from([10, 0, 0, last])),
        port,
    };
    let mut segment = Segment {
        at: Time::ZERO,
        frame: 1,
        source: end(1, 33_666),
        destination: end(2, 80),
        flags: TcpFlags::PSH.union(TcpFlags::ACK),
        seq: SeqNum::new(u32::MAX),
        ack: Some(SeqNum::new(7)),
        window: 502,
        payload_len: u32::try_from(payload.len()).unwrap(),
        payload,
        options: TcpOptions::default(),
        ip_id: Some(54_321),
        ttl: Some(64),
        ecn: Some(2),
        header_len: 52,
    };
    segment.options.timestamps = Some(Timestamps {
        value: 2_595_135_963,
        echo: 9,
    });
    segment
}

/// `segment` as an IP packet.
fn packet(segment: &Segment<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write::segment(&mut bytes, segment).unwrap();
    bytes
}

/// Decodes a frame that was captured as a whole.
fn whole(link: LinkType, bytes: &[u8]) -> Observation<'_> {
    let len = u32::try_from(bytes.len()).unwrap();
    decode(link, Time::ZERO, 1, bytes, len).unwrap()
}
