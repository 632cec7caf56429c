//! Transfers of a series, one after the other.

use std::cell::Cell;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::future;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, MultipartUpload as _, ObjectStore as _, ObjectStoreExt as _, PutPayload,
};

use super::{ClientError, Moved, Series, Transfer, Verb, library};
use crate::digest::sha256_hex;
use crate::payload;

/// Runs a series to its end, one transfer right after the other.
///
/// # Errors
/// When the series cannot begin; a transfer that fails does not end the series.
pub async fn run(series: &Series) -> Result<Vec<Transfer>, ClientError> {
    let mut client = Client::new(series)?;
    let mut transfers = Vec::new();
    while let Some(transfer) = client.next().await? {
        transfers.push(transfer);
    }
    Ok(transfers)
}

/// A series under way, for whoever decides when its next transfer begins.
#[derive(Debug)]
pub struct Client<'a> {
    series: &'a Series,
    clients: Clients,
    /// Transfers so far.
    done: u64,
}

/// The library's clients, which own the connections.
#[derive(Debug)]
struct Clients {
    target: AmazonS3,
    /// Of a copy.
    source: Option<AmazonS3>,
}

/// An object on its way.
struct Task {
    key: Path,
    bytes: u64,
    /// What is written.
    content: Bytes,
}

/// What one transfer shares between its connections.
struct Settings<'a> {
    clients: &'a Clients,
    verb: &'a Verb,
    part: Option<u64>,
    parallel: usize,
    pause: Pause,
}

/// A pause that is due once.
struct Pause {
    /// Bytes until then.
    left: Cell<u64>,
    span: Duration,
}

// === impl Client ===

impl<'a> Client<'a> {
    /// Ready for the first transfer; nothing is sent before it.
    ///
    /// # Errors
    /// When the series cannot begin.
    pub fn new(series: &'a Series) -> Result<Self, ClientError> {
        if series.part == Some(0) {
            return Err(ClientError::Part);
        }
        Ok(Self {
            series,
            clients: Clients::new(series)?,
            done: 0,
        })
    }

    /// Does the next transfer of the series; `None` after its last.
    ///
    /// # Errors
    /// When a client or a content can't be made. A transfer that fails tells so itself.
    pub async fn next(&mut self) -> Result<Option<Transfer>, ClientError> {
        let series = self.series;
        if self.done == series.transfers {
            return Ok(None);
        }
        if !series.reuse && self.done > 0 {
            self.clients = Clients::new(series)?;
        }
        let transfer = one(series, &self.clients, series.first_index + self.done).await?;
        self.done += 1;
        Ok(Some(transfer))
    }
}

// === impl Clients ===

impl Clients {
    fn new(series: &Series) -> Result<Self, ClientError> {
        let source = match &series.verb {
            Verb::Put | Verb::Get => None,
            Verb::Copy(source) => Some(library::client(series, &source.endpoint)?),
        };
        Ok(Self {
            target: library::client(series, &series.endpoint)?,
            source,
        })
    }
}

async fn one(series: &Series, clients: &Clients, index: u64) -> Result<Transfer, ClientError> {
    let parallel = usize::try_from(series.parallel)
        .unwrap_or(usize::MAX)
        .max(1);
    let copies = if series.part.is_some() { 1 } else { parallel };
    let mut lanes = Vec::new();
    for lane in 0..copies {
        let tasks =
            series.sizes.iter().enumerate().map(|(place, bytes)| {
                task(series, index, lane * series.sizes.len() + place, *bytes)
            });
        lanes.push(tasks.collect::<Result<Vec<_>, _>>()?);
    }
    let pause = match series.read_pause {
        None => Pause::never(),
        Some(pause) => Pause {
            left: Cell::new(pause.after),
            span: span(pause.for_s)?,
        },
    };
    let settings = Settings {
        clients,
        verb: &series.verb,
        part: series.part,
        parallel,
        pause,
    };
    let began = Instant::now();
    let ends = future::join_all(lanes.iter().map(|tasks| lane(&settings, tasks))).await;
    let seconds = began.elapsed().as_secs_f64();
    let mut transfer = Transfer {
        index,
        objects: Vec::new(),
        seconds,
        error: None,
    };
    for (arrived, failure) in ends {
        transfer
            .objects
            .extend(arrived.into_iter().map(|(task, content)| Moved {
                key: task.key.to_string(),
                bytes: task.bytes,
                sha256: sha256_hex(&content),
            }));
        transfer.error = transfer.error.or(failure);
    }
    if matches!(series.verb, Verb::Get) && transfer.error.is_none() {
        transfer.error = first_difference(series, &transfer.objects)?;
    }
    Ok(transfer)
}

