//! An S3 origin in memory that says what it received.
//!
//! It stands for a stranger's server: nothing in it is tuned for distance, and nothing in it knows
//! Longhaul. It speaks HTTP/1.1 in plain text and over TLS 1.2 and 1.3, checks AWS Signature Version 4, and has buckets from
//! the start, and in each of them objects to read, which it makes of a seed. Beside S3 it takes the form POST of field case C at `/upload/files`.
//!
//! # What it is not
//!
//! - Not a store to keep anything in: objects live in memory, within [`Config::capacity`], and are
//!   gone with the process.
//! - Not all of S3: objects (PUT, GET with a range or `If-Match`, HEAD, DELETE), multipart uploads and their
//!   list, `ListObjectsV2`, `ListBuckets`, `HeadBucket` and `GetBucketLocation` are here; versions, ACLs, other
//!   conditions, copies, tags, encryption and `ListObjects` version 1 are not, and are answered by `NotImplemented`.
//! - Not a judge of `x-amz-checksum-*` and `Content-MD5`: it ignores them, as the lab compares the
//!   SHA-256 of what was sent with that of what was stored. `x-amz-content-sha256` is part of the
//!   signature and is checked.
//! - Not a benchmark of servers: its `ETag` is not an MD5, it keeps idle connections for ever, and it
//!   accepts form posts without a signature, because the report's server does.

mod content;
mod form;
mod multipart;
mod objects;
mod s3;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::credentials::Credentials;
use crate::tls::{Identity, TlsError};
use multipart::Uploads;
use objects::Objects;

/// What an origin serves and to whom.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Who may use S3.
    pub credentials: Credentials,
    /// Buckets that exist from the start; there is no way to add one later.
    pub buckets: Vec<String>,
    /// The bucket that takes what forms post; it exists even where `buckets` does not name it.
    pub form_bucket: String,
    /// Largest object in bytes; a larger upload is refused before its body is read.
    pub object_limit: u64,
    /// Bytes of all objects together; an upload beyond it is refused with status 507. Uploads on
    /// their way come on top, at most `object_limit` per connection.
    pub capacity: u64,
    /// Seed of the objects that are there from the start.
    #[serde(default)]
    pub seed: u64,
    /// Their sizes in bytes; their keys are [`payload::made_key`](crate::payload::made_key)'s.
    #[serde(default)]
    pub made: Vec<u64>,
}

/// Where an origin listens.
#[derive(Debug)]
pub struct Listeners {
    /// For HTTP in plain text.
    pub plain: TcpListener,
    /// For HTTP over TLS, and with which certificate.
    pub tls: Option<(TcpListener, Identity)>,
}

impl Config {
    /// An origin with these keys, one bucket `lab`, and room for the field cases.
    pub fn new(credentials: Credentials) -> Self {
        Self {
            credentials,
            buckets: vec!["lab".into()],
            form_bucket: "forms".into(),
            // The largest object of a scenario is 1 GiB; one that a gateway has encrypted is a little longer.
            object_limit: (1 << 30) + (16 << 20),
            // Half of the memory of a small CI machine.
            capacity: 2 << 30,
            seed: 0,
            made: Vec::new(),
        }
    }
}

/// One object that is stored now. Sent before the response leaves, so that whoever has the response
/// finds the event.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Stored {
    /// Bucket.
    pub bucket: String,
    /// Key, unescaped.
    pub key: String,
    /// Bytes of the object.
    pub bytes: u64,
    /// SHA-256 of these bytes, lower-case hexadecimal.
    pub sha256: String,
    /// Who sent it, as the socket says; for a multipart upload, who completed it.
    pub peer: SocketAddr,
    /// Seconds from the start of the origin to the request's head.
    pub started_s: f64,
    /// Seconds from the request's head to the last byte stored. A multipart upload counts only its
    /// completing request.
    pub seconds: f64,
}

/// The origin could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// The listener is broken; single connections that fail are not an error.
    #[error("cannot accept connections at {address}")]
    Accept {
        /// Where it listened.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The listener has no address.
    #[error("cannot read the address of the origin's listener")]
    Address {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// TLS can't be spoken.
    #[error("cannot set up the origin's TLS")]
    Tls {
        /// Why not.
        #[source]
        source: TlsError,
    },
    /// An object that should be there from the start has no room.
    #[error("cannot make an object of {bytes} bytes")]
    Make {
        /// Its size.
        bytes: u64,
        /// Why not.
        reason: String,
    },
}

/// An origin with its objects, ready to serve.
#[derive(Clone)]
pub struct Origin {
    s3: S3Service,
    objects: Arc<Objects>,
    uploads: Arc<Uploads>,
}

/// The next connection; waits where resources ran out. Can be dropped and called again.
async fn accept(listener: &TcpListener) -> Result<(TcpStream, SocketAddr), OriginError> {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Responses are written whole; without this a response in two writes would wait for
                // the delayed ACK of the first. Every server of note sets it.
                if let Err(error) = stream.set_nodelay(true) {
                    debug!(%peer, %error, "Leaving Nagle's algorithm on");
                }
                return Ok((stream, peer));
            }
            Err(source) if is_passing(&source) => {
                warn!(%source, "Waiting for a descriptor to accept with");
                tokio::time::sleep(DESCRIPTOR_WAIT).await;
            }
            Err(source) => {
                let address = listener
                    .local_addr()
                    .map_err(|source| OriginError::Address { source })?;
                return Err(OriginError::Accept { address, source });
            }
        }
    }
}

