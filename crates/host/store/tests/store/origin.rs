//! The origin as strangers meet it: S3 by a library, HTTP by raw sockets.

use crate::support::{TestOrigin, credentials};
use longhaul_store::digest::sha256_hex;
use longhaul_store::origin::Config;
use longhaul_store::payload::content;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore as _, ObjectStoreExt as _, PutPayload, RetryConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn library(origin: &TestOrigin) -> AmazonS3 {
    AmazonS3Builder::new()
        .with_endpoint(origin.endpoint())
        .with_bucket_name("lab")
        .with_region("us-east-1")
        .with_access_key_id(credentials().access_key)
        .with_secret_access_key(credentials().secret_key)
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .with_retry(RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        })
        .build()
        .unwrap()
}

#[tokio::test]
async fn an_object_comes_back_as_it_went() {
    let origin = TestOrigin::start().await;
    let store = library(&origin);
    let (path, sent) = (Path::from("a/b c/ue"), content(1, 1, 300_000));
    store
        .put(&path, PutPayload::from_bytes(sent.clone()))
        .await
        .unwrap();
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), sent);
    assert_eq!(
        store.get_range(&path, 1000..2000).await.unwrap(),
        sent[1000..2000]
    );
    assert_eq!(store.head(&path).await.unwrap().size, 300_000);
    store.delete(&path).await.unwrap();
    assert!(matches!(
        store.head(&path).await.unwrap_err(),
        object_store::Error::NotFound { .. }
    ));
    let stored = origin.stop().await;
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].key, "a/b c/ue");
    assert_eq!(stored[0].sha256, sha256_hex(&sent));
    assert!(stored[0].started_s >= 0.0 && stored[0].seconds > 0.0);
}

#[tokio::test]
async fn a_listing_is_ordered_complete_and_knows_folders() {
    let origin = TestOrigin::start().await;
    let store = library(&origin);
    for key in ["a/1", "a/2", "b", "c/1", "c/d/1"] {
        store
            .put(&Path::from(key), PutPayload::from_static(b"x"))
            .await
            .unwrap();
    }
    let listed = store.list_with_delimiter(None).await.unwrap();
    let folders: Vec<&str> = listed.common_prefixes.iter().map(AsRef::as_ref).collect();
    let objects: Vec<&str> = listed
        .objects
        .iter()
        .map(|object| object.location.as_ref())
        .collect();
    assert_eq!((folders, objects), (vec!["a", "c"], vec!["b"]));
    origin.stop().await;
}

#[tokio::test]
async fn a_large_object_arrives_whole_in_parts() {
    let origin = TestOrigin::start().await;
    let store = library(&origin);
    let (path, sent) = (Path::from("large"), content(1, 1, 11 << 20));
    let mut upload = store.put_multipart(&path).await.unwrap();
    for part in [0..5 << 20, 5 << 20..10 << 20, 10 << 20..11 << 20] {
        upload
            .put_part(PutPayload::from_bytes(sent.slice(part)))
            .await
            .unwrap();
    }
    upload.complete().await.unwrap();
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), sent);
    let stored = origin.stop().await;
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].sha256, sha256_hex(&sent));
}

#[tokio::test]
async fn an_object_beyond_the_limit_is_refused_and_leaves_nothing() {
    let origin = TestOrigin::with(Config {
        object_limit: 1000,
        ..Config::new(credentials())
    })
    .await;
    let store = library(&origin);
    let path = Path::from("x");
    let error = store
        .put(&path, PutPayload::from_bytes(content(1, 1, 1001)))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("EntityTooLarge"), "{error}");
    store
        .put(&path, PutPayload::from_bytes(content(1, 1, 1000)))
        .await
        .unwrap();
    assert_eq!(origin.stop().await.len(), 1);
}

#[tokio::test]
async fn a_full_origin_refuses_and_a_replaced_object_makes_room() {
    let origin = TestOrigin::with(Config {
        capacity: 2500,
        ..Config::new(credentials())
    })
    .await;
    let store = library(&origin);
    let payload = || PutPayload::from_bytes(content(1, 1, 1000));
    store.put(&Path::from("a"), payload()).await.unwrap();
    store.put(&Path::from("b"), payload()).await.unwrap();
    let error = store.put(&Path::from("c"), payload()).await.unwrap_err();
    assert!(error.to_string().contains("507"), "{error}");
    store.put(&Path::from("a"), payload()).await.unwrap();
    store.delete(&Path::from("b")).await.unwrap();
    store.put(&Path::from("c"), payload()).await.unwrap();
    origin.stop().await;
}

