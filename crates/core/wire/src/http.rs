//! The head of an HTTP/1 message, as far as a capture shows it.
//!
//! A view for analyses, not a parser for proxies: it reads what the first segments of a request or a
//! response reveal (RFC 9112), accepts a head that is cut off anywhere, and refuses nothing that a real
//! server would accept. Query strings and user information may hold signatures and passwords, so
//! neither `Display` nor `Debug` ever prints them.

pub mod s3;

use core::fmt;

/// What a message head says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Head<'a> {
    /// A request.
    Request {
        /// The method, such as `POST`.
        method: &'a str,
        /// The request target.
        target: Target<'a>,
        /// The fields after the request line.
        fields: Fields,
    },
    /// A response.
    Response {
        /// The status code, such as 200.
        status: u16,
        /// The fields after the status line.
        fields: Fields,
    },
}

/// The header fields that decide how long a message is and whether the connection may be used again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Fields {
    /// `Content-Length` in bytes.
    pub content_length: Option<u64>,
    /// `Transfer-Encoding` ends in `chunked`.
    pub chunked: bool,
    /// `Expect: 100-continue`.
    pub expect_continue: bool,
    /// `Connection: close`.
    pub close: bool,
    /// What tells a request to an S3 store.
    pub s3: s3::Signs,
    /// Bytes of the head up to and including its empty line; `None` where the head was cut off, so that
    /// an absent field may stand in what was not captured.
    pub head_len: Option<usize>,
}

/// A request target. It may carry a signature in its query (as presigned object-store URLs do), hence
/// printing shows the path only and marks that something was left out.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Target<'a>(&'a [u8]);

impl<'a> Head<'a> {
    /// Reads the head at the start of `payload`; `None` where no HTTP/1 message begins there.
    #[must_use]
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        let (line, line_complete) = first_line(payload);
        if let Some(status) = status(line) {
            return Some(Self::Response {
                status,
                fields: Fields::read(payload),
            });
        }
        let (method, target) = request_line(line, line_complete)?;
        Some(Self::Request {
            method,
            target,
            fields: Fields::read(payload),
        })
    }

    /// The fields of either kind.
    #[must_use]
    pub const fn fields(&self) -> &Fields {
        match self {
            Self::Request { fields, .. } | Self::Response { fields, .. } => fields,
        }
    }
}

impl fmt::Display for Head<'_> {
    /// `POST /upload/files`, or the status code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { method, target, .. } => write!(f, "{method} {target}"),
            Self::Response { status, .. } => status.fmt(f),
        }
    }
}

// === impl Target ===

impl<'a> Target<'a> {
    /// The target without scheme, authority and query.
    #[must_use]
    pub fn path(&self) -> &'a [u8] {
        let target = split_at_byte(self.0, b'?').0;
        match find(target, b"://") {
            Some(scheme) => {
                let rest = &target[scheme + 3..];
                let authority = rest.iter().position(|&b| b == b'/');
                authority.map_or(b"/", |path| &rest[path..])
            }
            None => target,
        }
    }

    /// Names of the query's parameters; their values may be secrets and stay hidden.
    pub fn query_names(&self) -> impl Iterator<Item = &'a [u8]> + 'a {
        let query = split_at_byte(self.0, b'?').1;
        query
            .split(|&byte| byte == b'&')
            .map(|parameter| split_at_byte(parameter, b'=').0)
            .filter(|name| !name.is_empty())
    }

    /// Whether there is a query.
    #[must_use]
    pub fn has_query(&self) -> bool {
        self.0.contains(&b'?')
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().escape_ascii().fmt(f)?;
        if self.has_query() {
            f.write_str("?...")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

// === impl Fields ===

impl Fields {
    fn read(payload: &[u8]) -> Self {
        let mut fields = Self::default();
        let mut rest = payload;
        let mut first = true;
        while let Some(end) = rest.iter().position(|&b| b == b'\n') {
            let line = trim(&rest[..end]);
            rest = &rest[end + 1..];
            if line.is_empty() && !first {
                fields.head_len = Some(payload.len() - rest.len());
                break;
            }
            if !first {
                fields.read_line(line);
            }
            first = false;
        }
        fields
    }

    fn read_line(&mut self, line: &[u8]) {
        let (name, value) = split_at_byte(line, b':');
        let value = trim(value);
        self.s3.note(name, value);
        if name.eq_ignore_ascii_case(b"content-length") {
            self.content_length = core::str::from_utf8(value)
                .ok()
                .and_then(|v| v.parse().ok());
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked = last_token(value).eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case(b"expect") {
            self.expect_continue = value.eq_ignore_ascii_case(b"100-continue");
        } else if name.eq_ignore_ascii_case(b"connection") {
            self.close |= value
                .split(|&b| b == b',')
                .any(|token| trim(token).eq_ignore_ascii_case(b"close"));
        }
    }
}

/// The first line without its end, and whether that end was there.
fn first_line(payload: &[u8]) -> (&[u8], bool) {
    match payload.iter().position(|&b| b == b'\n') {
        Some(end) => (payload[..end].trim_ascii_end(), true),
        None => (payload.trim_ascii_end(), false),
    }
}

/// The code of a status line: `HTTP/1.1 200 OK`.
fn status(line: &[u8]) -> Option<u16> {
    let [
        b'H',
        b'T',
        b'T',
        b'P',
        b'/',
        b'1',
        b'.',
        b'0'..=b'9',
        b' ',
        rest @ ..,
    ] = line
    else {
        return None;
    };
    let (code, reason) = rest.split_first_chunk::<3>()?;
    let digits = code.iter().all(u8::is_ascii_digit) && code[0] != b'0';
    let ends = reason.first().is_none_or(|&b| b == b' ');
    (digits && ends).then(|| {
        code.iter()
            .fold(0, |status, digit| status * 10 + u16::from(digit - b'0'))
    })
}

fn request_line(line: &[u8], complete: bool) -> Option<(&str, Target<'_>)> {
    const KNOWN: [&str; 9] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
    ];
    let (method, rest) = split_at_byte(line, b' ');
    let (target, version) = split_at_byte(rest, b' ');
    let method = core::str::from_utf8(method).ok()?;
    let versioned = version.starts_with(b"HTTP/1.");
    // Without a version the line must be cut off and begin like nothing but a request.
    let plausible = if versioned {
        !method.is_empty() && method.len() <= 32 && method.bytes().all(is_token)
    } else {
        !complete && b"HTTP/1.1".starts_with(version) && KNOWN.contains(&method)
    };
    (plausible && !target.is_empty()).then_some((method, Target(target)))
}

/// A byte of a token (RFC 9110 §5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'!' | b'.' | b'+' | b'*')
}

fn last_token(value: &[u8]) -> &[u8] {
    value
        .rsplit(|&b| b == b',')
        .next()
        .map_or(value, <[u8]>::trim_ascii)
}

fn trim(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

fn split_at_byte(bytes: &[u8], byte: u8) -> (&[u8], &[u8]) {
    match bytes.iter().position(|&b| b == byte) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|w| w == needle)
}
