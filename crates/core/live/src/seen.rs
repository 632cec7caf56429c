use std::collections::BTreeMap;
use std::net::SocketAddr;

use limit::kernel::Reading;
use record::LimitSeconds;
use record::top::{Relayed, State};
use units::Time;

/// What stays the same about a socket, and differs from every other one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key {
    /// The namespace's place in the list of those that are read.
    pub namespace: u16,
    /// The kernel's own number of the socket.
    pub cookie: u64,
}

/// A socket as its kernel described it at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Which one.
    pub key: Key,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// Where the connection stands.
    pub state: State,
    /// The socket's file; zero where no process holds it any more.
    pub inode: u32,
    /// The user who made it.
    pub uid: u32,
    /// Bytes received that nobody has read; at a listener, connections that wait to be accepted.
    pub receive_queue: u32,
    /// Bytes written that the peer has not acknowledged.
    pub send_queue: u32,
    /// The congestion control at work.
    pub congestion_control: Option<String>,
    /// The sender's clocks and marks, windows in segments.
    pub sender: Reading,
    /// Payload of a full segment, in bytes.
    pub mss: u64,
    /// Payload in flight, in bytes.
    pub in_flight: u64,
    /// Payload acknowledged by the peer so far.
    pub bytes_acked: Option<u64>,
    /// Payload received so far.
    pub bytes_received: Option<u64>,
    /// The window that the peer advertised last, in bytes.
    pub peer_window: Option<u64>,
    /// The newest delivery rate sample, in bits per second.
    pub delivery_bps: Option<u64>,
    /// What a relay tells of it, where it is one of that relay's.
    pub relayed: Option<Box<Told>>,
}

/// What a relay tells of a socket of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Whose client it serves.
    pub of: Relayed,
    /// The time of its sending, which the relay has divided; used where its kernel is not read here.
    pub divided: Divided,
}

/// Time per limit, as somebody else's clock had it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Divided {
    /// When that kernel was asked, by that clock.
    pub at: Time,
    /// Time per limit so far.
    pub limits: LimitSeconds,
}

// === impl Seen ===

impl Seen {
    /// The division of a socket that is known from its relay alone.
    pub(crate) fn divided(&self) -> Option<&Divided> {
        let told = self.relayed.as_ref().filter(|told| told.of.elsewhere)?;
        Some(&told.divided)
    }
}

/// Adds what relays tell to what kernels here have listed. A socket that both know is one, as its kernel lists it;
/// those that only a relay knows come behind.
pub fn join(seen: &mut Vec<Seen>, told: Vec<Seen>) {
    if told.is_empty() {
        return;
    }
    // Two kernels may number alike, and two namespaces may have the same addresses; hardly both at once.
    let place = |one: &Seen| (one.key.cookie, one.local, one.peer);
    let mut elsewhere: BTreeMap<_, _> = told.into_iter().map(|one| (place(&one), one)).collect();
    for one in seen.iter_mut() {
        if let Some(known) = elsewhere.remove(&place(one)) {
            one.relayed = known.relayed.map(|mut told| {
                told.of.elsewhere = false;
                told.divided = Divided::default();
                told
            });
        }
    }
    seen.extend(elsewhere.into_values());
}
