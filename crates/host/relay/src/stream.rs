//! Moving bytes between a socket and a bounded buffer, with a limit on how long nothing happens.

use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::alarm::within;
use crate::buffer::Buffer;
use crate::http::Malformed;
use crate::http::body::Body;
use crate::http::head::HeadScanner;
use crate::throttle::Throttle;

/// No head came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadError {
    /// The connection ended; `partial` says whether part of a head had come.
    #[error("the connection ended before a complete head")]
    Ended { partial: bool },
    #[error("cannot read the head")]
    Read(#[source] io::Error),
    #[error("the head is longer than its limit")]
    TooLong,
    #[error("the head is malformed")]
    Malformed(#[source] Malformed),
}

/// A body was not forwarded to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    #[error("cannot read the body")]
    Read(#[source] io::Error),
    #[error("the connection ended inside the body")]
    Truncated,
    #[error("no byte of the body came in time")]
    ReadTimeout,
    #[error("the body's framing is malformed")]
    Malformed(#[source] Malformed),
    #[error("cannot write the message on")]
    Write(#[source] io::Error),
    #[error("no byte of the message could be written in time")]
    WriteTimeout,
}

/// Where the bytes of a body are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally<'a> {
    pub(crate) copied: &'a AtomicU64,
    /// What they are held back by.
    pub(crate) throttle: Option<&'a Throttle>,
}

impl Tally<'_> {
    /// Waits until so many bytes may be written on.
    pub(crate) async fn admit(self, bytes: usize) {
        if let Some(throttle) = self.throttle {
            throttle.pay(bytes).await;
        }
    }

    pub(crate) fn count(self, bytes: usize) {
        let count = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.copied.fetch_add(count, Ordering::Relaxed);
    }
}

/// Reads until the buffer starts with a complete head, and returns its length.
pub(crate) async fn read_head(
    reader: &mut (impl AsyncRead + Unpin),
    buffer: &mut Buffer,
    limit: usize,
) -> Result<usize, HeadError> {
    let mut scanner = HeadScanner::default();
    loop {
        let seen = buffer.filled();
        match scanner.scan(seen).map_err(HeadError::Malformed)? {
            Some(length) if length <= limit => return Ok(length),
            None if seen.len() < limit => {}
            Some(_) | None => return Err(HeadError::TooLong),
        }
        if buffer.read_from(reader).await.map_err(HeadError::Read)? == 0 {
            return Err(HeadError::Ended {
                partial: !buffer.is_empty(),
            });
        }
    }
}

/// Writes once, as much as is taken of a head and what is at hand of its body.
pub(crate) async fn write_both(
    writer: &mut (impl AsyncWrite + Unpin),
    head: &[u8],
    body: &[u8],
) -> io::Result<usize> {
    if body.is_empty() {
        return writer.write(head).await;
    }
    let pieces = [IoSlice::new(head), IoSlice::new(body)];
    writer.write_vectored(&pieces).await
}

/// Writes a head and what is at hand of its body: both in one system call, and one segment where they fit.
pub(crate) async fn write_message(
    writer: &mut (impl AsyncWrite + Unpin),
    head: &[u8],
    body: &[u8],
    patience: Duration,
) -> Result<(), CopyError> {
    let taken = within(patience, pin!(write_both(writer, head, body)))
        .await
        .map_err(|_elapsed| CopyError::WriteTimeout)?
        .map_err(CopyError::Write)?;
    let rest = head.get(taken..).unwrap_or_default();
    if !rest.is_empty() {
        write_all(writer, rest, patience).await?;
    }
    let written = taken.saturating_sub(head.len());
    write_all(writer, &body[written..], patience).await
}

/// Forwards a body as it arrives, its bytes unchanged, and leaves what follows it in the buffer. Reads
/// only when all that was read is written, so that a slow receiver holds its sender back. The buffer's
/// first `owed` bytes belong to the body already, are admitted, and have not been written.
pub(crate) async fn copy_body(
    reader: &mut (impl AsyncRead + Unpin),
    buffer: &mut Buffer,
    body: &mut Body,
    mut owed: usize,
    writer: &mut (impl AsyncWrite + Unpin),
    patience: Duration,
    tally: Tally<'_>,
) -> Result<(), CopyError> {
    loop {
        let new = &buffer.filled()[owed..];
        let fresh = body.accept(new).map_err(CopyError::Malformed)?;
        let accepted = owed + fresh;
        owed = 0;
        if accepted > 0 {
            tally.admit(fresh).await;
            write_all(writer, &buffer.filled()[..accepted], patience).await?;
            buffer.consume(accepted);
            tally.count(accepted);
        }
        if body.is_done() {
            return Ok(());
        }
        let count = within(patience, pin!(buffer.read_from(reader)))
            .await
            .map_err(|_elapsed| CopyError::ReadTimeout)?
            .map_err(CopyError::Read)?;
        if count == 0 {
            return match body {
                Body::UntilClose => Ok(()),
                Body::Length(_) | Body::Chunked(_) => Err(CopyError::Truncated),
            };
        }
    }
}

/// Writes all bytes, as long as some are taken within `patience` each time. What TLS holds back goes as well.
pub(crate) async fn write_all(
    writer: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    patience: Duration,
) -> Result<(), CopyError> {
    while !bytes.is_empty() {
        let count = within(patience, pin!(writer.write(bytes)))
            .await
            .map_err(|_elapsed| CopyError::WriteTimeout)?
            .map_err(CopyError::Write)?;
        if count == 0 {
            return Err(CopyError::Write(io::ErrorKind::WriteZero.into()));
        }
        bytes = &bytes[count..];
    }
    within(patience, pin!(writer.flush()))
        .await
        .map_err(|_elapsed| CopyError::WriteTimeout)?
        .map_err(CopyError::Write)
}