/// Objects one after the other; those that were moved with what arrived, and why not all of them.
async fn lane<'a>(
    settings: &Settings<'_>,
    tasks: &'a [Task],
) -> (Vec<(&'a Task, Bytes)>, Option<String>) {
    let mut moved = Vec::new();
    for task in tasks {
        match settings.carry(task).await {
            Ok(content) => moved.push((task, content)),
            Err(error) => return (moved, Some(with_causes(&error))),
        }
    }
    (moved, None)
}

fn task(series: &Series, index: u64, place: usize, bytes: u64) -> Result<Task, ClientError> {
    let key = match (&series.verb, place) {
        (Verb::Get, _) => payload::made_key(bytes),
        (Verb::Put | Verb::Copy(_), 0) => format!("{}/{index:06}", series.key_prefix),
        (Verb::Put | Verb::Copy(_), _) => format!("{}/{index:06}-{place}", series.key_prefix),
    };
    let key = Path::parse(&key).map_err(|source| ClientError::Key { key, source })?;
    let len = usize::try_from(bytes).map_err(|source| ClientError::Size { bytes, source })?;
    let content = match series.verb {
        Verb::Put => {
            let seed = series.seed.wrapping_add(u64::try_from(place).unwrap_or(0));
            payload::content(seed, index, len)
        }
        Verb::Get | Verb::Copy(_) => Bytes::new(),
    };
    Ok(Task {
        key,
        bytes,
        content,
    })
}

impl Settings<'_> {
    /// Moves one object and returns its content.
    async fn carry(&self, task: &Task) -> object_store::Result<Bytes> {
        let target = &self.clients.target;
        match (self.verb, &self.clients.source) {
            (Verb::Get, _) => self.get(target, &task.key, task.bytes).await,
            (Verb::Copy(_), Some(source)) => self.copy(source, task).await,
            (Verb::Put | Verb::Copy(_), _) => {
                self.put(&task.key, &task.content).await?;
                Ok(task.content.clone())
            }
        }
    }

    async fn put(&self, key: &Path, content: &Bytes) -> object_store::Result<()> {
        let target = &self.clients.target;
        let Some(part) = self.part else {
            let payload = PutPayload::from_bytes(content.clone());
            return target.put(key, payload).await.map(drop);
        };
        let mut upload = target.put_multipart(key).await?;
        let parts = ranges(content.len() as u64, part).map(|range| slice(content, &range));
        // Each part begins when it is asked for, and so many are asked for at once.
        stream::iter(parts)
            .map(|content| upload.put_part(PutPayload::from_bytes(content)))
            .buffer_unordered(self.parallel)
            .try_collect::<()>()
            .await?;
        upload.complete().await.map(drop)
    }

    async fn get(&self, from: &AmazonS3, key: &Path, bytes: u64) -> object_store::Result<Bytes> {
        let Some(part) = self.part else {
            return self.read(from, key, None).await;
        };
        let pieces: Vec<Bytes> = stream::iter(ranges(bytes, part))
            .map(|range| self.read(from, key, Some(range)))
            .buffered(self.parallel)
            .try_collect()
            .await?;
        Ok(joined(pieces))
    }

    /// One GET, read as it comes; put together after the last byte, which takes no time on the wire.
    async fn read(
        &self,
        from: &AmazonS3,
        key: &Path,
        range: Option<Range<u64>>,
    ) -> object_store::Result<Bytes> {
        let options = GetOptions {
            range: range.map(GetRange::Bounded),
            ..GetOptions::default()
        };
        let mut body = from.get_opts(key, options).await?.into_stream();
        let mut pieces = Vec::new();
        while let Some(piece) = body.try_next().await? {
            let pause = self.pause.after(piece.len() as u64);
            pieces.push(piece);
            if let Some(span) = pause {
                tokio::time::sleep(span).await;
            }
        }
        Ok(joined(pieces))
    }

    async fn copy(&self, source: &AmazonS3, task: &Task) -> object_store::Result<Bytes> {
        let from = Path::from(payload::made_key(task.bytes));
        let target = &self.clients.target;
        let Some(part) = self.part else {
            let content = self.read(source, &from, None).await?;
            self.put(&task.key, &content).await?;
            return Ok(content);
        };
        let mut upload = target.put_multipart(&task.key).await?;
        let mut pieces = Vec::new();
        stream::iter(ranges(task.bytes, part))
            .map(|range| self.read(source, &from, Some(range)))
            // In order, because the order of `put_part` numbers the parts.
            .buffered(self.parallel)
            .map_ok(|piece| {
                pieces.push(piece.clone());
                upload.put_part(PutPayload::from_bytes(piece))
            })
            .try_buffer_unordered(self.parallel)
            .try_collect::<()>()
            .await?;
        upload.complete().await?;
        Ok(joined(pieces))
    }
}

