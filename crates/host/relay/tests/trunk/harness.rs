//! Ends on loopback, and a WAN between them.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use longhaul_relay::Event;
use longhaul_relay::trunk::{
    FarOptions, Inherited, ListenerOptions, NearOptions, SecurityOptions, StreamDone, TrunkConfig,
    TrunkError, TrunkEvent, TrunkOptions, TrunkOrder, run,
};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Longer than any test here takes on a busy machine; only a hang meets it.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("the test hangs")
}

/// A running end; gone with the test.
pub(crate) struct End {
    /// Where clients come in, for a near end, or near ends, for a far one.
    pub(crate) address: SocketAddr,
    events: mpsc::UnboundedReceiver<Event>,
    pub(crate) orders: mpsc::Sender<TrunkOrder>,
    task: JoinHandle<Result<(), TrunkError>>,
}

pub(crate) fn plain() -> SecurityOptions {
    SecurityOptions {
        plain: Some(true),
        ..SecurityOptions::default()
    }
}

pub(crate) fn near(
    via: &[SocketAddr],
    to: impl std::fmt::Display,
    security: SecurityOptions,
) -> NearOptions {
    NearOptions {
        name: Some("near".into()),
        via: via.iter().map(ToString::to_string).collect(),
        listeners: vec![ListenerOptions {
            listen: "127.0.0.1:0".into(),
            to: to.to_string(),
            allow: Vec::new(),
        }],
        security,
        ..NearOptions::default()
    }
}

pub(crate) fn far(listen: &str, security: SecurityOptions) -> FarOptions {
    FarOptions {
        name: Some("far".into()),
        listen: listen.into(),
        allow_targets: vec!["127.0.0.0/8:1024-65535".into()],
        security,
        ..FarOptions::default()
    }
}

impl End {
    pub(crate) async fn near(options: NearOptions) -> Self {
        let config = TrunkOptions::near(options).resolve().unwrap();
        Self::start(config, Inherited::default()).await
    }

    pub(crate) async fn far(options: FarOptions) -> Self {
        let config = TrunkOptions::far(options).resolve().unwrap();
        Self::start(config, Inherited::default()).await
    }

    pub(crate) async fn start(config: TrunkConfig, inherited: Inherited) -> Self {
        let (sender, mut events) = mpsc::unbounded_channel();
        let (orders, given) = mpsc::channel(1);
        let tell = move |event| drop(sender.send(event));
        let task = tokio::spawn(run(config, inherited, tell, given));
        let address = loop {
            let Event::Trunk(event) = events.recv().await.expect("the end starts") else {
                continue;
            };
            match *event {
                TrunkEvent::TrunkListening { address, .. }
                | TrunkEvent::FarListening { address, .. } => break address,
                _ => {}
            }
        };
        Self {
            address,
            events,
            orders,
            task,
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The next event for which `select` has an answer; the others are skipped.
    pub(crate) async fn event<T>(&mut self, mut select: impl FnMut(&Event) -> Option<T>) -> T {
        loop {
            let event = self.events.recv().await.expect("the end runs");
            if let Some(answer) = select(&event) {
                return answer;
            }
        }
    }

    /// The next trunk event for which `select` has an answer.
    pub(crate) async fn trunk<T>(&mut self, mut select: impl FnMut(&TrunkEvent) -> Option<T>) -> T {
        self.event(|event| match event {
            Event::Trunk(event) => select(event),
            _ => None,
        })
        .await
    }

    /// The next receipt.
    pub(crate) async fn done(&mut self) -> StreamDone {
        self.trunk(|event| match event {
            TrunkEvent::StreamDone(done) => Some((**done).clone()),
            _ => None,
        })
        .await
    }

    /// Stops in order, and returns the events that were not looked at.
    pub(crate) async fn stopped(mut self) -> Vec<Event> {
        // One that has ended by itself takes no order.
        let _ = self.orders.send(TrunkOrder::Stop).await;
        self.task.await.unwrap().unwrap();
        let mut rest = Vec::new();
        while let Some(event) = self.events.recv().await {
            rest.push(event);
        }
        rest
    }
}

/// A target that gives back all it gets, and ends when its client does.
pub(crate) async fn echo() -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                // Tests that cut a stream off leave an error here, which is theirs to see.
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }
    });
    address
}

/// A WAN of one hop that can be cut: connections through it end with a reset, and while it is down, new ones
/// are reset at once.
pub(crate) struct Wan {
    pub(crate) address: SocketAddr,
    up: watch::Sender<bool>,
}

impl Wan {
    pub(crate) async fn to(far: SocketAddr) -> Self {
        let (listener, address) = listen().await;
        let up = watch::Sender::new(true);
        let state = up.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let mut watch = state.subscribe();
                tokio::spawn(async move {
                    if !*watch.borrow_and_update() {
                        let _ = near.set_zero_linger();
                        return;
                    }
                    let mut near = near;
                    let mut far = TcpStream::connect(far).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = watch.changed() => {
                            let _ = near.set_zero_linger();
                            let _ = far.set_zero_linger();
                        }
                    }
                });
            }
        });
        Self { address, up }
    }

    /// Ends all connections. New ones go through where `up`.
    pub(crate) fn cut(&self, up: bool) {
        self.up.send_replace(up);
    }
}

pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Sends `bytes` and reads until the end, at the same time; the SHA-256 of what came.
pub(crate) async fn round_trip(stream: TcpStream, bytes: &[u8]) -> String {
    let (mut read, mut write) = stream.into_split();
    let bytes = bytes.to_vec();
    let writing = tokio::spawn(async move {
        write.write_all(&bytes).await.unwrap();
        write.shutdown().await.unwrap();
    });
    let mut came = Vec::new();
    read.read_to_end(&mut came).await.unwrap();
    writing.await.unwrap();
    sha256(&came)
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// `length` bytes without a pattern that a shift could hide, other ones for each seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (seed << 17);
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}
