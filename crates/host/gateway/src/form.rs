//! Files that are posted as `multipart/form-data` and become objects: those of browsers, which a client of the gateway has
//! signed, and the report's own.
//!
//! The length of a file is not known before its end: it is read part by part, and a part leaves when it is full. The last one
//! leaves, and the object is there, when all that was said about the file has proved true.

pub(crate) mod browser;
pub(crate) mod policy;
pub(crate) mod report;
mod signed;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use envelope::{Kind, Name, Sealing};
use futures_util::stream::{self, StreamExt as _};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyDataStream;
use hyper::body::Body as HttpBody;
use multer::{Field, Multipart};
use s3s::{HttpResponse, S3ErrorCode};

use crate::answer::Answer;
use crate::checksum::{Algorithm, Claims};
use crate::config::BucketRule;
use crate::encrypted;
use crate::failed::Failed;
use crate::gateway::Gateway;
use crate::origin::{Ask, Pieces};
use crate::upload::arriving::Sums;
use crate::upload::parts::Target;
use policy::{Lengths, too_long};

/// Bytes beside the file: S3 takes 20,000 of them, and the report's JSON is below one kilobyte.
const BESIDE: u64 = 64 << 10;

/// What became of a form.
pub(crate) struct Posted {
    /// Of the object; empty where it did not come that far.
    pub(crate) key: String,
    pub(crate) response: HttpResponse,
    /// Requests to the origin that carried the file.
    pub(crate) parts: u64,
}

/// A form that arrives.
struct Form {
    multipart: Multipart<'static>,
    gate: Gate,
    /// Bytes of fields that may still come.
    left: u64,
    /// Of the whole request, where it says so.
    announced: Option<u64>,
}

/// Bytes that may still be read. The parser keeps all it gets until it finds the end of what it looks for, so what
/// somebody sends without end has to wait outside.
#[derive(Clone)]
struct Gate(Arc<AtomicU64>);

/// A form's file, counted and checked while it passes.
struct File {
    field: Option<Field<'static>>,
    lengths: Lengths,
    claims: Option<Claims>,
    length: u64,
    sums: Sums,
    gate: Gate,
}

// === impl Form ===

impl Form {
    fn of<B>(request: Request<B>, stall: Duration) -> Result<Self, Failed>
    where
        B: HttpBody<Data = Bytes, Error = hyper::Error> + Send + 'static,
    {
        let header = |name| request.headers().get(name)?.to_str().ok();
        let announced = header(CONTENT_LENGTH).and_then(|text| text.parse().ok());
        let boundary = header(CONTENT_TYPE)
            .and_then(|value| multer::parse_boundary(value).ok())
            .ok_or_else(malformed)?;
        let gate = Gate(Arc::new(AtomicU64::new(BESIDE)));
        let outside = gate.clone();
        let body = Box::pin(BodyDataStream::new(request.into_body()));
        let mut pieces = Box::pin(stream::unfold(Some(body), move |body| async move {
            let mut body = body?;
            let cut = |why| {
                let failed = Failed::new(S3ErrorCode::IncompleteBody, why);
                Some((Err(failed), None))
            };
            match tokio::time::timeout(stall, body.next()).await {
                Ok(Some(Ok(piece))) => Some((Ok(piece), Some(body))),
                Ok(Some(Err(_))) => cut("the client's bytes ended early"),
                Ok(None) => None,
                Err(_) => cut("the client stopped in the middle"),
            }
        }));
        let gated = stream::poll_fn(move |context| {
            if outside.is_shut() {
                // Whoever polls looks at the gate, too.
                return Poll::Pending;
            }
            let piece = ready!(pieces.poll_next_unpin(context));
            if let Some(Ok(piece)) = &piece {
                outside.passed(piece.len() as u64);
            }
            Poll::Ready(piece)
        });
        Ok(Self {
            multipart: Multipart::new(gated, boundary),
            gate,
            left: BESIDE,
            announced,
        })
    }

    /// The next field. None of those before may be there any more.
    async fn field(&mut self) -> Result<Option<Field<'static>>, Failed> {
        let Self {
            multipart, gate, ..
        } = self;
        let field = poll_fn(|context| gate.judged(multipart.poll_next_field(context))).await?;
        field.map_err(|error| fault(&error))
    }

    /// What a field says that is not the file.
    async fn text(&mut self, mut field: Field<'static>) -> Result<BytesMut, Failed> {
        let mut text = BytesMut::new();
        loop {
            let piece = poll_fn(|context| self.gate.judged(field.poll_next_unpin(context))).await?;
            let Some(piece) = piece else { return Ok(text) };
            let piece = piece.map_err(|error| fault(&error))?;
            let left = self.left.checked_sub(piece.len() as u64);
            self.left = left.ok_or_else(too_long)?;
            text.extend_from_slice(&piece);
        }
    }

    /// The file in `field`.
    fn file(
        &self,
        field: Field<'static>,
        lengths: Lengths,
        claims: Claims,
    ) -> Result<File, Failed> {
        let most = lengths.most;
        if let Some(length) = self.announced
            && length > most.saturating_add(BESIDE)
        {
            return Err(too_large(length, most));
        }
        self.gate.open();
        Ok(File {
            field: Some(field),
            lengths,
            claims: Some(claims),
            length: 0,
            sums: Sums::default(),
            gate: self.gate.clone(),
        })
    }

    /// Passes over what stands behind a file that was read to its end, so that the connection can serve another request.
    async fn finish(mut self) {
        while let Ok(Some(field)) = self.field().await {
            if self.text(field).await.is_err() {
                break;
            }
        }
    }
}

// === impl Gate ===

