//! How a relayed connection comes to its end, whatever passes over it: who ended it, and the silence that
//! ends it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use profile::Side;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::event::{EndedBy, Phase};
use crate::upstream::ConnectError;

/// How a connection came to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) by: EndedBy,
    pub(crate) error: Option<String>,
}

/// The side at which a stream broke.
#[derive(Debug)]
pub(crate) enum Broken {
    Source(io::Error),
    Sink(io::Error),
}

/// Watches for silence. The timer is not moved with every byte: when it fires, it is set again for what
/// is left.
pub(crate) struct Idle {
    patience: Duration,
    /// The same once one side has ended its direction.
    half_closed_patience: Duration,
    timer: Pin<Box<tokio::time::Sleep>>,
    moved: u64,
    last_at: Instant,
    closing: bool,
}

// === impl Ended ===

impl Ended {
    pub(crate) fn completed() -> Self {
        Self {
            by: EndedBy::Completed,
            error: None,
        }
    }

    pub(crate) fn because(by: EndedBy, error: &(dyn std::error::Error + 'static)) -> Self {
        Self {
            by,
            error: Some(crate::chain(error)),
        }
    }

    pub(crate) fn not_connected(error: &ConnectError) -> Self {
        let by = if error.is_timeout() {
            EndedBy::Timeout
        } else if error.is_resource() {
            EndedBy::Resource
        } else {
            EndedBy::Server
        };
        Self::because(by, error)
    }

    pub(crate) fn timeout(why: &str) -> Self {
        Self {
            by: EndedBy::Timeout,
            error: Some(why.into()),
        }
    }

    pub(crate) fn broken(broken: Broken, source: EndedBy, sink: EndedBy) -> Self {
        match broken {
            Broken::Source(error) => Self::failed(source, &error),
            Broken::Sink(error) => Self::failed(sink, &error),
        }
    }

    /// A connection failed. A peer that acknowledges nothing any more is the kernel's timeout.
    pub(crate) fn failed(side: EndedBy, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::TimedOut {
            let peer = if side == EndedBy::Client {
                "client"
            } else {
                "target"
            };
            return Self::timeout(&format!("the {peer} acknowledges nothing any more"));
        }
        Self::because(side, error)
    }
}

// === impl Idle ===

impl Idle {
    pub(crate) fn new(patience: Duration, half_closed_patience: Duration) -> Self {
        Self {
            patience,
            half_closed_patience,
            timer: Box::pin(sleep(patience)),
            moved: 0,
            last_at: Instant::now(),
            closing: false,
        }
    }

    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        moved: u64,
        closing: bool,
    ) -> Poll<Ended> {
        if moved != self.moved || closing != self.closing {
            self.last_at = Instant::now();
            self.moved = moved;
        }
        let patience = if closing {
            self.half_closed_patience
        } else {
            self.patience
        };
        let due = self.last_at + patience;
        if closing != self.closing {
            self.closing = closing;
            self.timer.as_mut().reset(due);
        }
        while self.timer.as_mut().poll(context).is_ready() {
            if due <= Instant::now() {
                return Poll::Ready(Ended::timeout("no byte has moved for the limit"));
            }
            self.timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

/// Notes that the client or the server has ended its direction; whether both have. Where both end in the
/// same turn, neither was first.
pub(crate) fn both_closed(
    client: bool,
    server: bool,
    first: &mut Option<Side>,
    phase: &mut Phase,
) -> bool {
    match (client, server) {
        (false, false) => return false,
        (true, false) => _ = first.get_or_insert(Side::Client),
        (false, true) => _ = first.get_or_insert(Side::Server),
        (true, true) => {}
    }
    *phase = Phase::Closing;
    client && server
}

/// Resolves when the connection fails, also while nobody reads from it: after its FIN, or while the other
/// side takes nothing.
pub(crate) async fn failure(stream: &TcpStream) -> io::Error {
    match stream.ready(Interest::ERROR).await {
        Err(error) => error,
        Ok(_) => match stream.take_error() {
            Ok(Some(error)) | Err(error) => error,
            // Somebody else has taken the error and will tell.
            Ok(None) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_end_is_kept_and_both_in_one_turn_are_a_close_too() {
        let (mut first, mut phase) = (None, Phase::Data);
        assert!(!both_closed(false, false, &mut first, &mut phase));
        assert_eq!((first, phase), (None, Phase::Data));
        assert!(!both_closed(false, true, &mut first, &mut phase));
        assert!(both_closed(true, true, &mut first, &mut phase));
        assert_eq!((first, phase), (Some(Side::Server), Phase::Closing));

        let (mut first, mut phase) = (None, Phase::Data);
        assert!(both_closed(true, true, &mut first, &mut phase));
        assert_eq!((first, phase), (None, Phase::Closing));
    }
}
