//! Connections of clients.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{CONNECTION, HeaderValue};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use s3s::service::S3Service;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::config::Config;
use crate::event::Event;
use crate::front::{self, Events, Peer};
use crate::gateway::Gateway;

/// How long requests under way may take when the gateway ends.
const DRAIN: Duration = Duration::from_secs(30);
/// How long to leave the backlog alone when descriptors ran out: without a pause `accept` returns at once with
/// the same error.
const DESCRIPTOR_WAIT: Duration = Duration::from_millis(20);

/// A gateway that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    service: S3Service,
    events: Events,
    connections: Arc<Semaphore>,
    origin: String,
}

/// The gateway cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address is not this host's, or is in use.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Listens; nobody is served before [`Server::serve`]. `events` is called from the tasks that serve and must
    /// not block.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn bind(
        config: Config,
        events: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Self, ServerError> {
        let address = config.listen;
        let listen = |source| ServerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let events: Events = Arc::new(events);
        let gateway = Gateway::new(config.clone());
        Ok(Self {
            listener,
            address,
            service: front::service(&config, gateway, Arc::clone(&events)),
            events,
            connections: Arc::new(Semaphore::new(config.limits.connections)),
            origin: config.origin.authority,
        })
    }

    /// With the port that was really taken.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is ready; then finishes what is under way, within half a minute.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        (self.events)(Event::GatewayListening {
            address: self.address,
            origin: self.origin.clone(),
        });
        let graceful = GracefulShutdown::new();
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new());
        tokio::pin!(shutdown);
        loop {
            // Others wait in the listener's queue.
            let Ok(permit) = Arc::clone(&self.connections).acquire_owned().await else {
                break;
            };
            let (stream, peer) = tokio::select! {
                () = &mut shutdown => break,
                accepted = self.accept() => accepted,
            };
            let service = self.service.clone();
            let connection = http.serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| respond(service.clone(), peer, request)),
            );
            let connection = graceful.watch(connection);
            tokio::spawn(async move {
                // How a client's connection ends is the client's affair.
                let _ = connection.await;
                drop(permit);
            });
        }
        drop(self.listener);
        let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    }

    async fn accept(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Answers leave whole; where this fails they leave a little later.
                    let _ = stream.set_nodelay(true);
                    return (stream, peer);
                }
                Err(error) => {
                    (self.events)(Event::GatewayWarning {
                        name: "accept",
                        text: format!("a client's connection could not be accepted: {error}"),
                    });
                    tokio::time::sleep(DESCRIPTOR_WAIT).await;
                }
            }
        }
    }
}

/// Answers a request. Where the answer comes before the end of the request's body, the connection ends with it: the
/// client may not send the rest, and nobody could tell where its next request begins.
async fn respond(
    service: S3Service,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Result<s3s::HttpResponse, s3s::HttpError> {
    let ended = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let (head, body) = request.into_parts();
    let body = Watched {
        body,
        ended: Arc::clone(&ended),
    };
    let mut request = Request::from_parts(head, s3s::Body::http_body_unsync(body));
    request.extensions_mut().insert(Peer(peer));
    let mut response = service.call(request).await?;
    if !ended.load(Ordering::Relaxed) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    Ok(response)
}

/// A request's body, and whether all of it was read.
struct Watched {
    body: Incoming,
    ended: Arc<AtomicBool>,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.ended.store(true, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
