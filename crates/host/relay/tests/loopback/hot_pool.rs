use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul_relay::{Event, Missing};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt};
use units::{Bytes, Span};

use crate::harness::{
    Origin, Relay, digest, kernel_forgets_windows, listen, noise, once, primed, read_exactly,
    read_head, within,
};

#[tokio::test]
async fn a_pool_is_hot_before_the_first_request_and_counts_what_that_took() {
    within(async {
        let origin = Origin::start().await;
        let mut options = primed(origin.address);
        options.prime.window = Some(Bytes::kib(512));
        let mut relay = Relay::start(options).await;
        let mut sent = (0, 0);
        for _ in 0..2 {
            let primed = relay
                .event(|event| match event {
                    Event::Primed {
                        requests,
                        bytes,
                        cwnd_bytes,
                        peer_window_bytes,
                        missing,
                        statuses,
                        again,
                        ..
                    } => {
                        assert!(!again && missing.is_empty(), "{event:?}");
                        assert!(
                            *cwnd_bytes >= 15 * 32 * 1024
                                && *peer_window_bytes >= Some(15 * 32 * 1024)
                        );
                        assert_eq!(statuses.values().sum::<u64>(), *requests);
                        Some((*requests, *bytes))
                    }
                    _ => None,
                })
                .await;
            sent = (sent.0 + primed.0, sent.1 + primed.1);
        }
        let ready = relay
            .event(|event| match event {
                Event::PoolReady {
                    connections,
                    hot,
                    requests,
                    bytes,
                    ..
                } => Some((*connections, *hot, *requests, *bytes)),
                _ => None,
            })
            .await;
        let (connections, hot, requests, bytes) = ready;
        assert_eq!((connections, requests, bytes), (2, sent.0, sent.1));
        assert!(hot == 2 || kernel_forgets_windows(), "{hot}");
        assert_eq!(origin.requests.load(Ordering::Relaxed), sent.0);
        assert_eq!(sent.1 % sent.0, 0, "requests of one length");

        let body = noise(102_400);
        let head =
            "POST / HTTP/1.1\r\nHost: o\r\nConnection: close\r\nContent-Length: 102400\r\n\r\n";
        let answer = once(&relay, &[head.as_bytes(), &body].concat()).await;
        assert!(answer.ends_with(&digest(&body)));
        let Event::RequestDone { hot, .. } = relay.request_done().await else {
            unreachable!("request_done returns nothing else");
        };
        assert!(hot || kernel_forgets_windows());
        assert_eq!(origin.connections.load(Ordering::Relaxed), 2);
    })
    .await;
}

#[tokio::test]
async fn a_budget_that_ends_first_is_told_with_the_window_that_is_missing() {
    within(async {
        let origin = Origin::start().await;
        let mut options = primed(origin.address);
        options.prime.window = Some(Bytes::mib(64));
        options.prime.max_requests = Some(40);
        options.pool.min_idle = Some(1);
        let mut relay = Relay::start(options).await;
        let (requests, missing) = relay
            .event(|event| match event {
                Event::Primed {
                    requests, missing, ..
                } => Some((*requests, missing.clone())),
                _ => None,
            })
            .await;
        assert_eq!(requests, 40);
        assert_eq!(missing, [Missing::Cwnd, Missing::PeerWindow]);
        let ready = relay
            .event(|event| match event {
                Event::PoolReady {
                    connections, hot, ..
                } => Some((*connections, *hot)),
                _ => None,
            })
            .await;
        assert_eq!(ready, (1, 0));
    })
    .await;
}

#[tokio::test]
async fn an_origin_that_ends_primed_connections_is_served_without_priming() {
    within(async {
        let (listener, target) = listen().await;
        let mut options = primed(target);
        options.pool.min_idle = Some(1);
        let mut relay = Relay::start(options).await;
        let (mut first, _) = listener.accept().await.unwrap();
        read_head(&mut first).await;
        first
            .write_all(
                b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            )
            .await
            .unwrap();
        let why = relay
            .event(|event| match event {
                Event::PrimingFailed { why, .. } => Some(why.clone()),
                _ => None,
            })
            .await;
        assert!(why.contains("connections serve unprimed"), "{why}");
        drop(first);

        let (mut second, _) = listener.accept().await.unwrap();
        relay
            .event(|event| matches!(event, Event::PoolReady { hot: 0, .. }).then_some(()))
            .await;
        let mut client = relay.connect().await;
        let get = b"GET / HTTP/1.1\r\nHost: o\r\n\r\n";
        client.write_all(get).await.unwrap();
        assert_eq!(read_exactly(&mut second, get.len()).await, get);
        second
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .await
            .unwrap();
        assert!(read_head(&mut client).await.starts_with("HTTP/1.1 204"));
        let Event::RequestDone { hot, hot_ratio, .. } = relay.request_done().await else {
            unreachable!("request_done returns nothing else");
        };
        assert!(!hot && hot_ratio == 0.0);
    })
    .await;
}

