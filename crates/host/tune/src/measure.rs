//! The round-trip time to a host that listens.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Handshakes made: the smallest time is the one that waited least.
const HANDSHAKES: u32 = 5;

/// The shortest of a few TCP handshakes with `address`; each connection is closed at once.
///
/// # Errors
/// The last one's, where none succeeded.
pub fn handshake(address: SocketAddr, patience: Duration) -> io::Result<Duration> {
    let mut shortest: Option<Duration> = None;
    let mut failure = None;
    for _ in 0..HANDSHAKES {
        let begun_at = Instant::now();
        match TcpStream::connect_timeout(&address, patience) {
            Ok(_) => {
                let took = begun_at.elapsed();
                shortest = Some(shortest.map_or(took, |shortest| shortest.min(took)));
            }
            // Whoever refuses once refuses always.
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    match (shortest, failure) {
        (Some(shortest), _) => Ok(shortest),
        (None, Some(error)) => Err(error),
        (None, None) => Err(io::Error::other("no handshake was tried")),
    }
}
