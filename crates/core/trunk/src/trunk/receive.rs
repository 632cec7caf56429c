//! What comes in from the peer.

use alloc::string::ToString as _;
use alloc::vec::Vec;

use bytes::Bytes;
use units::Time;

use super::Trunk;
use crate::connection::{Health, Stage};
use crate::flight::MAX_FLIGHTS;
use crate::frame::{Frame, Message, Summary};
use crate::outgoing::Confirmation;
use crate::preface::Limits;
use crate::stream::Phase;
use crate::{By, ConnectionId, Event, Explanation, Reason, StreamId, Target, Violation};

use super::timers::ACK_DELAY;

/// An acknowledgement goes out at the latest after this much payload: four chunks, so that it costs a
/// hundred-thousandth of what it acknowledges.
pub(super) const ACK_BYTES: u64 = 256 << 10;
/// More answers than a peer can have asked for with frames that it may have out.
const MAX_BACKLOG: usize = 4 << 16;

/// What is known of a stream that a frame names.
enum Known {
    /// It is open.
    Open,
    /// It was, or would have been: what comes late for it is dropped.
    Over,
}

impl Trunk {
    /// Bytes came in on a connection, in the order in which they came.
    ///
    /// On a violation the connection is down already: close its socket, and log what it was. Where the
    /// violation is not the connection's but the peer's, the session is over, too. The buffer may
    /// be kept until its bytes are consumed, so give it no spare capacity worth mentioning.
    pub fn receive(
        &mut self,
        connection: ConnectionId,
        bytes: Bytes,
        now: Time,
    ) -> Result<(), Violation> {
        let Some(link) = self.connections.get_mut(&connection) else {
            return Ok(());
        };
        if self.ended.is_some() {
            return Ok(());
        }
        link.totals.received += bytes.len() as u64;
        link.heard_at = now;
        link.pings.asked_at = None;
        link.decoder.push(bytes);
        let outcome = self.take_frames(connection, now);
        self.end_if_left(now);
        if outcome.is_err() {
            self.connection_down(connection, now);
        }
        outcome
    }

    fn take_frames(&mut self, connection: ConnectionId, now: Time) -> Result<(), Violation> {
        let digest = self.digest;
        // The connection may go while its own frames are handled.
        while let Some(link) = self.connections.get_mut(&connection) {
            if link.stage == Stage::Greeting {
                let Some(preface) = link.decoder.preface()? else {
                    return Ok(());
                };
                self.handle_preface(connection, preface, now)?;
                continue;
            }
            let Some((frame, payload)) = link.decoder.frame(digest)? else {
                return Ok(());
            };
            self.handle_frame(connection, frame, payload, now)?;
        }
        Ok(())
    }

    fn handle_frame(
        &mut self,
        connection: ConnectionId,
        frame: Frame,
        payload: Vec<Bytes>,
        now: Time,
    ) -> Result<(), Violation> {
        let Some(link) = self.connections.get_mut(&connection) else {
            return Ok(());
        };
        match frame {
            Frame::Reliable { sequence, message } => {
                link.received += 1;
                link.acks.pending += payload.iter().map(Bytes::len).sum::<usize>() as u64 + 1;
                link.acks.due_at.get_or_insert(now + ACK_DELAY);
                let floor = self.receiving.seen.floor();
                if sequence >= floor + MAX_FLIGHTS {
                    return Err(Violation::Sequence { sequence, floor });
                }
                if self.sending.control.len() > MAX_BACKLOG {
                    return Err(Violation::Backlog);
                }
                if !self.receiving.seen.insert(sequence) {
                    return Ok(());
                }
                let outcome = self.handle_message(message, payload, now);
                if let Err(violation) = &outcome {
                    // The frame is taken and cannot be obeyed, so the session is not whole any more.
                    let why = Explanation::new(Reason::ProtocolViolation, &violation.to_string());
                    self.lose_session(&why, By::Trunk, now);
                }
                outcome
            }
            Frame::Ack { counts } => self.handle_ack(&counts, now),
            Frame::Ping { nonce } => {
                link.pings.echo = Some(nonce);
                Ok(())
            }
            Frame::Pong { nonce } => {
                if let Some((open, sent_at)) = link.pings.open
                    && open == nonce
                {
                    link.pings.open = None;
                    link.pace.on_round_trip(now.since(sent_at), now);
                }
                Ok(())
            }
            Frame::Padding => Ok(()),
            Frame::Retire => {
                self.handle_retire(connection, now);
                Ok(())
            }
            Frame::Goodbye { why } => {
                self.lose_session(&why, By::Peer, now);
                Ok(())
            }
        }
    }

