//! Segments of ours.

use units::Time;
use wire::{TcpFlags, TcpOptions};

use super::{Bare, Connection};
use crate::output::Output;
use crate::rtt::INITIAL_RTO;
use crate::segment::{Segment, wrap};
use crate::sender::Fragment;
use crate::state::State;

impl Connection {
    pub(super) fn transmit_syn(&mut self, now: Time) -> Output {
        let answer = self.state == State::SynReceived;
        self.handshake.sent_at = Some(now);
        let wait = INITIAL_RTO.saturating_mul(1 << self.handshake.attempts.min(7));
        self.handshake.attempts += 1;
        self.handshake.due_at = Some(now + wait);
        let offer = |ours: bool, theirs: bool| ours && (!answer || theirs);
        let timestamps = offer(self.config.timestamps, self.negotiated.timestamps);
        let scaling = offer(
            self.config.window_scaling,
            self.negotiated.peer_shift.is_some(),
        );
        let options = TcpOptions {
            mss: Some(self.config.mss),
            window_scale: scaling.then(|| self.receiver.shift()),
            sack_permitted: offer(self.config.sack, self.negotiated.sack),
            timestamps: timestamps.then(|| self.timestamps.option(now)),
            ..TcpOptions::default()
        };
        let flags = if answer {
            TcpFlags::SYN.union(TcpFlags::ACK)
        } else {
            TcpFlags::SYN
        };
        let segment = Segment {
            seq: self.iss,
            ack: answer.then(|| wrap(self.receiver.next(), self.receiver.start)),
            flags,
            window: self.receiver.offer_initial_window(),
            payload: 0,
            options,
        };
        Output::Transmit { segment, offset: 0 }
    }

    pub(super) fn transmit_fragment(&mut self, now: Time, fragment: Fragment) -> Output {
        let mut flags = TcpFlags::ACK;
        if fragment.fin {
            flags = flags.union(TcpFlags::FIN);
        }
        if fragment.push && fragment.payload > 0 {
            flags = flags.union(TcpFlags::PSH);
        }
        if fragment.payload > 0 {
            self.receiver.acks.on_data_sent(now);
        }
        let segment = Segment {
            payload: fragment.payload,
            ..self.segment(now, fragment.start, flags)
        };
        Output::Transmit {
            segment,
            offset: fragment.start.saturating_sub(1),
        }
    }

    pub(super) fn transmit_bare(&mut self, now: Time, bare: Bare) -> Output {
        let nxt = self.sender.nxt();
        let segment = match bare {
            Bare::Ack => self.segment(now, nxt, TcpFlags::ACK),
            Bare::WindowProbe => {
                let before = self.sender.una().saturating_sub(1);
                self.segment(now, before, TcpFlags::ACK)
            }
            Bare::Reset => self.segment(now, nxt, TcpFlags::RST.union(TcpFlags::ACK)),
        };
        Output::Transmit { segment, offset: 0 }
    }

    /// A segment from `start` that acknowledges where we are.
    pub(super) fn segment(&mut self, now: Time, start: u64, flags: TcpFlags) -> Segment {
        let timestamps = self.negotiated.timestamps;
        let mut options = TcpOptions {
            timestamps: timestamps.then(|| self.timestamps.option(now)),
            ..TcpOptions::default()
        };
        if self.negotiated.sack && (self.receiver.has_ahead() || self.receiver.has_duplicate()) {
            // Forty bytes of options hold four blocks, or three beside timestamps.
            options.sack = self.receiver.sack_blocks(if timestamps { 3 } else { 4 });
        }
        let window = self.receiver.offer_window();
        Segment {
            seq: wrap(start, self.iss),
            ack: Some(wrap(self.receiver.next(), self.receiver.start)),
            flags,
            window,
            payload: 0,
            options,
        }
    }
}
