//! The PROXY protocol, versions 1 and 2: a header in front of a connection's bytes that says whom the
//! sender stands for (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>).
//!
//! Type-length-values of version 2 are read over and not passed on: none of them is about this relay's
//! own connection to the target.

mod v1;
mod v2;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Which form of the header.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// The longest header that is read: version 2 with 4 KiB of type-length-values, eight times what the
/// specification calls usual. A line of version 1 is 107 bytes at most.
pub(crate) const LONGEST: usize = 16 + 4096;

/// Whom a connection stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Endpoints {
    /// The client's address, as its own proxy saw it.
    pub(crate) source: SocketAddr,
    /// The address that the client had connected to.
    pub(crate) destination: SocketAddr,
}

/// A complete header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    /// Nobody where the proxy speaks for itself (`LOCAL`, a health check) or does not know (`UNKNOWN`).
    pub(crate) endpoints: Option<Endpoints>,
    /// Bytes of the header; the stream begins behind them.
    pub(crate) length: usize,
}

/// Bytes are no PROXY header.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum Malformed {
    /// Neither version begins like this.
    #[error("the connection does not begin with a PROXY header")]
    Signature,
    /// A line without an end within 107 bytes, or a length beyond the limit.
    #[error("the PROXY header is too long")]
    TooLong,
    /// A field that is not what its place asks for.
    #[error("the PROXY header's {0} is malformed")]
    Field(&'static str),
}

/// Reads a header from the start of a connection; `None` where more bytes are needed.
///
/// There is no guessing whether a header is there, as the specification asks for in its section 2: who
/// can connect could otherwise pretend to be anybody.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    // The first byte tells the versions apart.
    match bytes.first() {
        None => Ok(None),
        Some(b'P') => v1::parse(bytes),
        Some(_) => v2::parse(bytes),
    }
}

/// A header for a connection of `endpoints`.
pub(crate) fn write(version: Version, endpoints: Endpoints) -> Vec<u8> {
    // A socket for both families shows IPv4 clients as ::ffff:a.b.c.d, which no receiver expects. The two
    // addresses of a header are of one family.
    let (source, destination) = (endpoints.source.ip(), endpoints.destination.ip());
    let (source, destination) = match (source.to_canonical(), destination.to_canonical()) {
        (source, destination) if source.is_ipv4() == destination.is_ipv4() => (source, destination),
        _ => (mapped(source), mapped(destination)),
    };
    let endpoints = Endpoints {
        source: (source, endpoints.source.port()).into(),
        destination: (destination, endpoints.destination.port()).into(),
    };
    match version {
        Version::V1 => v1::write(endpoints),
        Version::V2 => v2::write(endpoints),
    }
}

/// An address as IPv6.
fn mapped(address: std::net::IpAddr) -> std::net::IpAddr {
    match address {
        std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        v6 @ std::net::IpAddr::V6(_) => v6,
    }
}
