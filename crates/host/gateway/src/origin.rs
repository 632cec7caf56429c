//! The origin: signed requests over connections that stay open.
//!
//! Connections go to [`OriginAddress::via`](crate::config::OriginAddress::via), which is a relay with a hot pool
//! where one is used; the requests name, and are signed for, the origin itself.

mod checked;
mod line;
pub(crate) mod ready;
pub(crate) mod signature;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use s3s::S3ErrorCode;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;

use crate::checksum::Algorithm;
use crate::config::{Config, Credentials};
pub(crate) use crate::failed::Failed;
use crate::path::PathMeter;
pub(crate) use line::Line;
use line::Spare;
use signature::{EMPTY_PAYLOAD, Signing, UNSIGNED_PAYLOAD, UNSIGNED_TRAILER};

/// Bytes on their way.
pub(crate) type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, Failed>> + Send>>;

/// How long a connection may rest: a relay's pool closes after 55 s, origins after 60 to 75: stay below either.
const IDLE_LIMIT: Duration = Duration::from_secs(45);

/// Longest answer that is read into memory: a listing of 1000 keys of 1024 bytes, each escaped, fits.
const ANSWER_LIMIT: usize = 16 << 20;

/// A client of the origin; clones share connections.
#[derive(Clone)]
pub(crate) struct Origin {
    client: Client<Via, Sent>,
    shared: Arc<Shared>,
}

struct Shared {
    authority: String,
    /// Where requests go.
    via: Via,
    /// The last one is the warmest. As many are kept as may be in use at once.
    lines: Mutex<Vec<Spare>>,
    most_lines: usize,
    /// One more for each line that has a connection.
    connected: Arc<()>,
    credentials: Credentials,
    region: String,
    stall: Duration,
    path: PathMeter,
}

/// A request to the origin.
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// As the origin calls it; empty for the service itself.
    pub(crate) bucket: String,
    /// Empty for the bucket itself.
    pub(crate) key: String,
    pub(crate) query: Vec<(String, String)>,
    /// All but those that belong to the body, the connection and the signature.
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Payload,
}

/// What a request carries.
pub(crate) enum Payload {
    Empty,
    /// Small, and signed with its digest.
    Whole(Bytes),
    /// So many bytes as they come.
    Stream(Pieces, u64),
    /// The same, and a checksum behind them.
    Checked(Pieces, u64, Algorithm),
}

