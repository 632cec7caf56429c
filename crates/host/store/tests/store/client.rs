//! The lab's own client: what it measures, how it connects, what it puts on the wire.

use std::collections::BTreeMap;

use crate::support::{TestOrigin, connections};
use longhaul_store::client::{Series, upload};
use longhaul_store::credentials::Credentials;
use longhaul_store::digest::sha256_hex;
use longhaul_store::payload::content;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

#[tokio::test]
async fn every_upload_arrives_with_the_digest_of_what_was_sent() {
    let origin = TestOrigin::start().await;
    let series = origin.series();
    let uploads = upload(&series, |_| ()).await.unwrap();
    let stored = origin.stop().await;
    assert_eq!(uploads.len(), 5);
    for (upload, stored) in uploads.iter().zip(&stored) {
        assert_eq!(upload.error, None);
        assert_eq!(upload.key, stored.key);
        assert_eq!(stored.bucket, "lab");
        assert_eq!((upload.bytes, stored.bytes), (102_400, 102_400));
        assert_eq!(
            upload.sha256,
            sha256_hex(&content(42, upload.index, 102_400))
        );
        assert_eq!(upload.sha256, stored.sha256);
        assert!(upload.seconds >= stored.seconds, "{upload:?} {stored:?}");
    }
    assert_eq!(stored.len(), 5);
    assert_eq!(
        uploads
            .iter()
            .map(|upload| upload.index)
            .collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
}

#[tokio::test]
async fn without_reuse_every_upload_has_its_own_connection() {
    let origin = TestOrigin::start().await;
    upload(&origin.series(), |_| ()).await.unwrap();
    assert_eq!(connections(&origin.stop().await), 5);
}

#[tokio::test]
async fn with_reuse_all_uploads_share_one_connection() {
    let origin = TestOrigin::start().await;
    let series = Series {
        reuse: true,
        ..origin.series()
    };
    upload(&series, |_| ()).await.unwrap();
    assert_eq!(connections(&origin.stop().await), 1);
}

#[tokio::test]
async fn series_side_by_side_do_not_disturb_each_other() {
    let origin = TestOrigin::start().await;
    let series = |name: &str, seed| Series {
        key_prefix: name.into(),
        bytes: 1 << 20,
        seed,
        ..origin.series()
    };
    let (a, b, c) = (series("a", 1), series("b", 2), series("c", 3));
    let (a, b, c) = tokio::join!(upload(&a, |_| ()), upload(&b, |_| ()), upload(&c, |_| ()));
    let sent: BTreeMap<String, String> = [a, b, c]
        .into_iter()
        .flat_map(Result::unwrap)
        .map(|upload| {
            assert_eq!(upload.error, None);
            (upload.key, upload.sha256)
        })
        .collect();
    let stored = origin.stop().await;
    assert_eq!(connections(&stored), 15);
    let stored: BTreeMap<String, String> = stored
        .into_iter()
        .map(|event| (event.key, event.sha256))
        .collect();
    assert_eq!(sent, stored);
}

#[tokio::test]
async fn a_wrong_secret_is_refused_at_once_and_said() {
    let origin = TestOrigin::start().await;
    let series = Series {
        credentials: Credentials::new("LONGHAULACCESSKEY", "another secret"),
        uploads: 1,
        ..origin.series()
    };
    let uploads = upload(&series, |_| ()).await.unwrap();
    let error = uploads[0].error.as_deref().unwrap();
    assert!(error.contains("403"), "{error}");
    assert!(error.contains("SignatureDoesNotMatch"), "{error}");
    assert_eq!(origin.stop().await, []);
}

#[tokio::test]
async fn a_failed_upload_is_seen_and_the_series_goes_on() {
    let origin = TestOrigin::start().await;
    let series = Series {
        bucket: "nowhere".into(),
        uploads: 2,
        ..origin.series()
    };
    let mut seen = 0;
    let uploads = upload(&series, |_| seen += 1).await.unwrap();
    assert_eq!((seen, uploads.len()), (2, 2));
    assert!(uploads.iter().all(|upload| {
        upload
            .error
            .as_deref()
            .is_some_and(|error| error.contains("NoSuchBucket"))
    }));
    origin.stop().await;
}

/// The module's documentation shows this head; the length of a head decides how many segments an
/// upload needs.
#[tokio::test]
async fn an_upload_is_one_plain_put_with_a_length_and_without_expect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let series = Series {
        endpoint: format!("http://{}", listener.local_addr().unwrap()),
        bucket: "lab".into(),
        key_prefix: "series".into(),
        credentials: crate::support::credentials(),
        bytes: 10_000,
        first_index: 7,
        uploads: 1,
        seed: 1,
        reuse: false,
        timeout_s: 30.0,
    };
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        let head = loop {
            stream.read_buf(&mut received).await.unwrap();
            if let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        while received.len() < head + 10_000 {
            stream.read_buf(&mut received).await.unwrap();
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\netag: \"x\"\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        // The client closes, as it keeps no connection.
        assert_eq!(stream.read_buf(&mut received).await.unwrap(), 0);
        (
            String::from_utf8(received[..head].to_vec()).unwrap(),
            received[head..].to_vec(),
        )
    });
    let uploads = upload(&series, |_| ()).await.unwrap();
    assert_eq!(uploads[0].error, None);
    let (head, body) = server.await.unwrap();
    assert_eq!(body, content(1, 7, 10_000));
    let mut lines = head.lines();
    assert_eq!(lines.next(), Some("PUT /lab/series/000007 HTTP/1.1"));
    let names: Vec<&str> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        [
            "content-length",
            "x-amz-date",
            "x-amz-content-sha256",
            "authorization",
            "accept",
            "user-agent",
            "host"
        ]
    );
    assert!(head.contains("content-length: 10000\r\n"));
    assert!((450..550).contains(&head.len()), "{} bytes", head.len());
}
