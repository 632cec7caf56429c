use proptest::prelude::*;

use super::Malformed;
use super::body::Body;
use super::chunked::ChunkScanner;
use super::head::HeadScanner;
use super::request::RequestHead;
use super::response::ResponseHead;

fn scan(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    HeadScanner::default().scan(bytes)
}

fn request(head: &str) -> Result<RequestHead, Malformed> {
    let length = scan(head.as_bytes())?.expect("a complete head");
    assert_eq!(length, head.len(), "one head only");
    RequestHead::parse(head.as_bytes())
}

fn response(head: &str) -> Result<ResponseHead, Malformed> {
    let length = scan(head.as_bytes())?.expect("a complete head");
    ResponseHead::parse(&head.as_bytes()[..length])
}

/// A POST with these lines after its Host.
fn post(lines: &str) -> Result<RequestHead, Malformed> {
    request(&format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
}

#[test]
fn smuggling_vectors_are_refused_each_for_its_own_reason() {
    use Malformed as M;
    let vectors = [
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            M::LengthAndEncoding,
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            M::LengthAndEncoding,
        ),
        (
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            M::RepeatedLength,
        ),
        (
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            M::RepeatedLength,
        ),
        ("Content-Length: 5, 5\r\n", M::Length),
        ("Content-Length: 5, 6\r\n", M::Length),
        ("Content-Length: +5\r\n", M::Length),
        ("Content-Length: -5\r\n", M::Length),
        ("Content-Length: 0x5\r\n", M::Length),
        ("Content-Length: 5 5\r\n", M::Length),
        ("Content-Length: \r\n", M::Length),
        ("Content-Length: 99999999999999999999\r\n", M::Length),
        ("Transfer-Encoding: identity\r\n", M::Encoding),
        ("Transfer-Encoding: gzip\r\n", M::Encoding),
        ("Transfer-Encoding: chunked, gzip\r\n", M::Encoding),
        ("Transfer-Encoding: chunked, chunked\r\n", M::Encoding),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            M::Encoding,
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
            M::Encoding,
        ),
        ("Transfer-Encoding: xchunked\r\n", M::Encoding),
        ("Transfer-Encoding: chunked;q=1\r\n", M::Encoding),
        ("Transfer-Encoding: \"chunked\"\r\n", M::Encoding),
        ("Transfer-Encoding: \r\n", M::Encoding),
        ("Transfer-Encoding : chunked\r\n", M::Syntax),
        ("Content-Length : 5\r\n", M::Syntax),
        ("Transfer-Encoding:\r\n chunked\r\n", M::FoldedField),
        ("X: a\r\n\tb\r\n", M::FoldedField),
        (" Content-Length: 5\r\n", M::FoldedField),
        ("Transfer-Encoding: \u{b}chunked\r\n", M::Syntax),
        ("X: a\nContent-Length: 5\r\n", M::BareLineFeed),
        ("X: a\rContent-Length: 5\r\n", M::BareCarriageReturn),
        ("X: a\r\r\nContent-Length: 5\r\n", M::BareCarriageReturn),
        ("X: a\0b\r\n", M::Nul),
        ("X\r\n", M::Syntax),
        (": empty\r\n", M::Syntax),
        ("X(y): 1\r\n", M::Syntax),
        ("Host: b\r\n", M::Host),
        (
            "Connection: close, content-length\r\nContent-Length: 5\r\n",
            M::Nomination,
        ),
        ("Connection: Host\r\n", M::Nomination),
        ("Connection: transfer-encoding\r\n", M::Nomination),
    ];
    for (lines, reason) in vectors {
        assert_eq!(post(lines), Err(reason), "{lines:?}");
    }
    let starts = [
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", M::Syntax),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", M::Syntax),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", M::Version),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", M::Version),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", M::Version),
        ("GET /\r\n\r\n", M::Syntax),
        ("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", M::Syntax),
        ("GET / HTTP/1.1\r\n\r\n", M::Host),
        (
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            M::EncodingBeforeVersion11,
        ),
    ];
    for (head, reason) in starts {
        assert_eq!(request(head), Err(reason), "{head:?}");
    }
}

