//! Connections of clients.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::Request;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue};
use http_body_util::{BodyDataStream, StreamBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use profile::{Side, TcpProfile};
use s3s::service::S3Service;
use sys::socket::ApplyError;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::asked::posted_to;
use crate::config::Config;
use crate::encrypted;
use crate::event::Event;
use crate::form::{Posted, browser, report};
use crate::front::{self, Events, Peer, scope};
use crate::gateway::Gateway;
use crate::journal::{Journal, Left};
use crate::origin::ready;
use crate::rechunked::{chunking, rechunked};

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
    gateway: Gateway,
    /// Uploads that a crash has left.
    left: Vec<Left>,
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
    /// What clients on this host get cannot be put into effect.
    #[error("cannot prepare the listener on {address}")]
    Prepare {
        /// The address.
        address: SocketAddr,
        /// Which option it is.
        #[source]
        source: Box<ApplyError>,
    },
    /// Objects could not be encrypted.
    #[error("this host has no random bytes")]
    Random,
    /// The journal cannot be kept.
    #[error("cannot keep the journal `{}`", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
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
    /// When the address cannot be listened on, the journal cannot be kept, or this host has no random bytes.
    pub async fn bind(
        config: Config,
        events: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Self, ServerError> {
        let address = config.listen;
        let listen = |source| ServerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        if address.ip().is_loopback() {
            // Accepted sockets inherit it.
            sys::socket::apply(&listener, &on_this_host(), Side::Client, address).map_err(
                |source| ServerError::Prepare {
                    address,
                    source: Box::new(source),
                },
            )?;
        }
        // The first ones of a process take 40 ms (aws-lc gathers entropy), for which no request should wait.
        encrypted::random::<32>().map_err(|_| ServerError::Random)?;
        let events: Events = Arc::new(events);
        let (journal, left) = match &config.journal {
            None => (Journal::default(), Vec::new()),
            Some(path) => Journal::open(path).map_err(|source| ServerError::Journal {
                path: path.clone(),
                source,
            })?,
        };
        let gateway = Gateway::new(config.clone(), journal);
        Ok(Self {
            listener,
            address,
            service: front::service(&config, gateway.clone(), Arc::clone(&events)),
            gateway,
            left,
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
    pub async fn serve(mut self, shutdown: impl Future<Output = ()>) {
        (self.events)(Event::GatewayListening {
            address: self.address,
            origin: self.origin.clone(),
        });
        self.clean_up();
        let ready = self.gateway.config().keep_ready;
        let ready = ready.then(|| tokio::spawn(ready::keep(self.gateway.clone())));
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
            let door = Door {
                service: self.service.clone(),
                gateway: self.gateway.clone(),
                events: Arc::clone(&self.events),
                peer,
            };
            let connection = http.serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| door.clone().respond(request)),
            );
            let connection = graceful.watch(connection);
            tokio::spawn(async move {
                // How a client's connection ends is the client's affair.
                let _ = connection.await;
                drop(permit);
            });
        }
        drop(self.listener);
        if let Some(ready) = ready {
            ready.abort();
        }
        let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    }

    /// Gives up what a crash has left, beside what is served.
    fn clean_up(&mut self) {
        let left = std::mem::take(&mut self.left);
        if left.is_empty() {
            return;
        }
        let (gateway, events) = (self.gateway.clone(), Arc::clone(&self.events));
        tokio::spawn(async move {
            let uploads = left.len();
            let unheard = gateway.give_up(left).await;
            events(Event::GaveUp { uploads, unheard });
        });
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

/// What sockets to clients on this host are like: as relays have them towards a LAN. BBR, where it is the kernel's default, would
/// pace them, with a timer for each burst, for the sake of a queue that is not there.
fn on_this_host() -> TcpProfile {
    TcpProfile {
        // Whoever reads an object may stop for longer.
        user_timeout: None,
        ..profile::builtin::lan()
    }
}

/// What a client's connection asks.
#[derive(Clone)]
struct Door {
    service: S3Service,
    gateway: Gateway,
    events: Events,
    peer: SocketAddr,
}

impl Door {
    /// Answers a request. Where the answer comes before the end of the request's body, the connection ends with it:
    /// the client may not send the rest, and nobody could tell where its next request begins.
    async fn respond(
        self,
        request: Request<Incoming>,
    ) -> Result<s3s::HttpResponse, s3s::HttpError> {
        let ended = Arc::new(AtomicBool::new(request.body().is_end_stream()));
        let (head, body) = request.into_parts();
        let body = Watched {
            body,
            ended: Arc::clone(&ended),
        };
        let mut response = self.answer(Request::from_parts(head, body)).await?;
        if !ended.load(Ordering::Relaxed) {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        Ok(response)
    }

    async fn answer(self, request: Request<Watched>) -> Result<s3s::HttpResponse, s3s::HttpError> {
        let began = Instant::now();
        let forms = &self.gateway.config().forms;
        let form = forms.iter().find(|rule| rule.path == request.uri().path());
        if let Some(rule) = form
            && request.uri().query().is_none()
        {
            let posted = report::respond(&self.gateway, rule, request).await;
            return Ok(self.posted("PostForm", rule.bucket.clone(), began, posted));
        }
        let domains = &self.gateway.config().domains;
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        if let Some(bucket) = posted_to(method, uri, headers, domains) {
            let posted = browser::respond(&self.gateway, &bucket, request).await;
            return Ok(self.posted("PostObject", bucket, began, posted));
        }
        if let Err(refused) = scope::check(request.uri(), request.headers()) {
            return Ok(refused.response());
        }
        let payload = request.headers().get("x-amz-content-sha256");
        let payload = payload.and_then(|payload| payload.to_str().ok());
        let signed = payload.and_then(chunking);
        let mut request = match signed {
            None => request.map(s3s::Body::http_body_unsync),
            Some(signed) => request.map(|body| {
                let chunks = rechunked(BodyDataStream::new(body), signed);
                s3s::Body::http_body_unsync(StreamBody::new(chunks.map_ok(Frame::data)))
            }),
        };
        request.extensions_mut().insert(Peer(self.peer));
        self.service.call(request).await.map(explained)
    }

    /// Tells of a form, and answers it.
    fn posted(
        &self,
        operation: &'static str,
        bucket: String,
        began: Instant,
        posted: Posted,
    ) -> s3s::HttpResponse {
        (self.events)(Event::Answered {
            peer: self.peer,
            operation,
            bucket,
            key: posted.key,
            status: posted.response.status().as_u16(),
            seconds: began.elapsed().as_secs_f64(),
            parts: posted.parts,
        });
        posted.response
    }
}

/// Of these `s3s` says only the code, and clients show `UnknownError` for a message that is not there.
const MESSAGES: [(&str, &str); 2] = [
    (
        "SignatureDoesNotMatch",
        "The request signature we calculated does not match the signature you provided. Check your key and signing method.",
    ),
    ("InvalidBucketName", "The specified bucket is not valid."),
];

/// Puts a message into a refusal that has none.
fn explained(mut response: s3s::HttpResponse) -> s3s::HttpResponse {
    let said = response.status().is_client_error();
    let said = said.then(|| response.body().bytes()).flatten();
    let Some(said) = said else { return response };
    for (code, message) in MESSAGES {
        let short = format!("<Code>{code}</Code></Error>");
        if let Some(start) = said.strip_suffix(short.as_bytes()) {
            let mut text = start.to_vec();
            text.extend_from_slice(
                format!("<Code>{code}</Code><Message>{message}</Message></Error>").as_bytes(),
            );
            *response.body_mut() = s3s::Body::from(Bytes::from(text));
            response.headers_mut().remove(CONTENT_LENGTH);
            break;
        }
    }
    response
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GatewayOptions;

    async fn listening(address: &str) -> Server {
        let options = GatewayOptions::of_a_test(address, "http://127.0.0.1:9");
        let config = options.resolve(|_| Some("some".into())).unwrap();
        Server::bind(config, |_| {}).await.unwrap()
    }

    #[tokio::test]
    async fn sockets_to_clients_on_this_host_are_as_a_lan_has_them() {
        let server = listening("127.0.0.1:0").await;
        let _client = TcpStream::connect(server.address()).await.unwrap();
        let (socket, peer) = server.accept().await;
        sys::socket::verify(&socket, &on_this_host(), Side::Client, peer).unwrap();
    }

    #[tokio::test]
    async fn towards_other_hosts_the_kernels_congestion_control_stays() {
        let server = listening("0.0.0.0:0").await;
        let address = server.address();
        let lan = sys::socket::verify(&server.listener, &on_this_host(), Side::Client, address);
        assert!(lan.is_err());
        let untouched = TcpListener::bind("0.0.0.0:0").await.unwrap();
        assert_eq!(
            sys::socket::congestion_control(&server.listener).unwrap(),
            sys::socket::congestion_control(&untouched).unwrap()
        );
    }
}
