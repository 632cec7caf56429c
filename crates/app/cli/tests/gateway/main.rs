//! `longhaul relay s3` as its users run it: the whole binary between a client library and an origin.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod bounds;
#[path = "../common/mod.rs"]
mod common;
mod objects;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;
use store::client::{Series, Verb};
use store::credentials::Credentials;
use store::origin::{Config, Listeners, Origin, Stored};
use store::tls::Identity;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use common::longhaul;

const ACCESS_KEY: &str = "clients-key";
const SECRET: &str = "clients/secret+key";

/// An origin with other credentials than the gateway's clients have.
struct TestOrigin {
    address: SocketAddr,
    /// Where it speaks TLS, and its certificate.
    secure: Option<(SocketAddr, String)>,
    state: Origin,
    stored: mpsc::UnboundedReceiver<Stored>,
}

impl TestOrigin {
    async fn start() -> Self {
        Self::listen(None).await
    }

    /// As [`TestOrigin::start`], and with TLS at another address.
    async fn start_secure() -> Self {
        let identity = Identity::make(&["127.0.0.1".into()]).unwrap();
        Self::listen(Some(identity)).await
    }

    async fn listen(identity: Option<Identity>) -> Self {
        let config = Config {
            made: vec![1000, 40 << 20],
            ..Config::new(Credentials::new("origins-key", "origins/secret"))
        };
        let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = plain.local_addr().unwrap();
        let (events, stored) = mpsc::unbounded_channel();
        let origin = Origin::prepare(&config, events).unwrap();
        let state = origin.clone();
        let (mut tls, mut secure) = (None, None);
        if let Some(identity) = identity {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            secure = Some((address, identity.certificate_pem()));
            tls = Some((listener, identity));
        }
        tokio::spawn(origin.serve(Listeners { plain, tls }, std::future::pending()));
        Self {
            address,
            secure,
            state,
            stored,
        }
    }
}

/// A running gateway; killed with the test that started it.
struct Gateway {
    child: Child,
    events: BufReader<ChildStdout>,
    /// What was said before it listened.
    before: Vec<Value>,
    address: String,
}

impl Gateway {
    fn start(origin: SocketAddr, more: &[&str]) -> Self {
        let origin = format!("http://{origin}");
        let first = ["127.0.0.1:0", &origin, "--client", ACCESS_KEY];
        Self::spawn(&[&first, more].concat())
    }

    fn spawn(arguments: &[&str]) -> Self {
        let mut child = longhaul()
            .args(["relay", "s3", "--json"])
            .args(arguments)
            .env("LONGHAUL_S3_SECRET", SECRET)
            .env("AWS_ACCESS_KEY_ID", "origins-key")
            .env("AWS_SECRET_ACCESS_KEY", "origins/secret")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        let mut gateway = Self {
            child,
            events,
            before: Vec::new(),
            address: String::new(),
        };
        let listening = loop {
            let event = gateway.next_event("gateway-listening");
            if event["event"] == "gateway-listening" {
                break event;
            }
            gateway.before.push(event);
        };
        gateway.address = listening["address"].as_str().unwrap().into();
        gateway
    }

    /// The next event of this name.
    fn event(&mut self, name: &str) -> Value {
        loop {
            let event = self.next_event(name);
            if event["event"] == name {
                return event;
            }
        }
    }

    /// The next event; there must be one, since `name` is waited for.
    fn next_event(&mut self, name: &str) -> Value {
        let mut line = String::new();
        assert_ne!(self.events.read_line(&mut line).unwrap(), 0, "no `{name}`");
        serde_json::from_str(&line).unwrap()
    }

