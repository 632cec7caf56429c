use std::format;
use std::string::ToString;

use crate::http::{Fields, Head, s3};

#[test]
fn a_request_shows_its_path_and_never_its_query() {
    let bytes = b"PUT /bucket/key?X-Amz-Signature=5ecret HTTP/1.1\r\nHost: a\r\n\
        content-length: 102400\r\nExpect: 100-continue\r\n\r\nbody";
    let head = Head::read(bytes).unwrap();
    assert_eq!(head.to_string(), "PUT /bucket/key?...");
    assert!(!format!("{head:?}").contains("5ecret"));
    assert_eq!(
        *head.fields(),
        Fields {
            content_length: Some(102_400),
            expect_continue: true,
            head_len: Some(bytes.len() - 4),
            ..Fields::default()
        }
    );
    let absolute = Head::read(b"GET http://me:5ecret@proxy/a/b HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(absolute.to_string(), "GET /a/b");
    assert!(!format!("{absolute:?}").contains("5ecret"));
}

#[test]
fn a_response_shows_its_status_and_how_its_body_ends() {
    let head = Head::read(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\nConnection: Keep-Alive, close\r\n\r\n",
    )
    .unwrap();
    assert_eq!(head.to_string(), "200");
    assert!(head.fields().chunked && head.fields().close);
    assert!(Head::read(b"HTTP/1.1 204").is_some());
    assert!(Head::read(b"HTTP/1.1 2000 no\r\n").is_none());
}

#[test]
fn what_tcpdump_prints_of_a_head_is_enough() {
    let head = Head::read(b"POST /upload/files HTTP/1.1").unwrap();
    assert_eq!(head.to_string(), "POST /upload/files");
    assert_eq!(head.fields().head_len, None);
}

#[test]
fn a_head_is_read_as_far_as_it_was_captured() {
    let bytes = b"POST /upload HTTP/1.1\r\nContent-Length: 1000\r\n\r\n";
    for kept in "POST /".len()..=bytes.len() {
        let head = Head::read(&bytes[..kept]).unwrap();
        let fields = head.fields();
        assert!(head.to_string().starts_with("POST /"), "{head}");
        assert_eq!(fields.head_len.is_some(), kept == bytes.len());
        // A length that is cut off in its digits would be another length.
        assert!(matches!(fields.content_length, None | Some(1000)));
    }
}

#[test]
fn bodies_and_other_protocols_are_no_heads() {
    for bytes in [
        &b""[..],
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"GET\r\n",
        b"POST of the month\r\nis here",
        b"GET /old-style\r\n",
        b"{\"a\": 1}",
    ] {
        assert_eq!(Head::read(bytes), None, "{bytes:?}");
    }
}

#[test]
fn control_characters_in_a_target_do_not_reach_a_terminal() {
    let head = Head::read(b"GET /\x1b[2J HTTP/1.1\r\n").unwrap();
    assert_eq!(head.to_string(), "GET /\\x1b[2J");
}

/// The S3 operation of a request with these bytes.
fn operation(bytes: &[u8]) -> Option<&'static str> {
    match Head::read(bytes).unwrap() {
        Head::Request {
            method,
            target,
            fields,
        } => s3::operation(method, &target, &fields.s3),
        Head::Response { .. } => None,
    }
}

#[test]
fn s3_operations_are_named_by_what_a_request_shows() {
    const SIGNED: &str = "Host: store\r\nAuthorization: AWS4-HMAC-SHA256 Credential=x\r\n";
    let named =
        |line: &str, fields: &str| operation(format!("{line} HTTP/1.1\r\n{fields}\r\n").as_bytes());
    assert_eq!(named("PUT /b/k", SIGNED), Some("PutObject"));
    assert_eq!(
        named("PUT /b/k?partNumber=2&uploadId=u", SIGNED),
        Some("UploadPart")
    );
    assert_eq!(
        named("POST /b/k?uploads", SIGNED),
        Some("CreateMultipartUpload")
    );
    assert_eq!(
        named("POST /b/k?uploadId=u", SIGNED),
        Some("CompleteMultipartUpload")
    );
    assert_eq!(
        named("GET /b?list-type=2&prefix=p", SIGNED),
        Some("ListObjectsV2")
    );
    assert_eq!(named("PUT /b", SIGNED), Some("CreateBucket"));
    assert_eq!(
        named(
            "PUT /k",
            "Host: b.s3.eu-west-1.amazonaws.com\r\nx-amz-date: d\r\n"
        ),
        Some("PutObject")
    );
    assert_eq!(
        named("GET /b/k?X-Amz-Signature=5ecret", "Host: store\r\n"),
        Some("GetObject")
    );
    assert_eq!(
        named("PUT /b/k", "X-Amz-Copy-Source: /b/l\r\n"),
        Some("CopyObject")
    );
    // A request to any other server has no such name.
    assert_eq!(
        named(
            "PUT /upload/files",
            "Host: a\r\nAuthorization: Basic eA==\r\n"
        ),
        None
    );
}
