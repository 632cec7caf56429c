//! What a span says, in OTLP's JSON: `opentelemetry/proto/trace/v1/trace.proto` by the JSON mapping of Protocol Buffers, with
//! identifiers in hexadecimal. Names of attributes are those of OpenTelemetry's semantic conventions; what these have no
//! name for begins with `longhaul.`.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

use crate::event::{EndedBy, Phase, TlsReport};

/// The longest text of an attribute, in bytes: a path may be as long as a head.
const LONGEST: usize = 1_024;

/// Of `Status` in the same file.
const ERROR: u8 = 2;

/// What an exporter may be sent at once.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Batch<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: Resource,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Scope,
    spans: &'a [Span],
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

/// One thing that was done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Span {
    trace_id: Id<16>,
    #[serde(rename = "spanId")]
    id: Id<8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<Id<8>>,
    name: String,
    kind: Kind,
    #[serde(serialize_with = "as_text")]
    start_time_unix_nano: u64,
    #[serde(serialize_with = "as_text")]
    end_time_unix_nano: u64,
    attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) links: Vec<Link>,
    status: Status,
}

/// Whose side of an operation it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// Another span that has to do with one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Link {
    trace_id: Id<16>,
    span_id: Id<8>,
}

#[derive(Debug, Default, Serialize)]
struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

#[derive(Debug, Serialize)]
struct Attribute {
    key: &'static str,
    value: Value,
}

/// What an attribute may be.
#[derive(Debug, Serialize)]
pub(super) enum Value {
    #[serde(rename = "stringValue")]
    Text(String),
    #[serde(rename = "intValue", serialize_with = "as_text")]
    Whole(u64),
    #[serde(rename = "boolValue")]
    Flag(bool),
}

/// An identifier.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Id<const N: usize>(pub(super) [u8; N]);

// === impl Batch ===

impl<'a> Batch<'a> {
    pub(super) fn new(service: &str, spans: &'a [Span]) -> Self {
        let named = Attribute {
            key: "service.name",
            value: service.into(),
        };
        let scope = Scope {
            name: "longhaul.relay",
            version: env!("CARGO_PKG_VERSION"),
        };
        Self {
            resource_spans: [ResourceSpans {
                resource: Resource {
                    attributes: vec![named],
                },
                scope_spans: [ScopeSpans { scope, spans }],
            }],
        }
    }
}

// === impl Span ===

impl Span {
    pub(super) fn new(
        trace: Id<16>,
        id: Id<8>,
        parent: Option<Id<8>>,
        kind: Kind,
        name: &str,
    ) -> Self {
        Self {
            trace_id: trace,
            id,
            parent_span_id: parent,
            name: name.to_owned(),
            kind,
            start_time_unix_nano: 0,
            end_time_unix_nano: 0,
            attributes: Vec::new(),
            links: Vec::new(),
            status: Status::default(),
        }
    }

    /// A request and its response. Clients may invent methods, and a span's name has to be one of few.
    pub(super) fn exchange(trace: Id<16>, id: Id<8>, parent: Id<8>, method: &str) -> Self {
        const KNOWN: [&str; 9] = [
            "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
        ];
        let known = KNOWN.contains(&method);
        let name = if known { method } else { "HTTP" };
        let mut span = Self::new(trace, id, Some(parent), Kind::Client, name);
        if known {
            span.says("http.request.method", method);
        } else {
            span.says("http.request.method", "_OTHER");
            span.says("http.request.method_original", method);
        }
        span
    }

    /// Until when, and for how long.
    pub(super) fn lasted(&mut self, end: SystemTime, lasted: Duration) {
        let since = end.duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.end_time_unix_nano = nanos(since);
        self.start_time_unix_nano = nanos(since.saturating_sub(lasted));
    }

    pub(super) fn says(&mut self, key: &'static str, value: impl Into<Value>) {
        self.attributes.push(Attribute {
            key,
            value: value.into(),
        });
    }

    /// The path that was asked for, which an event has without the query: signatures are in that.
    pub(super) fn path(&mut self, path: &str) {
        self.says("url.path", path);
    }

    /// Who ended it, and what went wrong if something did.
    pub(super) fn ended(&mut self, by: EndedBy, phase: Phase, error: Option<&str>) {
        self.says("longhaul.ended_by", by.as_str());
        self.says("longhaul.phase", phase.as_str());
        if by != EndedBy::Completed {
            self.fails(by.as_str(), error.unwrap_or_default());
        }
    }

    /// What the client was answered: by the origin where the exchange is `complete`, or by this relay.
    pub(super) fn status(&mut self, status: u16, complete: bool) {
        self.says("http.response.status_code", u64::from(status));
        if complete && status >= 400 {
            self.fails(&status.to_string(), "");
        }
    }

    pub(super) fn moved(&mut self, up: u64, down: u64) {
        self.says("longhaul.bytes_up", up);
        self.says("longhaul.bytes_down", down);
    }

    /// What a handshake agreed on.
    pub(super) fn tls(&mut self, tls: &TlsReport) {
        self.says("tls.protocol.version", tls.version.as_str());
        self.says("tls.cipher", tls.cipher_suite.as_str());
        self.says("tls.resumed", tls.resumed);
        if let Some(group) = &tls.group {
            self.says("tls.curve", group.as_str());
        }
        if let Some(name) = &tls.server_name {
            self.says("tls.client.server_name", name.as_str());
        }
    }

    fn fails(&mut self, kind: &str, message: &str) {
        self.says("error.type", kind);
        self.status = Status {
            code: Some(ERROR),
            message: shortened(message),
        };
    }
}

/// As much of a text as an attribute may hold.
fn shortened(text: &str) -> String {
    let (start, _) = text.split_at(text.floor_char_boundary(LONGEST));
    start.to_owned()
}

// === impl Link ===

impl Link {
    pub(super) fn to(trace: Id<16>, span: Id<8>) -> Self {
        Self {
            trace_id: trace,
            span_id: span,
        }
    }
}

// === impl Kind ===

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(*self as u8)
    }
}

// === impl Value ===

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(shortened(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// Numbers of 64 bits are texts in the JSON of Protocol Buffers.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn as_text<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

// === impl Id ===

impl<const N: usize> Id<N> {
    /// Of the first bytes of a digest, which are not all zero but once in 2^64 at the most.
    pub(super) fn from_start(bytes: &[u8]) -> Self {
        let mut id = [0; N];
        for (byte, from) in id.iter_mut().zip(bytes) {
            *byte = *from;
        }
        Self(id)
    }
}

impl Id<16> {
    pub(super) fn low_bits(self) -> u64 {
        let mut low = [0; 8];
        low.copy_from_slice(&self.0[8..]);
        u64::from_be_bytes(low)
    }
}

impl<const N: usize> fmt::Display for Id<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<const N: usize> Serialize for Id<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
