//! A client that reads nothing for a while: what is sent to it waits at its sender, not in the relay.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul_relay::{Config, TcpOptions};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Relay, digest, listen, noise, plain, read_exactly, read_head, within};
use crate::tls::{Site, both, connect};

const LENGTH: usize = 64 << 20;

/// What the kernel lets a socket's buffer grow to.
fn most(name: &str) -> usize {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
    text.split_whitespace()
        .next_back()
        .unwrap()
        .parse()
        .unwrap()
}

/// Two senders' buffers and the relay's receive buffer as the kernel grows them, 1 MiB of the relay's own, and the
/// client's, which does not grow since nobody reads from it.
fn bound() -> usize {
    let bound = 2 * most("tcp_wmem") + most("tcp_rmem") + (2 << 20);
    assert!(
        bound < LENGTH,
        "this kernel's buffers hold the whole stream"
    );
    bound
}

/// Writes [`LENGTH`] bytes and counts what its kernel has taken.
fn send(mut stream: impl AsyncWriteExt + Unpin + Send + 'static) -> Arc<AtomicUsize> {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    tokio::spawn(async move {
        let bytes = noise(LENGTH);
        for piece in bytes.chunks(64 << 10) {
            stream.write_all(piece).await.unwrap();
            counted.fetch_add(piece.len(), Ordering::Relaxed);
        }
        stream.shutdown().await.unwrap();
    });
    sent
}

/// What was sent once no more is taken. On a busy machine this may be said too early, which only makes the
/// number smaller.
async fn settled(sent: &AtomicUsize) -> usize {
    let mut last = usize::MAX;
    loop {
        let now = sent.load(Ordering::Relaxed);
        if now == last && now > 0 {
            return now;
        }
        last = now;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

#[tokio::test]
async fn a_byte_stream_waits_at_its_sender() {
    let (server, target) = listen().await;
    let options = TcpOptions {
        listen: "127.0.0.1:0".into(),
        target: target.to_string(),
        ..TcpOptions::default()
    };
    let relay = Relay::start_with(Config::tcp(options).unwrap()).await;
    let mut client = relay.connect().await;
    let sent = send(within(accept(&server)).await);
    let waiting = within(settled(&sent)).await;
    assert!(waiting < bound(), "{waiting} bytes are on their way");
    let got = within(read_exactly(&mut client, LENGTH)).await;
    assert_eq!(digest(&got), digest(&noise(LENGTH)));
}

#[tokio::test]
async fn so_does_a_tls_stream() {
    let site = Site::make();
    let (server, _) = listen().await;
    let relay = Relay::start_with(Config::tls(both(&site, &server)).unwrap()).await;
    let connector = site.connector();
    let (client, stream) = tokio::join!(connect(&relay, &connector), async {
        crate::tls::accept(&server, &site.acceptor()).await
    });
    let mut client = client;
    let sent = send(stream);
    let waiting = within(settled(&sent)).await;
    assert!(waiting < bound(), "{waiting} bytes are on their way");
    let got = within(read_exactly(&mut client, LENGTH)).await;
    assert_eq!(digest(&got), digest(&noise(LENGTH)));
}

#[tokio::test]
async fn and_so_does_a_response() {
    let (server, target) = listen().await;
    let relay = Relay::start(plain(target)).await;
    let mut client = relay.connect().await;
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let mut origin = within(accept(&server)).await;
    within(read_head(&mut origin)).await;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
    origin.write_all(head.as_bytes()).await.unwrap();
    let sent = send(origin);
    let waiting = within(settled(&sent)).await;
    assert!(waiting < bound(), "{waiting} bytes are on their way");
    within(read_head(&mut client)).await;
    let got = within(read_exactly(&mut client, LENGTH)).await;
    assert_eq!(digest(&got), digest(&noise(LENGTH)));
}
