//! The relay's S3 mode: clients speak S3 to it with credentials of its own, and it speaks S3 to an origin far
//! away.
//!
//! ```text
//!   client ── server ── front ── gateway ─┬─ upload ───┐
//!             (HTTP)    (SigV4,  (which   ├─ download ─┼── origin ── relay or trunk ── the origin itself
//!                        forms)   bucket)  └─ …  ──────┘   (SigV4)
//! ```
//!
//! - Requests are verified by `s3s`: signatures, presigned URLs, `aws-chunked` bodies and their trailers. What is
//!   asked is then passed on as it stands, signed anew; answers come back as the origin gave them.
//! - What browsers post as forms goes from the server to `form`, which holds it against the policy that a client has signed.
//! - Bytes leave for the origin while they arrive from the client, and the last piece leaves when everything that
//!   the client said about its bytes has proved true.
//! - Large objects are cut: uploads into the parts of a multipart upload, downloads into ranges of one version. How
//!   large and how many follows from what `path` has seen.
//!
//! No object is kept here: what was written through the gateway is read as consistently as the origin gives it. What large
//! objects were when they were seen last (`known`) only lets a download ask for more at once.

mod answer;
mod asked;
mod checksum;
pub mod config;
mod download;
mod encrypted;
mod event;
mod failed;
mod form;
mod front;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod gateway;
mod journal;
mod keys;
mod known;
mod origin;
mod path;
mod rechunked;
mod server;
mod upload;
mod xml;

pub use config::{Config, ConfigError, GatewayOptions};
pub use event::Event;
pub use keys::wrapping_key;
pub use server::{Server, ServerError};