/// A request could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OriginError {
    #[error("a request to the origin cannot be signed: a credential or a name is not printable")]
    Sign,
    #[error("a request to the origin cannot be made")]
    Make(#[source] http::Error),
    #[error("the origin cannot be reached")]
    Send(#[source] legacy::Error),
    #[error("the origin cannot be reached")]
    Connect(#[source] io::Error),
    #[error("the origin ended a connection before its answer")]
    Exchange(#[source] hyper::Error),
    #[error("the origin's answer cannot be read")]
    Read(#[source] hyper::Error),
    #[error("the origin's answer is longer than {ANSWER_LIMIT} bytes")]
    TooLong,
    #[error("the origin did not answer within {} s", .0.as_secs())]
    Stalled(Duration),
}

// === impl Ask ===

impl Ask {
    pub(crate) fn new(method: Method, bucket: &str, key: &str) -> Self {
        Self {
            method,
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            payload: Payload::Empty,
        }
    }

    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }
}

// === impl Origin ===

impl Origin {
    pub(crate) fn new(config: &Config) -> Self {
        let via = Via {
            address: Arc::from(config.origin.via.as_str()),
        };
        Self {
            client: client(&via),
            shared: Arc::new(Shared {
                authority: config.origin.authority.clone(),
                via,
                lines: Mutex::default(),
                most_lines: config.limits.parallel,
                connected: Arc::default(),
                credentials: config.credentials.clone(),
                region: config.region.clone(),
                stall: config.limits.stall,
                path: PathMeter::new(config.path_rate),
            }),
        }
    }

    /// What was learned about the way to the origin.
    pub(crate) fn path(&self) -> &PathMeter {
        &self.shared.path
    }

    /// Sends a request; the answer's head, and its body as it comes.
    pub(crate) async fn send(&self, ask: Ask) -> Result<Response<Incoming>, OriginError> {
        // Until then the answer waits for the client's bytes, and says nothing about the path.
        let bodiless = matches!(ask.payload, Payload::Empty);
        let streams = matches!(ask.payload, Payload::Stream(..) | Payload::Checked(..));
        let request = self.request(ask)?;
        let began = Instant::now();
        let sending = self.client.request(request);
        let response = if streams {
            sending.await
        } else {
            let stall = self.shared.stall;
            let answer = tokio::time::timeout(stall, sending).await;
            answer.map_err(|_| OriginError::Stalled(stall))?
        };
        let response = response.map_err(OriginError::Send)?;
        if bodiless {
            self.answered(&response, began.elapsed());
        }
        Ok(response)
    }

    /// A request without a body was answered `after` so long.
    fn answered(&self, response: &Response<Incoming>, after: Duration) {
        if response.status() != StatusCode::SERVICE_UNAVAILABLE {
            self.shared.path.answered(after);
        }
    }

    /// Sends a request and reads its whole answer, which is short.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Response<Bytes>, OriginError> {
        let (head, body) = self.send(ask).await?.into_parts();
        Ok(Response::from_parts(head, self.whole(body).await?))
    }

    /// A short body.
    pub(crate) async fn whole(&self, body: Incoming) -> Result<Bytes, OriginError> {
        let limited = http_body_util::Limited::new(body, ANSWER_LIMIT);
        let stall = self.shared.stall;
        let collected = tokio::time::timeout(stall, limited.collect()).await;
        match collected.map_err(|_| OriginError::Stalled(stall))? {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) => match error.downcast::<hyper::Error>() {
                Ok(error) => Err(OriginError::Read(*error)),
                Err(_) => Err(OriginError::TooLong),
            },
        }
    }

    /// A long body, piece by piece; counts for the path's rate.
    pub(crate) fn pieces(&self, body: Incoming) -> Pieces {
        let shared = Arc::clone(&self.shared);
        Box::pin(stream::unfold(Some(body), move |body| {
            let shared = Arc::clone(&shared);
            async move {
                let mut body = body?;
                loop {
                    let frame = tokio::time::timeout(shared.stall, body.frame()).await;
                    let piece = match frame {
                        Err(_) => Err(Failed::unreachable("the origin stopped in the middle")),
                        Ok(None) => return None,
                        Ok(Some(Err(_))) => Err(Failed::cut_off("the origin ended in the middle")),
                        Ok(Some(Ok(frame))) => match frame.into_data() {
                            Ok(piece) => Ok(piece),
                            // Trailers.
                            Err(_) => continue,
                        },
                    };
                    if let Ok(piece) = &piece {
                        shared.path.moved(piece.len());
                    }
                    let rest = piece.is_ok().then_some(body);
                    return Some((piece, rest));
                }
            }
        }))
    }

    fn request(&self, ask: Ask) -> Result<Request<Sent>, OriginError> {
        let mut path = String::from("/");
        path.push_str(&ask.bucket);
        if !ask.key.is_empty() {
            path.push('/');
            path.push_str(&ask.key);
        }
        let path = signature::encoded_path(&path);
        let query = signature::encoded_query(&ask.query);
        let mut headers = ask.headers;
        let number = |bytes: u64| HeaderValue::from(bytes);
        let host = HeaderValue::from_str(&self.shared.authority).map_err(|_| OriginError::Sign)?;
        headers.insert(HOST, host);
        let digest;
        let (payload, body) = match ask.payload {
            Payload::Empty => {
                if ask.method == Method::PUT || ask.method == Method::POST {
                    headers.insert(CONTENT_LENGTH, number(0));
                }
                (EMPTY_PAYLOAD, Sent::whole(Bytes::new()))
            }
            Payload::Whole(bytes) => {
                digest = signature::hexadecimal(&Sha256::digest(&bytes));
                headers.insert(CONTENT_LENGTH, number(bytes.len() as u64));
                (digest.as_str(), Sent::whole(bytes))
            }
            Payload::Stream(pieces, length) => {
                headers.insert(CONTENT_LENGTH, number(length));
                (UNSIGNED_PAYLOAD, Sent::stream(self.counted(pieces), length))
            }
            Payload::Checked(pieces, length, algorithm) => {
                let framed = checked::framed_length(length, algorithm);
                headers.insert(CONTENT_LENGTH, number(framed));
                headers.insert("x-amz-decoded-content-length", number(length));
                let name = HeaderValue::from_static(algorithm.header());
                headers.insert(HeaderName::from_static("x-amz-trailer"), name);
                // Coded for the way, and taken off by the origin.
                headers.append(CONTENT_ENCODING, HeaderValue::from_static("aws-chunked"));
                let pieces = checked::framed(self.counted(pieces), length, algorithm);
                (UNSIGNED_TRAILER, Sent::stream(Box::pin(pieces), framed))
            }
        };
        let signing = Signing {
            method: ask.method.as_str(),
            path: &path,
            query: &query,
            payload,
            region: &self.shared.region,
            credentials: &self.shared.credentials,
        };
        signing.sign(&mut headers, SystemTime::now())?;
        let query = if query.is_empty() {
            String::new()
        } else {
            format!("?{query}")
        };
        let mut request = Request::builder()
            .method(ask.method)
            .uri(format!("http://{}{path}{query}", self.shared.authority))
            .body(body)
            .map_err(OriginError::Make)?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn counted(&self, pieces: Pieces) -> Pieces {
        let shared = Arc::clone(&self.shared);
        Box::pin(pieces.inspect(move |piece| {
            if let Ok(piece) = piece {
                shared.path.moved(piece.len());
            }
        }))
    }
}

/// Connections are made when they are needed.
fn client(via: &Via) -> Client<Via, Sent> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_LIMIT)
        .retry_canceled_requests(true)
        .build(via.clone())
}

