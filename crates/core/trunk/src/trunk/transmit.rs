//! What goes out, and in which order.

use alloc::vec::Vec;

use bytes::Bytes;
use units::Time;

use super::Trunk;
use super::receive::ACK_BYTES;
use crate::connection::{Connection, Stage};
use crate::flight::Flight;
use crate::frame::{Frame, MAX_ACKED, MAX_CHUNK, Message};
use crate::stream::Phase;
use crate::{ConnectionId, StreamId};

/// What a stream may send in one turn; a stream that needs no more is never behind one that does.
const QUANTUM: u64 = 64 << 10;
/// The smallest chunk that a stream with more to send is cut into: its 32 bytes of frame are 0.4 %.
const MIN_CHUNK: u64 = 8 << 10;
/// A chunk is what a connection carries in a two-hundred-and-fiftieth of a second: what an interactive
/// stream waits behind it.
const CHUNKS_PER_SECOND: u64 = 250;

impl Trunk {
    /// Appends to `out` what the connection is to carry next, as slices to be written in order, and says
    /// how many bytes that is.
    ///
    /// Frames are added while fewer than `room` bytes are there, so it may be one frame more (at most
    /// [`MAX_CHUNK`] and 400 bytes). Call it only while the socket has little unsent, and with little room:
    /// what is in the socket can be neither overtaken nor moved to another connection. What was given must
    /// be written, or the connection be closed.
    pub fn transmit(
        &mut self,
        connection: ConnectionId,
        room: usize,
        out: &mut Vec<Bytes>,
        now: Time,
    ) -> usize {
        let Some(mut link) = self.connections.remove(&connection) else {
            return 0;
        };
        let mut turn = Turn {
            connection,
            link: &mut link,
            out,
            len: 0,
            now,
        };
        if let Some(preface) = turn.link.preface.take() {
            turn.push(preface);
        }
        if turn.link.acks.pending >= ACK_BYTES || turn.link.acks.due {
            self.write_ack(&mut turn);
        }
        self.write_pings(&mut turn);
        self.write_goodbye(&mut turn);
        if self.may_carry(turn.link) {
            self.write_reliable(&mut turn, room);
        }
        if turn.len > 0 {
            self.write_ack(&mut turn);
        }
        let len = turn.len;
        link.totals.sent += len as u64;
        self.connections.insert(connection, link);
        len
    }

    /// Whether reliable frames may go out on a connection: on a stalled one only if all are.
    fn may_carry(&self, link: &Connection) -> bool {
        self.ended.is_none()
            && link.stage.takes_frames()
            && (!link.stalled || !self.connections.values().any(Connection::takes_frames))
    }

    fn write_reliable(&mut self, turn: &mut Turn<'_>, room: usize) {
        while turn.len < room {
            if let Some(sequence) = self.next_again(turn.connection) {
                self.write_again(turn, sequence);
            } else if self.sending.flights.is_full() {
                return;
            } else if let Some(message) = self.sending.control.pop_front() {
                self.write_frame(turn, message, Vec::new());
            } else if !self.write_stream(turn) {
                return;
            }
        }
    }

    /// The first frame that has to go out again and did not last go out here.
    fn next_again(&mut self, connection: ConnectionId) -> Option<u64> {
        let flights = &mut self.sending.flights;
        self.sending.again.iter().copied().find(|sequence| {
            flights
                .get_mut(*sequence)
                .is_some_and(|flight| flight.on != connection)
        })
    }

    fn write_again(&mut self, turn: &mut Turn<'_>, sequence: u64) {
        self.sending.again.remove(&sequence);
        if let Some(flight) = self.sending.flights.get_mut(sequence) {
            flight.on = turn.connection;
            turn.push(flight.header.clone());
            turn.push_all(&flight.payload);
            turn.link.totals.payload += flight.payload_len();
            turn.link.totals.repeated += flight.payload_len();
            turn.link.push(sequence, flight.len(), turn.now);
        }
    }

    /// Writes a new reliable frame, and keeps it.
    fn write_frame(&mut self, turn: &mut Turn<'_>, message: Message, payload: Vec<Bytes>) {
        let sequence = self.sending.flights.next();
        let chunk = match &message {
            Message::Data { stream, .. } | Message::Open { stream, .. } => {
                let len = payload.iter().map(|piece| piece.len() as u64).sum();
                self.sending.sent += len;
                Some((*stream, len))
            }
            Message::Accept { .. }
            | Message::Finish { .. }
            | Message::Receipt { .. }
            | Message::Reset { .. }
            | Message::StreamCredit { .. }
            | Message::TrunkCredit { .. }
            | Message::Width { .. } => None,
        };
        let header = self.encode(&Frame::Reliable { sequence, message }, &payload);
        turn.push(header.clone());
        turn.push_all(&payload);
        let flight = Flight {
            header,
            payload,
            chunk,
            on: turn.connection,
        };
        turn.link.totals.payload += flight.payload_len();
        turn.link.push(sequence, flight.len(), turn.now);
        self.sending.flights.push(flight);
    }

