//! What applications do.

use bytes::Bytes;
use units::Time;

use super::Trunk;
use crate::frame::Message;
use crate::incoming::Read;
use crate::preface::Limits;
use crate::stream::{Phase, Stream};
use crate::{By, Event, Explanation, Reason, StreamGone, StreamId, Target};

/// A stream cannot be opened now.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// The peer allows no more at a time: 256 until the first connection is ready, then what it says.
    #[error("the peer allows {limit} streams at a time")]
    TooManyStreams {
        /// How many it allows.
        limit: u32,
    },
    /// One of the two ends has left the session: streams that are open go on, new ones belong into another.
    #[error("the session takes no new streams")]
    Left,
    /// The trunk is over.
    #[error("the trunk is over: {0}")]
    Ended(Explanation),
}

/// Bytes that may wait for their first sending, before a path is measured and on slow ones: the rest waits
/// in the application's own socket, where it costs the trunk nothing.
const LEAST_QUEUE: u64 = 512 << 10;
/// The part of the memory that is kept for streams while others hold the most part, an eighth: 64 KiB for each of
/// the 256 streams that the protocol promises at least, with the defaults.
const KEPT_PART: u64 = 8;
/// A waiting writer is called when there is room for this much, so that it is not called for every frame.
const WORTH_A_CALL: u64 = 64 << 10;

impl Trunk {
    /// Opens a stream. What is written before the next [`Self::transmit`] travels in the same frame, so
    /// the opening costs no round trip.
    pub fn open(&mut self, target: &Target, now: Time) -> Result<StreamId, OpenError> {
        if let Some(why) = &self.ended {
            return Err(OpenError::Ended(why.clone()));
        }
        if self.leaving.is_ours() {
            return Err(OpenError::Left);
        }
        let limit = self.sending.limits.streams;
        if self.openings.ours_open >= limit {
            return Err(OpenError::TooManyStreams { limit });
        }
        let stream = StreamId::nth(self.role, self.openings.ours);
        self.openings.ours += 1;
        self.openings.ours_open += 1;
        self.add_stream(stream, Phase::Opening(target.clone()), now);
        self.schedule(stream);
        Ok(stream)
    }

    pub(super) fn add_stream(&mut self, stream: StreamId, phase: Phase, now: Time) {
        let (credit, window) = (self.sending.limits.stream, self.receiving.first_window);
        let state = Stream::new(phase, self.digest, credit, window, now);
        self.streams.insert(stream, state);
    }

    /// The target of a stream of the peer's has been reached.
    pub fn accept_stream(&mut self, stream: StreamId) -> Result<(), StreamGone> {
        let state = self.streams.get_mut(&stream).ok_or(StreamGone(stream))?;
        if state.phase == Phase::Offered {
            state.phase = Phase::Established;
            self.sending.control.push_back(Message::Accept { stream });
        }
        Ok(())
    }

    /// Takes bytes off the front of `bytes`, as many as the trunk may hold for this stream, and says how
    /// many. Where it leaves some, [`Event::Writable`] says when to offer them again.
    ///
    /// Nothing is taken after [`Self::finish`].
    pub fn write(
        &mut self,
        stream: StreamId,
        bytes: &mut Bytes,
        now: Time,
    ) -> Result<usize, StreamGone> {
        let room = self.room(stream)?;
        let state = self.streams.get_mut(&stream).ok_or(StreamGone(stream))?;
        if !state.outgoing.is_open() {
            return Ok(0);
        }
        let len = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if len < bytes.len() {
            state.outgoing.starved = true;
            if len == 0 && state.outgoing.held() == 0 {
                self.sending.starved.insert(stream);
            }
        }
        if len > 0 {
            state.outgoing.push(bytes.split_to(len));
            self.sending.held += len as u64;
            self.schedule(stream);
            self.judge(stream, None, now);
        }
        Ok(len)
    }

    /// How many bytes [`Self::write`] would take now, so that a driver need not read what it cannot pass on.
    pub fn room(&self, stream: StreamId) -> Result<u64, StreamGone> {
        let state = self.streams.get(&stream).ok_or(StreamGone(stream))?;
        let memory = self.config.memory.send.get();
        let (held, mine) = (self.sending.held, state.outgoing.held());
        // A stream holds as much as is free of the most part; of the rest each gets a little whatever the others
        // hold, so that no number of stuck ones leaves nothing for the next.
        let kept = memory / KEPT_PART;
        let share = (memory - kept).saturating_sub(held).saturating_sub(mine);
        let own = (kept / u64::from(Limits::MINIMUM.streams)).saturating_sub(mine);
        let share = share.max(own).min(memory.saturating_sub(held));
        let queue = self.bdp().unwrap_or(0).max(LEAST_QUEUE);
        Ok(share.min(queue.saturating_sub(state.outgoing.queued())))
    }

    /// Tells a writer that waits.
    pub(super) fn wake_writer(&mut self, stream: StreamId) {
        if !self
            .streams
            .get(&stream)
            .is_some_and(|state| state.outgoing.starved)
        {
            return;
        }
        let room = self.room(stream).unwrap_or(0);
        if let Some(state) = self.streams.get_mut(&stream)
            && (room >= WORTH_A_CALL || (room > 0 && state.outgoing.held() == 0))
        {
            state.outgoing.starved = false;
            self.events.push_back(Event::Writable { stream });
        }
    }

