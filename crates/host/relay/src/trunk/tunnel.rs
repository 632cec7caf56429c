//! One stream: between an application's socket at this end and the core.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use sys::socket::finish_sending;
use tokio::net::TcpStream;
use trunk::{By, Explanation, Half, Reason, StreamId};

use super::engine::{Engine, Exchange, Exchanged, Handle, StreamEnd};
use super::event::{StreamDone, StreamHalf, TrunkEvent, limits};
use super::pieces::{advance, slices};
use crate::ending::{Idle, failure};
use crate::event::Events;

/// One read, or one write, of a stream that is in bulk.
const BULK: usize = 256 * 1024;

/// One read of a stream that is not known to be: idle streams hold nothing, and what is typed costs little.
const SMALL: usize = 16 * 1024;

/// Rounds before other tasks of this thread get their turn.
const ROUNDS: usize = 16;

/// Where the application is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Application {
    /// A client that came in here.
    Client(SocketAddr),
    /// A target that was connected to from here.
    Server(SocketAddr),
}

/// How long nothing may happen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) idle: Duration,
    pub(super) half_closed: Duration,
}

/// A stream and its socket. Told of when it ends; a stream that is given up before is reset.
pub(super) struct Tunnel {
    pub(super) engine: Arc<Engine>,
    pub(super) events: Events,
    pub(super) stream: Handle,
    pub(super) target: String,
    pub(super) socket: TcpStream,
    pub(super) application: Application,
    pub(super) patience: Patience,
}

/// Bytes under way through a tunnel.
#[derive(Default)]
struct Flow {
    up: Up,
    down: Down,
    /// Bytes so far, both ways.
    moved: u64,
}

/// From the socket to the core.
#[derive(Default)]
struct Up {
    /// Read, not taken by the core.
    bytes: Bytes,
    buffer: BytesMut,
    /// Whether the last read filled what it was given.
    bulk: bool,
    /// Whether the socket has sent its FIN.
    ended: bool,
    /// Whether the core was told of that.
    finished: bool,
}

/// From the core to the socket.
#[derive(Default)]
struct Down {
    /// Not taken by the socket.
    pieces: VecDeque<Bytes>,
    /// Taken by the socket since the core was told.
    consumed: usize,
    /// Whether the other end has nothing more to say.
    ended: bool,
    /// Whether the socket was told of that.
    finished: bool,
}

// === impl Tunnel ===

impl Tunnel {
    /// Carries bytes until the stream has ended.
    ///
    /// `first`: what was read from the socket and not taken by the core.
    pub(super) async fn carry(self, first: Bytes) {
        let end = self.run(first).await;
        if end.broken.is_some() {
            // Closed with a FIN, what came so far would look like the whole.
            let _ = self.socket.set_zero_linger();
        }
        let (client, server) = match self.application {
            Application::Client(peer) => (Some(peer), None),
            Application::Server(peer) => (None, Some(peer)),
        };
        let done = done(&self.engine.name, self.stream.id, &self.target, &end);
        (self.events)(
            TrunkEvent::StreamDone(Box::new(StreamDone {
                client,
                server,
                ..done
            }))
            .into(),
        );
    }

    async fn run(&self, first: Bytes) -> StreamEnd {
        let mut flow = Flow::default();
        flow.up.bytes = first;
        let mut idle = Idle::new(self.patience.idle, self.patience.half_closed);
        let mut failure = pin!(failure(&self.socket));
        poll_fn(|context| {
            let mut ended = self.poll(context, &mut flow);
            if ended.is_pending()
                && let Poll::Ready(error) = failure.as_mut().poll(context)
            {
                ended = self.give_up(context, &mut flow, &broken(&error));
            }
            let closing = flow.up.finished || flow.down.finished;
            if ended.is_pending()
                && let Poll::Ready(silence) = idle.poll(context, flow.moved, closing)
            {
                let detail = silence.error.unwrap_or_default();
                let why = Explanation::new(Reason::Reset, &detail);
                ended = self.give_up(context, &mut flow, &why);
            }
            ended
        })
        .await
    }

