mod arbitrary;
mod filter;
mod pcap;
mod pcapng;
mod text;
mod writer;

use std::vec::Vec;

use units::Time;
use wire::LinkType;

use crate::{Packets, ReadError};

/// What is compared of a packet: time in ns, interface, link type, captured bytes, original length.
type Row<'a> = (u64, u32, LinkType, &'a [u8], u32);

/// All packets of a file, and what ended it.
fn rows(file: &[u8]) -> (Vec<Row<'_>>, Option<ReadError>) {
    let mut packets = Packets::new(file);
    let mut rows = Vec::new();
    loop {
        match packets.next_packet() {
            Ok(Some(packet)) => rows.push((
                Time::as_nanos(packet.at),
                packet.interface,
                packet.link,
                packet.captured,
                packet.original_len,
            )),
            Ok(None) => return (rows, None),
            Err(error) => return (rows, Some(error)),
        }
    }
}

/// A number in either byte order.
fn number(big: bool, value: u32) -> [u8; 4] {
    if big {
        value.to_be_bytes()
    } else {
        value.to_le_bytes()
    }
}