// === impl Pause ===

impl Pause {
    fn never() -> Self {
        Self {
            left: Cell::new(u64::MAX),
            span: Duration::ZERO,
        }
    }

    /// Counts bytes; how long to pause, if that is due now.
    fn after(&self, bytes: u64) -> Option<Duration> {
        let left = self.left.get();
        if left == u64::MAX {
            return None;
        }
        if bytes < left {
            self.left.set(left - bytes);
            return None;
        }
        self.left.set(u64::MAX);
        Some(self.span)
    }
}

/// `bytes` cut into parts of `part`, the last one shorter; one empty part of an empty object.
fn ranges(bytes: u64, part: u64) -> impl Iterator<Item = Range<u64>> {
    let parts = bytes.div_ceil(part.max(1)).max(1);
    (0..parts).map(move |number| {
        let start = number * part;
        start..start.saturating_add(part).min(bytes)
    })
}

fn slice(content: &Bytes, range: &Range<u64>) -> Bytes {
    // Ranges of what is in memory fit into memory.
    let at = |place| usize::try_from(place).unwrap_or(content.len());
    content.slice(at(range.start)..at(range.end))
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() == 1 {
        return pieces.remove(0);
    }
    let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    for piece in pieces {
        whole.extend_from_slice(&piece);
    }
    whole.freeze()
}

/// What is read must be what the origin makes of seed and size.
fn first_difference(series: &Series, objects: &[Moved]) -> Result<Option<String>, ClientError> {
    let mut known: Option<(u64, String)> = None;
    for object in objects {
        let alike = known.take().filter(|(bytes, _)| *bytes == object.bytes);
        let expected = if let Some((_, digest)) = alike {
            digest
        } else {
            let bytes = object.bytes;
            let len =
                usize::try_from(bytes).map_err(|source| ClientError::Size { bytes, source })?;
            sha256_hex(&payload::made(series.seed, len))
        };
        if object.sha256 != expected {
            let why = format!(
                "{} arrived with other bytes than the origin made",
                object.key
            );
            return Ok(Some(why));
        }
        known = Some((object.bytes, expected));
    }
    Ok(None)
}

pub(super) fn span(seconds: f64) -> Result<Duration, ClientError> {
    Duration::try_from_secs_f64(seconds).map_err(|source| ClientError::Wait { seconds, source })
}

/// An error and its causes in one line. The library repeats causes in its own text, so a cause that is
/// already there is left out.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
