//! Streams to a host that knows nothing of us: it takes what it gets, as a discard service or `nc -l` does.
//! What its TCP has acknowledged is what was carried; nobody compares the bytes.

use std::io::{self, IoSlice};
use std::thread;
use std::time::{Duration, Instant};

use super::{GRACE, Run};
use crate::engine::Stream;
use crate::failure::FlowError;
use crate::pattern::{BLOCK, Pattern, to_u64};
use crate::protocol::Ask;

/// How often the peer's acknowledgements are looked at behind the last byte.
const LOOK: Duration = Duration::from_millis(1);
/// After so long without news a peer has gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a stream came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Carried {
    /// Payload bytes that the peer's TCP acknowledged.
    pub(super) bytes: u64,
    /// From the first write to the acknowledgement of the last byte.
    pub(super) seconds: f64,
}

/// Sends one stream and waits until all of it is acknowledged. A stream that lasts for a time counts what
/// was acknowledged when the time was over, and is not waited for.
pub(super) fn stream(
    run: &Run<'_>,
    stream: &dyn Stream,
    seed: u64,
    ask: Ask,
) -> Result<Carried, FlowError> {
    let started = Instant::now();
    let before = acknowledged(stream)?;
    let mut pattern = Pattern::new(seed);
    let mut sent = 0;
    loop {
        let left = match ask {
            Ask::Bytes(bytes) => bytes.saturating_sub(sent),
            Ask::Nanoseconds(span) if started.elapsed() < Duration::from_nanos(span) => {
                to_u64(BLOCK)
            }
            Ask::Nanoseconds(_) => 0,
        };
        if left == 0 || run.control.is_stopped() {
            break;
        }
        let payload = pattern.peek(left);
        let taken = stream
            .write(&[IoSlice::new(payload)])
            .map_err(FlowError::Send)?;
        if taken == 0 {
            return Err(FlowError::Send(io::ErrorKind::WriteZero.into()));
        }
        pattern.advance(taken);
        sent += to_u64(taken);
    }
    let carried = || -> Result<Carried, FlowError> {
        Ok(Carried {
            bytes: acknowledged(stream)?.saturating_sub(before).min(sent),
            seconds: started.elapsed().as_secs_f64(),
        })
    };
    let mut latest = carried()?;
    if matches!(ask, Ask::Nanoseconds(_)) {
        return Ok(latest);
    }
    let mut news_at = Instant::now();
    while latest.bytes < sent {
        let patience = if run.control.is_stopped() {
            GRACE
        } else {
            PATIENCE
        };
        if news_at.elapsed() > patience {
            return Err(FlowError::Late {
                missing: "the acknowledgement of the last byte",
            });
        }
        thread::sleep(LOOK);
        let next = carried()?;
        if next.bytes > latest.bytes {
            news_at = Instant::now();
        }
        latest = next;
    }
    Ok(latest)
}

/// Bytes that the peer has acknowledged since the connection began.
fn acknowledged(stream: &dyn Stream) -> Result<u64, FlowError> {
    let sample = stream.sample().ok_or(FlowError::Ended {
        missing: "all was acknowledged",
    })?;
    Ok(sample.acknowledged)
}
