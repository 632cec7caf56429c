//! The lab's default client: an ordinary S3 library, with and without connection reuse.
//!
//! `object_store`'s `AmazonS3` over `reqwest` and hyper, HTTP/1.1, path style, plain or over TLS. What it
//! puts on the wire for an upload (`tests/store/client.rs` holds it to that):
//!
//! ```text
//! PUT /lab/series/000001 HTTP/1.1
//! content-length: 102400
//! x-amz-date: 20261121T214500Z
//! x-amz-content-sha256: <digest of the body, which is signed>
//! authorization: AWS4-HMAC-SHA256 Credential=..., SignedHeaders=..., Signature=...
//! accept: */*
//! user-agent: object_store/0.14.2
//! host: origin.example:9000
//! ```
//!
//! No `Expect: 100-continue` and no chunked body. Hyper hands the head (471 bytes above) and the body
//! to the kernel in one `writev`, so the head does *not* travel as a segment of its own, as it does in
//! the field report, where Python's `http.client` sends it alone: an upload of 102,400 bytes is 72
//! segments of 1448 bytes here and 1 + 72 there. Both need four flights from an initial window of ten
//! (10 + 20 + 40 = 70). `TCP_NODELAY` is set by `reqwest`.
//!
//! Objects that are read must be known beforehand: the origin makes them from a seed and a size
//! ([`payload::made_key`]), and the client compares digests after the clock has stopped. A multipart
//! upload is one request that begins it, `parallel` parts at once, and one that completes it.
//!
//! Retries are off, so that a failure is seen and not averaged. `reqwest` honours `http_proxy` and its
//! kin: whoever measures clears them.

mod library;
mod transfer;

use serde::{Deserialize, Serialize};

use crate::credentials::Credentials;
use crate::tls::Trust;

pub use transfer::{Client, run};

#[cfg(doc)]
use crate::payload;

/// Consecutive transfers that are alike.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Series {
    /// Where, such as `http://origin.example:9000`; `https` needs [`Series::tls`].
    pub endpoint: String,
    /// Bucket, which must exist.
    pub bucket: String,
    /// Keys that are written are this, a slash, the index of the transfer in six digits, and from the
    /// second object of a transfer on a dash and its number.
    pub key_prefix: String,
    /// Who asks.
    pub credentials: Credentials,
    /// What is done.
    #[serde(default)]
    pub verb: Verb,
    /// Bytes of the objects of one transfer, which go one after the other.
    pub sizes: Vec<u64>,
    /// Connections at once. Each moves all `sizes`; with `part` they share each object.
    #[serde(default = "one")]
    pub parallel: u32,
    /// Bytes of a part of a multipart upload or a range of a download; whole objects where absent.
    #[serde(default)]
    pub part: Option<u64>,
    /// A reader that stops once per transfer.
    #[serde(default)]
    pub read_pause: Option<ReadPause>,
    /// How to speak TLS.
    #[serde(default)]
    pub tls: Option<Trust>,
    /// Index of the first transfer; content and key of what is written follow from the index.
    pub first_index: u64,
    /// How many transfers.
    pub transfers: u64,
    /// Seed of the content: the origin's [`Config::seed`](crate::origin::Config::seed) for what is read,
    /// see [`payload`] for what is written.
    pub seed: u64,
    /// Whether one client carries all transfers, and so keeps its connections. Otherwise every transfer
    /// has a new client, whose connections end with it.
    pub reuse: bool,
    /// Seconds after which a request has failed.
    pub timeout_s: f64,
}

/// What a transfer does.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Writes objects.
    #[default]
    Put,
    /// Reads objects that the origin has made.
    Get,
    /// Reads objects that another origin has made, and writes each to this one as soon as it has it:
    /// whole, or part by part.
    Copy(Source),
}

/// The origin that a copy reads from.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Source {
    /// Its endpoint; bucket and credentials are those of the series, plain HTTP.
    pub endpoint: String,
}

/// A reader that stops once.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReadPause {
    /// After so many bytes of a transfer, on the connection that brings the last of them.
    pub after: u64,
    /// For so many seconds.
    pub for_s: f64,
}

/// One transfer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Transfer {
    /// Its index in the series.
    pub index: u64,
    /// The objects that were moved whole; all of them unless `error` says why not.
    pub objects: Vec<Moved>,
    /// Seconds from the first call of the library to the return of the last: connections, requests and
    /// responses, as the report's script measures. Making clients and contents and taking digests is
    /// outside.
    pub seconds: f64,
    /// Why it failed, with all causes; the seconds then tell when.
    pub error: Option<String>,
}

/// An object that was moved.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Moved {
    /// Its key: where it was written, or for [`Verb::Get`] read.
    pub key: String,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 of what was sent, or arrived, lower-case hexadecimal.
    pub sha256: String,
}

/// A series could not be run; a failed transfer is not an error, but stands in its [`Transfer`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The library refused its settings.
    #[error("cannot make an S3 client for bucket {bucket} at {endpoint}")]
    Make {
        /// [`Series::endpoint`].
        endpoint: String,
        /// [`Series::bucket`].
        bucket: String,
        /// What the library said.
        #[source]
        source: object_store::Error,
    },
    /// The key is none.
    #[error("cannot use {key} as an object's key")]
    Key {
        /// The key.
        key: String,
        /// What the library said.
        #[source]
        source: object_store::path::Error,
    },
    /// An object does not fit into memory.
    #[error("cannot make an object of {bytes} bytes on this machine")]
    Size {
        /// One of [`Series::sizes`].
        bytes: u64,
        /// Why not.
        #[source]
        source: std::num::TryFromIntError,
    },
    /// A time is not a length of time.
    #[error("cannot wait {seconds} seconds")]
    Wait {
        /// [`Series::timeout_s`], or [`ReadPause::for_s`].
        seconds: f64,
        /// Why not.
        #[source]
        source: std::time::TryFromFloatSecsError,
    },
    /// No part has zero bytes.
    #[error("cannot cut objects into parts of 0 bytes")]
    Part,
}

const fn one() -> u32 {
    1
}