    fn poll(&self, context: &mut Context<'_>, flow: &mut Flow) -> Poll<StreamEnd> {
        for _ in 0..ROUNDS {
            let read = match flow.up.read(context, &self.socket) {
                Ok(count) => count,
                Err(error) => return self.give_up(context, flow, &broken(&error)),
            };
            let offered = flow.up.bytes.len();
            let exchanged = self.exchange(context, flow);
            if let Some(end) = exchanged.end {
                return Poll::Ready(end);
            }
            let accepted = offered - flow.up.bytes.len();
            let taken = !exchanged.pieces.is_empty();
            if taken {
                flow.down.pieces = exchanged.pieces;
            }
            flow.up.finished = exchanged.finished;
            flow.down.ended |= exchanged.at_end;
            let written = match flow.down.write(context, &self.socket) {
                Ok(count) => count,
                Err(error) => return self.give_up(context, flow, &broken(&error)),
            };
            let moved = read.unwrap_or(0) + written.unwrap_or(0);
            flow.moved += u64::try_from(moved).unwrap_or(u64::MAX);
            if read.is_none() && accepted == 0 && !taken && written.is_none() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn exchange(&self, context: &Context<'_>, flow: &mut Flow) -> Exchanged {
        let Flow { up, down, .. } = flow;
        self.engine.exchange(
            context,
            &self.stream,
            Exchange {
                finishing: up.ended,
                offer: &mut up.bytes,
                consumed: std::mem::take(&mut down.consumed),
                hunger: if down.pieces.is_empty() && !down.ended {
                    BULK
                } else {
                    0
                },
            },
        )
    }

    /// Resets the stream, which ends it.
    fn give_up(
        &self,
        context: &Context<'_>,
        flow: &mut Flow,
        why: &Explanation,
    ) -> Poll<StreamEnd> {
        self.engine.reset(&self.stream, why.clone());
        self.exchange(context, flow)
            .end
            .map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        // Whoever stops this task ends the stream: nobody would serve it.
        let why = Explanation::from(Reason::Shutdown);
        self.engine.reset(&self.stream, why);
    }
}

// === impl Up ===

impl Up {
    /// Reads once, where what was read before has been taken; `None` where nothing was there.
    fn read(&mut self, context: &mut Context<'_>, socket: &TcpStream) -> io::Result<Option<usize>> {
        if self.ended || !self.bytes.is_empty() {
            return Ok(None);
        }
        loop {
            match socket.poll_read_ready(context) {
                Poll::Pending => return Ok(None),
                Poll::Ready(ready) => ready?,
            }
            let room = if self.bulk { BULK } else { SMALL };
            self.buffer.reserve(room);
            let count = match socket.try_read_buf(&mut self.buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            self.ended = count == 0;
            self.bytes = take(&mut self.buffer, room);
            self.bulk = count >= SMALL;
            if !self.bulk {
                // An idle stream holds nothing.
                self.buffer = BytesMut::new();
            }
            return Ok(Some(count));
        }
    }
}

// === impl Down ===

impl Down {
    /// Writes what the socket takes, and the end after it; `None` where that is nothing.
    fn write(
        &mut self,
        context: &mut Context<'_>,
        socket: &TcpStream,
    ) -> io::Result<Option<usize>> {
        let mut written = None;
        while !self.pieces.is_empty() {
            match socket.poll_write_ready(context) {
                Poll::Pending => return Ok(written),
                Poll::Ready(ready) => ready?,
            }
            match socket.try_write_vectored(&slices(&self.pieces)) {
                Ok(count) => {
                    advance(&mut self.pieces, count);
                    self.consumed += count;
                    written = Some(written.unwrap_or(0) + count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if self.ended && !self.finished {
            finish_sending(socket)?;
            self.finished = true;
            written = written.or(Some(0));
        }
        Ok(written)
    }
}

/// What was read. Little in a large buffer moves out of it: the core keeps bytes until the other end has
/// them, and would keep the whole buffer with them.
fn take(buffer: &mut BytesMut, room: usize) -> Bytes {
    if buffer.len() < room / 2 {
        let copy = Bytes::copy_from_slice(buffer);
        buffer.clear();
        return copy;
    }
    std::mem::take(buffer).freeze()
}

/// Reads what a client has already sent, so that it can travel with the opening.
pub(super) fn first_bytes(socket: &TcpStream) -> Bytes {
    let mut buffer = BytesMut::with_capacity(SMALL);
    match socket.try_read_buf(&mut buffer) {
        Ok(_) => take(&mut buffer, SMALL),
        // Nothing yet, or an error that the next read will meet again.
        Err(_) => Bytes::new(),
    }
}

fn broken(error: &io::Error) -> Explanation {
    Explanation::new(Reason::Reset, &error.to_string())
}

/// A stream's receipt as an event; the application is to be filled in.
pub(super) fn done(trunk: &str, stream: StreamId, target: &str, end: &StreamEnd) -> StreamDone {
    let receipt = &end.receipt;
    let half = |half: &Half| StreamHalf {
        bytes: half.bytes,
        digest: half.digest.map(|digest| digest.to_string()),
        confirmed: half.confirmed,
    };
    StreamDone {
        trunk: trunk.to_owned(),
        stream: stream.number(),
        client: None,
        server: None,
        target: target.to_owned(),
        seconds: receipt.closed_at.since(receipt.opened_at).as_secs_f64(),
        limits_s: limits(&receipt.held_by),
        sent: half(&receipt.sent),
        received: half(&receipt.received),
        ended_by: match &end.broken {
            None => "completed",
            Some((_, By::Us)) => "this-end",
            Some((_, By::Peer)) => "other-end",
            Some((_, By::Trunk)) => "trunk",
        },
        reason: end.broken.as_ref().map(|(why, _)| why.reason.name()),
        error: end.broken.as_ref().map(|(why, _)| why.to_string()),
    }
}
