//! As many connections as a process may have descriptors for. The relay runs in a process of its own, this
//! program once more, because each end needs as many: no harness, so that `main` can be either.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and this one prints for itself"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use longhaul_relay::{Config, Event, Order, TcpOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Barrier, Semaphore, mpsc};
use tokio::task::JoinSet;

/// Two descriptors for each, of 20,000.
const CONNECTIONS: usize = 9_000;

/// Connections being made at the same time: fewer than listeners let wait.
const ARRIVING: usize = 200;

/// Bytes of each, unlike those of any other.
const LENGTH: usize = 3_000;

/// Longer than this takes on a busy machine; only a hang meets it.
const PATIENCE: Duration = Duration::from_mins(3);

fn main() {
    let wanted = Rlimit {
        current: Some(20_000),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, wanted).expect("this test needs 20,000 descriptors (`ulimit -Hn`)");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match arguments.as_slice() {
        [role, target] if role == "as-relay" => runtime.block_on(relay(target)),
        _ if arguments.iter().any(|argument| argument == "--list") => {}
        _ => {
            let test = async { tokio::time::timeout(PATIENCE, nine_thousand_at_once()).await };
            runtime.block_on(test).expect("the test hangs");
            println!("test nine_thousand_connections_at_once_keep_their_bytes_apart ... ok");
        }
    }
}

/// Relays to `target` until standard input ends; prints its address first.
async fn relay(target: &str) {
    let options = TcpOptions {
        listen: "127.0.0.1:0".into(),
        target: target.into(),
        ..TcpOptions::default()
    };
    let (orders, given) = mpsc::channel(1);
    std::thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        orders.blocking_send(Order::Stop).unwrap();
    });
    let say = |event| {
        if let Event::Listening { address, .. } = event {
            println!("{address}");
            std::io::stdout().flush().unwrap();
        }
    };
    let config = Config::tcp(options).unwrap();
    longhaul_relay::run(config, Vec::new(), say, given)
        .await
        .unwrap();
}

async fn nine_thousand_at_once() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    // By default 128 may wait: the kernel would drop some of those who arrive together.
    let listener = socket.listen(1024).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["as-relay", &listener.local_addr().unwrap().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let address: SocketAddr = line.trim().parse().expect("the relay says where it is");

    let serving = tokio::spawn(serve(listener));
    let everybody = Arc::new(Barrier::new(CONNECTIONS));
    let arriving = Arc::new(Semaphore::new(ARRIVING));
    let mut clients = JoinSet::new();
    for number in 0..CONNECTIONS {
        let (everybody, arriving) = (Arc::clone(&everybody), Arc::clone(&arriving));
        clients.spawn(async move {
            let mut stream = {
                let _turn = arriving.acquire().await.unwrap();
                let mut stream = TcpStream::connect(address).await.unwrap();
                // Through the relay and back, so that both of its sides are open.
                stream.write_u8(1).await.unwrap();
                assert_eq!(stream.read_u8().await.unwrap(), 1);
                stream
            };
            everybody.wait().await;
            let bytes = bytes_of(number);
            stream.write_all(&bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut digest = Vec::new();
            stream.read_to_end(&mut digest).await.unwrap();
            assert_eq!(
                digest,
                Sha256::digest(&bytes).to_vec(),
                "connection {number}"
            );
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    serving.abort();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// Answers each connection's first byte with the same, and the rest with its digest.
async fn serve(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let first = stream.read_u8().await.unwrap();
            stream.write_u8(first).await.unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.unwrap();
            stream.write_all(&Sha256::digest(&bytes)).await.unwrap();
        });
    }
}

fn bytes_of(number: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(LENGTH).collect()
}
