//! Objects while they are under way: how far they have come, how large they may get, and of which version they are.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{CLIENT, Site, content, gateway, library, presigned_put, raw};
use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutPayload};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

const OBJECT: usize = 300_000;
/// What has to be at the origin while the rest is still with the client: less than what the client has sent by one
/// piece, which waits for what is checked at the end.
const ON_ITS_WAY: usize = 64 << 10;

/// An origin that takes one object; tells when some of its bytes are here, and answers when all are.
async fn origin_that_watches() -> (SocketAddr, oneshot::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        let head = loop {
            stream.read_buf(&mut got).await.unwrap();
            if let Some(at) = got.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let text = String::from_utf8_lossy(&got[..head]).to_lowercase();
        let length = text.split("content-length: ").nth(1).unwrap();
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        let mut tell = Some(tell);
        while got.len() < head + length {
            if got.len() >= head + ON_ITS_WAY
                && let Some(tell) = tell.take()
            {
                tell.send(()).unwrap();
            }
            stream.read_buf(&mut got).await.unwrap();
        }
        let answer = "HTTP/1.1 200 OK\r\netag: \"tag\"\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        // Open until the gateway has read it.
        let _ = stream.read_buf(&mut got).await;
    });
    (address, told)
}

#[tokio::test]
async fn bytes_leave_for_the_origin_while_they_still_arrive() {
    for bucket in ["lab", "secret"] {
        let (origin, some_arrived) = origin_that_watches().await;
        let gateway = gateway(origin, "new", true).await;
        let object = content(OBJECT);
        let (first, rest) = object.split_at(OBJECT / 3 * 2);
        let head = presigned_put(gateway, bucket).await;
        let head = format!("{head}connection: close\r\ncontent-length: {OBJECT}\r\n\r\n");
        let mut stream = TcpStream::connect(gateway).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(first).await.unwrap();
        // A gateway that waited for the rest would wait for ever.
        let arrived = tokio::time::timeout(Duration::from_mins(1), some_arrived).await;
        arrived.unwrap().unwrap();
        stream.write_all(rest).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[tokio::test]
async fn an_object_above_the_limit_is_refused_and_leaves_nothing() {
    const ABOVE: usize = (48 << 20) + 1;
    let mut site = Site::start().await;
    let head = presigned_put(site.gateway, "lab").await;
    // Announced, and refused before it is sent.
    let request = format!("{head}connection: close\r\ncontent-length: {ABOVE}\r\n\r\n");
    let answer = raw(site.gateway, request.as_bytes()).await;
    assert!(answer.contains("<Code>EntityTooLarge"), "{answer}");
    // A form's file has no length of its own: it is counted while it arrives.
    let before =
        "--frontier\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    let after = "\r\n--frontier--\r\n";
    let length = before.len() + ABOVE + after.len();
    let head = format!(
        "POST /upload/files HTTP/1.1\r\nhost: {}\r\n\
         content-type: multipart/form-data; boundary=frontier\r\ncontent-length: {length}\r\n\r\n{before}",
        site.gateway
    );
    let (mut answers, mut form) = TcpStream::connect(site.gateway).await.unwrap().into_split();
    let sending = tokio::spawn(async move {
        // Refused in the middle; the gateway need not take the rest.
        let _ = form.write_all(head.as_bytes()).await;
        let _ = form.write_all(&vec![7; ABOVE]).await;
        let _ = form.write_all(after.as_bytes()).await;
        form
    });
    let mut answer = String::new();
    while !answer.ends_with('}') {
        let mut piece = Vec::new();
        assert_ne!(answers.read_buf(&mut piece).await.unwrap(), 0, "{answer}");
        answer.push_str(&String::from_utf8_lossy(&piece));
    }
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("exceeds the maximum"), "{answer}");
    drop(answers);
    drop(sending.await.unwrap());
    assert!(site.stored.try_recv().is_err());
    assert_eq!(site.origin_state.open_uploads(), 0);
}

/// What becomes of a connection.
enum Fate {
    Lives,
    /// It carries so many bytes of answers, and stands still.
    Stops(u64),
    /// It carries so many bytes of answers, and ends.
    Ends(u64),
    /// Its first request is refused, and it ends.
    Refuses,
}

/// In front of `origin`, with the fate of each connection by its number.
async fn way(origin: SocketAddr, fate: fn(usize) -> Fate) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for number in 0.. {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(origin).await.unwrap();
            tokio::spawn(async move {
                let (mut asks, mut answers) = client.into_split();
                let (from, mut to) = server.into_split();
                let (most, ends) = match fate(number) {
                    Fate::Lives => (u64::MAX, false),
                    Fate::Stops(most) => (most, false),
                    Fate::Ends(most) => (most, true),
                    Fate::Refuses => {
                        let _ = asks.read_buf(&mut Vec::new()).await;
                        let answer = "HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n";
                        let _ = answers.write_all(answer.as_bytes()).await;
                        return;
                    }
                };
                let asking = tokio::spawn(async move { tokio::io::copy(&mut asks, &mut to).await });
                let _ = tokio::io::copy(&mut from.take(most), &mut answers).await;
                if ends {
                    asking.abort();
                }
                // Open until the gateway closes it.
                let _ = asking.await;
            });
        }
    });
    address
}

