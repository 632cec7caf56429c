//! Version 2: twelve bytes of signature, four of head, addresses, type-length-values.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Endpoints, Header, LONGEST, Malformed};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and protocol, length of the rest.
const HEAD: usize = 16;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

pub(super) fn parse(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let common = bytes.len().min(SIGNATURE.len());
    if bytes[..common] != SIGNATURE[..common] {
        return Err(Malformed::Signature);
    }
    let Some((head, rest)) = bytes.split_at_checked(HEAD) else {
        return Ok(None);
    };
    let (command, family) = (head[12], head[13]);
    if command != LOCAL && command != PROXY {
        return Err(Malformed::Field("version or command"));
    }
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if HEAD + length > LONGEST {
        return Err(Malformed::TooLong);
    }
    let Some(block) = rest.get(..length) else {
        return Ok(None);
    };
    let endpoints = match (command, family) {
        // "The receiver must accept this connection as valid and must use the real connection endpoints"
        (LOCAL, _) => None,
        (_, TCP_OVER_IPV4) => Some(ipv4(block).ok_or(Malformed::Field("IPv4 addresses"))?),
        (_, TCP_OVER_IPV6) => Some(ipv6(block).ok_or(Malformed::Field("IPv6 addresses"))?),
        // Unspecified, UDP or Unix: this connection is neither, so its own addresses are what is known.
        (_, family) if family >> 4 <= 3 && family & 0xF <= 2 => None,
        _ => return Err(Malformed::Field("address family")),
    };
    Ok(Some(Header {
        endpoints,
        length: HEAD + length,
    }))
}

pub(super) fn write(endpoints: Endpoints) -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    let (source, destination) = (endpoints.source, endpoints.destination);
    bytes.push(PROXY);
    if let (SocketAddr::V4(source), SocketAddr::V4(destination)) = (source, destination) {
        bytes.extend([TCP_OVER_IPV4, 0, 12]);
        bytes.extend(source.ip().octets());
        bytes.extend(destination.ip().octets());
    } else {
        bytes.extend([TCP_OVER_IPV6, 0, 36]);
        for address in [source.ip(), destination.ip()] {
            bytes.extend(v6_octets(address));
        }
    }
    bytes.extend(source.port().to_be_bytes());
    bytes.extend(destination.port().to_be_bytes());
    bytes
}

fn v6_octets(address: std::net::IpAddr) -> [u8; 16] {
    match address {
        std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        std::net::IpAddr::V6(v6) => v6.octets(),
    }
}

fn ipv4(block: &[u8]) -> Option<Endpoints> {
    let (source, rest) = block.split_first_chunk::<4>()?;
    let (destination, rest) = rest.split_first_chunk::<4>()?;
    let (source_port, destination_port) = ports(rest)?;
    Some(Endpoints {
        source: (Ipv4Addr::from_octets(*source), source_port).into(),
        destination: (Ipv4Addr::from_octets(*destination), destination_port).into(),
    })
}

fn ipv6(block: &[u8]) -> Option<Endpoints> {
    let (source, rest) = block.split_first_chunk::<16>()?;
    let (destination, rest) = rest.split_first_chunk::<16>()?;
    let (source_port, destination_port) = ports(rest)?;
    Some(Endpoints {
        source: (Ipv6Addr::from_octets(*source), source_port).into(),
        destination: (Ipv6Addr::from_octets(*destination), destination_port).into(),
    })
}

fn ports(block: &[u8]) -> Option<(u16, u16)> {
    let (source, rest) = block.split_first_chunk::<2>()?;
    let destination = rest.first_chunk::<2>()?;
    Some((
        u16::from_be_bytes(*source),
        u16::from_be_bytes(*destination),
    ))
}
