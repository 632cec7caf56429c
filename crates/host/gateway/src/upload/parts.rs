//! One object in parts at the same time.
//!
//! The client's bytes go into the part that is being filled; it leaves while it is filled. When it is full the
//! next begins, whether the one before has arrived or not, as long as [`Plan::parallel`] allows. What has not
//! left yet waits in memory: at most a part's bytes for each part under way.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, StreamExt as _};
use http::header::{ETAG, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinSet;

use super::completed;
use crate::answer::Answer;
use crate::checksum::Algorithm;
use crate::failed::Failed;
use crate::gateway::Gateway;
use crate::journal::Note;
use crate::origin::{Ask, Origin, Payload, Pieces};
use crate::path::Plan;
use crate::xml;

/// What the object will be.
pub(crate) struct Target {
    /// As the origin calls it.
    pub(crate) bucket: String,
    pub(crate) key: String,
    /// For the object; conditions among them count when it is put together.
    pub(crate) headers: HeaderMap,
}

/// Its bytes, as the origin will keep them.
pub(crate) struct Object {
    pub(crate) pieces: Pieces,
    pub(crate) length: u64,
}

/// A part that has arrived.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Part {
    number: u64,
    tag: String,
    sum: Option<String>,
}

/// The parts that arrived, or what the origin had against one.
type Sent = Result<Vec<Part>, Box<Answer>>;
/// An upload and the conditions of its end, or what the origin had against it.
type Begun = Result<(Upload, HeaderMap), Box<Answer>>;

/// How a part's request ended.
enum Ended {
    Arrived(Part),
    /// The origin's own words.
    Refused(Box<Answer>),
}

/// See [`Gateway::leave`]; given back when it is dropped.
#[derive(Debug)]
pub(crate) enum Leave {
    Free,
    Counted(#[allow(dead_code, reason = "held, not read")] OwnedSemaphorePermit),
}

/// An upload that is given up unless it is completed, whatever ends the request.
struct Upload {
    origin: Origin,
    bucket: String,
    key: String,
    id: String,
    open: bool,
    /// In the journal until the upload is over.
    note: Note,
}

impl Gateway {
    pub(crate) async fn put_in_parts(
        &self,
        target: Target,
        object: Object,
    ) -> Result<Answer, Failed> {
        let (mut upload, for_completion) = match self.begin(target).await? {
            Ok(begun) => begun,
            Err(refused) => return Ok(*refused),
        };
        // Only now: the answer to the beginning tells the first upload how long the path is.
        let plan = self.sending_plan(object.length);
        let sent = self
            .send_parts(&upload, plan, object.pieces, object.length)
            .await;
        upload.end(sent, for_completion).await
    }

    /// As [`Gateway::put_in_parts`], of bytes whose end nobody knows: each part is gathered before it leaves, one
    /// after the other.
    pub(crate) async fn put_unknown_in_parts(
        &self,
        target: Target,
        part: u64,
        pieces: Pieces,
    ) -> Result<Answer, Failed> {
        let (mut upload, for_completion) = match self.begin(target).await? {
            Ok(begun) => begun,
            Err(refused) => return Ok(*refused),
        };
        let sent = self.send_gathered(&upload, part, pieces).await;
        upload.end(sent, for_completion).await
    }

    /// Begins an upload; or what the origin has against it. Conditions come back for the end.
    ///
    /// A client that leaves meanwhile must not leave an upload that nobody knows: this goes on without it, and an
    /// upload that nobody takes gives itself up.
    async fn begin(&self, target: Target) -> Result<Begun, Failed> {
        let gateway = self.clone();
        tokio::spawn(async move { gateway.begin_alone(target).await })
            .await
            .map_err(|_ended| Failed::unreachable("the beginning of an upload was cut off"))?
    }

    async fn begin_alone(&self, target: Target) -> Result<Begun, Failed> {
        self.large_passes(&target.bucket);
        let (for_object, for_completion) = split(&target.headers);
        let mut create = Ask::new(Method::POST, &target.bucket, &target.key).query("uploads", "");
        create.headers = for_object;
        if self.config().checksums {
            let name = HeaderValue::from_static(Algorithm::Crc32c.name());
            create.headers.insert("x-amz-checksum-algorithm", name);
        }
        let created = self.origin().ask(create).await?;
        if !created.status().is_success() {
            return Ok(Err(Box::new(Answer::whole(created))));
        }
        let id = xml::text_of(created.body(), "UploadId")
            .ok_or_else(|| Failed::unreachable("the origin began an upload without an id"))?;
        let upload = Upload {
            origin: self.origin().clone(),
            note: self.journal().begun(&target.bucket, &target.key, &id),
            bucket: target.bucket,
            key: target.key,
            id,
            open: true,
        };
        Ok(Ok((upload, for_completion)))
    }

