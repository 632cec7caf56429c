//! A relay on loopback, raw clients, scripted origins and a real one.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use longhaul_relay::{Config, ConnectionDone, Event, HttpOptions, Order, RunError};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// Longer than any test here takes on a busy machine; only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("the test hangs")
}

pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    events: mpsc::UnboundedReceiver<Event>,
    orders: mpsc::Sender<Order>,
    task: JoinHandle<Result<(), RunError>>,
}

/// Options for a relay to `target` that makes no connection before it is asked.
pub(crate) fn plain(target: SocketAddr) -> HttpOptions {
    let mut options = primed(target);
    options.pool.min_idle = Some(0);
    options.prime.enabled = Some(false);
    options
}

/// Options for a relay with the default pool.
pub(crate) fn primed(target: SocketAddr) -> HttpOptions {
    HttpOptions {
        listen: "127.0.0.1:0".into(),
        target: target.to_string(),
        ..HttpOptions::default()
    }
}

/// Whether this kernel halves a window for each retransmission timeout (200 ms on loopback) of silence,
/// as it does by default. A process that waits that long for a processor finds its connections cooled.
pub(crate) fn kernel_forgets_windows() -> bool {
    let setting = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
    std::fs::read_to_string(setting).unwrap().trim() == "1"
}

impl Relay {
    pub(crate) async fn start(options: HttpOptions) -> Self {
        Self::start_with(Config::http(options).unwrap()).await
    }

    pub(crate) async fn start_with(config: Config) -> Self {
        Self::start_on(Vec::new(), config).await
    }

    /// With listening sockets that another process has opened.
    pub(crate) async fn start_on(sockets: Vec<std::net::TcpListener>, config: Config) -> Self {
        let (sender, mut events) = mpsc::unbounded_channel();
        let (orders, given) = mpsc::channel(1);
        let task = tokio::spawn(longhaul_relay::run(
            config,
            sockets,
            move |event| drop(sender.send(event)),
            given,
        ));
        let address = loop {
            match events.recv().await.expect("the relay starts") {
                Event::Listening { address, .. } => break address,
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

    /// What a new client meets whom the relay ends by itself: it works on threads of its own, so that the reset may
    /// come before the client has looked whether it is connected.
    pub(crate) async fn end_of_newcomer(&self) -> std::io::Result<u8> {
        let mut client = TcpStream::connect(self.address).await?;
        within(client.read_u8()).await
    }

    /// The next event for which `select` has an answer; the others are skipped.
    pub(crate) async fn event<T>(&mut self, mut select: impl FnMut(&Event) -> Option<T>) -> T {
        loop {
            let event = self.events.recv().await.expect("the relay runs");
            if let Some(answer) = select(&event) {
                return answer;
            }
        }
    }

    /// The next finished request.
    pub(crate) async fn request_done(&mut self) -> Event {
        self.event(|event| matches!(event, Event::RequestDone { .. }).then(|| event.clone()))
            .await
    }

    /// The next connection that is over.
    pub(crate) async fn connection_done(&mut self) -> ConnectionDone {
        let done = self.event(|event| match event {
            Event::ConnectionDone(done) => Some((**done).clone()),
            _ => None,
        });
        within(done).await
    }

    /// Returns the event that says what became of it.
    pub(crate) async fn reload(&mut self, config: Config) -> Event {
        let order = Order::Reload(Box::new(config));
        self.orders.send(order).await.unwrap();
        self.event(|event| {
            let told = matches!(event, Event::Reloaded { .. } | Event::ReloadFailed { .. });
            told.then(|| event.clone())
        })
        .await
    }

    /// Copies of its listening sockets.
    pub(crate) async fn listeners(&self) -> Vec<std::net::TcpListener> {
        let (reply, listeners) = tokio::sync::oneshot::channel();
        self.orders.send(Order::Listeners(reply)).await.unwrap();
        let listeners = listeners.await.unwrap();
        listeners.into_iter().map(Into::into).collect()
    }

    pub(crate) fn order_stop(&mut self) {
        self.orders.try_send(Order::Stop).unwrap();
    }

    /// Waits for the end and returns the events that were not looked at.
    pub(crate) async fn stopped(mut self) -> Vec<Event> {
        // Ordered already where nobody takes another.
        let _ = self.orders.try_send(Order::Stop);
        self.task.await.unwrap().unwrap();
        let mut rest = Vec::new();
        while let Some(event) = self.events.recv().await {
            rest.push(event);
        }
        rest
    }
}

/// Reads up to and with the empty line after a head.
pub(crate) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a complete head"));
    }
    String::from_utf8(head).unwrap()
}

pub(crate) async fn read_exactly(stream: &mut (impl AsyncRead + Unpin), count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes
}

pub(crate) async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// Sends a request on a new connection and returns all that comes back.
pub(crate) async fn once(relay: &Relay, request: &[u8]) -> String {
    let mut client = relay.connect().await;
    client.write_all(request).await.unwrap();
    String::from_utf8_lossy(&read_to_end(&mut client).await).into_owned()
}

/// An address where nobody listens, for as long as the socket is kept. A listener that was dropped may live on for a
/// moment in a process that another test starts, and its port may be given to somebody else.
pub(crate) fn nobody() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Ends listening, also for the copy that a process holds which another test is starting.
pub(crate) fn close(listener: TcpListener) {
    rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
    drop(listener);
}

pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    listen_on(TcpSocket::new_v4().unwrap())
}

