//! Segments of the peer (RFC 9293 section 3.10.7).

use core::time::Duration;

use units::{SeqNum, Time};
use wire::TcpFlags;

use super::{Bare, Challenges, Connection, Negotiated, full_segment};
use crate::config::Ecn;
use crate::output::{Event, Placement};
use crate::segment::{EcnCodepoint, Segment, unwrap, wrap};
use crate::sender::Report;
use crate::state::State;

impl Connection {
    pub(super) fn handle_in_syn_sent(&mut self, now: Time, segment: &Segment) {
        // RFC 9293 section 3.10.7.3.
        let acceptable = segment.ack.is_none_or(|ack| ack == wrap(1, self.iss));
        let (syn, reset) = (
            segment.flags.contains(TcpFlags::SYN),
            segment.flags.contains(TcpFlags::RST),
        );
        if reset {
            if acceptable && segment.ack.is_some() {
                self.end(Event::Reset);
            }
            return;
        }
        if !acceptable {
            // A reset for a segment of some older connection would need that segment's numbers; the
            // peer's own repetition of the SYN exchange resolves it without.
            return;
        }
        if !syn {
            return;
        }
        self.take_syn(now, segment);
        if segment.ack.is_some() {
            self.sample_handshake(now);
            self.establish(now, segment);
            self.receiver.acks.now = true;
        } else {
            // Both opened at once.
            self.state = State::SynReceived;
            self.handshake.send = true;
        }
    }

    pub(super) fn take_syn(&mut self, now: Time, segment: &Segment) {
        let options = &segment.options;
        // RFC 3168 section 6.1.1: a SYN asks with both flags, a SYN-ACK grants with one.
        let flags = segment.flags;
        let ecn = match (flags.contains(TcpFlags::ECE), flags.contains(TcpFlags::CWR)) {
            (true, true) => segment.ack.is_none() && self.config.ecn != Ecn::Off,
            (true, false) => {
                let asked = self.handshake.attempts == 1 && self.config.ecn == Ecn::Request;
                segment.ack.is_some() && asked
            }
            (false, _) => false,
        };
        self.negotiated = Negotiated {
            ecn,
            mss: options.mss.unwrap_or(self.config.assumed_mss).max(64),
            peer_shift: options
                .window_scale
                .filter(|_| self.config.window_scaling)
                .map(|shift| shift.min(14)),
            sack: self.config.sack && options.sack_permitted,
            timestamps: self.config.timestamps && options.timestamps.is_some(),
        };
        self.timestamps.recent = options
            .timestamps
            .filter(|_| self.negotiated.timestamps)
            .map(|timestamps| (timestamps.value, now));
        self.receiver.synchronise(
            segment.seq,
            self.negotiated.peer_shift.is_some(),
            self.negotiated.sack,
        );
    }

    pub(super) fn sample_handshake(&mut self, now: Time) {
        // Karn's rule: only a SYN that was sent once tells the round trip.
        if let Some(sent_at) = self
            .handshake
            .sent_at
            .filter(|_| self.handshake.attempts == 1)
        {
            self.sender.rtt.sample(now, now.since(sent_at));
        } else if self.handshake.attempts > 1 {
            self.sender.rtt.fall_back();
        }
    }

    pub(super) fn establish(&mut self, now: Time, segment: &Segment) {
        self.state = State::Established;
        self.handshake.due_at = None;
        self.receiver.establish(now);
        let mss = self.negotiated.mss.min(self.config.mss);
        let payload = full_segment(mss, self.negotiated.timestamps);
        // The window of a SYN is never scaled; that of the ACK which ends the handshake is.
        let shift = if segment.flags.contains(TcpFlags::SYN) {
            0
        } else {
            self.negotiated.peer_shift.unwrap_or(0)
        };
        let window = u64::from(segment.window) << shift;
        let options = (self.negotiated.sack, self.negotiated.ecn);
        self.sender
            .establish(now, payload.into(), options, window, 1);
        self.events.push(Event::Established);
        if self.sender.is_closing() {
            self.state = State::FinWait1;
        }
    }