    async fn send_gathered(
        &self,
        upload: &Upload,
        part: u64,
        pieces: Pieces,
    ) -> Result<Sent, Failed> {
        // Asked once more behind its end.
        let mut pieces = pieces.fuse();
        let size = usize::try_from(part).unwrap_or(usize::MAX);
        let mut arrived = Vec::new();
        let mut gathered = BytesMut::new();
        loop {
            let mut more = true;
            while gathered.len() < size && more {
                match pieces.next().await {
                    Some(piece) => gathered.extend_from_slice(&piece?),
                    None => more = false,
                }
            }
            if gathered.is_empty() {
                return Ok(Ok(arrived));
            }
            let full = gathered.split_to(gathered.len().min(size)).freeze();
            let (number, length) = (arrived.len() as u64 + 1, full.len() as u64);
            let (sender, bytes) = mpsc::unbounded_channel();
            // The part reads it in the next step.
            let _ = sender.send(Ok(full));
            drop(sender);
            let checksums = self.config().checksums;
            match upload
                .part(number, length, bytes, checksums, Leave::Free)
                .await?
            {
                Ended::Arrived(part) => arrived.push(part),
                Ended::Refused(answer) => return Ok(Err(answer)),
            }
        }
    }

    /// Cuts and sends; the parts that arrived, or what the origin had against one.
    async fn send_parts(
        &self,
        upload: &Upload,
        plan: Plan,
        mut arriving: Pieces,
        mut left: u64,
    ) -> Result<Sent, Failed> {
        let mut under_way: JoinSet<Result<Ended, Failed>> = JoinSet::new();
        let mut arrived = Vec::new();
        let began = Instant::now();
        let mut number = 0;
        // Of a piece that reached into the next part.
        let mut rest = Bytes::new();
        let mut filling: Option<(UnboundedSender<Result<Bytes, Failed>>, u64)> = None;
        loop {
            let (sender, wanted) = match &mut filling {
                Some(filling) => filling,
                None if left == 0 => break,
                None => {
                    let Some(leave) = self.leave(under_way.len(), plan.parallel) else {
                        self.origin().path().waited(began.elapsed());
                        match joined(under_way.join_next().await)? {
                            Some(Ended::Arrived(part)) => arrived.push(part),
                            Some(Ended::Refused(answer)) => return Ok(Err(answer)),
                            None => {}
                        }
                        continue;
                    };
                    number += 1;
                    let length = plan.part_length(number).min(left);
                    left -= length;
                    let (sender, pieces) = mpsc::unbounded_channel();
                    under_way.spawn(upload.part(
                        number,
                        length,
                        pieces,
                        self.config().checksums,
                        leave,
                    ));
                    filling.insert((sender, length))
                }
            };
            if rest.is_empty() {
                tokio::select! {
                    Some(ended) = under_way.join_next() => match joined(Some(ended))? {
                        Some(Ended::Arrived(part)) => arrived.push(part),
                        Some(Ended::Refused(answer)) => return Ok(Err(answer)),
                        None => {}
                    },
                    piece = arriving.next() => match piece {
                        Some(piece) => rest = piece?,
                        None => return Err(Failed::internal("the body ended before its length")),
                    },
                }
                continue;
            }
            let most = usize::try_from(*wanted).unwrap_or(usize::MAX);
            let piece = rest.split_to(rest.len().min(most));
            *wanted -= piece.len() as u64;
            // A part whose request has ended is heard of from its task.
            let _ = sender.send(Ok(piece));
            if *wanted == 0 {
                filling = None;
            }
        }
        // Behind the last piece may come what the client's bytes failed by.
        if let Some(more) = arriving.next().await {
            more?;
            return Err(Failed::internal("the body has more than its length"));
        }
        while let Some(ended) = joined(under_way.join_next().await)? {
            match ended {
                Ended::Arrived(part) => arrived.push(part),
                Ended::Refused(answer) => return Ok(Err(answer)),
            }
        }
        arrived.sort();
        Ok(Ok(arrived))
    }

    /// Leave for one more request of somebody who has `under_way`. The first needs none, so that nobody
    /// waits for others for ever; further ones count against what the origin bears.
    pub(crate) fn leave(&self, under_way: usize, parallel: usize) -> Option<Leave> {
        if under_way == 0 {
            return Some(Leave::Free);
        }
        if under_way >= parallel {
            return None;
        }
        let permit = Arc::clone(self.permits()).try_acquire_owned();
        permit.ok().map(Leave::Counted)
    }
}

// === impl Upload ===

impl Upload {
    /// One part; its bytes come through `pieces`.
    fn part(
        &self,
        number: u64,
        length: u64,
        pieces: mpsc::UnboundedReceiver<Result<Bytes, Failed>>,
        checksums: bool,
        leave: Leave,
    ) -> impl Future<Output = Result<Ended, Failed>> + Send + use<> {
        let origin = self.origin.clone();
        let mut ask = Ask::new(Method::PUT, &self.bucket, &self.key)
            .query("partNumber", &number.to_string())
            .query("uploadId", &self.id);
        let pieces = Box::pin(stream::unfold(pieces, |mut pieces| async move {
            let piece = pieces.recv().await?;
            Some((piece, pieces))
        }));
        ask.payload = if checksums {
            Payload::Checked(pieces, length, Algorithm::Crc32c)
        } else {
            Payload::Stream(pieces, length)
        };
        async move {
            let response = origin.ask(ask).await?;
            drop(leave);
            if !response.status().is_success() {
                return Ok(Ended::Refused(Box::new(Answer::whole(response))));
            }
            let text = |name: HeaderName| {
                let value = response.headers().get(name)?;
                value.to_str().ok().map(str::to_owned)
            };
            let tag = text(ETAG)
                .ok_or_else(|| Failed::unreachable("the origin took a part without an ETag"))?;
            Ok(Ended::Arrived(Part {
                number,
                tag,
                sum: text(HeaderName::from_static(Algorithm::Crc32c.header())),
            }))
        }
    }

