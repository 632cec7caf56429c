//! Streams that end inside the relays: an echo at the other end, and the probe that uses it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;
use tokio::time::timeout;
use trunk::{Explanation, Reason, Target};

use super::engine::{Engine, Exchange, Handle, StreamEnd};

/// The target that every end answers itself. No host can be called so.
pub(super) const TARGET: &str = "@echo";

/// What the probe sends: several chunks of the protocol, and little beside anything it shares a path with.
const LENGTH: usize = 256 * 1024;

/// How long a whole probe may take: two timeouts of a connection to a target.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// The trunk.
    pub trunk: String,
    /// Whether everything below is well.
    pub healthy: bool,
    /// Whether data came back unchanged.
    pub echo: ProbeEcho,
    /// Whether each target's port was reached.
    pub targets: Vec<ProbeTarget>,
}

/// Data that went to the other end and back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeEcho {
    /// Bytes sent, each way.
    pub bytes: usize,
    /// From opening the stream to the first byte back.
    pub first_byte_s: Option<f64>,
    /// From opening the stream to its end, all bytes compared.
    pub seconds: Option<f64>,
    /// What went wrong, if anything.
    pub error: Option<String>,
}

/// A target's port, as the other end reaches it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeTarget {
    /// The target.
    pub target: String,
    /// From opening the stream to the other end's word that it is connected.
    pub seconds: Option<f64>,
    /// What went wrong, if anything.
    pub error: Option<String>,
}

/// Gives back all that comes, until the other end has ended its direction.
pub(super) async fn reflect(engine: &Engine, stream: &Handle) {
    engine.accept(stream);
    let mut offer = Bytes::new();
    let mut at_end = false;
    let mut consumed = 0;
    poll_fn(|context| {
        loop {
            let before = offer.len();
            let exchanged = engine.exchange(
                context,
                stream,
                Exchange {
                    offer: &mut offer,
                    finishing: at_end,
                    // It counts as taken once it is on its way back, which bounds what is held.
                    consumed: std::mem::take(&mut consumed),
                    hunger: usize::from(before == 0 && !at_end),
                },
            );
            let returned = before - offer.len();
            if exchanged.end.is_some() {
                return Poll::Ready(());
            }
            at_end |= exchanged.at_end;
            // One piece at most: no more was asked for.
            let came = exchanged.pieces.into_iter().next();
            if returned == 0 && came.is_none() && !exchanged.at_end {
                return Poll::Pending;
            }
            if let Some(bytes) = came {
                consumed = bytes.len();
                offer = bytes;
            }
        }
    })
    .await;
}

/// Passes data through a trunk and back, and reaches each target's port.
pub(super) async fn probe(engine: &Arc<Engine>, targets: &[String]) -> Probe {
    let echo = match timeout(PATIENCE, probe_echo(engine)).await {
        Ok(echo) => echo,
        Err(_elapsed) => ProbeEcho::failed(format!(
            "the echo did not come back within {}",
            units::format_span(PATIENCE)
        )),
    };
    let mut reached = Vec::new();
    for target in targets {
        let started = Instant::now();
        let outcome = match timeout(PATIENCE, reach(engine, target)).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Err(format!(
                "no word of the target within {}",
                units::format_span(PATIENCE)
            )),
        };
        let seconds = started.elapsed().as_secs_f64();
        reached.push(ProbeTarget {
            target: target.clone(),
            seconds: outcome.is_ok().then_some(seconds),
            error: outcome.err(),
        });
    }
    Probe {
        trunk: engine.name.clone(),
        healthy: echo.error.is_none() && reached.iter().all(|target| target.error.is_none()),
        echo,
        targets: reached,
    }
}

// === impl Probe ===

impl Probe {
    /// The first thing that is wrong, if anything is.
    pub(super) fn problem(&self) -> Option<String> {
        let echo = self.echo.error.clone();
        echo.or_else(|| {
            let ill = self.targets.iter().find(|target| target.error.is_some())?;
            let error = ill.error.as_deref().unwrap_or_default();
            Some(format!("{}: {error}", ill.target))
        })
    }
}

// === impl ProbeEcho ===

impl ProbeEcho {
    fn failed(error: String) -> Self {
        Self {
            bytes: LENGTH,
            first_byte_s: None,
            seconds: None,
            error: Some(error),
        }
    }
}

async fn probe_echo(engine: &Arc<Engine>) -> ProbeEcho {
    let started = Instant::now();
    let sent = pattern();
    let mut offer = sent.clone();
    let stream = match open(engine, TARGET, &mut offer) {
        Ok(stream) => stream,
        Err(error) => return ProbeEcho::failed(error),
    };
    let mut got = 0;
    let mut consumed = 0;
    let mut first = None;
    let mut same = true;
    let end = poll_fn(|context| {
        loop {
            let exchanged = engine.exchange(
                context,
                &stream.0,
                Exchange {
                    offer: &mut offer,
                    finishing: true,
                    consumed: std::mem::take(&mut consumed),
                    hunger: LENGTH,
                },
            );
            for bytes in &exchanged.pieces {
                first.get_or_insert_with(|| started.elapsed().as_secs_f64());
                same &= sent.get(got..got + bytes.len()) == Some(&bytes[..]);
                got += bytes.len();
                consumed += bytes.len();
            }
            if let Some(end) = exchanged.end {
                return Poll::Ready(end);
            }
            if exchanged.pieces.is_empty() {
                return Poll::Pending;
            }
        }
    })
    .await;
    let error = match end.broken {
        Some((why, _)) => Some(why.to_string()),
        None if !same || got != LENGTH => Some("other bytes came back than were sent".into()),
        None => None,
    };
    ProbeEcho {
        bytes: LENGTH,
        first_byte_s: first,
        seconds: error.is_none().then(|| started.elapsed().as_secs_f64()),
        error,
    }
}

/// Has the other end connect to `target`, and closes the connection again.
async fn reach(engine: &Arc<Engine>, target: &str) -> Result<(), String> {
    let stream = open(engine, target, &mut Bytes::new())?;
    let word = poll_fn(|context| {
        let waiting = Exchange {
            offer: &mut Bytes::new(),
            finishing: false,
            consumed: 0,
            hunger: 0,
        };
        let exchanged = engine.exchange(context, &stream.0, waiting);
        if exchanged.accepted || exchanged.end.is_some() {
            return Poll::Ready(exchanged);
        }
        Poll::Pending
    })
    .await;
    match word.end {
        Some(StreamEnd {
            broken: Some((why, _)),
            ..
        }) => Err(why.to_string()),
        _ => Ok(()),
    }
}

/// A probe's stream, which is reset where the probe is given up.
struct Probing(Handle, Arc<Engine>);

impl Drop for Probing {
    fn drop(&mut self) {
        let why = Explanation::new(Reason::Reset, "the probe is over");
        self.1.reset(&self.0, why);
    }
}

fn open(engine: &Arc<Engine>, target: &str, first: &mut Bytes) -> Result<Probing, String> {
    let target = Target::new(target).map_err(|error| error.to_string())?;
    let opened = engine.open(&target, first);
    let handle = opened.map_err(|error| crate::chain(&error))?;
    Ok(Probing(handle, Arc::clone(engine)))
}

/// Bytes of which no two chunks are alike.
fn pattern() -> Bytes {
    let words = (0..LENGTH / 8).map(|index| (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_be_bytes).collect()
}
