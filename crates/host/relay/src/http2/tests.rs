use http::{HeaderMap, HeaderValue, Request, Version, request};
use proptest::prelude::*;

use super::head::{self, Refused};
use crate::http::Malformed;
use crate::http::body::Body;
use crate::http::response::ResponseHead;

const LIMIT: usize = 32 << 10;

fn parts(build: impl FnOnce(request::Builder) -> request::Builder) -> request::Parts {
    let builder = Request::builder().version(Version::HTTP_2);
    build(builder).body(()).unwrap().into_parts().0
}

fn text(translated: head::Translated) -> String {
    String::from_utf8(translated.head).unwrap()
}

#[test]
fn a_signed_request_keeps_its_path_its_fields_and_their_order() {
    let parts = parts(|builder| {
        builder
            .method("PUT")
            .uri("https://bucket.store.example:9000/key%20a?x-id=PutObject&b=")
            .header("x-amz-date", "20261122T070000Z")
            .header("authorization", "AWS4-HMAC-SHA256 Credential=x")
            .header("x-amz-meta-a", "two  spaces")
            .header("content-length", "5")
            .header("te", "trailers")
    });
    let head = text(head::request(&parts, false, LIMIT).unwrap());
    assert_eq!(
        head,
        "PUT /key%20a?x-id=PutObject&b= HTTP/1.1\r\nHost: bucket.store.example:9000\r\n\
         x-amz-date: 20261122T070000Z\r\nauthorization: AWS4-HMAC-SHA256 Credential=x\r\n\
         x-amz-meta-a: two  spaces\r\ncontent-length: 5\r\n\r\n"
    );
}

#[test]
fn a_body_is_framed_by_its_length_or_in_chunks_and_none_is_said_where_one_is_expected() {
    let head_of = |method: &str, ends| {
        let parts = parts(|builder| builder.method(method).uri("http://a/"));
        let translated = head::request(&parts, ends, LIMIT).unwrap();
        (translated.request.body(), text(translated))
    };
    assert_eq!(head_of("POST", false).0, Body::chunked());
    let (body, head) = head_of("POST", true);
    assert_eq!(body, Body::EMPTY);
    assert!(head.contains("Content-Length: 0\r\n"));
    assert_eq!(head_of("GET", true).1, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
}

#[test]
fn pieces_of_a_cookie_become_one_field() {
    let parts = parts(|builder| {
        let builder = builder.uri("http://a/").header("cookie", "a=1");
        builder.header("accept", "*/*").header("cookie", "b=2")
    });
    let head = text(head::request(&parts, true, LIMIT).unwrap());
    assert!(head.contains("cookie: a=1; b=2\r\n"), "{head}");
    assert_eq!(head.matches("cookie").count(), 1);
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let refused = |build: fn(request::Builder) -> request::Builder| {
        head::request(&parts(build), false, LIMIT).unwrap_err()
    };
    assert!(matches!(
        refused(|builder| builder.uri("http://a/").header("host", "b")),
        Refused::TwoHosts
    ));
    assert!(matches!(
        refused(|builder| builder.uri("/").header("host", "a").header("host", "a")),
        Refused::Malformed(Malformed::Host)
    ));
    assert!(matches!(
        refused(|builder| builder.uri("/")),
        Refused::Malformed(Malformed::Host)
    ));
    assert!(matches!(
        refused(|builder| builder.uri("http://user@a/")),
        Refused::UserInfo
    ));
    assert!(matches!(
        refused(|builder| builder.method("CONNECT").uri("a:443")),
        Refused::Connect
    ));
    assert!(matches!(
        refused(|builder| {
            let builder = builder.uri("http://a/").header("content-length", "5");
            builder.header("content-length", "6")
        }),
        Refused::Malformed(Malformed::RepeatedLength)
    ));
    let long = parts(|builder| builder.uri("http://a/").header("x", "y".repeat(LIMIT)));
    let refused = head::request(&long, true, LIMIT).unwrap_err();
    assert_eq!(refused.status(), 431);
}

#[test]
fn a_response_loses_what_speaks_of_one_connection() {
    let head =
        b"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nConnection: close, x-hop\r\nKeep-Alive: timeout=5\r\n\
        X-Hop: 1\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n";
    let parsed = ResponseHead::parse(head).unwrap();
    let response = head::response(&parsed, head).unwrap();
    let fields: Vec<_> = response
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    assert_eq!(
        fields,
        [("etag", "\"x\""), ("set-cookie", "a"), ("set-cookie", "b")]
    );
}

#[test]
fn trailers_that_frame_or_route_go_no_further() {
    let mut fields = HeaderMap::new();
    for (name, value) in [
        ("x-amz-checksum-crc32", "AAAA"),
        ("content-length", "3"),
        ("host", "b"),
        ("transfer-encoding", "chunked"),
    ] {
        fields.append(name, HeaderValue::from_static(value));
    }
    let lines = head::trailers(&fields);
    assert_eq!(lines, b"x-amz-checksum-crc32: AAAA\r\n\r\n");
    let back = head::fields(&lines).unwrap();
    assert_eq!(back["x-amz-checksum-crc32"], "AAAA");
}

proptest! {
    /// However a chunked body is cut into pieces, what it holds and its trailers come out.
    #[test]
    fn chunks_are_taken_apart_wherever_they_are_cut(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
        trailer in "[a-z]{1,8}",
        cut in 1_usize..64,
    ) {
        let mut written = Vec::new();
        for chunk in &chunks {
            written.extend(format!("{:x};ext=1\r\n", chunk.len()).into_bytes());
            written.extend_from_slice(chunk);
            written.extend_from_slice(b"\r\n");
        }
        let lines = format!("x-a: {trailer}\r\n\r\n");
        written.extend(format!("0\r\n{lines}").into_bytes());
        let mut body = Body::chunked();
        let (mut data, mut trailers) = (Vec::new(), Vec::new());
        for mut piece in written.chunks(cut) {
            while !piece.is_empty() {
                let framing = body.accept_framing(piece, &mut trailers).unwrap();
                piece = &piece[framing..];
                let ahead = body.data_ahead(piece.len());
                data.extend_from_slice(&piece[..ahead]);
                prop_assert_eq!(body.accept(&piece[..ahead]).unwrap(), ahead);
                piece = &piece[ahead..];
            }
        }
        prop_assert!(body.is_done());
        prop_assert_eq!(data, chunks.concat());
        prop_assert_eq!(trailers, lines.into_bytes());
    }

    /// Whatever a client writes into its fields, the origin gets one head, with the lines that were meant.
    #[test]
    fn a_field_value_never_becomes_a_line(value in prop::collection::vec(any::<u8>(), 0..40)) {
        let Ok(value) = HeaderValue::from_bytes(&value) else {
            return Ok(());
        };
        let parts = parts(|builder| builder.uri("http://a/").header("x", value));
        if let Ok(translated) = head::request(&parts, true, LIMIT) {
            let head = translated.head;
            // Four lines, and nothing behind the last.
            prop_assert_eq!(head.split(|&byte| byte == b'\n').count(), 5);
            prop_assert!(head.starts_with(b"GET / HTTP/1.1\r\nHost: a\r\nx: "));
        }
    }
}