    pub(super) fn handle_synchronised(
        &mut self,
        now: Time,
        segment: &Segment,
    ) -> Option<Placement> {
        let start = unwrap(segment.seq, self.receiver.next(), self.receiver.start)?;
        let syn = segment.flags.contains(TcpFlags::SYN);
        if self.state == State::SynReceived && syn && start == 0 && segment.ack.is_none() {
            // The SYN again: our answer was lost.
            self.handshake.send = true;
            return None;
        }
        if self.is_old(segment, now) {
            self.acknowledge_unacceptable(now, segment);
            return None;
        }
        if !self.receiver.acceptable(start, segment.sequence_len()) {
            if !segment.flags.contains(TcpFlags::RST) {
                self.take_unacceptable(now, start, segment);
            }
            return None;
        }
        if segment.flags.contains(TcpFlags::RST) {
            //= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
            //# If the RST bit is set and the sequence number exactly matches the
            //# next expected sequence number (RCV.NXT), then TCP MUST reset the
            //# connection.
            if start == self.receiver.next() || !self.config.challenge_acks {
                self.end(Event::Reset);
            } else {
                self.challenge(now);
            }
            return None;
        }
        if syn {
            //= https://www.rfc-editor.org/rfc/rfc5961#section-4.2
            //# If the SYN bit is set, irrespective of the sequence number, TCP
            //# MUST send an ACK (also referred to as challenge ACK) to the remote
            //# peer
            if self.config.challenge_acks {
                self.challenge(now);
            } else {
                // RFC 793 section 3.9: a SYN in the window is an error.
                self.end(Event::Reset);
                self.urgent = Some(Bare::Reset);
            }
            return None;
        }
        self.remember_timestamp(now, segment, start);
        self.take_mark(segment);
        if !self.take_acknowledgement(now, segment, start) {
            return None;
        }
        self.take_payload(now, segment, start)
    }

    /// An unacceptable segment is answered with where we are; its ACK field may still be news.
    pub(super) fn take_unacceptable(&mut self, now: Time, start: u64, segment: &Segment) {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
        //# If an incoming segment is not acceptable, an acknowledgment should be
        //# sent in reply (unless the RST bit is set, if so drop the segment and
        //# return)
        if self.state == State::TimeWait && segment.flags.contains(TcpFlags::FIN) {
            self.time_wait_until = Some(now + self.config.time_wait);
        }
        if segment.payload > 0 && start < self.receiver.next() {
            // All of it is old: say so by D-SACK.
            let fin = segment.flags.contains(TcpFlags::FIN);
            self.receiver
                .take(now, start, segment.payload, fin, false, Duration::ZERO);
        }
        self.acknowledge_unacceptable(now, segment);
    }

    /// A router's mark is echoed until the peer says that it has slowed down.
    fn take_mark(&mut self, segment: &Segment) {
        if !self.negotiated.ecn {
            return;
        }
        if segment.flags.contains(TcpFlags::CWR) {
            self.echo_mark = false;
            if segment.payload > 0 {
                self.receiver.acks.at_once();
            }
        }
        if segment.ecn == EcnCodepoint::Ce {
            if !self.echo_mark {
                self.receiver.acks.at_once();
            }
            self.echo_mark = true;
        }
    }

    /// Tells where we are to whoever sent something that may be forged, ten times in five seconds at
    /// most (RFC 5961 section 7 asks for a limit and leaves it open).
    fn challenge(&mut self, now: Time) {
        const MOST: u32 = 10;
        const INTERVAL: Duration = Duration::from_secs(5);
        if now.since(self.challenges.since) >= INTERVAL {
            self.challenges = Challenges {
                since: now,
                count: 0,
            };
        }
        if self.challenges.count < MOST {
            self.challenges.count += 1;
            self.acknowledge();
        }
    }

    /// Two ends that find each other's acknowledgements unacceptable would answer each other for ever
    /// (Linux `tcp_oow_rate_limited`, twice a second).
    fn acknowledge_unacceptable(&mut self, now: Time, segment: &Segment) {
        const INTERVAL: Duration = Duration::from_millis(500);
        if segment.sequence_len() == 0 {
            if self
                .unacceptable_at
                .is_some_and(|at| now.since(at) < INTERVAL)
            {
                return;
            }
            self.unacceptable_at = Some(now);
        }
        self.acknowledge();
    }

    /// PAWS (RFC 7323 section 5.3): older than what was taken before.
    pub(super) fn is_old(&self, segment: &Segment, now: Time) -> bool {
        let (Some(timestamps), Some((recent, at))) =
            (segment.options.timestamps, self.timestamps.recent)
        else {
            return false;
        };
        // After 24 days of silence the clock may have wrapped (section 5.5).
        let outdated = now.since(at) > Duration::from_hours(24 * 24);
        let before = SeqNum::new(timestamps.value).distance_from(SeqNum::new(recent)) < 0;
        before && !outdated && !segment.flags.contains(TcpFlags::RST)
    }

    pub(super) fn remember_timestamp(&mut self, now: Time, segment: &Segment, start: u64) {
        //= https://www.rfc-editor.org/rfc/rfc7323#section-4.3
        //# (2) If:
        //#     SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent
        //#     then SEG.TSval is copied to TS.Recent; otherwise, it is ignored.
        if let Some(timestamps) = segment.options.timestamps
            && self.negotiated.timestamps
            && start <= self.receiver.next()
        {
            self.timestamps.recent = Some((timestamps.value, now));
        }
    }

