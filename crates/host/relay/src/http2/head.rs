//! Heads of messages, from HTTP/2 to HTTP/1.1 and back.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, request, uri};

use crate::http::Malformed;
use crate::http::request::RequestHead;
use crate::http::response::ResponseHead;

/// Why a request of HTTP/2 is not forwarded.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("CONNECT: this relay has one origin and is no proxy for others")]
    Connect,
    #[error("the request has no path")]
    NoPath,
    #[error("`:authority` names a user")]
    UserInfo,
    #[error("`:authority` and `Host` differ")]
    TwoHosts,
    #[error("the head is longer than its limit")]
    TooLong,
    #[error("the head cannot be one of HTTP/1.1")]
    Malformed(#[source] Malformed),
}

/// A request as the origin is to get it.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) request: RequestHead,
    pub(super) head: Vec<u8>,
}

/// A request's head in HTTP/1.1. `ends` says that no body follows, `limit` how many bytes it may have.
///
/// It passes the same parser as a head that came as HTTP/1.1, so that nothing gets to the origin by this way that
/// would be refused on the other.
pub(super) fn request(
    parts: &request::Parts,
    ends: bool,
    limit: usize,
) -> Result<Translated, Refused> {
    if parts.method == Method::CONNECT {
        return Err(Refused::Connect);
    }
    let path = parts.uri.path_and_query().ok_or(Refused::NoPath)?;
    let mut head = Vec::with_capacity(1024);
    line(
        &mut head,
        &[
            parts.method.as_str().as_bytes(),
            b" ",
            path.as_str().as_bytes(),
            b" HTTP/1.1",
        ],
    );
    line(&mut head, &[b"Host: ", host(parts)?]);
    for name in parts.headers.keys() {
        if belongs_to_connection(name) || name == header::HOST {
            continue;
        }
        let values = parts.headers.get_all(name);
        if name == header::COOKIE {
            let values: Vec<_> = values.iter().map(HeaderValue::as_bytes).collect();
            //= https://www.rfc-editor.org/rfc/rfc9113#section-8.2.3
            //# If there are multiple Cookie header fields after
            //# decompression, these MUST be concatenated into a single octet string
            //# using the two-octet delimiter of 0x3b, 0x20 (the ASCII string "; ")
            line(&mut head, &[b"cookie: ", &values.join(b"; ".as_slice())]);
            continue;
        }
        for value in values {
            line(
                &mut head,
                &[name.as_str().as_bytes(), b": ", value.as_bytes()],
            );
        }
    }
    let has_length = parts.headers.contains_key(header::CONTENT_LENGTH);
    if !ends && !has_length {
        line(&mut head, &[b"Transfer-Encoding: chunked"]);
    } else if ends && !has_length && expects_body(&parts.method) {
        line(&mut head, &[b"Content-Length: 0"]);
    }
    line(&mut head, &[]);
    if head.len() > limit {
        return Err(Refused::TooLong);
    }
    let request = RequestHead::parse(&head).map_err(Refused::Malformed)?;
    Ok(Translated { request, head })
}

/// The fields of a request's trailers in HTTP/1.1, with the empty line that ends them.
pub(super) fn trailers(fields: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in fields {
        //= https://www.rfc-editor.org/rfc/rfc9110#section-6.5.1
        //# A sender MUST NOT generate a trailer field unless the sender knows the
        //# corresponding header field name's definition permits the field to be
        //# sent in trailers.
        // Fields that frame or route are the ones for which that matters to whoever merges them.
        let frames = [header::CONTENT_LENGTH, header::HOST, header::TRAILER].contains(name);
        if !frames && !belongs_to_connection(name) {
            line(
                &mut lines,
                &[name.as_str().as_bytes(), b": ", value.as_bytes()],
            );
        }
    }
    line(&mut lines, &[]);
    lines
}

/// A response's head in HTTP/2.
pub(super) fn response(parsed: &ResponseHead, head: &[u8]) -> Result<Response<()>, Malformed> {
    let mut response = Response::new(());
    *response.status_mut() =
        StatusCode::from_u16(parsed.status).map_err(|_| Malformed::StartLine)?;
    // The status line is the parser's; what follows are field lines.
    let start = head.iter().position(|&byte| byte == b'\n');
    let lines = start.map_or(head, |end| &head[end + 1..]);
    let mut headers = fields(lines)?;
    for name in &parsed.fields.nominated {
        headers.remove(name.as_str());
    }
    *response.headers_mut() = headers;
    Ok(response)
}

/// Field lines with the empty line at their end; those that speak of one connection are left out.
pub(super) fn fields(lines: &[u8]) -> Result<HeaderMap, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; crate::http::fields::MAX_FIELDS];
    let parsed = httparse::parse_headers(lines, &mut headers)?;
    let httparse::Status::Complete((_, headers)) = parsed else {
        return Err(Malformed::Syntax);
    };
    let mut map = HeaderMap::with_capacity(headers.len());
    for header in headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| Malformed::Syntax)?;
        let value = HeaderValue::from_bytes(header.value).map_err(|_| Malformed::Syntax)?;
        if !belongs_to_connection(&name) {
            map.append(name, value);
        }
    }
    Ok(map)
}

/// Whom a request asks.
fn host(parts: &request::Parts) -> Result<&[u8], Refused> {
    let authority = parts.uri.authority().map(uri::Authority::as_str);
    if authority.is_some_and(|authority| authority.contains('@')) {
        return Err(Refused::UserInfo);
    }
    let mut hosts = parts
        .headers
        .get_all(header::HOST)
        .iter()
        .map(HeaderValue::as_bytes);
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Refused::Malformed(Malformed::Host));
    }
    match (authority, host) {
        (None, None) => Err(Refused::Malformed(Malformed::Host)),
        //= https://www.rfc-editor.org/rfc/rfc9113#section-8.3.1
        //# A server SHOULD treat a request as malformed if it contains a Host
        //# header field that identifies an entity that differs from the entity in
        //# the ":authority" pseudo-header field.
        (Some(authority), Some(host)) if !authority.as_bytes().eq_ignore_ascii_case(host) => {
            Err(Refused::TwoHosts)
        }
        (_, Some(host)) => Ok(host),
        (Some(authority), None) => Ok(authority.as_bytes()),
    }
}

/// Fields that speak of one connection (RFC 9113 §8.2.2, RFC 9110 §7.6.1), and so of none in the other version.
fn belongs_to_connection(name: &HeaderName) -> bool {
    let standard = [
        header::CONNECTION,
        header::TE,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    standard.contains(name) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Whether a request without a body says so (RFC 9110 §8.6).
fn expects_body(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}

fn line(head: &mut Vec<u8>, pieces: &[&[u8]]) {
    for piece in pieces {
        head.extend_from_slice(piece);
    }
    head.extend_from_slice(b"\r\n");
}

// === impl Refused ===

impl Refused {
    /// What the client is told.
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::Connect => 501,
            Self::TooLong => 431,
            Self::NoPath | Self::UserInfo | Self::TwoHosts | Self::Malformed(_) => 400,
        }
    }
}