#[test]
fn ordinary_framing_is_understood() {
    for (lines, body) in [
        ("", Body::EMPTY),
        ("Content-Length: 0\r\n", Body::EMPTY),
        ("content-length:\t1048576 \r\n", Body::Length(1_048_576)),
        ("TRANSFER-ENCODING: Chunked\r\n", Body::chunked()),
        ("Transfer-Encoding: gzip, chunked\r\n", Body::chunked()),
        (
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
            Body::chunked(),
        ),
    ] {
        assert_eq!(post(lines).unwrap().body(), body, "{lines:?}");
    }
}

#[test]
fn only_the_connections_own_fields_are_taken_out() {
    let plain =
        "PUT /b/k?x=1 HTTP/1.1\r\nhost: A\r\nConnection: keep-alive\r\nX-Odd:  two  \r\n\r\n";
    assert_eq!(
        request(plain).unwrap().forwarded(plain.as_bytes()),
        plain.as_bytes()
    );

    let closing = "PUT /k HTTP/1.1\r\nHost: a\r\nConnection: close, X-Hop\r\nKeep-Alive: 5\r\n\
                   x-hop: 1\r\nX-Hopper: 2\r\n\r\n";
    let forwarded = request(closing).unwrap().forwarded(closing.as_bytes());
    assert_eq!(
        String::from_utf8(forwarded).unwrap(),
        "PUT /k HTTP/1.1\r\nHost: a\r\nX-Hopper: 2\r\n\r\n"
    );

    let answer =
        "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n";
    let head = response(answer).unwrap();
    assert_eq!(head.forwarded(answer.as_bytes(), false), None);
    assert_eq!(
        head.forwarded(answer.as_bytes(), true).unwrap(),
        b"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn a_path_in_an_event_never_carries_a_query_or_an_authority() {
    for (target, path) in [
        ("/b/k?X-Amz-Signature=secret", "/b/k"),
        ("http://user:secret@a/b?c", "/b"),
        ("http://a", "/"),
        ("*", "*"),
    ] {
        let head = format!("OPTIONS {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(request(&head).unwrap().path(), path);
    }
}

#[test]
fn responses_end_where_the_rfc_says() {
    for (head, method, body) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
            "GET",
            Body::Length(7),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
            "HEAD",
            Body::EMPTY,
        ),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
            "GET",
            Body::EMPTY,
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", "PUT", Body::EMPTY),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET",
            Body::chunked(),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "GET",
            Body::UntilClose,
        ),
        ("HTTP/1.0 200\r\n\r\n", "GET", Body::UntilClose),
    ] {
        assert_eq!(response(head).unwrap().body(method), body, "{head:?}");
    }
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 8\r\n\r\n",
        "HTTP/1.1 099 Low\r\n\r\n",
    ] {
        assert!(response(head).is_err(), "{head:?}");
    }
}

#[test]
fn chunked_bodies_that_others_may_read_differently_are_refused() {
    use Malformed as M;
    let vectors = [
        ("\r\n", M::ChunkSize),
        ("0x5\r\nhello\r\n", M::ChunkSize),
        ("+5\r\nhello\r\n", M::ChunkSize),
        ("-1\r\n", M::ChunkSize),
        (" 5\r\nhello\r\n", M::ChunkSize),
        ("5 \r\nhello\r\n", M::ChunkSize),
        ("5\nhello\r\n", M::ChunkSize),
        ("5;a\nhello\r\n", M::ChunkSize),
        ("5\rhello\r\n", M::BareCarriageReturn),
        ("5;a\rb\r\n", M::BareCarriageReturn),
        ("5;a\0\r\n", M::ChunkSize),
        ("g\r\n", M::ChunkSize),
        ("1000000000000000\r\n", M::ChunkSize),
        ("5\r\nhelloX", M::ChunkEnd),
        ("5\r\nhello\n", M::ChunkEnd),
        ("5\r\nhello\rX", M::ChunkEnd),
        ("0\r\nA b: c\r\n\r\n", M::Trailer),
        ("0\r\n folded\r\n\r\n", M::Trailer),
        ("0\r\nA: b\n\r\n", M::Trailer),
        ("0\r\n\rX", M::BareCarriageReturn),
    ];
    for (body, reason) in vectors {
        assert_eq!(
            ChunkScanner::new().accept(body.as_bytes()),
            Err(reason),
            "{body:?}"
        );
    }
    let long = format!("5;{}", "a".repeat(2000));
    assert_eq!(
        ChunkScanner::new().accept(long.as_bytes()),
        Err(M::ChunkOverhead)
    );
    let long = format!("0\r\n{}", "A: b\r\n".repeat(10_000));
    assert_eq!(
        ChunkScanner::new().accept(long.as_bytes()),
        Err(M::ChunkOverhead)
    );
}

