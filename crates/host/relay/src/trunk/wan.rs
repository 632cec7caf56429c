//! One WAN connection: bytes of the core to its socket, and back.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use profile::{Side, TcpProfile};
use sys::tcp_info::TcpInfo;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};
use trunk::{ConnectionId, Manner, Observation};
use units::Rate;

use super::engine::{Engine, Order};
use super::pieces::{advance, slices};
use super::shield::Shielded;
use super::site::FAREWELL;

/// One read: four chunks of the protocol, and what a paced gigabit carries in 2 ms.
const READ: usize = 256 * 1024;

/// What the core is asked for at a time. The socket's own bound of unsent bytes ends a burst.
const WRITE: usize = 256 * 1024;

/// What shares a queue with the flows of common hosts as they do with each other: it is what they use.
const MODEST: &str = "cubic";

/// Rounds before other tasks of this thread get their turn.
const ROUNDS: usize = 16;

/// Between two looks at `TCP_INFO` while bytes move: well below any WAN's round trip.
const LOOK: Duration = Duration::from_millis(5);

/// The same while the connection could have gone silent.
const IDLE_LOOK: Duration = Duration::from_millis(100);

/// A WAN connection at work.
pub(super) struct Wan {
    engine: Arc<Engine>,
    pub(super) id: ConnectionId,
    pub(super) peer: SocketAddr,
    link: Shielded,
    /// Given by the core and not taken by the socket.
    out: VecDeque<Bytes>,
    /// Whether the socket or TLS may still hold bytes back.
    unflushed: bool,
    buffer: BytesMut,
    /// The congestion control that the profile has given it; `None` where the kernel does not tell.
    eager: Option<String>,
    manner: Manner,
    /// The fastest that the profile lets it pace, and what holds now.
    fastest: Rate,
    bound: Option<Rate>,
    /// What the socket may hold unsent, where the profile bounds that.
    unsent: Option<units::Bytes>,
    looked_at: Option<Instant>,
    moved: bool,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

/// Why a WAN connection's task has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("cannot read from the WAN connection")]
    Read(#[source] io::Error),
    #[error("cannot write to the WAN connection")]
    Write(#[source] io::Error),
    #[error("the other end closed the WAN connection")]
    Ended,
    #[error("the other end broke the protocol")]
    Violation(#[source] trunk::Violation),
    #[error("{0}")]
    Closed(String),
}

// === impl Wan ===

impl Wan {
    pub(super) fn new(
        engine: Arc<Engine>,
        id: ConnectionId,
        peer: SocketAddr,
        link: Shielded,
        profile: &TcpProfile,
    ) -> Self {
        // Beyond any device: the kernel's own word for no bound does not fit into a rate in bits.
        let fastest = profile.max_pacing_rate.unwrap_or(Rate::bit_per_s(u64::MAX));
        Self {
            engine,
            id,
            peer,
            eager: sys::socket::congestion_control(link.tcp()).ok(),
            manner: Manner::Eager,
            fastest,
            bound: None,
            unsent: profile.notsent_low_water,
            link,
            out: VecDeque::new(),
            unflushed: false,
            buffer: BytesMut::new(),
            looked_at: None,
            moved: true,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// Carries bytes until the connection ends, one way or the other.
    pub(super) async fn carry(&mut self) -> Lost {
        let mut looks = interval(IDLE_LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let lost = poll_fn(|context| self.poll(context, &mut looks)).await;
        match lost {
            Lost::Closed(_) => {
                // Whoever is gone already has lost nothing.
                let _ = timeout(FAREWELL, self.linger()).await;
            }
            Lost::Write(_) => {
                // An end that has closed may have said why, and that is still to be read.
                let hearing = poll_fn(|context| self.hear_out(context));
                let _ = timeout(FAREWELL, hearing).await;
            }
            Lost::Read(_) | Lost::Ended | Lost::Violation(_) => {}
        }
        lost
    }

    /// Reads what has come, to its end. That a write failed is often known before it is that there is
    /// something to read.
    fn hear_out(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while ready!(self.read(context)).is_ok() {}
        Poll::Ready(())
    }

    /// Says that nothing more comes, and reads until the other end says so too. A socket that is closed with
    /// bytes unread resets the connection (RFC 2525 section 2.17), and a farewell on its way is lost with it.
    async fn linger(&mut self) -> io::Result<()> {
        self.link.shutdown().await?;
        loop {
            self.buffer.clear();
            if self.link.read_buf(&mut self.buffer).await? == 0 {
                return Ok(());
            }
        }
    }

    /// Gives the core what the other end has sent.
    pub(super) fn receive(&mut self, bytes: Bytes) -> Result<(), Lost> {
        self.bytes_in += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.moved = true;
        let taken = self
            .engine
            .with(|trunk, now| trunk.receive(self.id, bytes, now));
        taken.map_err(Lost::Violation)
    }

    /// What the kernel knows of the connection.
    pub(super) fn tcp_info(&self) -> Option<TcpInfo> {
        TcpInfo::of(self.link.tcp()).ok()
    }

    fn poll(&mut self, context: &mut Context<'_>, looks: &mut Interval) -> Poll<Lost> {
        while looks.poll_tick(context).is_ready() {
            self.look();
            // A socket that takes nothing any more would never get as far as to ask for more.
            if let Some(why) = self.engine.closing(self.id) {
                return Poll::Ready(Lost::Closed(why));
            }
        }
        for _ in 0..ROUNDS {
            let written = match self.write(context) {
                Poll::Ready(Err(lost)) => return Poll::Ready(lost),
                Poll::Ready(Ok(progress)) => progress,
                Poll::Pending => false,
            };
            let read = match self.read(context) {
                Poll::Ready(Err(lost)) => return Poll::Ready(lost),
                Poll::Ready(Ok(())) => true,
                Poll::Pending => false,
            };
            if !written && !read {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes what there is; ready with `true` after progress, with `false` where there is nothing to write.
    fn write(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Lost>> {
        if self.out.is_empty() && !self.unflushed {
            let mut next = Vec::new();
            self.engine
                .transmit(context, self.id, WRITE, &mut next)
                .map_err(Lost::Closed)?;
            self.out.extend(next);
            if self.out.is_empty() {
                return Poll::Ready(Ok(false));
            }
        }
        while !self.out.is_empty() {
            let link = Pin::new(&mut self.link);
            let written = ready!(link.poll_write_vectored(context, &slices(&self.out)));
            let written = written.map_err(Lost::Write)?;
            if written == 0 {
                return Poll::Ready(Err(Lost::Write(io::ErrorKind::WriteZero.into())));
            }
            self.unflushed = true;
            self.bytes_out += u64::try_from(written).unwrap_or(u64::MAX);
            self.moved = true;
            advance(&mut self.out, written);
        }
        ready!(Pin::new(&mut self.link).poll_flush(context)).map_err(Lost::Write)?;
        self.unflushed = false;
        if self.looked_at.is_none_or(|at| at.elapsed() >= LOOK) {
            self.look();
        }
        Poll::Ready(Ok(true))
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Lost>> {
        self.buffer.reserve(READ);
        let count = {
            let reading = pin!(self.link.read_buf(&mut self.buffer));
            ready!(reading.poll(context)).map_err(Lost::Read)?
        };
        if count == 0 {
            return Poll::Ready(Err(Lost::Ended));
        }
        // A little that was read keeps a large buffer alive as long as a stream waits for its reader.
        let bytes = if count < READ / 4 {
            let copy = Bytes::copy_from_slice(&self.buffer);
            self.buffer.clear();
            copy
        } else {
            std::mem::take(&mut self.buffer).freeze()
        };
        Poll::Ready(self.receive(bytes))
    }

    /// Tells the core's scheduler what the kernel sees, unless nothing can have changed.
    fn look(&mut self) {
        if !std::mem::take(&mut self.moved) {
            return;
        }
        self.looked_at = Some(Instant::now());
        let Some(info) = self.tcp_info() else {
            return;
        };
        let mss = info.snd_mss.get();
        let unacknowledged = units::Bytes::new(u64::from(info.unacked).saturating_mul(mss));
        let observation = Observation {
            round_trip: Some(info.rtt),
            delivery_rate: info.delivery_rate,
            pacing_rate: info.pacing_rate,
            congestion_window: Some(info.cwnd()),
            peer_window: info.snd_wnd,
            unsent: info.notsent.unwrap_or_default(),
            unacknowledged,
            least_round_trip: info.min_rtt,
            sent: info.bytes_sent.unwrap_or_default(),
            retransmitted: info.bytes_retrans.unwrap_or_default(),
        };
        // Bytes in flight will have been acknowledged at the next look.
        self.moved = info.unacked > 0;
        let (manner, bound, unsent) = self.engine.with(|trunk, now| {
            trunk.observe(self.id, observation, now);
            (
                trunk.manner(),
                trunk.pacing_bound(self.id),
                trunk.unsent_bound(self.id),
            )
        });
        if bound != self.bound {
            self.take_bound(bound);
        }
        if manner != self.manner {
            self.take_manner(manner);
        }
        if let Some(unsent) = unsent.filter(|unsent| self.unsent.is_some_and(|now| now != *unsent))
        {
            self.take_unsent(unsent);
        }
    }

    /// Holds no more than `unsent` that it has not sent.
    fn take_unsent(&mut self, unsent: units::Bytes) {
        self.unsent = Some(unsent);
        let set = sys::socket::set_unsent_bound(self.link.tcp(), unsent, Side::Server, self.peer);
        self.warn_unless(set);
    }

    /// Paces no faster than `bound`, or as the profile has it.
    fn take_bound(&mut self, bound: Option<Rate>) {
        self.bound = bound;
        let rate = bound.unwrap_or(self.fastest);
        let set = sys::socket::set_pacing_rate(self.link.tcp(), rate, Side::Server, self.peer);
        self.warn_unless(set);
    }

    /// Sends as eagerly as the profile has it, or as modestly as others.
    fn take_manner(&mut self, manner: Manner) {
        let name = match manner {
            Manner::Eager | Manner::Narrow => self.eager.as_deref(),
            Manner::Modest => Some(MODEST),
        };
        // Tried once: what the kernel has refused it would refuse every time.
        self.manner = manner;
        let Some(name) = name else {
            return;
        };
        let socket = self.link.tcp();
        let set = sys::socket::set_congestion_control(socket, name, Side::Server, self.peer);
        self.warn_unless(set);
    }

    fn warn_unless<T>(&self, set: Result<T, sys::socket::ApplyError>) {
        if let Err(error) = set {
            self.engine.order(Order::Warning {
                name: "manner-not-in-effect",
                text: crate::chain(&error),
            });
        }
    }
}
