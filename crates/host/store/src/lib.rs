//! The store at the far end of the lab, and the client that uploads to it.
//!
//! [`origin`] is an S3 server in one process and in memory, which proves what it received: every stored
//! object leaves as an event with its SHA-256. [`client`] is an ordinary S3 client library, with and
//! without connection reuse, whose objects carry content that both ends can recompute from a seed. [`tls`] is the
//! certificate between them.
//!
//! The two stand alone in this crate because their dependencies are heavy.

pub mod client;
pub mod credentials;
pub mod digest;
pub mod origin;
pub mod payload;
pub mod tls;