#[tokio::test]
async fn nobody_reads_or_writes_without_a_signature() {
    let origin = TestOrigin::start().await;
    library(&origin)
        .put(&Path::from("x"), PutPayload::from_static(b"secret"))
        .await
        .unwrap();
    for request in [
        "GET /lab/x HTTP/1.1\r\nhost: h\r\n\r\n",
        "GET /lab?list-type=2 HTTP/1.1\r\nhost: h\r\n\r\n",
        "PUT /lab/y HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\n\r\nz",
        "DELETE /lab/x HTTP/1.1\r\nhost: h\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(origin.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let response = Response::read(&mut stream, &mut Vec::new(), false).await;
        assert_eq!(response.status, 403, "{request}");
        assert!(!response.body.contains("secret"));
    }
    assert_eq!(origin.stop().await.len(), 1);
}

/// How the relay makes a connection hot: many harmless requests with padded heads, without waiting for
/// the responses.
#[tokio::test]
async fn three_hundred_pipelined_padded_requests_leave_the_connection_usable() {
    let origin = TestOrigin::start().await;
    let mut stream = TcpStream::connect(origin.address).await.unwrap();
    let mut requests = Vec::new();
    let methods = |index: usize| {
        if index.is_multiple_of(2) {
            "HEAD"
        } else {
            "OPTIONS"
        }
    };
    for index in 0..300 {
        let padding = "p".repeat(4096 + index % 2 * 4000);
        requests.extend_from_slice(
            format!(
                "{} / HTTP/1.1\r\nhost: origin\r\nx-padding: {padding}\r\n\r\n",
                methods(index)
            )
            .as_bytes(),
        );
    }
    let (mut reader, mut writer) = stream.split();
    let mut rest = Vec::new();
    let (written, statuses) = tokio::join!(writer.write_all(&requests), async {
        let mut statuses = std::collections::BTreeMap::<u16, u32>::new();
        for index in 0..300 {
            let response = Response::read(&mut reader, &mut rest, methods(index) == "HEAD").await;
            assert!(!response.closes, "response {index} ends the connection");
            *statuses.entry(response.status).or_default() += 1;
        }
        statuses
    });
    written.unwrap();
    assert_eq!(rest, b"");
    // S3 has no such operations: the point is that the answer is short and the connection lives.
    assert_eq!(statuses.into_keys().collect::<Vec<_>>(), [501]);
    // The connection still carries an upload.
    let body = form(&[("data", "{}"), ("file", "hello")]);
    stream.write_all(body.as_bytes()).await.unwrap();
    assert_eq!(
        Response::read(&mut stream, &mut Vec::new(), false)
            .await
            .status,
        200
    );
    let stored = origin.stop().await;
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].sha256, sha256_hex(b"hello"));
}