    fn series(&self, verb: Verb, bytes: u64) -> Series {
        Series {
            endpoint: format!("http://{}", self.address),
            bucket: "lab".into(),
            key_prefix: "series".into(),
            credentials: Credentials::new(ACCESS_KEY, SECRET),
            verb,
            sizes: vec![bytes],
            parallel: 1,
            part: None,
            read_pause: None,
            tls: None,
            first_index: 1,
            transfers: 2,
            seed: 0,
            reuse: true,
            timeout_s: 60.0,
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts objects of so many bytes, of which each must arrive as it was sent; their number.
async fn put(origin: &mut TestOrigin, gateway: &Gateway, bytes: u64) -> usize {
    let transfers = store::client::run(&gateway.series(Verb::Put, bytes))
        .await
        .unwrap();
    for transfer in &transfers {
        assert_eq!(transfer.error, None);
        let stored = origin.stored.recv().await.unwrap();
        assert_eq!(stored.sha256, transfer.objects[0].sha256);
    }
    transfers.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_small_and_large_pass_through_the_binary_with_credentials_of_its_own() {
    let mut origin = TestOrigin::start().await;
    let mut gateway = Gateway::start(origin.address, &[]);
    for (bytes, in_parts) in [(0, false), (100_000, false), (40 << 20, true)] {
        for _ in 0..put(&mut origin, &gateway, bytes).await {
            let event = gateway.event("answered");
            assert_eq!(event["operation"], "PutObject");
            assert_eq!(event["parts"].as_u64().unwrap() > 1, in_parts, "{event}");
        }
    }
    for (bytes, in_parts) in [(1000, false), (40 << 20, true)] {
        let series = gateway.series(Verb::Get, bytes);
        for transfer in store::client::run(&series).await.unwrap() {
            // The client compares with what the origin made of its seed.
            assert_eq!(transfer.error, None);
            let event = gateway.event("answered");
            assert_eq!(event["operation"], "GetObject");
            assert_eq!(event["parts"].as_u64().unwrap() > 1, in_parts, "{event}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_speaks_tls_is_reached_over_the_hot_pool() {
    let mut origin = TestOrigin::start_secure().await;
    let (address, certificate) = origin.secure.clone().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("store.pem");
    std::fs::write(&trusted, certificate).unwrap();
    let store = format!("https://{address}");
    let trusted = ["--origin-ca", trusted.to_str().unwrap()];
    let first = ["127.0.0.1:0", &store, "--client", ACCESS_KEY];
    let mut gateway = Gateway::spawn(&[first.as_slice(), &trusted].concat());
    // Primed, by requests that a store with TLS has answered.
    let ready = gateway
        .before
        .iter()
        .find(|event| event["event"] == "pool-ready");
    let ready = ready
        .cloned()
        .unwrap_or_else(|| gateway.event("pool-ready"));
    assert_eq!(ready["connections"], 8, "{ready}");
    assert!(ready["requests"].as_u64().unwrap() > 0, "{ready}");
    for bytes in [100_000, 40 << 20] {
        assert_eq!(put(&mut origin, &gateway, bytes).await, 2);
    }

    // Without, nobody whom this host trusts has signed it.
    let gateway = Gateway::spawn(&[first.as_slice(), &["--hot", "off"]].concat());
    let transfers = store::client::run(&gateway.series(Verb::Put, 10))
        .await
        .unwrap();
    assert!(transfers[0].error.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_origins_credentials_are_no_good_at_the_gateway() {
    let origin = TestOrigin::start().await;
    let gateway = Gateway::start(origin.address, &["--hot", "off"]);
    let mut series = gateway.series(Verb::Put, 10);
    series.credentials = Credentials::new("origins-key", "origins/secret");
    let transfers = store::client::run(&series).await.unwrap();
    let error = transfers[0].error.as_deref().unwrap();
    assert!(
        error.contains("InvalidAccessKeyId") || error.contains("403"),
        "{error}"
    );
}

/// Kills the gateway at another place of an upload each time.
#[tokio::test(flavor = "multi_thread")]
async fn killed_two_hundred_times_it_leaves_no_half_object_and_gives_up_what_it_began() {
    let mut origin = TestOrigin::start().await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gateway.toml");
    let journal = folder.path().join("journal");
    let text = format!(
        r#"
        listen = "127.0.0.1:0"
        origin = "http://{address}"
        via = "{address}"
        journal = "{journal}"
        credentials = {{ access-key = "origins-key", secret-env = "AWS_SECRET_ACCESS_KEY" }}
        client = [{{ access-key = "{ACCESS_KEY}", secret-env = "LONGHAUL_S3_SECRET" }}]
        "#,
        address = origin.address,
        journal = journal.display(),
    );
    std::fs::write(&config, text).unwrap();
    let file = ["--config", config.to_str().unwrap()];
    // Above four parts of 8 MiB, and below.
    let (large, small) = (34 << 20, 300_000);
    let begun = || {
        let text = std::fs::read_to_string(&journal).unwrap();
        text.lines()
            .filter(|line| line.starts_with("begun"))
            .count()
    };
    for turn in 0..200_u64 {
        let mut gateway = Gateway::spawn(&file);
        // Those that earlier turns have left.
        let before = begun();
        let bytes = if turn % 4 == 0 { large } else { small };
        let series = Series {
            transfers: 1,
            ..gateway.series(Verb::Put, bytes)
        };
        let upload = std::thread::spawn(move || {
            let alone = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            alone.block_on(store::client::run(&series)).unwrap()
        });
        if bytes == large {
            // The upload has begun when it is in the journal; from there on a little more of it each time.
            while begun() == before {
                tokio::task::yield_now().await;
            }
        }
        for _ in 0..turn * 50 {
            tokio::task::yield_now().await;
        }
        gateway.child.kill().unwrap();
        gateway.child.wait().unwrap();
        // Whether it had got through or not.
        drop(upload.join().unwrap());
    }
    let expected = |bytes: u64| {
        let bytes = usize::try_from(bytes).unwrap();
        store::digest::sha256_hex(&store::payload::content(0, 1, bytes))
    };
    let whole = [expected(large), expected(small)];
    while let Ok(stored) = origin.stored.try_recv() {
        assert!(
            whole.contains(&stored.sha256),
            "half an object of {} bytes",
            stored.bytes
        );
    }
    let left = std::fs::read_to_string(&journal).unwrap();
    let mut gateway = Gateway::spawn(&file);
    // The last of those that were killed may have given up what it found.
    let is_open = |line: &str| {
        let begun = line.strip_prefix("begun ")?;
        let id = begun.rsplit(' ').next()?;
        Some(!left.lines().any(|line| line == format!("over {id}")))
    };
    if left.lines().any(|line| is_open(line) == Some(true)) {
        assert_eq!(gateway.event("gave-up")["unheard"], 0);
    }
    assert_eq!(origin.state.open_uploads(), 0);
}
