//! Version 1: `PROXY TCP4 192.0.2.1 198.51.100.7 4711 443\r\n`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::{Endpoints, Header, Malformed};

/// The longest line, its end included (section 2.1).
const LONGEST: usize = 107;
const START: &[u8] = b"PROXY ";

pub(super) fn parse(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let common = bytes.len().min(START.len());
    if bytes[..common] != START[..common] {
        return Err(Malformed::Signature);
    }
    let line = &bytes[..bytes.len().min(LONGEST)];
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return if line.len() < LONGEST {
            Ok(None)
        } else {
            Err(Malformed::TooLong)
        };
    };
    let line = line.get(START.len()..end).ok_or(Malformed::Signature)?;
    let line = std::str::from_utf8(line).map_err(|_| Malformed::Field("line"))?;
    Ok(Some(Header {
        endpoints: fields(line)?,
        length: end + 2,
    }))
}

pub(super) fn write(endpoints: Endpoints) -> Vec<u8> {
    let Endpoints {
        source,
        destination,
    } = endpoints;
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    format!(
        "PROXY {family} {} {} {} {}\r\n",
        source.ip(),
        destination.ip(),
        source.port(),
        destination.port()
    )
    .into_bytes()
}

fn fields(line: &str) -> Result<Option<Endpoints>, Malformed> {
    // Exactly one space between fields: an empty field fails to be an address or a port.
    let mut fields = line.split(' ');
    let address: fn(&str) -> Option<IpAddr> = match fields.next() {
        // "the receiver must ignore anything presented before the CRLF is found"
        Some("UNKNOWN") => return Ok(None),
        Some("TCP4") => |text| Ipv4Addr::from_str(text).ok().map(IpAddr::V4),
        Some("TCP6") => |text| Ipv6Addr::from_str(text).ok().map(IpAddr::V6),
        _ => return Err(Malformed::Field("protocol")),
    };
    let mut next_address = |name| {
        let text = fields.next().and_then(address);
        text.ok_or(Malformed::Field(name))
    };
    let source = next_address("source address")?;
    let destination = next_address("destination address")?;
    let mut next_port = |name| {
        let port = fields.next().and_then(port);
        port.ok_or(Malformed::Field(name))
    };
    let source = SocketAddr::new(source, next_port("source port")?);
    let destination = SocketAddr::new(destination, next_port("destination port")?);
    if fields.next().is_some() {
        return Err(Malformed::Field("end"));
    }
    Ok(Some(Endpoints {
        source,
        destination,
    }))
}

/// Digits without a sign or leading zeros, which two readers could understand differently.
fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}