/// A valid chunked body with extensions and trailers.
fn chunked_body() -> impl Strategy<Value = Vec<u8>> {
    let chunk = (
        prop::collection::vec(any::<u8>(), 1..300),
        "(;[a-z]{1,5}=[a-z0-9]{1,9})?",
    );
    let trailers = prop::collection::vec("[A-Za-z-]{1,9}: [ -~]{0,20}\r\n", 0..3);
    (prop::collection::vec(chunk, 0..6), trailers).prop_map(|(chunks, trailers)| {
        let mut body = Vec::new();
        for (data, extension) in chunks {
            body.extend_from_slice(format!("{:x}{extension}\r\n", data.len()).as_bytes());
            body.extend_from_slice(&data);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n");
        body.extend(trailers.concat().bytes());
        body.extend_from_slice(b"\r\n");
        body
    })
}

/// Feeds `bytes` cut at `cuts`; how much was taken in all, and how it ended.
fn feed_chunks(bytes: &[u8], cuts: &[usize]) -> Result<(usize, bool), Malformed> {
    let mut scanner = ChunkScanner::new();
    let mut taken = 0;
    for piece in pieces(bytes, cuts) {
        taken += scanner.accept(piece)?;
    }
    Ok((taken, scanner.is_done()))
}

fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut ends: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut start = 0;
    ends.into_iter()
        .map(|end| {
            let piece = &bytes[start..end];
            start = end;
            piece
        })
        .collect()
}

proptest! {
    #[test]
    fn a_chunked_body_ends_at_its_end_however_it_is_cut(
        body in chunked_body(),
        next in prop::collection::vec(any::<u8>(), 0..50),
        cuts in prop::collection::vec(any::<usize>(), 0..20),
    ) {
        let stream = [body.clone(), next].concat();
        prop_assert_eq!(feed_chunks(&stream, &cuts), Ok((body.len(), true)));
    }

    #[test]
    fn cutting_hostile_chunks_never_changes_the_verdict(
        bytes in prop::collection::vec(prop::sample::select(b"0123456789abcdefF;:=\r\n \tXG\0\x80".to_vec()), 0..80),
        cuts in prop::collection::vec(any::<usize>(), 0..20),
    ) {
        prop_assert_eq!(feed_chunks(&bytes, &cuts), feed_chunks(&bytes, &[]));
    }

    #[test]
    fn cutting_a_head_never_changes_the_verdict(
        bytes in prop::collection::vec(prop::sample::select(b"GET /HTP1.\r\n: \tab\0".to_vec()), 0..80),
        cuts in prop::collection::vec(any::<usize>(), 0..20),
    ) {
        let whole = scan(&bytes);
        let mut scanner = HeadScanner::default();
        let mut end = 0;
        let mut verdict = Ok(None);
        for piece in pieces(&bytes, &cuts) {
            end += piece.len();
            verdict = scanner.scan(&bytes[..end]);
            if verdict != Ok(None) {
                break;
            }
        }
        prop_assert_eq!(verdict, whole);
    }

    #[test]
    fn parsing_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = scan(&bytes);
        let _ = RequestHead::parse(&bytes).map(|head| head.forwarded(&bytes));
        let _ = ResponseHead::parse(&bytes).map(|head| head.forwarded(&bytes, true));
        let _ = ChunkScanner::new().accept(&bytes);
    }
}