#[tokio::test]
async fn a_resting_connection_is_kept_by_one_small_request() {
    within(async {
        let origin = Origin::start().await;
        let mut options = primed(origin.address);
        options.pool.min_idle = Some(1);
        options.prime.window = Some(Bytes::kib(64));
        // No re-priming, whatever the kernel forgets: only the small request is left.
        options.prime.hourly_bytes = Some(Bytes::ZERO);
        // A standstill of three seconds still leaves a look between half of it and all.
        options.pool.idle_timeout = Some(Span::from(Duration::from_secs(8)));
        let mut relay = Relay::start(options).await;
        let primed = relay
            .event(|event| match event {
                Event::PoolReady { requests, .. } => Some(*requests),
                _ => None,
            })
            .await;
        while origin.requests.load(Ordering::Relaxed) < primed + 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let rest = relay.stopped().await;
        let closed = rest
            .iter()
            .filter(|event| matches!(event, Event::Closed { .. }))
            .count();
        assert_eq!(closed, 1, "only by stopping: {rest:?}");
        assert_eq!(origin.connections.load(Ordering::Relaxed), 1);
    })
    .await;
}

/// A look once a second sees requests that follow each other as one long shortage, and the connection that it
/// then primes takes the path from them.
#[tokio::test]
async fn requests_one_after_the_other_need_no_further_connection_and_one_that_lasts_does() {
    let (apart, lasting) = tokio::join!(
        within(connections_after(vec![Duration::from_millis(300); 15])),
        within(connections_after(vec![Duration::from_millis(4_500)])),
    );
    assert_eq!((apart, lasting), (1, 2));
}

/// How many connections a pool of one has made when requests that take so long have been answered.
async fn connections_after(spans: Vec<Duration>) -> usize {
    let (listener, target) = listen().await;
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let requests = spans.len();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
            let spans = spans.clone();
            tokio::spawn(async move {
                for span in spans {
                    read_head(&mut stream).await;
                    tokio::time::sleep(span).await;
                    let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
                    stream.write_all(answer).await.unwrap();
                }
            });
        }
    });
    let mut options = primed(target);
    options.pool.min_idle = Some(1);
    options.prime.enabled = Some(false);
    let mut relay = Relay::start(options).await;
    relay
        .event(|event| matches!(event, Event::PoolReady { .. }).then_some(()))
        .await;
    let mut client = relay.connect().await;
    for _ in 0..requests {
        let get = b"GET / HTTP/1.1\r\nHost: o\r\n\r\n";
        client.write_all(get).await.unwrap();
        assert!(read_head(&mut client).await.starts_with("HTTP/1.1 204"));
    }
    made.load(Ordering::Relaxed)
}

#[tokio::test]
async fn priming_gives_its_connection_to_a_request_that_waits_for_it() {
    within(async {
        let origin = Origin::start().await;
        let mut options = primed(origin.address);
        // Room for one connection, and a priming that would last for an hour.
        options.pool.min_idle = Some(1);
        options.pool.max_connections = Some(1);
        options.prime.window = Some(Bytes::mib(64));
        options.prime.max_bytes = Some(Bytes::new(u64::MAX));
        options.prime.max_requests = Some(u64::MAX / 1_000_000);
        options.prime.max_time = Some(Span::from(Duration::from_hours(1)));
        let mut relay = Relay::start(options).await;
        relay
            .event(|event| matches!(event, Event::Connected { .. }).then_some(()))
            .await;
        let post =
            b"POST / HTTP/1.1\r\nHost: o\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
        let answer = once(&relay, post).await;
        assert!(answer.ends_with(&digest(b"hi")), "{answer}");
        assert_eq!(origin.connections.load(Ordering::Relaxed), 1);
    })
    .await;
}

/// nginx ends a connection after 1000 requests by default, which is fewer than priming would send.
#[tokio::test]
async fn an_origin_that_ends_connections_after_some_requests_is_primed_with_fewer() {
    within(async {
        const LIMIT: usize = 40;
        let (listener, target) = listen().await;
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    for _ in 1..LIMIT {
                        read_head(&mut stream).await;
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                        stream.write_all(answer).await.unwrap();
                    }
                    read_head(&mut stream).await;
                    let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
                    stream.write_all(last).await.unwrap();
                    // As nginx does: closed with requests unread, the kernel would send a reset, which may
                    // overtake answers that were sent before.
                    stream.shutdown().await.unwrap();
                    while stream
                        .read(&mut [0; 4096])
                        .await
                        .is_ok_and(|count| count > 0)
                    {}
                });
            }
        });
        let mut options = primed(target);
        options.prime.window = Some(Bytes::mib(64));
        let mut relay = Relay::start(options).await;
        let why = relay
            .event(|event| match event {
                Event::PrimingFailed { why, .. } => Some(why.clone()),
                _ => None,
            })
            .await;
        assert!(why.contains("primed with 27 requests"), "{why}");
        for _ in 0..2 {
            let requests = relay
                .event(|event| match event {
                    Event::Primed { requests, .. } => Some(*requests),
                    Event::PrimingFailed { .. } => panic!("{event:?}"),
                    _ => None,
                })
                .await;
            assert_eq!(requests, 27);
        }
        relay
            .event(|event| matches!(event, Event::PoolReady { connections: 2, .. }).then_some(()))
            .await;
        let get = b"GET / HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n";
        assert!(once(&relay, get).await.starts_with("HTTP/1.1 200 OK"));
    })
    .await;
}