    fn handle_message(
        &mut self,
        message: Message,
        payload: Vec<Bytes>,
        now: Time,
    ) -> Result<(), Violation> {
        match message {
            Message::Open { stream, target } => self.handle_open(stream, target, payload, now),
            Message::Data { stream, offset } => self.handle_data(stream, offset, payload, now),
            Message::Finish { stream, end } => self.handle_finish(stream, end, now),
            Message::Reset { stream, why } => self.handle_reset(stream, why, now),
            Message::StreamCredit {
                stream,
                consumed,
                limit,
            } => {
                if let Known::Open = self.locate(stream, now)?
                    && let Some(state) = self.streams.get_mut(&stream)
                {
                    state.outgoing.raise_credit(consumed, limit);
                    self.schedule(stream);
                }
                Ok(())
            }
            Message::TrunkCredit { limit, stream } => {
                self.raise_limits(Limits {
                    trunk: limit,
                    stream,
                    streams: 0,
                });
                Ok(())
            }
            Message::Accept { stream } => {
                if stream.opener() != self.role {
                    return Err(Violation::NeverOpened { stream });
                }
                if let Known::Open = self.locate(stream, now)?
                    && let Some(state) = self.streams.get_mut(&stream)
                    && state.phase == Phase::Opened
                {
                    state.phase = Phase::Established;
                    self.events.push_back(Event::Accepted { stream });
                }
                Ok(())
            }
            Message::Receipt { stream, end } => self.handle_receipt(stream, end, now),
            Message::Width { connections } => {
                self.handle_width(connections, now);
                Ok(())
            }
            Message::Leave { opened } => self.handle_leave(opened, now),
        }
    }

    /// Finds a stream; one of the peer's whose open has been overtaken is made.
    fn locate(&mut self, stream: StreamId, now: Time) -> Result<Known, Violation> {
        if self.streams.contains_key(&stream) {
            return Ok(Known::Open);
        }
        let index = stream.index();
        if stream.opener() == self.role {
            let known = index < self.openings.ours;
            return if known {
                Ok(Known::Over)
            } else {
                Err(Violation::NeverOpened { stream })
            };
        }
        if self.openings.theirs.contains(index) {
            return Ok(Known::Over);
        }
        if index >= self.openings.theirs.floor() + MAX_FLIGHTS || !self.leaving.may_open(index) {
            return Err(Violation::NeverOpened { stream });
        }
        if !self.admit(stream) {
            return Ok(Known::Over);
        }
        self.add_stream(stream, Phase::Early, now);
        Ok(Known::Open)
    }

    /// Counts a new stream of the peer's, or turns it away.
    fn admit(&mut self, stream: StreamId) -> bool {
        if self.openings.theirs_open >= self.config.max_streams {
            self.openings.theirs.insert(stream.index());
            let why = Reason::TooManyStreams.into();
            self.sending
                .control
                .push_back(Message::Reset { stream, why });
            return false;
        }
        self.openings.theirs_open += 1;
        true
    }

    fn handle_open(
        &mut self,
        stream: StreamId,
        target: Target,
        payload: Vec<Bytes>,
        now: Time,
    ) -> Result<(), Violation> {
        if stream.opener() == self.role {
            return Err(Violation::NeverOpened { stream });
        }
        if let Known::Open = self.locate(stream, now)?
            && let Some(state) = self.streams.get_mut(&stream)
        {
            if state.phase != Phase::Early {
                return Err(Violation::OpenedTwice { stream });
            }
            state.phase = Phase::Offered;
            self.openings.theirs.insert(stream.index());
            self.events.push_back(Event::Opened { stream, target });
        }
        self.handle_data(stream, 0, payload, now)?;
        // What overtook the open may have been waiting for it.
        self.tell_readable(stream);
        self.confirm(stream, now);
        Ok(())
    }

    fn handle_data(
        &mut self,
        stream: StreamId,
        offset: u64,
        payload: Vec<Bytes>,
        now: Time,
    ) -> Result<(), Violation> {
        let len: u64 = payload.iter().map(|piece| piece.len() as u64).sum();
        if len > self.receiving.granted - self.receiving.received {
            return Err(Violation::TrunkCredit);
        }
        self.receiving.received += len;
        let known = self.locate(stream, now)?;
        let Some(state) = self.streams.get_mut(&stream) else {
            debug_assert!(matches!(known, Known::Over), "an open stream has a state");
            self.receiving.consumed += len;
            self.grant_trunk();
            return Ok(());
        };
        if !state.incoming.admits(offset.saturating_add(len)) {
            return Err(Violation::StreamCredit { stream });
        }
        match state.incoming.insert(offset, payload) {
            Ok(true) => self.tell_readable(stream),
            Ok(false) => {}
            Err(_) => return Err(Violation::Overlap { stream }),
        }
        Ok(())
    }

