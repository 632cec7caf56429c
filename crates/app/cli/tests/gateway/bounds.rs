//! What a gateway holds, whatever its clients and its store do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use store::client::{ReadPause, Series, Verb};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::{ACCESS_KEY, Gateway, TestOrigin};

const MIB: u64 = 1 << 20;

/// Requests that have begun and are not answered.
#[derive(Default)]
struct Load {
    now: AtomicUsize,
    most: AtomicUsize,
    /// All that ever began.
    all: AtomicUsize,
}

impl Load {
    /// Bytes of a request on a connection that is `busy` with one, or was not.
    fn asked(&self, busy: &AtomicBool) {
        if !busy.swap(true, Ordering::SeqCst) {
            self.all.fetch_add(1, Ordering::SeqCst);
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
        }
    }

    fn answered(&self, busy: &AtomicBool) {
        if busy.swap(false, Ordering::SeqCst) {
            self.now.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The way to a store that is far away and slow to take bytes: answers come 50 ms later, and each 64 KiB of a request take
/// 5 ms. Requests are counted where they leave the way, so the store has no more of them than that.
async fn way_to(store: SocketAddr, load: Arc<Load>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let load = Arc::clone(&load);
            tokio::spawn(async move {
                let store = TcpStream::connect(store).await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_store, to_store) = store.into_split();
                let busy = AtomicBool::new(false);
                let (asked, answered) = (|| load.asked(&busy), || load.answered(&busy));
                let there = carry(from_client, to_store, Duration::from_millis(5), asked);
                let back = carry(from_store, to_client, Duration::from_millis(50), answered);
                // Whoever ends first ends both.
                tokio::select! { () = there => {}, () = back => {} }
                load.answered(&busy);
            });
        }
    });
    address
}

async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    each: Duration,
    seen: impl Fn(),
) {
    let mut piece = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        seen();
        // The slowness itself; nothing waits for it to have passed.
        tokio::time::sleep(each).await;
        if to.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}

/// A gateway on `way`, with these limits.
fn gateway(origin: &TestOrigin, way: SocketAddr, limits: &str) -> (Gateway, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gateway.toml");
    let text = format!(
        r#"
        listen = "127.0.0.1:0"
        origin = "http://{origin}"
        via = "{way}"
        credentials = {{ access-key = "origins-key", secret-env = "AWS_SECRET_ACCESS_KEY" }}
        client = [{{ access-key = "{ACCESS_KEY}", secret-env = "LONGHAUL_S3_SECRET" }}]
        limits = {{ {limits} }}
        "#,
        origin = origin.address,
    );
    std::fs::write(&config, text).unwrap();
    let gateway = Gateway::spawn(&["--config", config.to_str().unwrap()]);
    (gateway, folder)
}

/// `count` of these at the same time, each of a client of its own; all succeed.
async fn at_once(count: u64, series: impl Fn(u64) -> Series) {
    let series: Vec<Series> = (0..count).map(series).collect();
    let runs = series.iter().map(store::client::run);
    for transfers in join_all(runs).await {
        for transfer in transfers.unwrap() {
            assert_eq!(transfer.error, None);
        }
    }
}

fn one(gateway: &Gateway, verb: Verb, bytes: u64, number: u64) -> Series {
    Series {
        key_prefix: format!("series-{number}"),
        transfers: 1,
        ..gateway.series(verb, bytes)
    }
}

/// Most bytes of memory that the process has had at once (`VmHWM` of proc(5), in kB).
fn peak(gateway: &Gateway) -> u64 {
    let status = format!("/proc/{}/status", gateway.child.id());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_a_request_is_bounded_however_slow_clients_and_store_are() {
    const REQUESTS: u64 = 4;
    const EACH: u64 = 80 * MIB;
    let origin = TestOrigin::start().await;
    let load = Arc::new(Load::default());
    let way = way_to(origin.address, Arc::clone(&load)).await;
    let (gateway, _folder) = gateway(&origin, way, r#"request-memory = "16 MiB""#);
    at_once(1, |number| one(&gateway, Verb::Put, MIB, number)).await;
    let before = peak(&gateway);
    // The store is slower than the clients.
    at_once(REQUESTS, |number| one(&gateway, Verb::Put, EACH, number)).await;
    let put = peak(&gateway) - before;
    load.all.store(0, Ordering::SeqCst);
    // The clients are slower than the store: they stop while it could send everything.
    at_once(REQUESTS, |number| Series {
        read_pause: Some(ReadPause {
            after: MIB,
            for_s: 2.0,
        }),
        ..one(&gateway, Verb::Get, 40 * MIB, number)
    })
    .await;
    let both = peak(&gateway) - before;
    // What is asked for at once, and as much again for what the allocator keeps; without a bound it were 320 MiB.
    let bound = 2 * REQUESTS * 16 * MIB;
    assert!(
        put < bound && both < bound,
        "{put} and {both} of {bound} bytes"
    );
    // Ranges must not get the shorter the longer they wait.
    let requests = load.all.load(Ordering::SeqCst) as u64;
    let most = REQUESTS * 40 * MIB / (32 << 10);
    assert!(requests < most, "{requests} of {most}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_gets_no_more_requests_at_once_than_it_bears() {
    const CLIENTS: u64 = 3;
    let origin = TestOrigin::start().await;
    let load = Arc::new(Load::default());
    let way = way_to(origin.address, Arc::clone(&load)).await;
    let (gateway, _folder) = gateway(&origin, way, "parallel = 3");
    at_once(CLIENTS, |number| one(&gateway, Verb::Put, 80 * MIB, number)).await;
    // One for each client, and three of whomever they belong to; without the bound each client would have three.
    let most = load.most.load(Ordering::SeqCst);
    assert!((4..=6).contains(&most), "{most} at once");
}
