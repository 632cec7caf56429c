//! Why a request fails, in S3's words.

use std::error::Error;

use http::StatusCode;
use s3s::{S3Error, S3ErrorCode};

/// A failure that a client is told about. Travels through bodies as well: what was wrong with the bytes of a
/// client is found while they are on their way to the origin.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failed {
    code: S3ErrorCode,
    message: String,
    status: Option<StatusCode>,
}

// === impl Failed ===

impl Failed {
    pub(crate) fn new(code: S3ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            status: None,
        }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(S3ErrorCode::InternalError, message)
    }

    /// The origin cannot be reached, or stopped in the middle: the client may try again.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self::new(S3ErrorCode::ServiceUnavailable, message)
    }

    /// What the origin keeps is not what this gateway wrote.
    pub(crate) fn tampered(message: impl Into<String>) -> Self {
        Self {
            code: S3ErrorCode::Custom("ObjectNotAuthentic".into()),
            message: message.into(),
            status: Some(StatusCode::BAD_GATEWAY),
        }
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    pub(crate) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(S3ErrorCode::NotImplemented, message)
    }

    /// The failure inside another error, such as of a request whose body failed.
    pub(crate) fn within(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(failed) = error.downcast_ref::<Self>() {
                return Some(failed.clone());
            }
            // `io::Error` shows what it was made of only this way.
            let inner = error.downcast_ref::<std::io::Error>();
            let inner = inner.and_then(|error| error.get_ref());
            if let Some(failed) = inner.and_then(|error| error.downcast_ref::<Self>()) {
                return Some(failed.clone());
            }
            next = error.source();
        }
        None
    }
}

impl From<Failed> for S3Error {
    fn from(failed: Failed) -> Self {
        let mut error = Self::with_message(failed.code, failed.message);
        if let Some(status) = failed.status {
            error.set_status_code(status);
        }
        error
    }
}

impl From<S3Error> for Failed {
    fn from(error: S3Error) -> Self {
        Self {
            code: error.code().clone(),
            message: error.message().unwrap_or_default().to_owned(),
            status: error.status_code(),
        }
    }
}
