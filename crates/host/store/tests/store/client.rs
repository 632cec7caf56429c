//! The lab's own client: what it measures, how it connects, what it puts on the wire.

use std::collections::BTreeMap;

use crate::support::{TestOrigin, connections};
use longhaul_store::client::{ReadPause, Series, Source, Transfer, Verb, run};
use longhaul_store::credentials::Credentials;
use longhaul_store::digest::sha256_hex;
use longhaul_store::origin::Config;
use longhaul_store::payload::{content, made};
use longhaul_store::tls::{Identity, Version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

#[tokio::test]
async fn every_upload_arrives_with_the_digest_of_what_was_sent() {
    let origin = TestOrigin::start().await;
    let series = origin.series();
    let uploads = run(&series).await.unwrap();
    let stored = origin.stop().await;
    assert_eq!(uploads.len(), 5);
    for (upload, stored) in uploads.iter().zip(&stored) {
        assert_eq!(upload.error, None);
        let [object] = &upload.objects[..] else {
            panic!("one object per transfer: {upload:?}");
        };
        assert_eq!(object.key, stored.key);
        assert_eq!(stored.bucket, "lab");
        assert_eq!((object.bytes, stored.bytes), (102_400, 102_400));
        assert_eq!(
            object.sha256,
            sha256_hex(&content(42, upload.index, 102_400))
        );
        assert_eq!(object.sha256, stored.sha256);
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
    run(&origin.series()).await.unwrap();
    assert_eq!(connections(&origin.stop().await), 5);
}

#[tokio::test]
async fn with_reuse_all_uploads_share_one_connection() {
    let origin = TestOrigin::start().await;
    let series = Series {
        reuse: true,
        ..origin.series()
    };
    run(&series).await.unwrap();
    assert_eq!(connections(&origin.stop().await), 1);
}

#[tokio::test]
async fn series_side_by_side_do_not_disturb_each_other() {
    let origin = TestOrigin::start().await;
    let series = |name: &str, seed| Series {
        key_prefix: name.into(),
        sizes: vec![1 << 20],
        seed,
        ..origin.series()
    };
    let (a, b, c) = (series("a", 1), series("b", 2), series("c", 3));
    let (a, b, c) = tokio::join!(run(&a), run(&b), run(&c));
    let sent: BTreeMap<String, String> = [a, b, c]
        .into_iter()
        .flat_map(Result::unwrap)
        .map(|upload| {
            assert_eq!(upload.error, None);
            let object = &upload.objects[0];
            (object.key.clone(), object.sha256.clone())
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
        transfers: 1,
        ..origin.series()
    };
    let uploads = run(&series).await.unwrap();
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
        transfers: 2,
        ..origin.series()
    };
    let uploads = run(&series).await.unwrap();
    assert_eq!(uploads.len(), 2);
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
        verb: Verb::Put,
        sizes: vec![10_000],
        parallel: 1,
        part: None,
        read_pause: None,
        tls: None,
        first_index: 7,
        transfers: 1,
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
    let uploads = run(&series).await.unwrap();
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

/// An origin that has objects of these sizes.
async fn origin_with(made: &[u64]) -> TestOrigin {
    TestOrigin::with(Config {
        seed: 42,
        made: made.to_vec(),
        ..Config::new(crate::support::credentials())
    })
    .await
}

async fn played(series: &Series) -> Vec<Transfer> {
    let transfers = run(series).await.unwrap();
    for transfer in &transfers {
        assert_eq!(transfer.error, None);
    }
    transfers
}

#[tokio::test]
async fn what_is_read_is_what_the_origin_made() {
    let origin = origin_with(&[0, 100_000]).await;
    let series = Series {
        verb: Verb::Get,
        sizes: vec![100_000, 0],
        transfers: 2,
        ..origin.series()
    };
    let transfers = played(&series).await;
    let digest = sha256_hex(&made(42, 100_000));
    assert_eq!(transfers[1].objects[0].sha256, digest);
    assert_eq!(transfers[1].objects[0].key, "made/100000");
    assert_eq!(transfers[1].objects.len(), 2);
    let other_seed = Series { seed: 43, ..series };
    let transfers = run(&other_seed).await.unwrap();
    let error = transfers[0].error.as_deref().unwrap();
    assert!(error.contains("other bytes"), "{error}");
    origin.stop().await;
}

#[tokio::test]
async fn a_download_by_ranges_is_put_together_in_order() {
    let origin = origin_with(&[100_001]).await;
    let series = Series {
        verb: Verb::Get,
        sizes: vec![100_001],
        part: Some(9_000),
        parallel: 4,
        transfers: 1,
        ..origin.series()
    };
    let transfers = played(&series).await;
    assert_eq!(
        transfers[0].objects[0].sha256,
        sha256_hex(&made(42, 100_001))
    );
    origin.stop().await;
}

#[tokio::test]
async fn a_multipart_upload_arrives_as_one_object() {
    let origin = TestOrigin::start().await;
    let series = Series {
        sizes: vec![100_001],
        part: Some(9_000),
        parallel: 4,
        transfers: 2,
        ..origin.series()
    };
    let transfers = played(&series).await;
    let stored = origin.stop().await;
    assert_eq!(stored.len(), 2);
    for (transfer, stored) in transfers.iter().zip(&stored) {
        assert_eq!(transfer.objects.len(), 1);
        assert_eq!(transfer.objects[0].sha256, stored.sha256);
        assert_eq!(
            stored.sha256,
            sha256_hex(&content(42, transfer.index, 100_001))
        );
    }
}

#[tokio::test]
async fn objects_of_one_transfer_share_a_connection_and_parallel_ones_have_their_own() {
    let origin = TestOrigin::start().await;
    let mixed = Series {
        key_prefix: "mixed".into(),
        sizes: vec![40_000, 400_000],
        transfers: 1,
        ..origin.series()
    };
    played(&mixed).await;
    let parallel = Series {
        key_prefix: "parallel".into(),
        sizes: vec![200_000],
        parallel: 3,
        transfers: 1,
        ..origin.series()
    };
    let transfers = played(&parallel).await;
    let keys: Vec<&str> = transfers[0]
        .objects
        .iter()
        .map(|object| object.key.as_str())
        .collect();
    assert_eq!(
        keys,
        ["parallel/000001", "parallel/000001-1", "parallel/000001-2"]
    );
    let stored = origin.stop().await;
    let (mixed, parallel): (Vec<_>, Vec<_>) = stored
        .into_iter()
        .partition(|object| object.key.starts_with("mixed"));
    assert_eq!((mixed.len(), connections(&mixed)), (2, 1));
    assert_eq!((parallel.len(), connections(&parallel)), (3, 3));
}

#[tokio::test]
async fn a_copy_writes_to_one_origin_what_another_has() {
    let (near, far) = (origin_with(&[50_000]).await, TestOrigin::start().await);
    for (prefix, part) in [("whole", None), ("parts", Some(7_000))] {
        let series = Series {
            verb: Verb::Copy(Source {
                endpoint: near.endpoint(),
            }),
            key_prefix: prefix.into(),
            sizes: vec![50_000],
            part,
            parallel: 2,
            transfers: 1,
            ..far.series()
        };
        played(&series).await;
    }
    let digest = sha256_hex(&made(42, 50_000));
    let stored = far.stop().await;
    // Two whole objects at once, then one in parts.
    assert_eq!(stored.len(), 3);
    assert!(stored.iter().all(|object| object.sha256 == digest));
    assert_eq!(near.stop().await, []);
}

#[tokio::test]
async fn both_versions_of_tls_carry_uploads_and_downloads() {
    for version in [Version::V1_2, Version::V1_3] {
        let origin = origin_with(&[100_000]).await;
        let put = Series {
            transfers: 2,
            ..origin.series_over(version)
        };
        played(&put).await;
        let get = Series {
            verb: Verb::Get,
            sizes: vec![100_000],
            reuse: true,
            ..put.clone()
        };
        played(&get).await;
        assert_eq!(origin.stop().await.len(), 2);
    }
}

#[tokio::test]
async fn only_the_origins_own_certificate_is_trusted() {
    let origin = TestOrigin::start().await;
    let mut series = origin.series_over(Version::V1_3);
    let stranger = Identity::make(&["127.0.0.1".to_owned()]).unwrap();
    series.tls.as_mut().unwrap().certificate = stranger.certificate_pem();
    let transfers = run(&series).await.unwrap();
    for transfer in transfers {
        let error = transfer.error.unwrap();
        assert!(error.contains("certificate"), "{error}");
    }
    assert_eq!(origin.stop().await, []);
}

#[tokio::test]
async fn a_reader_that_pauses_takes_that_much_longer() {
    let origin = origin_with(&[100_000]).await;
    let series = Series {
        verb: Verb::Get,
        sizes: vec![100_000],
        read_pause: Some(ReadPause {
            after: 1_000,
            for_s: 0.25,
        }),
        transfers: 1,
        ..origin.series()
    };
    let transfers = played(&series).await;
    assert!(transfers[0].seconds >= 0.25, "{transfers:?}");
    origin.stop().await;
}