    /// Returns whether the segment is to be processed further.
    pub(super) fn take_acknowledgement(
        &mut self,
        now: Time,
        segment: &Segment,
        start: u64,
    ) -> bool {
        // RFC 9293 section 3.10.7.4, fifth: without the ACK bit the segment is dropped.
        let Some(ack) = segment.ack else { return false };
        let Some(to) = unwrap(ack, self.sender.una().max(1), self.iss) else {
            self.acknowledge();
            return false;
        };
        if self.state == State::SynReceived {
            if to != 1 {
                self.urgent = Some(Bare::Reset);
                return false;
            }
            self.sample_handshake(now);
            self.establish(now, segment);
        }
        if to > self.sender.nxt() {
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
            //# If the ACK acks something not yet sent (SEG.ACK > SND.NXT),
            //# then send an ACK, drop the segment, and return.
            self.acknowledge();
            return false;
        }
        if self.config.challenge_acks && self.sender.is_ancient(to) {
            //= https://www.rfc-editor.org/rfc/rfc5961#section-5.2
            //# All incoming segments whose ACK value
            //# doesn't satisfy the above condition MUST be discarded and an ACK sent
            //# back.
            self.challenge(now);
            return false;
        }
        let shift = self.negotiated.peer_shift.unwrap_or(0);
        let echoed_at = self.echoed_at(now, segment);
        if let Some(at) = echoed_at {
            self.receiver.sample_rtt(now, segment.payload, at);
        }
        if to >= self.sender.una() {
            let report = Report {
                to,
                from: start,
                window: u64::from(segment.window) << shift,
                occupied: segment.sequence_len() > 0,
                marked: segment.flags.contains(TcpFlags::ECE),
                echoed_at,
            };
            let (near, iss) = (self.sender.una(), self.iss);
            let place = |seq| unwrap(seq, near, iss);
            let blocks = segment
                .options
                .sack
                .iter()
                .filter_map(|(left, right)| Some((place(left)?, place(right)?)));
            self.sender.on_report(now, &report, blocks);
            if self.sender.take_writable() {
                self.events.push(Event::Writable);
            }
        }
        if self.sender.fin_acknowledged() {
            self.on_fin_acknowledged(now);
        }
        self.state != State::Closed
    }

    /// The moment at which the segment left that is echoed here, in whole milliseconds.
    pub(super) fn echoed_at(&self, now: Time, segment: &Segment) -> Option<Time> {
        let timestamps = segment
            .options
            .timestamps
            .filter(|_| self.negotiated.timestamps)?;
        let age = self.timestamps.value(now).wrapping_sub(timestamps.echo);
        // An age of weeks is a peer that echoes nonsense.
        let millis = now.as_nanos() / 1_000_000;
        millis.checked_sub(age.into()).map(Time::from_millis)
    }

    pub(super) fn take_payload(
        &mut self,
        now: Time,
        segment: &Segment,
        start: u64,
    ) -> Option<Placement> {
        let fin = segment.flags.contains(TcpFlags::FIN);
        if segment.payload == 0 && !fin {
            return None;
        }
        if !self.state.receives() {
            return None;
        }
        let pushed = segment.flags.contains(TcpFlags::PSH);
        let rto = self.sender.rtt.timeout();
        let taken = self
            .receiver
            .take(now, start, segment.payload, fin, pushed, rto);
        if taken.readable && !self.readable_told {
            self.readable_told = true;
            self.events.push(Event::Readable);
        }
        if taken.finished {
            self.on_peer_fin(now);
        }
        taken.placement
    }

    pub(super) fn on_peer_fin(&mut self, now: Time) {
        self.events.push(Event::PeerClosed);
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            State::SynSent
            | State::SynReceived
            | State::CloseWait
            | State::Closing
            | State::LastAck
            | State::TimeWait
            | State::Closed => {}
        }
    }

    pub(super) fn on_fin_acknowledged(&mut self, now: Time) {
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.end(Event::Closed),
            State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait2
            | State::CloseWait
            | State::TimeWait
            | State::Closed => {}
        }
    }

    pub(super) fn enter_time_wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.time_wait_until = Some(now + self.config.time_wait);
        self.events.push(Event::Closed);
    }

    pub(super) fn end(&mut self, event: Event) {
        self.state = State::Closed;
        self.handshake.due_at = None;
        self.handshake.send = false;
        self.time_wait_until = None;
        self.events.push(event);
    }

    pub(super) fn acknowledge(&mut self) {
        if self.urgent.is_none() {
            self.urgent = Some(Bare::Ack);
        }
    }
}