/// As [`accept`]; never ready where there is no TLS.
async fn accept_tls(
    tls: Option<&(TcpListener, TlsAcceptor)>,
) -> Result<(TcpStream, SocketAddr, TlsAcceptor), OriginError> {
    let Some((listener, acceptor)) = tls else {
        return std::future::pending().await;
    };
    let (stream, peer) = accept(listener).await?;
    Ok((stream, peer, acceptor.clone()))
}

/// How long to leave the backlog alone when descriptors or memory ran out: without a pause `accept`
/// returns at once with the same error and takes a whole core.
const DESCRIPTOR_WAIT: Duration = Duration::from_millis(20);

/// Whether `accept` may work again without a new listener: the connection was gone before it was
/// accepted (`accept(2)`, *Error handling*), or a resource ran out that others will return.
fn is_passing(error: &io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS and ENOMEM have no `ErrorKind` of their own on Rust 1.95.
    const RESOURCES: [i32; 4] = [24, 23, 105, 12];
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
    ) || error
        .raw_os_error()
        .is_some_and(|code| RESOURCES.contains(&code))
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").finish_non_exhaustive()
    }
}

/// Which request an object came with; travels from the connection to the handlers as an extension of
/// the HTTP request.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    peer: SocketAddr,
    at: Instant,
}

// === impl Origin ===

impl Origin {
    /// Makes the objects that are there from the start.
    ///
    /// Every object stored later goes to `events`. Nobody has to listen: without a receiver events are
    /// dropped.
    ///
    /// # Errors
    /// When an object can't be made within the limits of `config`.
    pub fn prepare(config: &Config, events: UnboundedSender<Stored>) -> Result<Self, OriginError> {
        let objects = Arc::new(Objects::new(config, events));
        for &bytes in &config.made {
            objects
                .make(config.seed, bytes)
                .map_err(|refused| OriginError::Make {
                    bytes,
                    reason: refused.to_string(),
                })?;
        }
        let uploads = Arc::new(Uploads::default());
        let mut builder =
            S3ServiceBuilder::new(s3::Backend::new(Arc::clone(&objects), Arc::clone(&uploads)));
        builder.set_auth(SimpleAuth::from_single(
            config.credentials.access_key.clone(),
            config.credentials.secret_key.clone(),
        ));
        Ok(Self {
            s3: builder.build(),
            objects,
            uploads,
        })
    }

    /// Multipart uploads that were begun and neither completed nor given up.
    #[must_use]
    pub fn open_uploads(&self) -> usize {
        self.uploads.count()
    }

    /// Serves `listeners` until `shutdown` is ready; then closes every connection and returns.
    ///
    /// # Errors
    /// When a listener itself breaks, or TLS can't be set up. A connection that fails ends alone.
    pub async fn serve(
        self,
        listeners: Listeners,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), OriginError> {
        let Listeners { plain, tls } = listeners;
        let tls = match tls {
            None => None,
            Some((listener, identity)) => {
                let server = identity
                    .server()
                    .map_err(|source| OriginError::Tls { source })?;
                Some((listener, TlsAcceptor::from(server)))
            }
        };
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {}
                accepted = accept(&plain) => {
                    let (stream, peer) = accepted?;
                    connections.spawn(self.clone().connection(stream, peer));
                }
                accepted = accept_tls(tls.as_ref()) => {
                    let (stream, peer, acceptor) = accepted?;
                    connections.spawn(self.clone().tls_connection(acceptor, stream, peer));
                }
            }
        }
        connections.shutdown().await;
        Ok(())
    }

    async fn tls_connection(self, acceptor: TlsAcceptor, stream: TcpStream, peer: SocketAddr) {
        match acceptor.accept(stream).await {
            Ok(stream) => self.connection(stream, peer).await,
            Err(error) => debug!(%peer, %error, "Closed a connection after a failed handshake"),
        }
    }

    async fn connection(self, stream: impl AsyncRead + AsyncWrite + Unpin, peer: SocketAddr) {
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            // Hyper's 30 seconds also end idle keep-alive connections; the report's server keeps
            // them for 30 minutes or for ever.
            .header_read_timeout(None)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(|request| self.respond(peer, request)),
            )
            .await;
        if let Err(error) = served {
            debug!(%peer, %error, "Closed a connection after an error");
        }
    }

    async fn respond(
        &self,
        peer: SocketAddr,
        mut request: http::Request<Incoming>,
    ) -> Result<s3s::HttpResponse, s3s::HttpError> {
        let arrival = Arrival {
            peer,
            at: Instant::now(),
        };
        if form::is_upload(&request) {
            return Ok(form::respond(&self.objects, arrival, request).await);
        }
        request.extensions_mut().insert(arrival);
        self.s3.call(request.map(s3s::Body::from)).await
    }
}