#[tokio::test]
async fn a_connection_that_stands_still_is_relieved_of_its_range() {
    const LENGTH: usize = 40 << 20;
    let site = Site::start().await;
    let key = Path::from("k");
    let object = content(LENGTH);
    for (bucket, at_the_origin) in [("lab", "lab"), ("secret", "sealed")] {
        let payload = PutPayload::from_bytes(object.clone());
        site.client(bucket).put(&key, payload).await.unwrap();
        let stored = site.owner(at_the_origin).head(&key).await.unwrap();
        assert!(stored.size >= LENGTH as u64);
        let way = way(site.origin, |number| match number {
            1 => Fate::Stops(600_000),
            _ => Fate::Lives,
        });
        let gateway = gateway(way.await, "new", true).await;
        // Without relief the gateway gives up after `limits.stall`.
        let got = library(gateway, bucket, CLIENT).get(&key).await.unwrap();
        assert!(got.bytes().await.unwrap() == object, "{bucket}");
    }
}

#[tokio::test]
async fn where_connections_break_others_bring_the_rest_and_where_all_do_the_client_hears_it() {
    const LENGTH: usize = 20 << 20;
    let site = Site::start().await;
    let key = Path::from("k");
    let object = content(LENGTH);
    for bucket in ["lab", "secret"] {
        let payload = PutPayload::from_bytes(object.clone());
        site.client(bucket).put(&key, payload).await.unwrap();
        // As often as a range is asked for again.
        let some = way(site.origin, |number| match number {
            0 => Fate::Ends(200_000),
            1 => Fate::Ends(0),
            2 => Fate::Refuses,
            3 => Fate::Ends(300_000),
            _ => Fate::Lives,
        });
        let gateway = gateway(some.await, "new", true).await;
        let got = library(gateway, bucket, CLIENT).get(&key).await.unwrap();
        assert!(got.bytes().await.unwrap() == object, "{bucket}");
        let all = way(site.origin, |_| Fate::Ends(200_000));
        let gateway = self::gateway(all.await, "new", true).await;
        let got = library(gateway, bucket, CLIENT).get(&key).await.unwrap();
        assert!(got.bytes().await.is_err(), "{bucket}");
    }
}

#[tokio::test]
async fn an_object_that_is_replaced_while_it_is_read_is_never_mixed_with_its_successor() {
    // More than is read ahead and than sockets hold.
    const LENGTH: usize = 40 << 20;
    let site = Site::start().await;
    let key = Path::from("k");
    for bucket in ["lab", "secret"] {
        let client = library(site.gateway, bucket, CLIENT);
        let (old, new) = (content(LENGTH), vec![7; LENGTH]);
        let payload = PutPayload::from_bytes(old.clone());
        client.put(&key, payload).await.unwrap();
        let mut reading = client.get(&key).await.unwrap().into_stream();
        let mut got = reading.next().await.unwrap().unwrap().to_vec();
        client.put(&key, new.clone().into()).await.unwrap();
        // Read after write, beside the reader that began before it.
        let after = client.get(&key).await.unwrap();
        assert!(after.bytes().await.unwrap() == new, "{bucket}");
        let mut cut = false;
        while let Some(piece) = reading.next().await {
            match piece {
                Ok(piece) => got.extend_from_slice(&piece),
                Err(_) => cut = true,
            }
        }
        assert!(old.starts_with(&got), "{bucket}: {} bytes", got.len());
        assert!(cut || got.len() == LENGTH, "{bucket}: {} bytes", got.len());
    }
}

/// A way to an origin that takes 25 ms.
struct LongWay {
    address: SocketAddr,
    /// Requests of one version alone.
    conditional: watch::Sender<u64>,
    /// Whether other GETs wait for the first of those.
    holds: Arc<AtomicBool>,
}

impl LongWay {
    async fn to(origin: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let way = Self {
            address: listener.local_addr().unwrap(),
            conditional: watch::Sender::new(0),
            holds: Arc::default(),
        };
        let (conditional, holds) = (way.conditional.clone(), Arc::clone(&way.holds));
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let (mut asks, mut answers) = client.into_split();
                let server = TcpStream::connect(origin).await.unwrap();
                let (mut from, mut to) = server.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from, &mut answers).await });
                let (conditional, holds) = (conditional.clone(), Arc::clone(&holds));
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while asks.read_buf(&mut head).await.is_ok_and(|count| count > 0) {
                        tokio::time::sleep(Duration::from_millis(25)).await;
                        let text = String::from_utf8_lossy(&head);
                        if text.contains("if-match: ") {
                            conditional.send_modify(|count| *count += 1);
                        } else if text.starts_with("GET") && holds.load(Ordering::Relaxed) {
                            let mut conditional = conditional.subscribe();
                            conditional.wait_for(|&count| count > 0).await.unwrap();
                        }
                        to.write_all(&head).await.unwrap();
                        head.clear();
                    }
                });
            }
        });
        way
    }

    fn hold(&self) {
        self.conditional.send_replace(0);
        self.holds.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn what_is_known_is_asked_for_ahead_and_only_delivered_if_it_is_so_still() {
    const LENGTH: usize = 12 << 20;
    let site = Site::start().await;
    let key = Path::from("k");
    for bucket in ["lab", "secret"] {
        let (old, new) = (content(LENGTH), Bytes::from(vec![7; LENGTH]));
        let elsewhere = site.client(bucket);
        elsewhere.put(&key, old.clone().into()).await.unwrap();
        let way = LongWay::to(site.origin).await;
        let client = library(gateway(way.address, "new", true).await, bucket, CLIENT);
        let get = async || client.get(&key).await.unwrap().bytes().await.unwrap();
        // Nothing is known yet.
        assert!(get().await == old, "{bucket}");
        // Its first answer would never come if it were waited for.
        way.hold();
        assert!(get().await == old, "{bucket}");
        elsewhere.put(&key, new.clone().into()).await.unwrap();
        way.hold();
        assert!(get().await == new, "{bucket}: another version");
        way.hold();
        assert!(get().await == new, "{bucket}: known again");
    }
}
