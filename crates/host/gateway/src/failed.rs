//! Why a request fails, in S3's words.

use std::error::Error;
use std::fmt::Write as _;

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use s3s::{Body, HttpResponse, S3Error, S3ErrorCode};

use crate::xml;

/// A failure that a client is told about. Travels through bodies as well: what was wrong with the bytes of a
/// client is found while they are on their way to the origin.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failed {
    code: S3ErrorCode,
    message: String,
    status: Option<StatusCode>,
    /// Elements that say more, where the answer is written here.
    more: Vec<(&'static str, String)>,
    may_pass: bool,
}

// === impl Failed ===

impl Failed {
    pub(crate) fn new(code: S3ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            status: None,
            more: Vec::new(),
            may_pass: false,
        }
    }

    pub(crate) fn denied(message: impl Into<String>) -> Self {
        Self::new(S3ErrorCode::AccessDenied, message)
    }

    /// A header or field that says what it may not.
    pub(crate) fn argument(name: &str, message: impl Into<String>, value: &str) -> Self {
        Self::new(S3ErrorCode::InvalidArgument, message)
            .with("ArgumentName", name)
            .with("ArgumentValue", value)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(S3ErrorCode::InternalError, message)
    }

    /// The origin cannot be reached, or stopped in the middle: the client may try again.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self::new(S3ErrorCode::ServiceUnavailable, message)
    }

    /// The same, of which a connection or a moment may be the cause.
    pub(crate) fn cut_off(message: impl Into<String>) -> Self {
        Self {
            may_pass: true,
            ..Self::unreachable(message)
        }
    }

    /// What the origin keeps is not what this gateway wrote.
    pub(crate) fn tampered(message: impl Into<String>) -> Self {
        let code = S3ErrorCode::Custom("ObjectNotAuthentic".into());
        Self::new(code, message).with_status(StatusCode::BAD_GATEWAY)
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    /// Says more, in an element of its own.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.more.push((name, value.into()));
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

    /// Whether the same may go well over another connection, or a little later.
    pub(crate) fn may_pass(&self) -> bool {
        self.may_pass
    }

    /// S3's name of it.
    pub(crate) fn code(&self) -> &str {
        self.code.as_str()
    }

    pub(crate) fn status(&self) -> StatusCode {
        let status = self.status.or_else(|| self.code.status_code());
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// As S3 says it.
    pub(crate) fn response(&self) -> HttpResponse {
        let mut more = String::new();
        for (name, value) in &self.more {
            // Writing to a String cannot fail.
            let _ = write!(more, "<{name}>{}</{name}>", xml::escaped(value));
        }
        let text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{}</Code><Message>{}</Message>{more}</Error>",
            xml::escaped(self.code()),
            xml::escaped(&self.message)
        );
        let mut response = HttpResponse::new(Body::from(text));
        *response.status_mut() = self.status();
        let kind = HeaderValue::from_static("application/xml");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
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
            more: Vec::new(),
            may_pass: false,
        }
    }
}
