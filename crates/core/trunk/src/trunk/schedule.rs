//! Which stream a connection carries next, and whether it is the right connection for it.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::Trunk;
use super::transmit::Turn;
use crate::StreamId;
use crate::connection::Connection;
use crate::frame::{MAX_CHUNK, Message};
use crate::stream::{Phase, Stream};
use crate::turns::Queue;

/// What a stream may send before those that always have something, after it had nothing.
const QUANTUM: u64 = 64 << 10;
/// The smallest chunk that a stream with more to send is cut into: its 32 bytes of frame are 0.4 %.
const MIN_CHUNK: u64 = 8 << 10;
/// A chunk is what a connection carries in a two-hundred-and-fiftieth of a second: what an interactive
/// stream waits behind it.
const CHUNKS_PER_SECOND: u64 = 250;
/// How many streams in turn are asked before a connection is left without. Each is one that a quicker
/// connection will serve, so a longer list would only be walked in vain.
const MAX_PASSED: usize = 64;

/// What a stream does with its turn.
enum Choice {
    Frame(Message, Vec<Bytes>),
    /// It waits for a quicker connection.
    Passes,
    /// It has nothing to send, or no credit.
    Nothing,
}

impl Trunk {
    /// Puts a stream into the queue if it has something to send and is in none.
    pub(super) fn schedule(&mut self, stream: StreamId) {
        if let Some(state) = self.streams.get_mut(&stream)
            && !state.scheduled
            && state.has_work()
        {
            state.scheduled = true;
            state.quantum = QUANTUM;
            self.sending.waiting.remove(&stream);
            self.sending.turns.add(stream);
        }
    }

    /// Writes one frame of the stream whose turn it is; `false` if there is none for this connection.
    pub(super) fn write_stream(&mut self, turn: &mut Turn<'_>) -> bool {
        let mut passed = Vec::new();
        let mut wrote = false;
        while !wrote
            && passed.len() < MAX_PASSED
            && let Some((stream, queue)) = self.sending.turns.take()
        {
            match self.choose(stream, turn.link) {
                Choice::Passes => passed.push((stream, queue)),
                Choice::Nothing => {
                    self.rest(stream, queue);
                    self.judge(stream, Some(turn.link), turn.now);
                }
                Choice::Frame(message, payload) => {
                    self.end_turn(stream, queue, &payload);
                    self.write_frame(turn, message, payload);
                    self.wake_writer(stream);
                    self.judge(stream, Some(turn.link), turn.now);
                    wrote = true;
                }
            }
        }
        for (stream, queue) in passed.into_iter().rev() {
            self.sending.turns.keep(stream, queue);
        }
        wrote
    }

    fn choose(&mut self, stream: StreamId, link: &Connection) -> Choice {
        let Some(state) = self.streams.get(&stream) else {
            return Choice::Nothing;
        };
        let share = self.share(state.outgoing.unconsumed());
        let sendable = state.outgoing.sendable();
        let len = sendable.min(share).min(chunk_len(link));
        let passes = self.passes(link, state, len, share);
        let Some(state) = self.streams.get_mut(&stream) else {
            return Choice::Nothing;
        };
        let max = usize::try_from(len).unwrap_or(MAX_CHUNK);
        if let Phase::Opening(target) = &state.phase {
            if passes {
                return Choice::Passes;
            }
            let message = Message::Open {
                stream,
                target: target.clone(),
            };
            state.phase = Phase::Opened;
            let (_, payload) = state.outgoing.chunk(max);
            return Choice::Frame(message, payload);
        }
        if len > 0 {
            if passes {
                return Choice::Passes;
            }
            let (offset, payload) = state.outgoing.chunk(max);
            return Choice::Frame(Message::Data { stream, offset }, payload);
        }
        if state.outgoing.finish_due() {
            let end = state.outgoing.take_finish();
            return Choice::Frame(Message::Finish { stream, end }, Vec::new());
        }
        if sendable > 0 {
            self.sending.waiting.insert(stream);
        }
        Choice::Nothing
    }

    /// A stream that has nothing more leaves the queue; one that has just come stays for a round, else
    /// a writer that always comes just in time would always go first.
    fn rest(&mut self, stream: StreamId, queue: Queue) {
        let Some(state) = self.streams.get_mut(&stream) else {
            return;
        };
        match queue {
            Queue::Fresh if !self.sending.waiting.contains(&stream) => {
                self.sending.turns.rotate(stream);
            }
            Queue::Fresh | Queue::Bulk => state.scheduled = false,
        }
    }

    fn end_turn(&mut self, stream: StreamId, queue: Queue, payload: &[Bytes]) {
        let Some(state) = self.streams.get_mut(&stream) else {
            return;
        };
        let len: u64 = payload.iter().map(|piece| piece.len() as u64).sum();
        state.quantum = state.quantum.saturating_sub(len);
        if queue == Queue::Fresh && state.quantum > 0 {
            self.sending.turns.keep(stream, Queue::Fresh);
        } else {
            self.sending.turns.rotate(stream);
        }
    }

    /// Whether a stream is better off waiting for quicker connections than giving its next chunk to this
    /// one.
    ///
    /// It is if they finish all that it has queued before this one delivers the chunk (earliest completion
    /// first, as Lim and others have it for MPTCP, 2017). And it is if, while this one carries the
    /// chunk, they would use up what the peer lets the stream send, and then stand still behind it (BLEST,
    /// Ferlin and others, Networking 2016).
    fn passes(&self, link: &Connection, state: &Stream, len: u64, share: u64) -> bool {
        let Some(mine) = link.pace.expected(link.in_flight, len) else {
            return false;
        };
        let mut best = mine;
        let mut rate: u64 = 0;
        for other in self
            .connections
            .values()
            .filter(|other| other.takes_frames())
        {
            if let Some(theirs) = other.pace.expected(other.in_flight, len)
                && is_quicker(theirs, mine)
            {
                best = best.min(theirs);
                rate = rate.saturating_add(other.pace.rate().unwrap_or(0));
            }
        }
        if rate == 0 {
            return false;
        }
        let all = best + span(state.outgoing.queued().saturating_sub(len), rate);
        let credit = state.outgoing.credit().min(share).saturating_sub(len);
        all <= mine || (mine > best * 2 && span(credit, rate) < mine)
    }

    /// Whether a small message is better off on another connection.
    pub(super) fn leaves_to_quicker(&self, link: &Connection) -> bool {
        let Some(mine) = link.pace.expected(link.in_flight, 0) else {
            return false;
        };
        self.connections
            .values()
            .filter(|other| other.takes_frames())
            .filter_map(|other| other.pace.expected(other.in_flight, 0))
            .any(|theirs| is_quicker(theirs, mine))
    }
}

/// Quicker by more than measurement errs, so that two equal connections do not leave everything to each
/// other's better moments.
fn is_quicker(theirs: Duration, mine: Duration) -> bool {
    theirs + theirs / 4 < mine
}

/// How long `rate` bytes per second need for `len` bytes.
fn span(len: u64, rate: u64) -> Duration {
    let nanos = u128::from(len) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// How long a chunk is to be on this connection.
fn chunk_len(link: &Connection) -> u64 {
    let rate = link.pace.rate().unwrap_or(0);
    (rate / CHUNKS_PER_SECOND).clamp(MIN_CHUNK, MAX_CHUNK as u64)
}