    /// Puts the parts together, or gives the upload up.
    async fn end(
        &mut self,
        sent: Result<Sent, Failed>,
        headers: HeaderMap,
    ) -> Result<Answer, Failed> {
        let parts = match sent {
            Ok(Ok(parts)) => parts,
            Ok(Err(refused)) => {
                self.abort().await;
                return Ok(*refused);
            }
            Err(failed) => {
                self.abort().await;
                return Err(failed);
            }
        };
        let count = parts.len() as u64;
        let done = self.complete(parts, headers).await?;
        let mut answer = Answer::whole(done);
        answer.parts = count;
        if !answer.status.is_success() {
            self.abort().await;
        }
        Ok(answer)
    }

    /// Puts the parts together. The answer is that of a `PutObject`.
    async fn complete(
        &mut self,
        parts: Vec<Part>,
        headers: HeaderMap,
    ) -> Result<http::Response<Bytes>, Failed> {
        let mut ask = Ask::new(Method::POST, &self.bucket, &self.key).query("uploadId", &self.id);
        ask.headers = headers;
        ask.payload = Payload::Whole(document(&parts));
        let mut response = self.origin.ask(ask).await?;
        if !completed(response.status(), response.body()) {
            if response.status().is_success() {
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            }
            return Ok(response);
        }
        self.open = false;
        self.note.over();
        if let Some(tag) = xml::text_of(response.body(), "ETag")
            && let Ok(value) = HeaderValue::from_str(&tag)
        {
            response.headers_mut().insert(ETAG, value);
        }
        for name in ["content-type", "content-length"] {
            response.headers_mut().remove(name);
        }
        *response.body_mut() = Bytes::new();
        Ok(response)
    }

    /// Gives the upload up, and waits until the origin has heard it.
    async fn abort(&mut self) {
        if std::mem::take(&mut self.open)
            && abort(&self.origin, &self.bucket, &self.key, &self.id).await
        {
            self.note.over();
        }
    }
}

/// A client that goes away takes its request with it, at any point.
impl Drop for Upload {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let (origin, note) = (self.origin.clone(), self.note.clone());
        let (bucket, key, id) = (self.bucket.clone(), self.key.clone(), self.id.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if abort(&origin, &bucket, &key, &id).await {
                    note.over();
                }
            });
        }
    }
}

/// Removes an upload and its parts; whether the origin has heard it. A part that is still arriving may outlive one
/// removal, so it is asked for until the origin knows nothing of it, a few times.
pub(crate) async fn abort(origin: &Origin, bucket: &str, key: &str, id: &str) -> bool {
    let mut heard = false;
    for _ in 0..3 {
        let ask = Ask::new(Method::DELETE, bucket, key).query("uploadId", id);
        match origin.ask(ask).await {
            Ok(response) if response.status() == StatusCode::NOT_FOUND => return true,
            Ok(response) => heard |= response.status().is_success(),
            Err(_) => {}
        }
    }
    heard
}

fn document(parts: &[Part]) -> Bytes {
    let mut text = BytesMut::from(
        &b"<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"[..],
    );
    for part in parts {
        let number = part.number;
        let tag = xml::escaped(&part.tag);
        let sum = part.sum.as_ref().map_or_else(String::new, |sum| {
            format!("<ChecksumCRC32C>{}</ChecksumCRC32C>", xml::escaped(sum))
        });
        let line = format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag>{sum}</Part>");
        text.extend_from_slice(line.as_bytes());
    }
    text.extend_from_slice(b"</CompleteMultipartUpload>");
    text.freeze()
}

/// Conditions wait for the end, when the object would be replaced; all else is said at the beginning.
fn split(headers: &HeaderMap) -> (HeaderMap, HeaderMap) {
    let (mut object, mut completion) = (HeaderMap::new(), HeaderMap::new());
    for (name, value) in headers {
        let to = match name.as_str() {
            "if-match" | "if-none-match" => &mut completion,
            _ => &mut object,
        };
        to.append(name.clone(), value.clone());
    }
    (object, completion)
}

fn joined(
    ended: Option<Result<Result<Ended, Failed>, tokio::task::JoinError>>,
) -> Result<Option<Ended>, Failed> {
    match ended {
        None => Ok(None),
        Some(Ok(ended)) => ended.map(Some),
        Some(Err(_)) => Err(Failed::internal("a part's task ended early")),
    }
}
