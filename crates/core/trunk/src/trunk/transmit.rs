//! What goes out, and in which order.

use alloc::vec::Vec;

use bytes::Bytes;
use units::Time;

use super::Trunk;
use super::receive::ACK_BYTES;
use crate::ConnectionId;
use crate::connection::{Connection, Stage};
use crate::flight::Flight;
use crate::frame::{Frame, MAX_ACKED, Message};

const BURSTS_PER_SECOND: u64 = 200;
/// A slow connection still fills an initial window and one system call.
const LEAST_BURST: usize = 32 << 10;

impl Trunk {
    /// Appends to `out` what the connection is to carry next, as slices to be written in order, and says
    /// how many bytes that is.
    ///
    /// Frames are added while fewer than `room` bytes are there, or what the connection carries in five
    /// milliseconds where that is less; so it may be one frame more (at most
    /// [`crate::MAX_CHUNK`] and 400 bytes). Call it only while the socket has little unsent, and with little room:
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
        let room = room.min(burst(&link));
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
        self.write_retire(&mut turn);
        if self.may_carry(turn.link) {
            self.write_reliable(&mut turn, room);
        }
        self.write_padding(&mut turn, room);
        if turn.len > 0 {
            self.write_ack(&mut turn);
        }
        let len = turn.len;
        link.totals.sent += len as u64;
        self.connections.insert(connection, link);
        self.close_if_retired(connection, now);
        if self.sending.turns.is_empty() {
            self.note_idle(now);
        } else if len >= room {
            self.note_more(now);
        }
        len
    }

    /// Whether reliable frames may go out on a connection: on a stalled one only if all are.
    fn may_carry(&self, link: &Connection) -> bool {
        self.ended.is_none()
            && link.stage.takes_frames()
            && (!link.is_stalled() || !self.connections.values().any(Connection::takes_frames))
    }

    fn write_reliable(&mut self, turn: &mut Turn<'_>, room: usize) {
        while turn.len < room
            && let Some(sequence) = self.next_again(turn.connection)
        {
            self.write_again(turn, sequence);
        }
        while turn.len < room {
            if self.sending.flights.is_full() {
                return;
            } else if !self.sending.control.is_empty() && !self.leaves_to_quicker(turn.link) {
                let Some(message) = self.sending.control.pop_front() else {
                    return;
                };
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
    pub(super) fn write_frame(
        &mut self,
        turn: &mut Turn<'_>,
        message: Message,
        payload: Vec<Bytes>,
    ) {
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
            | Message::Width { .. }
            | Message::Leave { .. } => None,
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

    pub(super) fn encode(&mut self, frame: &Frame, payload: &[Bytes]) -> Bytes {
        // One allocation for a hundred headers or so.
        if self.scratch.capacity() < 512 {
            self.scratch.reserve(4096);
        }
        frame.encode(&mut self.scratch, payload);
        self.scratch.split().freeze()
    }
}

/// How much a connection gets at a time: what it carries in five milliseconds, since the driver may hold
/// it where nothing overtakes it.
fn burst(link: &Connection) -> usize {
    let rate = link.pace.rate().unwrap_or(0);
    usize::try_from(rate / BURSTS_PER_SECOND)
        .unwrap_or(usize::MAX)
        .max(LEAST_BURST)
}

/// One connection's turn to carry something.
pub(super) struct Turn<'a> {
    connection: ConnectionId,
    pub(super) link: &'a mut Connection,
    out: &'a mut Vec<Bytes>,
    /// Bytes appended to `out` in this turn.
    len: usize,
    pub(super) now: Time,
}

impl Turn<'_> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        self.len += bytes.len();
        self.out.push(bytes);
    }

    pub(super) fn push_all(&mut self, pieces: &[Bytes]) {
        for piece in pieces {
            self.push(piece.clone());
        }
    }
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

    fn write_retire(&mut self, turn: &mut Turn<'_>) {
        if core::mem::take(&mut turn.link.retire_due) {
            let frame = self.encode(&Frame::Retire, &[]);
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
