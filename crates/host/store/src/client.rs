//! The lab's default client: an ordinary S3 library, with and without connection reuse.
//!
//! `object_store`'s `AmazonS3` over `reqwest` and hyper, plain HTTP/1.1, path style. What it puts on
//! the wire for an upload (`tests/client.rs` holds it to that):
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
//! Retries are off, so that a failure is seen and not averaged. `reqwest` honours `http_proxy` and its
//! kin: whoever measures clears them.

use std::time::{Duration, Instant};

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStoreExt as _, PutPayload, RetryConfig};
use serde::{Deserialize, Serialize};

use crate::credentials::Credentials;
use crate::digest::sha256_hex;
use crate::payload;

/// Consecutive uploads of one size.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Series {
    /// Where, such as `http://origin.example:9000`.
    pub endpoint: String,
    /// Bucket, which must exist.
    pub bucket: String,
    /// Keys are this, a slash, and the index in six digits.
    pub key_prefix: String,
    /// Who uploads.
    pub credentials: Credentials,
    /// Bytes of each object.
    pub bytes: u64,
    /// Index of the first upload; content and key follow from the index.
    pub first_index: u64,
    /// How many.
    pub uploads: u64,
    /// Seed of the content, see [`payload::content`].
    pub seed: u64,
    /// Whether one client, and so one connection, carries all uploads. Otherwise every upload has a
    /// new client without a pool.
    pub reuse: bool,
    /// Seconds after which an upload has failed.
    pub timeout_s: f64,
}

/// One upload.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Upload {
    /// Its index in the series.
    pub index: u64,
    /// Its key.
    pub key: String,
    /// Bytes of the object.
    pub bytes: u64,
    /// SHA-256 of what was sent, lower-case hexadecimal.
    pub sha256: String,
    /// Seconds from the call of `put` to its return: connection, request and response, as the
    /// report's script measures. Making the client and the content is outside.
    pub seconds: f64,
    /// Why it failed, with all causes; the seconds then tell when.
    pub error: Option<String>,
}

/// A series could not be run; a failed upload is not an error, but stands in its [`Upload`].
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
        /// [`Series::bytes`].
        bytes: u64,
        /// Why not.
        #[source]
        source: std::num::TryFromIntError,
    },
    /// The timeout is not a length of time.
    #[error("cannot wait {seconds} seconds for an upload")]
    Timeout {
        /// [`Series::timeout_s`].
        seconds: f64,
        /// Why not.
        #[source]
        source: std::time::TryFromFloatSecsError,
    },
}

/// Runs a series, one upload after the other; `each` sees every upload as it ends.
///
/// # Errors
/// When the series cannot begin; an upload that fails does not end the series.
pub async fn upload(
    series: &Series,
    mut each: impl FnMut(&Upload),
) -> Result<Vec<Upload>, ClientError> {
    let len = usize::try_from(series.bytes).map_err(|source| ClientError::Size {
        bytes: series.bytes,
        source,
    })?;
    let mut uploads = Vec::new();
    let mut client = client(series)?;
    for index in
        (series.first_index..).take_while(|index| index - series.first_index < series.uploads)
    {
        if !series.reuse && index != series.first_index {
            client = self::client(series)?;
        }
        let upload = put(&client, series, index, len).await?;
        each(&upload);
        uploads.push(upload);
    }
    Ok(uploads)
}

async fn put(
    client: &AmazonS3,
    series: &Series,
    index: u64,
    len: usize,
) -> Result<Upload, ClientError> {
    let key = format!("{}/{index:06}", series.key_prefix);
    let path = Path::parse(&key).map_err(|source| ClientError::Key {
        key: key.clone(),
        source,
    })?;
    let content = payload::content(series.seed, index, len);
    let sha256 = sha256_hex(&content);
    let payload = PutPayload::from_bytes(content);
    let began = Instant::now();
    let result = client.put(&path, payload).await;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Upload {
        index,
        key,
        bytes: series.bytes,
        sha256,
        seconds,
        error: result.err().map(|error| with_causes(&error)),
    })
}

fn client(series: &Series) -> Result<AmazonS3, ClientError> {
    let timeout =
        Duration::try_from_secs_f64(series.timeout_s).map_err(|source| ClientError::Timeout {
            seconds: series.timeout_s,
            source,
        })?;
    let mut options = ClientOptions::new()
        .with_allow_http(true)
        .with_timeout(timeout)
        .with_connect_timeout(timeout)
        // Reading them takes tens of milliseconds, and plain HTTP has no use for them.
        .with_no_system_certificates(true);
    if !series.reuse {
        // Nothing stays open behind an upload: the client closes first, as in the report.
        options = options.with_pool_max_idle_per_host(0);
    }
    AmazonS3Builder::new()
        .with_endpoint(&series.endpoint)
        .with_virtual_hosted_style_request(false)
        .with_bucket_name(&series.bucket)
        .with_region("us-east-1")
        .with_access_key_id(&series.credentials.access_key)
        .with_secret_access_key(&series.credentials.secret_key)
        .with_retry(RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        })
        .with_client_options(options)
        .build()
        .map_err(|source| ClientError::Make {
            endpoint: series.endpoint.clone(),
            bucket: series.bucket.clone(),
            source,
        })
}

/// An error and its causes in one line. The library repeats causes in its own text, so a cause that is
/// already there is left out.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