// === impl Shared ===

impl Shared {
    fn lines(&self) -> MutexGuard<'_, Vec<Spare>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl OriginError ===

impl From<OriginError> for Failed {
    fn from(error: OriginError) -> Self {
        if let Some(failed) = Self::within(&error) {
            return failed;
        }
        match &error {
            OriginError::Sign | OriginError::Make(_) => {
                Self::new(S3ErrorCode::InvalidRequest, error.to_string())
            }
            OriginError::Send(_)
            | OriginError::Connect(_)
            | OriginError::Exchange(_)
            | OriginError::Read(_) => Self::cut_off(error.to_string()),
            OriginError::TooLong | OriginError::Stalled(_) => Self::unreachable(error.to_string()),
        }
    }
}

/// A request's body.
struct Sent {
    kind: Kind,
}

enum Kind {
    Whole(Option<Bytes>),
    Stream(Pieces, u64),
}

// === impl Sent ===

impl Sent {
    fn whole(bytes: Bytes) -> Self {
        Self {
            kind: Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())),
        }
    }

    fn stream(pieces: Pieces, length: u64) -> Self {
        Self {
            kind: Kind::Stream(pieces, length),
        }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Failed;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failed>>> {
        match &mut self.kind {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(pieces, left) => pieces.as_mut().poll_next(context).map(|piece| {
                let piece = piece?;
                if let Ok(piece) = &piece {
                    *left = left.saturating_sub(piece.len() as u64);
                }
                Some(piece.map(Frame::data))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match &self.kind {
            Kind::Whole(bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            Kind::Stream(_, left) => *left,
        })
    }
}

/// Connects to one address, whatever is asked for.
#[derive(Clone)]
struct Via {
    address: Arc<str>,
}

/// A connection that the pool can hold.
struct Hop(TokioIo<TcpStream>);

impl tower_service::Service<Uri> for Via {
    type Response = Hop;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Hop>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let via = self.clone();
        Box::pin(async move { Ok(Hop(TokioIo::new(via.connect().await?))) })
    }
}

// === impl Via ===

impl Via {
    async fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(&*self.address).await?;
        // Heads and last pieces leave at once.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Connection for Hop {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Hop {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl hyper::rt::Write for Hop {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }
}