    fn encode(&mut self, frame: &Frame, payload: &[Bytes]) -> Bytes {
        // One allocation for a hundred headers or so.
        if self.scratch.capacity() < 512 {
            self.scratch.reserve(4096);
        }
        frame.encode(&mut self.scratch, payload);
        self.scratch.split().freeze()
    }
}

/// One connection's turn to carry something.
struct Turn<'a> {
    connection: ConnectionId,
    link: &'a mut Connection,
    out: &'a mut Vec<Bytes>,
    /// Bytes appended to `out` in this turn.
    len: usize,
    now: Time,
}

impl Turn<'_> {
    fn push(&mut self, bytes: Bytes) {
        self.len += bytes.len();
        self.out.push(bytes);
    }

    fn push_all(&mut self, pieces: &[Bytes]) {
        for piece in pieces {
            self.push(piece.clone());
        }
    }
}

// === Streams ===

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
            self.sending.fresh.push_back(stream);
        }
    }

    /// Writes one frame of the stream whose turn it is; `false` if there is none.
    ///
    /// As in FQ-CoDel (RFC 8290, section 4.2): a stream that had nothing to send goes before those that
    /// always have, for one quantum.
    fn write_stream(&mut self, turn: &mut Turn<'_>) -> bool {
        while let Some(stream) = self
            .sending
            .fresh
            .pop_front()
            .or_else(|| self.sending.bulk.pop_front())
        {
            let Some(state) = self.streams.get(&stream) else {
                continue;
            };
            let share = self.share(state.outgoing.unconsumed());
            let Some(state) = self.streams.get_mut(&stream) else {
                continue;
            };
            let len = state
                .outgoing
                .sendable()
                .min(share)
                .min(chunk_len(turn.link));
            let max = usize::try_from(len).unwrap_or(MAX_CHUNK);
            let message = if let Phase::Opening(target) = &state.phase {
                let message = Message::Open {
                    stream,
                    target: target.clone(),
                };
                state.phase = Phase::Opened;
                message
            } else if len > 0 {
                Message::Data {
                    stream,
                    offset: state.outgoing.sent(),
                }
            } else if state.outgoing.finish_due() {
                let end = state.outgoing.take_finish();
                state.scheduled = false;
                self.write_frame(turn, Message::Finish { stream, end }, Vec::new());
                return true;
            } else {
                state.scheduled = false;
                if state.outgoing.sendable() > 0 {
                    self.sending.waiting.insert(stream);
                }
                continue;
            };
            let (_, payload) = state.outgoing.chunk(max);
            state.quantum = state.quantum.saturating_sub(len);
            if state.quantum > 0 {
                self.sending.fresh.push_front(stream);
            } else {
                state.quantum = QUANTUM;
                self.sending.bulk.push_back(stream);
            }
            self.write_frame(turn, message, payload);
            self.wake_writer(stream);
            return true;
        }
        false
    }
}

/// How long a chunk is to be on this connection.
fn chunk_len(link: &Connection) -> u64 {
    let rate = link.pace.rate().unwrap_or(0);
    (rate / CHUNKS_PER_SECOND).clamp(MIN_CHUNK, MAX_CHUNK as u64)
}

// === What describes the present ===

impl Trunk {
    /// Says what has come in here, and on other connections since this one last said it.
    fn write_ack(&mut self, turn: &mut Turn<'_>) {
        if turn.link.acks.pending == 0 {
            return;
        }
        let mut counts = Vec::from([(turn.connection, turn.link.received)]);
        for (other, state) in &self.connections {
            if counts.len() < MAX_ACKED
                && state.received > turn.link.acks.told.get(other).copied().unwrap_or(0)
            {
                turn.link.acks.told.insert(*other, state.received);
                counts.push((*other, state.received));
            }
        }
        turn.link.acks.pending = 0;
        turn.link.acks.due = false;
        turn.link.acks.due_at = None;
        let frame = self.encode(&Frame::Ack { counts }, &[]);
        turn.push(frame);
    }

    fn write_pings(&mut self, turn: &mut Turn<'_>) {
        if let Some(nonce) = turn.link.pings.echo.take() {
            let frame = self.encode(&Frame::Pong { nonce }, &[]);
            turn.push(frame);
        }
        if core::mem::take(&mut turn.link.pings.due) {
            let nonce = turn.now.as_nanos();
            turn.link.pings.open = Some((nonce, turn.now));
            let frame = self.encode(&Frame::Ping { nonce }, &[]);
            turn.push(frame);
        }
    }

    fn write_goodbye(&mut self, turn: &mut Turn<'_>) {
        if let Some(why) = self.ended.clone()
            && core::mem::replace(&mut turn.link.stage, Stage::Ending) != Stage::Ending
        {
            let frame = self.encode(&Frame::Goodbye { why }, &[]);
            turn.push(frame);
        }
    }
}
