//! A gateway and its origin, which end with their test.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use longhaul_gateway::{GatewayOptions, Server};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::signer::Signer as _;
use object_store::{ClientOptions, RetryConfig};
use sha2::Sha256;
use store::credentials::Credentials;
use store::origin::{Config, Listeners, Origin, Stored};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Both, and what the origin stores.
pub(crate) struct Site {
    pub(crate) gateway: SocketAddr,
    pub(crate) origin: SocketAddr,
    pub(crate) stored: mpsc::UnboundedReceiver<Stored>,
    pub(crate) origin_state: Origin,
}

pub(crate) const CLIENT: (&str, &str) = ("client", "clients-secret");
pub(crate) const OWNER: (&str, &str) = ("owner", "owners-secret");

impl Site {
    /// `lab` as it is, `secret` encrypted, `old` under an older key, all through one gateway.
    pub(crate) async fn start() -> Self {
        let mut config = Config::new(Credentials::new(OWNER.0, OWNER.1));
        config.buckets.extend(["sealed".into(), "aged".into()]);
        let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = plain.local_addr().unwrap();
        let (events, stored) = mpsc::unbounded_channel();
        let serving = Origin::prepare(&config, events).unwrap();
        let origin_state = serving.clone();
        tokio::spawn(serving.serve(Listeners { plain, tls: None }, std::future::pending()));
        Self {
            gateway: gateway(origin, "old", true).await,
            origin,
            stored,
            origin_state,
        }
    }

    /// A library that speaks to the gateway.
    pub(crate) fn client(&self, bucket: &str) -> AmazonS3 {
        library(self.gateway, bucket, CLIENT)
    }

    /// A library that speaks to the origin, past the gateway.
    pub(crate) fn owner(&self, bucket: &str) -> AmazonS3 {
        library(self.origin, bucket, OWNER)
    }
}

/// A gateway of its own in front of `origin`, which writes the bucket `old` under the key `current`, and reads under
/// the key `old` where `has_old`.
pub(crate) async fn gateway(origin: SocketAddr, current: &str, has_old: bool) -> SocketAddr {
    gateway_with_stall(origin, (current, has_old), "60 s").await
}

/// One that gives up what stands still for `stall`.
pub(crate) async fn gateway_with_stall(
    origin: SocketAddr,
    (current, has_old): (&str, bool),
    stall: &str,
) -> SocketAddr {
    let old = if has_old {
        r#", { name = "old", env = "OLD" }"#
    } else {
        ""
    };
    let text = format!(
        r#"
        listen = "127.0.0.1:0"
        origin = "http://{origin}"
        credentials = {{ access-key = "owner", secret-env = "OWNER" }}
        client = [{{ access-key = "client", secret-env = "CLIENT" }}]
        bucket = [
            {{ name = "lab" }},
            {{ name = "secret", origin = "sealed", encrypt = "new" }},
            {{ name = "old", origin = "aged", encrypt = "{current}" }},
        ]
        key = [{{ name = "new", env = "NEW" }}{old}]
        domains = ["s3.test"]
        form = [{{ path = "/upload/files", bucket = "lab", prefix = "forms/" }}]
        limits = {{ request-memory = "16 MiB", object = "48 MiB", stall = "{stall}" }}
        "#
    );
    let variable = |name: &str| match name {
        "OWNER" => Some(OWNER.1.to_owned()),
        "CLIENT" => Some(CLIENT.1.to_owned()),
        "NEW" => Some("ab".repeat(32)),
        "OLD" => Some("cd".repeat(32)),
        _ => None,
    };
    let config = GatewayOptions::from_toml(&text)
        .unwrap()
        .resolve(variable)
        .unwrap();
    let server = Server::bind(config, |_| {}).await.unwrap();
    let address = server.address();
    tokio::spawn(server.serve(std::future::pending()));
    address
}