    /// Memory has become free: tells writers whose own streams will not.
    pub(super) fn wake_starved(&mut self) {
        if self.sending.starved.is_empty() {
            return;
        }
        for stream in core::mem::take(&mut self.sending.starved) {
            self.wake_writer(stream);
            let state = self.streams.get(&stream);
            if state.is_some_and(|state| state.outgoing.starved) {
                self.sending.starved.insert(stream);
            }
        }
    }

    /// The application writes no more: its end follows the bytes that are queued. The other direction
    /// goes on.
    pub fn finish(&mut self, stream: StreamId) -> Result<(), StreamGone> {
        let state = self.streams.get_mut(&stream).ok_or(StreamGone(stream))?;
        state.outgoing.finish();
        self.schedule(stream);
        Ok(())
    }

    /// Ends a stream before its time, both directions. The peer is told why; there is an
    /// [`Event::Reset`] here too, for its receipt.
    pub fn reset(
        &mut self,
        stream: StreamId,
        why: Explanation,
        now: Time,
    ) -> Result<(), StreamGone> {
        if !self.streams.contains_key(&stream) {
            return Err(StreamGone(stream));
        }
        self.end_stream(stream, why, By::Us, now);
        self.end_if_left(now);
        Ok(())
    }

    /// The next bytes for the application, or the end.
    ///
    /// The end is given only after the digests have been compared; on a mismatch the stream is reset
    /// instead, so that the application does not take changed bytes for a whole transfer.
    pub fn read(&mut self, stream: StreamId, now: Time) -> Result<Read, StreamGone> {
        let state = self.streams.get_mut(&stream).ok_or(StreamGone(stream))?;
        let read = state.incoming.read();
        state.readable_told = matches!(read, Read::Data(_));
        if read == Read::End {
            self.confirm(stream, now);
            if !self.streams.contains_key(&stream) {
                return Err(StreamGone(stream));
            }
        }
        Ok(read)
    }

    /// The application's socket has taken `len` more of the bytes that were read.
    pub fn consumed(&mut self, stream: StreamId, len: usize, now: Time) {
        let Some(state) = self.streams.get_mut(&stream) else {
            return;
        };
        self.receiving.consumed += state.incoming.consume(len as u64);
        self.grant_stream(stream, now);
        self.grant_trunk();
        self.confirm(stream, now);
    }

    /// Compares the digests of a direction whose bytes have all been read, and sends the receipt once
    /// they have all been handed on.
    pub(super) fn confirm(&mut self, stream: StreamId, now: Time) {
        let Some(state) = self.streams.get_mut(&stream) else {
            return;
        };
        if state.incoming.confirmed || state.phase == Phase::Early {
            return;
        }
        let Some((ours, theirs)) = state.incoming.outcome() else {
            return;
        };
        if ours != theirs {
            self.events.push_back(Event::Alarm {
                stream,
                sent: theirs.digest,
                received: ours.digest,
            });
            self.end_stream(stream, Reason::IntegrityMismatch.into(), By::Trunk, now);
            return;
        }
        if !state.incoming.is_consumed() {
            return;
        }
        state.incoming.confirmed = true;
        self.sending
            .control
            .push_back(Message::Receipt { stream, end: ours });
        self.close_if_done(stream, now);
    }

    pub(super) fn close_if_done(&mut self, stream: StreamId, now: Time) {
        if !self.streams.get(&stream).is_some_and(Stream::is_done) {
            return;
        }
        if let Some(state) = self.remove_stream(stream, now) {
            let receipt = state.receipt(now);
            self.events.push_back(Event::Closed { stream, receipt });
        }
    }

    /// Ends a stream from this side, whoever wanted it, and tells the peer.
    pub(super) fn end_stream(&mut self, stream: StreamId, why: Explanation, by: By, now: Time) {
        if let Some(state) = self.remove_stream(stream, now) {
            let receipt = state.receipt(now);
            self.sending.control.push_back(Message::Reset {
                stream,
                why: why.clone(),
            });
            self.events.push_back(Event::Reset {
                stream,
                why,
                by,
                receipt,
            });
        }
    }

    pub(super) fn remove_stream(&mut self, stream: StreamId, now: Time) -> Option<Stream> {
        let state = self.streams.remove(&stream)?;
        self.past.held_by += state.ledger.until(now);
        self.sending.held -= state.outgoing.queued();
        self.sending.waiting.remove(&stream);
        self.sending.starved.remove(&stream);
        self.wake_starved();
        self.receiving.consumed += state.incoming.unconsumed();
        self.grant_trunk();
        let ours = stream.opener() == self.role;
        if !ours {
            // Its open may still be on its way, and must not make it again.
            self.openings.theirs.insert(stream.index());
        }
        let open = if ours {
            &mut self.openings.ours_open
        } else {
            &mut self.openings.theirs_open
        };
        *open = open.saturating_sub(1);
        Some(state)
    }

    pub(super) fn tell_readable(&mut self, stream: StreamId) {
        if let Some(state) = self.streams.get_mut(&stream)
            && state.phase != Phase::Early
            && !state.readable_told
            && state.incoming.is_readable()
        {
            state.readable_told = true;
            self.events.push_back(Event::Readable { stream });
        }
    }
}
