use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::net::TcpListener;
use units::Bytes;

use super::*;
use crate::tls::handshakes::Protocols;
use crate::{Config, HttpOptions};

const MIB: u64 = 1 << 20;

/// A pool that no keeper fills, and what listens where it connects.
async fn pool() -> (Arc<Pool>, TcpListener) {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = HttpOptions {
        listen: "127.0.0.1:0".into(),
        target: origin.local_addr().unwrap().to_string(),
        ..HttpOptions::default()
    };
    let relay = Config::http(options).unwrap().http.remove(0);
    let protocols = Protocols::default();
    let handshakes = Handshakes::load(&relay.tls, protocols, 1).unwrap();
    let pool = Pool::new(Arc::new(relay), handshakes, Arc::new(|_| {}), false);
    (pool, origin)
}

/// Lends a connection as if priming had opened its window over a path of `rtt`.
async fn primed(pool: &Arc<Pool>, rtt: Duration) -> Lent {
    let mut lent = pool.take_new().await.unwrap();
    lent.connection().hot_window = Some(Bytes::kib(8));
    pool.long.taken();
    let us = u64::try_from(rtt.as_micros()).unwrap();
    pool.rtt_us.store(us, Ordering::Relaxed);
    lent
}

/// An upload that asks for a primed connection, and has to wait.
fn waiting(pool: &Arc<Pool>) -> Pin<Box<impl Future<Output = Result<Lent, DialError>>>> {
    let mut upload = Box::pin(pool.take(Wanted::Primed(MIB)));
    assert!((&mut upload).now_or_never().is_none());
    upload
}

#[tokio::test]
async fn long_uploads_get_primed_connections_in_the_order_of_asking() {
    let (pool, _origin) = pool().await;
    let lent = primed(&pool, Duration::from_hours(1)).await;
    let id = lent.id();
    let mut first = waiting(&pool);
    let mut second = waiting(&pool);
    // What does not wait gets a new one.
    let other = pool.take(Wanted::Best).await.unwrap();
    assert!(other.id() != id && !other.reused);
    other.bring_back();
    assert!((&mut first).now_or_never().is_none());

    lent.bring_back();
    // Neither the next in turn nor who comes now is faster than the first.
    assert!((&mut second).now_or_never().is_none());
    let third = waiting(&pool);
    let lent = first.await.unwrap();
    assert_eq!(lent.id(), id);
    assert!((&mut second).now_or_never().is_none());
    lent.bring_back();
    let lent = second.await.unwrap();
    assert_eq!(lent.id(), id);
    lent.bring_back();
    assert_eq!(third.await.unwrap().id(), id);
    assert!(!pool.long.waiting.any());
}

#[tokio::test]
async fn an_upload_that_leaves_takes_no_connection_with_it() {
    let (pool, _origin) = pool().await;
    let lent = primed(&pool, Duration::from_hours(1)).await;
    let id = lent.id();
    let first = waiting(&pool);
    let second = waiting(&pool);
    lent.bring_back();
    drop(first);
    assert_eq!(second.await.unwrap().id(), id);
}

#[tokio::test]
async fn nobody_waits_for_what_will_not_come_back() {
    let (pool, _origin) = pool().await;
    // None is primed.
    let cold = pool.take(Wanted::Primed(MIB)).await.unwrap();
    assert!(!cold.reused);
    // The last one that is ends.
    let lent = primed(&pool, Duration::from_hours(1)).await;
    let upload = waiting(&pool);
    lent.close("it broke");
    assert!(!upload.await.unwrap().reused);
    // The time in which a new one gets as far is over.
    let lent = primed(&pool, Duration::ZERO).await;
    assert!(pool.take(Wanted::Primed(MIB)).await.unwrap().id() != lent.id());
}

#[tokio::test]
async fn a_clients_download_finds_the_connection_of_the_one_before() {
    let (pool, _origin) = pool().await;
    let (mut rested, mut lent) = (
        pool.take_new().await.unwrap(),
        pool.take_new().await.unwrap(),
    );
    let (mut gone, mut client) = (None, None);
    rested.remember(&mut gone);
    lent.remember(&mut client);
    let (other, kept) = (rested.id(), lent.id());
    drop(gone);
    rested.bring_back();
    lent.bring_back();
    // Another client gets the one that nobody comes back for, although it has rested longer.
    let taken = pool.take(Wanted::Download(None)).await.unwrap();
    assert_eq!(taken.id(), other);
    let named = client.as_ref().map(Before::id);
    let again = pool.take(Wanted::Download(named)).await.unwrap();
    assert_eq!(again.id(), kept);
    again.bring_back();
    // Where there is no other, a kept one serves, and once its client has gone, anybody.
    let lent = pool.take(Wanted::Download(None)).await.unwrap();
    assert_eq!(lent.id(), kept);
    lent.bring_back();
    taken.bring_back();
    drop(client);
    let youngest = pool.take(Wanted::Download(None)).await.unwrap();
    assert_eq!(youngest.id(), other);
}
