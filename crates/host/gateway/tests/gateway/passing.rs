//! What passes unchanged, and what is refused.

use std::time::Duration;

use crate::support::{
    CLIENT, OWNER, Site, content, gateway, library, presigned_put, raw, signed_get, signed_upload,
};
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::signer::Signer as _;
use object_store::{GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _, PutPayload};
use store::digest::sha256_hex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const DIGEST: &str = "x-amz-content-sha256";

async fn put(store: &AmazonS3, key: &str, length: usize) -> bytes::Bytes {
    let sent = content(length);
    store
        .put(&Path::from(key), PutPayload::from_bytes(sent.clone()))
        .await
        .unwrap();
    sent
}

#[tokio::test]
async fn objects_of_every_size_come_back_as_they_went() {
    let mut site = Site::start().await;
    let store = site.client("lab");
    // Nothing, one piece, one request, parts: 33 MiB are five parts of 8 MiB.
    for length in [0, 1, 300_000, 33 << 20] {
        let sent = put(&store, "a/b c+ue", length).await;
        let stored = site.stored.recv().await.unwrap();
        assert_eq!(
            (stored.key.as_str(), stored.sha256),
            ("a/b c+ue", sha256_hex(&sent))
        );
        let path = Path::from("a/b c+ue");
        assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), sent);
        assert_eq!(store.head(&path).await.unwrap().size, length as u64);
    }
}

#[tokio::test]
async fn ranges_are_those_that_were_asked_for_however_they_are_cut() {
    let site = Site::start().await;
    let store = site.client("lab");
    let sent = put(&store, "k", 21 << 20).await;
    let end = sent.len() as u64;
    for range in [
        0..1,
        5..100,
        1000..9_000_000,
        1..end,
        end - 1..end,
        8_388_607..16_777_217,
    ] {
        let at = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        let got = store.get_range(&Path::from("k"), range).await.unwrap();
        assert!(got == sent.slice(at.clone()), "{at:?}");
    }
    for (range, at) in [
        (GetRange::Offset(12_000_000), 12_000_000..sent.len()),
        (GetRange::Suffix(77), sent.len() - 77..sent.len()),
    ] {
        let options = GetOptions {
            range: Some(range),
            ..GetOptions::default()
        };
        let got = store.get_opts(&Path::from("k"), options).await.unwrap();
        assert!(got.bytes().await.unwrap() == sent.slice(at));
    }
    // Further than any object reaches, whether encrypted or not.
    put(&site.client("secret"), "k", 100_000).await;
    for bucket in ["lab", "secret"] {
        let options = GetOptions {
            range: Some(GetRange::Offset(i64::MAX.unsigned_abs())),
            ..GetOptions::default()
        };
        let store = site.client(bucket);
        let refused = store.get_opts(&Path::from("k"), options).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("416"), "{bucket}: {error}");
    }
}

#[tokio::test]
async fn listings_deletions_and_folders_pass() {
    let site = Site::start().await;
    let store = site.client("lab");
    for key in ["a/1", "a/2", "b"] {
        put(&store, key, 10).await;
    }
    let listed = store.list_with_delimiter(None).await.unwrap();
    assert_eq!(listed.objects.len(), 1);
    assert_eq!(listed.common_prefixes, [Path::from("a")]);
    store.delete(&Path::from("b")).await.unwrap();
    assert!(store.head(&Path::from("b")).await.is_err());
}

#[tokio::test]
async fn a_bucket_has_another_name_at_the_origin_and_others_are_not_there() {
    let site = Site::start().await;
    put(&site.client("secret"), "k", 10).await;
    site.owner("sealed").head(&Path::from("k")).await.unwrap();
    // Served under another name only, and not served at all.
    for bucket in ["sealed", "forms"] {
        let error = site
            .client(bucket)
            .head(&Path::from("k"))
            .await
            .unwrap_err();
        assert!(
            matches!(error, object_store::Error::NotFound { .. }),
            "{error}"
        );
    }
}

