use std::net::SocketAddr;

use limit::kernel::Reading;
use record::top::State;

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
}
