//! What a running gateway says.

use std::net::SocketAddr;

use serde::Serialize;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Clients can connect.
    GatewayListening {
        /// The address, with the port that was really taken.
        address: SocketAddr,
        /// Where objects are kept.
        origin: String,
    },
    /// A request was answered; the rest of its body may still be on the way.
    Answered {
        /// The client's address.
        peer: SocketAddr,
        /// S3's name of what was asked.
        operation: &'static str,
        /// The bucket, as the client calls it.
        bucket: String,
        /// The key.
        key: String,
        /// The answer.
        status: u16,
        /// From the request's head to the answer's.
        seconds: f64,
        /// Parts or ranges that it was cut into; 1 for one request to the origin.
        parts: u64,
    },
    /// Uploads that a crash had left were given up.
    GaveUp {
        /// How many there were.
        uploads: usize,
        /// How many the origin has not heard of; they stay in the journal for the next start.
        unheard: usize,
    },
    /// Something that an operator should know.
    GatewayWarning {
        /// A stable name.
        name: &'static str,
        /// What it means and what to do.
        text: String,
    },
}
