use bytes::Bytes;
use hyper::StatusCode;
use serde::Serialize;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// Only what the page itself brings may run, load or be asked; nobody may put it into a frame.
const OWN: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// A report's script stands inside it. It gets an origin of its own (`sandbox`), from which it can ask nobody.
const REPORT: &str = "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; \
                      script-src 'unsafe-inline'; frame-ancestors 'none'";

/// What is said to one request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// How it went.
    pub status: StatusCode,
    /// What the body is.
    pub content_type: &'static str,
    /// What a browser may do with it (Content Security Policy, level 3).
    pub(crate) policy: &'static str,
    /// The body.
    pub body: Bytes,
}

// === impl Answer ===

impl Answer {
    /// 200 with bytes.
    pub fn ok(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            status: StatusCode::OK,
            content_type,
            policy: OWN,
            body: body.into(),
        }
    }

    /// 200 with a value as JSON.
    pub fn json(value: &impl Serialize) -> Self {
        match serde_json::to_vec_pretty(value) {
            Ok(mut body) => {
                body.push(b'\n');
                Self::ok(JSON, body)
            }
            Err(error) => Self::text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    /// A sentence.
    pub fn text(status: StatusCode, text: &str) -> Self {
        Self {
            status,
            ..Self::ok(TEXT, format!("{text}\n"))
        }
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// A report as the lab wrote it, with its own script and style.
    pub(crate) fn report(body: Vec<u8>) -> Self {
        Self {
            policy: REPORT,
            ..Self::ok("text/html; charset=utf-8", body)
        }
    }
}