#[tokio::test]
async fn strangers_and_the_origins_owner_are_refused() {
    let site = Site::start().await;
    for pair in [OWNER, (CLIENT.0, "wrong"), ("nobody", "x")] {
        let store = library(site.gateway, "lab", pair);
        let error = store
            .put(&Path::from("k"), PutPayload::from_static(b"x"))
            .await;
        let text = error.unwrap_err().to_string();
        assert!(text.contains("403"), "{text}");
    }
    let answer = raw(
        site.gateway,
        b"GET /lab/k HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[tokio::test]
async fn a_presigned_url_works_and_a_changed_one_does_not() {
    let site = Site::start().await;
    put(&site.client("lab"), "k", 10).await;
    let url = site
        .client("lab")
        .signed_url(http::Method::GET, &Path::from("k"), Duration::from_mins(1))
        .await
        .unwrap();
    let ask = |target: String| {
        let host = site.gateway;
        format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").into_bytes()
    };
    let target = format!("{}?{}", url.path(), url.query().unwrap());
    let answer = raw(site.gateway, &ask(target.clone())).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let other = target.replace("/lab/k", "/lab/other");
    let answer = raw(site.gateway, &ask(other)).await;
    assert!(answer.contains("SignatureDoesNotMatch"), "{answer}");
}

/// A PUT with these headers, whose body may be anything.
async fn upload(site: &Site, bucket: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
    let digest = headers.iter().find(|(name, _)| *name == DIGEST);
    let payload = digest.map_or("UNSIGNED-PAYLOAD", |(_, value)| value);
    let others = headers.iter().filter(|(name, _)| *name != DIGEST);
    let mut headers: Vec<_> = others
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    headers.push(("content-length", body.len().to_string()));
    signed_upload(
        site.gateway,
        &format!("/{bucket}/k"),
        payload,
        &headers,
        body,
    )
    .await
}

#[tokio::test]
async fn what_a_client_says_about_its_bytes_must_be_true_before_they_are_stored() {
    let mut site = Site::start().await;
    for (bucket, origin) in [("lab", "lab"), ("secret", "sealed")] {
        for wrong in [
            ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="),
            ("x-amz-checksum-crc32", "AAAAAA=="),
            (
                DIGEST,
                "0000000000000000000000000000000000000000000000000000000000000000",
            ),
        ] {
            let answer = upload(&site, bucket, &[wrong], b"abc").await;
            assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
            let error = site.owner(origin).head(&Path::from("k")).await.unwrap_err();
            assert!(
                matches!(error, object_store::Error::NotFound { .. }),
                "{error}"
            );
        }
        // MD5 and CRC-32 of "abc".
        let right = [
            ("content-md5", "kAFQmDzST7DWlj99KOF/cg=="),
            ("x-amz-checksum-crc32", "NSRBwg=="),
        ];
        let answer = upload(&site, bucket, &right, b"abc").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(site.stored.recv().await.unwrap().bucket, origin);
    }
}

#[tokio::test]
async fn what_no_signature_covers_is_no_part_of_a_request() {
    let site = Site::start().await;
    let head = presigned_put(site.gateway, "lab").await;
    let added = "x-amz-copy-source: /secret/k\r\n";
    let request = format!("{head}connection: close\r\n{added}content-length: 0\r\n\r\n");
    let answer = raw(site.gateway, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(
        answer.contains("<HeadersNotSigned>x-amz-copy-source"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_wrong_checksum_of_a_large_object_leaves_nothing_at_the_origin() {
    let site = Site::start().await;
    let body = content(33 << 20);
    let wrong = [("x-amz-checksum-crc32", "AAAAAA==")];
    let answer = upload(&site, "lab", &wrong, &body).await;
    assert!(answer.contains("BadDigest"), "{answer}");
    assert!(site.owner("lab").head(&Path::from("k")).await.is_err());
    assert_eq!(open_uploads(&site, "lab").await, 0);
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_nothing_at_the_origin() {
    let site = Site::start().await;
    let head = presigned_put(site.gateway, "lab").await;
    let mut stream = TcpStream::connect(site.gateway).await.unwrap();
    let head = format!("{head}content-length: {}\r\n\r\n", 40 << 20);
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&content(20 << 20)).await.unwrap();
    // The upload has begun by now, since parts are under way.
    assert_eq!(open_uploads(&site, "lab").await, 1);
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("IncompleteBody"));
    // The answer came after the upload was given up.
    assert_eq!(open_uploads(&site, "lab").await, 0);
    assert!(site.owner("lab").head(&Path::from("k")).await.is_err());
}

/// Multipart uploads that are open at the origin, as the gateway passes them on.
async fn open_uploads(site: &Site, bucket: &str) -> usize {
    let answer = signed_get(site.gateway, &format!("/{bucket}"), "uploads=").await;
    assert!(answer.contains("ListMultipartUploadsResult"), "{answer}");
    answer.matches("<UploadId>").count()
}

#[tokio::test]
async fn what_is_not_passed_on_is_not_implemented() {
    let site = Site::start().await;
    for query in ["acl=", "policy=", "lifecycle=", "website="] {
        let answer = signed_get(site.gateway, "/lab", query).await;
        assert!(answer.starts_with("HTTP/1.1 501"), "{answer}");
    }
}

#[tokio::test]
async fn an_origin_that_is_not_there_is_said_to_be_unavailable() {
    // Bound, and not listening, until the end of the test.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = socket.local_addr().unwrap();
    let store = library(gateway(nobody, "new", true).await, "lab", CLIENT);
    let error = store.head(&Path::from("k")).await.unwrap_err().to_string();
    assert!(error.contains("503"), "{error}");
}