#[tokio::test]
async fn the_reports_form_is_stored_and_answered_with_about_214_bytes() {
    let origin = TestOrigin::start().await;
    let mut stream = TcpStream::connect(origin.address).await.unwrap();
    for content in ["first", "second"] {
        let body = form(&[("data", r#"{"region":"us"}"#), ("file", content)]);
        stream.write_all(body.as_bytes()).await.unwrap();
        let response = Response::read(&mut stream, &mut Vec::new(), false).await;
        assert_eq!(response.status, 200);
        assert_eq!(response.bytes, 214);
        assert!(
            response.body.contains(&sha256_hex(content.as_bytes())),
            "{}",
            response.body
        );
    }
    let keys: Vec<String> = origin
        .stop()
        .await
        .into_iter()
        .map(|event| event.key)
        .collect();
    assert_eq!(keys, ["files/000001", "files/000002"]);
}

#[tokio::test]
async fn a_form_that_is_not_the_reports_is_refused() {
    let origin = TestOrigin::with(Config {
        object_limit: 1000,
        ..Config::new(credentials())
    })
    .await;
    let long = "x".repeat(1001);
    for (status, request) in [
        (400, form(&[("data", "{}")])),
        (
            400,
            form(&[("file", "x")]).replace("multipart/form-data", "text/plain"),
        ),
        (413, form(&[("file", &long)])),
        (413, form(&[("data", &"x".repeat(70_000)), ("file", "x")])),
        (405, "GET /upload/files HTTP/1.1\r\nhost: h\r\n\r\n".into()),
    ] {
        let mut stream = TcpStream::connect(origin.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let response = Response::read(&mut stream, &mut Vec::new(), false).await;
        assert_eq!(response.status, status, "{}", response.body);
    }
    assert_eq!(origin.stop().await, []);
}

#[tokio::test]
async fn shutdown_ends_idle_connections() {
    let origin = TestOrigin::start().await;
    let mut stream = TcpStream::connect(origin.address).await.unwrap();
    stream
        .write_all(b"HEAD / HTTP/1.1\r\nhost: h\r\n\r\n")
        .await
        .unwrap();
    Response::read(&mut stream, &mut Vec::new(), true).await;
    origin.stop().await;
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

/// A form as python-requests writes it.
fn form(parts: &[(&str, &str)]) -> String {
    use std::fmt::Write as _;
    let boundary = "0123456789abcdef0123456789abcdef";
    let mut body = String::new();
    for (name, content) in parts {
        write!(
            body,
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"; \
             filename=\"{name}\"\r\n\r\n{content}\r\n"
        )
        .unwrap();
    }
    write!(body, "--{boundary}--\r\n").unwrap();
    format!(
        "POST /upload/files HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\
         Content-Type: multipart/form-data; boundary={boundary}\r\n\r\n{body}",
        body.len()
    )
}

/// A response as a pipelining client must read it.
struct Response {
    status: u16,
    body: String,
    closes: bool,
    /// Head and body.
    bytes: usize,
}

impl Response {
    /// Reads one response; `rest` holds bytes that were read beyond an earlier one.
    async fn read(
        stream: &mut (impl tokio::io::AsyncRead + Unpin),
        rest: &mut Vec<u8>,
        to_head: bool,
    ) -> Self {
        let end = loop {
            if let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            assert_ne!(stream.read_buf(rest).await.unwrap(), 0, "closed too early");
        };
        let head = String::from_utf8(rest.drain(..end).collect())
            .unwrap()
            .to_lowercase();
        let field = |name: &str| {
            head.lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_owned())
        };
        let mut body = Vec::new();
        if !to_head {
            if field("transfer-encoding").is_some() {
                body = Self::chunks(stream, rest).await;
            } else {
                let len: usize = field("content-length").unwrap().parse().unwrap();
                Self::fill(stream, rest, len).await;
                body = rest.drain(..len).collect();
            }
        }
        Self {
            status: head[9..12].parse().unwrap(),
            closes: field("connection").as_deref() == Some("close"),
            bytes: end + body.len(),
            body: String::from_utf8(body).unwrap(),
        }
    }

    async fn chunks(
        stream: &mut (impl tokio::io::AsyncRead + Unpin),
        rest: &mut Vec<u8>,
    ) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                if let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
                    break end;
                }
                assert_ne!(stream.read_buf(rest).await.unwrap(), 0, "closed too early");
            };
            let size = String::from_utf8(rest.drain(..line + 2).collect()).unwrap();
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            Self::fill(stream, rest, size + 2).await;
            body.extend(rest.drain(..size + 2).take(size));
            if size == 0 {
                return body;
            }
        }
    }

    async fn fill(
        stream: &mut (impl tokio::io::AsyncRead + Unpin),
        rest: &mut Vec<u8>,
        len: usize,
    ) {
        while rest.len() < len {
            assert_ne!(stream.read_buf(rest).await.unwrap(), 0, "closed too early");
        }
    }
}

/// The lab runs origin and client as processes of their own and talks to them in JSON.
#[tokio::test]
async fn configuration_and_events_travel_as_json() {
    let config = Config::new(credentials());
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
    let origin = TestOrigin::with(config).await;
    library(&origin)
        .put(&Path::from("x"), PutPayload::from_static(b"x"))
        .await
        .unwrap();
    let stored = origin.stop().await;
    let text = serde_json::to_string(&stored).unwrap();
    let back: Vec<longhaul_store::origin::Stored> = serde_json::from_str(&text).unwrap();
    assert_eq!(back, stored);
}