impl Gate {
    fn is_shut(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// For a file, which does not stay.
    fn open(&self) {
        self.0.store(u64::MAX, Ordering::Relaxed);
    }

    fn narrow(&self) {
        self.0.store(BESIDE, Ordering::Relaxed);
    }

    fn passed(&self, bytes: u64) {
        let left = self.0.load(Ordering::Relaxed);
        if left < u64::MAX {
            self.0.store(left.saturating_sub(bytes), Ordering::Relaxed);
        }
    }

    /// What a parser has got, unless it waits for what is not let in any more.
    fn judged<T>(&self, poll: Poll<T>) -> Poll<Result<T, Failed>> {
        match poll {
            Poll::Pending if self.is_shut() => Poll::Ready(Err(too_long())),
            Poll::Pending => Poll::Pending,
            Poll::Ready(got) => Poll::Ready(Ok(got)),
        }
    }
}

// === impl File ===

impl File {
    fn sums(&self) -> Sums {
        self.sums.clone()
    }

    fn into_pieces(self) -> Pieces {
        Box::pin(stream::unfold(self, |mut file| async move {
            let piece = file.next().await?;
            Some((piece, file))
        }))
    }

    /// The next piece; `None` behind the last, when all has proved true.
    async fn next(&mut self) -> Option<Result<Bytes, Failed>> {
        let Some(piece) = self.field.as_mut()?.next().await else {
            self.field = None;
            self.gate.narrow();
            return self.prove().err().map(Err);
        };
        let piece = piece.map_err(|error| fault(&error));
        let piece = piece.and_then(|piece| self.count(piece));
        if piece.is_err() {
            self.field = None;
        }
        Some(piece)
    }

    fn count(&mut self, piece: Bytes) -> Result<Bytes, Failed> {
        self.length = self.length.saturating_add(piece.len() as u64);
        if self.length > self.lengths.most {
            return Err(too_large(self.length, self.lengths.most));
        }
        if let Some(claims) = &mut self.claims {
            claims.update(&piece);
        }
        Ok(piece)
    }

    fn prove(&mut self) -> Result<(), Failed> {
        let least = self.lengths.least;
        if self.length < least {
            let failed = Failed::new(
                S3ErrorCode::EntityTooSmall,
                "Your proposed upload is smaller than the minimum allowed size",
            );
            return Err(failed
                .with("ProposedSize", self.length.to_string())
                .with("MinSizeAllowed", least.to_string()));
        }
        if let Some(claims) = self.claims.take() {
            self.sums.hold(claims.finish()?);
        }
        Ok(())
    }
}

/// Stores a file as the object `key`, by the rule of its bucket.
async fn store(
    gateway: &Gateway,
    rule: &BucketRule,
    key: &str,
    mut headers: HeaderMap,
    (file, algorithm): (File, Option<Algorithm>),
) -> Result<Answer, Failed> {
    let sums = file.sums();
    let (mut pieces, mut chosen) = (file.into_pieces(), algorithm);
    if let Some(encryption) = &rule.encryption {
        let name = Name {
            bucket: &rule.origin,
            key,
        };
        let (data_key, _) =
            encrypted::seal(&encryption.ring, name, Kind::Whole, None, &mut headers)?;
        pieces = encrypted::sealed(pieces, Sealing::whole(&data_key));
        // The client's algorithm is for the plaintext.
        chosen = None;
    }
    let target = Target {
        bucket: rule.origin.clone(),
        key: key.to_owned(),
        headers,
    };
    let mut answer = put_unknown(gateway, target, pieces, chosen).await?;
    if rule.encryption.is_some() {
        encrypted::for_client(&mut answer.headers);
    }
    if answer.status.is_success() {
        gateway.known().saw(&rule.origin, key, None);
        sums.announce(&mut answer.headers);
    }
    Ok(answer)
}

/// Stores bytes of which nobody knows how many there are.
async fn put_unknown(
    gateway: &Gateway,
    target: Target,
    mut pieces: Pieces,
    algorithm: Option<Algorithm>,
) -> Result<Answer, Failed> {
    let limits = &gateway.config().limits;
    let path = gateway.origin().path();
    let part = path.parts(0, limits.request_memory, limits.parallel).part;
    let size = usize::try_from(part).unwrap_or(usize::MAX);
    let mut first = BytesMut::new();
    while first.len() <= size {
        let Some(piece) = pieces.next().await else {
            let length = first.len() as u64;
            let whole: Pieces = Box::pin(stream::once(async { Ok(first.freeze()) }));
            let ask = Ask {
                headers: target.headers,
                payload: gateway.payload(whole, length, algorithm),
                ..Ask::new(Method::PUT, &target.bucket, &target.key)
            };
            return Ok(Answer::whole(gateway.origin().ask(ask).await?));
        };
        first.extend_from_slice(&piece?);
    }
    let rest = stream::once(async { Ok(first.freeze()) }).chain(pieces);
    gateway
        .put_unknown_in_parts(target, part, Box::pin(rest))
        .await
}

/// Why a form ends before it should.
fn fault(error: &multer::Error) -> Failed {
    Failed::within(error).unwrap_or_else(malformed)
}

fn malformed() -> Failed {
    Failed::new(
        S3ErrorCode::MalformedPOSTRequest,
        "The body of your POST request is not well-formed multipart/form-data.",
    )
}

fn too_large(length: u64, most: u64) -> Failed {
    let failed = Failed::new(
        S3ErrorCode::EntityTooLarge,
        "Your proposed upload exceeds the maximum allowed object size.",
    );
    failed
        .with("ProposedSize", length.to_string())
        .with("MaxSizeAllowed", most.to_string())
}