/// Receive buffers of a fixed size, as large as every kernel grants. Windows open with the bytes that arrive, as far as the buffer
/// reaches; those that the kernel sizes open only as fast as it sees the reader keep up, which on a busy machine may be never.
pub(crate) fn listen_with_room() -> (TcpListener, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(212_992).unwrap();
    listen_on(socket)
}

fn listen_on(socket: TcpSocket) -> (TcpListener, SocketAddr) {
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    // A relay connects faster than a busy test accepts; of more than 128, the default, the kernel would drop some.
    let listener = socket.listen(1024).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
}

/// `length` bytes without a pattern that a shift could hide.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

/// An origin made of hyper: answers `POST` with the digest of what it got, `GET /N` with N bytes of
/// [`noise`], everything else with nothing.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicU64>,
    pub(crate) requests: Arc<AtomicU64>,
}

impl Origin {
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    /// One that speaks TLS where there is an acceptor.
    pub(crate) async fn start_with(acceptor: Option<TlsAcceptor>) -> Self {
        Self::start_on(listen().await, acceptor)
    }

    pub(crate) fn start_on(
        (listener, address): (TcpListener, SocketAddr),
        acceptor: Option<TlsAcceptor>,
    ) -> Self {
        let origin = Self {
            address,
            connections: Arc::default(),
            requests: Arc::default(),
        };
        let (connections, requests) = (origin.connections.clone(), origin.requests.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                let requests = requests.clone();
                let service = service_fn(move |request| {
                    requests.fetch_add(1, Ordering::Relaxed);
                    answer(request)
                });
                let http = hyper::server::conn::http1::Builder::new();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    match acceptor {
                        None => http.serve_connection(TokioIo::new(stream), service).await,
                        Some(acceptor) => match acceptor.accept(stream).await {
                            Ok(stream) => {
                                http.serve_connection(TokioIo::new(stream), service).await
                            }
                            Err(_) => return,
                        },
                    }
                    .unwrap_or_default();
                });
            }
        });
        origin
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let answer = match method.as_str() {
        "POST" => Bytes::from(digest(&body)),
        "GET" => Bytes::from(noise(path.trim_start_matches('/').parse().unwrap())),
        _ => Bytes::new(),
    };
    Ok(Response::new(Full::new(answer)))
}