pub(crate) fn library(address: SocketAddr, bucket: &str, pair: (&str, &str)) -> AmazonS3 {
    AmazonS3Builder::new()
        .with_endpoint(format!("http://{address}"))
        .with_bucket_name(bucket)
        .with_region("us-east-1")
        .with_access_key_id(pair.0)
        .with_secret_access_key(pair.1)
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .with_retry(RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        })
        .build()
        .unwrap()
}

/// Bytes that repeat nowhere nearby.
pub(crate) fn content(length: usize) -> Bytes {
    store::payload::content(7, 1, length)
}

/// Sends `request` on a connection of its own; the answer up to its end.
pub(crate) async fn raw(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// The beginning of a PUT of `k` by a presigned URL.
pub(crate) async fn presigned_put(address: SocketAddr, bucket: &str) -> String {
    let url = library(address, bucket, CLIENT)
        .signed_url(http::Method::PUT, &Path::from("k"), Duration::from_mins(1))
        .await
        .unwrap();
    let (path, query) = (url.path(), url.query().unwrap());
    format!("PUT {path}?{query} HTTP/1.1\r\nhost: {address}\r\n")
}

/// A GET with a signature of our own, for what the library does not ask.
pub(crate) async fn signed_get(address: SocketAddr, path: &str, query: &str) -> String {
    let payload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let head = signed_head(address, ("GET", path, query), payload, &[]);
    raw(address, format!("{head}\r\n").as_bytes()).await
}

/// A PUT of an `aws-chunked` body with unsigned chunks.
pub(crate) async fn signed_put(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, String)],
    body: &[u8],
) -> String {
    let mut headers = headers.to_vec();
    headers.push(("content-length", body.len().to_string()));
    signed_upload(
        address,
        path,
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        &headers,
        body,
    )
    .await
}

/// A PUT with these headers, all of them signed; `payload` is what `x-amz-content-sha256` says.
pub(crate) async fn signed_upload(
    address: SocketAddr,
    path: &str,
    payload: &str,
    headers: &[(&str, String)],
    body: &[u8],
) -> String {
    let head = signed_head(address, ("PUT", path, ""), payload, headers);
    let mut request = format!("{head}\r\n").into_bytes();
    request.extend_from_slice(body);
    raw(address, &request).await
}

fn signed_head(
    address: SocketAddr,
    (method, path, query): (&str, &str, &str),
    payload: &str,
    headers: &[(&str, String)],
) -> String {
    let now = time::OffsetDateTime::now_utc();
    let day = format!(
        "{:04}{:02}{:02}",
        now.year(),
        u8::from(now.month()),
        now.day()
    );
    let moment = format!(
        "{day}T{:02}{:02}{:02}Z",
        now.hour(),
        now.minute(),
        now.second()
    );
    let mut headers = headers.to_vec();
    headers.push(("host", address.to_string()));
    headers.push(("x-amz-content-sha256", payload.to_owned()));
    headers.push(("x-amz-date", moment.clone()));
    headers.sort();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines = |between: &str, end: &str| {
        headers.iter().fold(String::new(), |text, (name, value)| {
            format!("{text}{name}:{between}{value}{end}")
        })
    };
    let signed = lines("", "\n");
    let request = format!("{method}\n{path}\n{query}\n{signed}\n{names}\n{payload}");
    let scope = format!("{day}/us-east-1/s3/aws4_request");
    let digest = store::digest::sha256_hex(request.as_bytes());
    let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}");
    let signature = signature(&day, &text);
    let target = if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    };
    let sent = lines(" ", "\r\n");
    format!(
        "{method} {target} HTTP/1.1\r\n{sent}authorization: AWS4-HMAC-SHA256 Credential={}/{scope}, \
         SignedHeaders={names}, Signature={signature}\r\nconnection: close\r\n",
        CLIENT.0
    )
}

/// The client's signature of `text`.
pub(crate) fn signature(day: &str, text: &str) -> String {
    let mut key = format!("AWS4{}", CLIENT.1).into_bytes();
    for step in [day, "us-east-1", "s3", "aws4_request", text] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        mac.update(step.as_bytes());
        key = mac.finalize().into_bytes().to_vec();
    }
    key.iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
