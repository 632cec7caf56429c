//! What a browser must not be talked into.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};

use crate::Answer;

/// Why a request is not answered, if it is not.
pub(crate) fn refusal<B>(request: &Request<B>) -> Option<Answer> {
    // A page in a browser can make a name of its own point here and read what it gets (DNS rebinding); it
    // cannot make the browser send another Host than that name.
    let hosts: Vec<&HeaderValue> = request.headers().get_all(header::HOST).iter().collect();
    let plain = match hosts.as_slice() {
        [host] => is_plain_host(host.as_bytes()),
        _ => false,
    };
    // A request target with an authority of its own would overrule the field (RFC 9112 section 3.2.2).
    if !plain || request.uri().authority().is_some() {
        let why = "ask by address, or as localhost";
        return Some(Answer::text(StatusCode::FORBIDDEN, why));
    }
    (request.method() != Method::GET)
        .then(|| Answer::text(StatusCode::METHOD_NOT_ALLOWED, "GET only"))
}

/// Adds what keeps other pages away. There is no field that would let another origin read (CORS).
pub(crate) fn protect(headers: &mut HeaderMap, policy: &'static str) {
    let fields = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fields {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in [
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Whether a `Host` field names an address or `localhost`, with or without a port: a name of somebody else's may
/// have been made to point here.
pub fn is_plain_host(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else {
        return false;
    };
    let host = match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => text,
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok()
        || text.parse::<SocketAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: hyper::http::request::Builder) -> Option<StatusCode> {
        refusal(&request.body(()).unwrap()).map(|answer| answer.status)
    }

    #[test]
    fn pages_of_other_names_read_nothing() {
        for (host, allowed) in [
            ("localhost", true),
            ("LOCALHOST:9901", true),
            ("127.0.0.1:9901", true),
            ("[::1]:9901", true),
            ("10.0.0.1", true),
            ("evil.example:9901", false),
            ("localhost.evil.example", false),
            ("localhost:9901@evil.example", false),
            ("", false),
        ] {
            let request = Request::get("/metrics").header("host", host);
            assert_eq!(status(request).is_none(), allowed, "{host}");
        }
        let unnamed = Request::get("/metrics");
        assert_eq!(status(unnamed), Some(StatusCode::FORBIDDEN));
        let twice = Request::get("/").header("host", "localhost");
        let twice = twice.header("host", "evil.example");
        assert_eq!(status(twice), Some(StatusCode::FORBIDDEN));
        let absolute = Request::get("http://evil.example/").header("host", "localhost");
        assert_eq!(status(absolute), Some(StatusCode::FORBIDDEN));
    }

    #[test]
    fn nothing_can_be_changed() {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            let request = Request::builder().method(method).uri("/v1/relays");
            let status = status(request.header("host", "localhost"));
            assert_eq!(status, Some(StatusCode::METHOD_NOT_ALLOWED));
        }
    }
}
