//! How bytes may arrive: as a form, and in chunks of any size.

use crate::support::{Site, content, raw, signed_put};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use s3s::crypto::{Checksum as _, Crc32};
use store::digest::sha256_hex;

fn form(file: &[u8], before: &str, after: &str) -> Vec<u8> {
    let mut body = before.as_bytes().to_vec();
    body.extend_from_slice(
        b"--frontier\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\
          Content-Type: application/x-own\r\n\r\n",
    );
    body.extend_from_slice(file);
    body.extend_from_slice(after.as_bytes());
    body
}

async fn post(site: &Site, body: &[u8]) -> String {
    let mut request = format!(
        "POST /upload/files HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
         content-type: multipart/form-data; boundary=frontier\r\ncontent-length: {}\r\n\r\n",
        site.gateway,
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    raw(site.gateway, &request).await
}

#[tokio::test]
async fn a_forms_file_becomes_an_object_whatever_its_size() {
    let mut site = Site::start().await;
    let data = "--frontier\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\n{}\r\n";
    for length in [0, 100_000, 20 << 20] {
        let file = content(length);
        let answer = post(&site, &form(&file, data, "\r\n--frontier--\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let stored = site.stored.recv().await.unwrap();
        assert_eq!(stored.sha256, sha256_hex(&file));
        assert!(
            stored.key.starts_with("forms/") && answer.contains(&stored.key),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_form_that_is_cut_leaves_nothing() {
    let mut site = Site::start().await;
    for length in [1000, 20 << 20] {
        let answer = post(&site, &form(&content(length), "", "")).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    assert!(site.stored.try_recv().is_err());
    assert_eq!(site.origin_state.open_uploads(), 0);
}

#[tokio::test]
async fn one_chunk_may_be_the_whole_object() {
    let mut site = Site::start().await;
    let file = content(5_000_000);
    let headers = [
        ("x-amz-decoded-content-length", file.len().to_string()),
        ("x-amz-trailer", "x-amz-checksum-crc32".to_owned()),
        ("content-encoding", "aws-chunked".to_owned()),
    ];
    let mut body = format!("{:x}\r\n", file.len()).into_bytes();
    body.extend_from_slice(&file);
    body.extend_from_slice(b"\r\n0\r\nx-amz-checksum-crc32:");
    let mut wrong = body.clone();
    wrong.extend_from_slice(b"AAAAAA==\r\n\r\n");
    let answer = signed_put(site.gateway, "/lab/k", &headers, &wrong).await;
    assert!(answer.contains("BadDigest"), "{answer}");
    let mut sum = Crc32::new();
    sum.update(&file);
    body.extend_from_slice(BASE64_STANDARD.encode(sum.finalize()).as_bytes());
    body.extend_from_slice(b"\r\n\r\n");
    let answer = signed_put(site.gateway, "/lab/k", &headers, &body).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(site.stored.recv().await.unwrap().sha256, sha256_hex(&file));
    site.client("lab").head(&Path::from("k")).await.unwrap();
}