    fn handle_finish(
        &mut self,
        stream: StreamId,
        end: Summary,
        now: Time,
    ) -> Result<(), Violation> {
        let Known::Open = self.locate(stream, now)? else {
            return Ok(());
        };
        if let Some(state) = self.streams.get_mut(&stream) {
            state
                .incoming
                .finish(end)
                .map_err(|_| Violation::Overlap { stream })?;
        }
        self.tell_readable(stream);
        self.confirm(stream, now);
        Ok(())
    }

    fn handle_receipt(
        &mut self,
        stream: StreamId,
        end: Summary,
        now: Time,
    ) -> Result<(), Violation> {
        let Known::Open = self.locate(stream, now)? else {
            return Ok(());
        };
        let Some(state) = self.streams.get_mut(&stream) else {
            return Ok(());
        };
        match state.outgoing.confirm(end) {
            Confirmation::Agrees => self.close_if_done(stream, now),
            Confirmation::Differs(sent) => {
                self.events.push_back(Event::Alarm {
                    stream,
                    sent: sent.digest,
                    received: end.digest,
                });
                self.end_stream(stream, Reason::IntegrityMismatch.into(), By::Trunk, now);
            }
            Confirmation::Premature => {
                return Err(Violation::Field {
                    kind: "receipt",
                    field: "stream",
                });
            }
        }
        Ok(())
    }

    fn handle_reset(
        &mut self,
        stream: StreamId,
        why: Explanation,
        now: Time,
    ) -> Result<(), Violation> {
        let Known::Open = self.locate(stream, now)? else {
            return Ok(());
        };
        if let Some(state) = self.remove_stream(stream, now)
            && state.phase != Phase::Early
        {
            let receipt = state.receipt(now);
            self.events.push_back(Event::Reset {
                stream,
                why,
                by: By::Peer,
                receipt,
            });
        }
        Ok(())
    }

    fn handle_ack(&mut self, counts: &[(ConnectionId, u64)], now: Time) -> Result<(), Violation> {
        for &(connection, count) in counts {
            // Of a connection that is down nothing is waited for.
            if self.connections.contains_key(&connection) {
                self.acknowledge(connection, count, now)?;
            }
        }
        Ok(())
    }

    fn acknowledge(
        &mut self,
        connection: ConnectionId,
        count: u64,
        now: Time,
    ) -> Result<(), Violation> {
        let Some(link) = self.connections.get_mut(&connection) else {
            return Ok(());
        };
        let Some(fresh) = count
            .checked_sub(link.acknowledged)
            .filter(|fresh| *fresh > 0)
        else {
            return Ok(());
        };
        let fresh = usize::try_from(fresh).unwrap_or(usize::MAX);
        if fresh > link.fifo.len() {
            return Err(Violation::Acknowledgement);
        }
        link.acknowledged = count;
        let sent: Vec<_> = link.fifo.drain(..fresh).collect();
        let bytes: u64 = sent.iter().map(|sent| sent.len).sum();
        link.in_flight -= bytes;
        if let Some(last) = sent.last() {
            link.pace.on_ack(bytes, last.mark, now);
        }
        link.progress_at = now;
        let recovered = core::mem::replace(&mut link.health, Health::Well) != Health::Well;
        if recovered {
            // What it still has is on its way after all.
            let flights = &mut self.sending.flights;
            self.sending.again.retain(|sequence| {
                flights
                    .get_mut(*sequence)
                    .is_some_and(|flight| flight.on != connection)
            });
        }
        for sent in sent {
            self.release(sent.sequence, now);
        }
        self.close_if_retired(connection, now);
        if recovered {
            self.judge_all(now);
            self.retire(now);
        }
        Ok(())
    }

    /// The peer has a frame: its bytes need not be kept.
    fn release(&mut self, sequence: u64, now: Time) {
        self.sending.again.remove(&sequence);
        let Some(flight) = self.sending.flights.remove(sequence) else {
            return;
        };
        let Some((stream, len)) = flight.chunk else {
            return;
        };
        self.sending.held = self.sending.held.saturating_sub(len);
        self.sending.acknowledged += len;
        if let Some(state) = self.streams.get_mut(&stream) {
            state.outgoing.in_flight -= len;
            let all_is_there = state.outgoing.in_flight == 0;
            self.wake_writer(stream);
            if all_is_there {
                self.judge(stream, None, now);
            }
        }
        self.wake_starved();
    }
}
