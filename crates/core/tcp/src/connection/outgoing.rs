//! Segments of ours.

use units::Time;
use wire::{TcpFlags, TcpOptions};

use super::{Bare, Connection};
use crate::config::Ecn;
use crate::output::Output;
use crate::rtt::INITIAL_RTO;
use crate::segment::{EcnCodepoint, Segment, wrap};
use crate::sender::Fragment;
use crate::state::State;

/// Bytes of an option that reports holes, with its padding, and of each block in it.
const SACK_HEADER: u32 = 4;
const SACK_BLOCK: u32 = 8;

impl Connection {
    pub(super) fn transmit_syn(&mut self, now: Time) -> Output {
        let answer = self.state == State::SynReceived;
        if self.handshake.due_at.is_some() {
            // The peer's SYN came again before our timer: the timer stands, and nobody can tell any more
            // which of our answers is acknowledged (Karn's rule).
            self.handshake.sent_at = None;
        } else {
            self.handshake.sent_at = Some(now);
            let wait = INITIAL_RTO.saturating_mul(1 << self.handshake.attempts.min(7));
            self.handshake.attempts += 1;
            self.handshake.due_at = Some(now + wait);
        }
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
        let mut flags = if answer {
            TcpFlags::SYN.union(TcpFlags::ACK)
        } else {
            TcpFlags::SYN
        };
        // RFC 3168 section 6.1.1: both flags ask, ECE alone grants. A path that drops such SYNs gets an
        // ordinary one the next time (section 6.1.1.1, `tcp_ecn_fallback`).
        if answer && self.negotiated.ecn {
            flags = flags.union(TcpFlags::ECE);
        } else if !answer && self.config.ecn == Ecn::Request && self.handshake.attempts == 1 {
            flags = flags.union(TcpFlags::ECE).union(TcpFlags::CWR);
        }
        let segment = Segment {
            seq: self.iss,
            ack: answer.then(|| wrap(self.receiver.next(), self.receiver.start)),
            flags,
            window: self.receiver.offer_initial_window(),
            payload: 0,
            options,
            ecn: EcnCodepoint::NotEct,
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
        if fragment.reduced {
            flags = flags.union(TcpFlags::CWR);
        }
        //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.5
        //# This document specifies ECN-capable TCP implementations MUST NOT set
        //# either ECT codepoint (ECT(0) or ECT(1)) in the IP header for
        //# retransmitted data packets
        let capable = self.negotiated.ecn && fragment.payload > 0 && !fragment.repeated;
        let segment = Segment {
            ecn: if capable {
                EcnCodepoint::Ect0
            } else {
                EcnCodepoint::NotEct
            },
            ..self.segment(now, fragment.start, flags, fragment.payload)
        };
        Output::Transmit {
            segment,
            offset: fragment.start.saturating_sub(1),
        }
    }

    pub(super) fn transmit_bare(&mut self, now: Time, bare: Bare) -> Output {
        let nxt = self.sender.nxt();
        let segment = match bare {
            Bare::Ack => self.segment(now, nxt, TcpFlags::ACK, 0),
            Bare::WindowProbe => {
                let before = self.sender.una().saturating_sub(1);
                self.segment(now, before, TcpFlags::ACK, 0)
            }
            Bare::Reset => self.segment(now, nxt, TcpFlags::RST.union(TcpFlags::ACK), 0),
        };
        Output::Transmit { segment, offset: 0 }
    }

    /// A segment from `start` that acknowledges where we are, before which `payload` bytes will be put.
    pub(super) fn segment(
        &mut self,
        now: Time,
        start: u64,
        mut flags: TcpFlags,
        payload: u32,
    ) -> Segment {
        //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.3
        //# After a TCP receiver sends an ACK packet with the ECN-Echo bit set,
        //# that TCP receiver continues to set the ECN-Echo flag in all the ACK
        //# packets it sends (whether they acknowledge CE data packets or non-CE
        //# data packets) until it receives a CWR packet (a packet with the CWR
        //# flag set).
        if self.echo_mark && !flags.contains(TcpFlags::RST) {
            flags = flags.union(TcpFlags::ECE);
        }
        let timestamps = self.negotiated.timestamps;
        let mut options = TcpOptions {
            timestamps: timestamps.then(|| self.timestamps.option(now)),
            ..TcpOptions::default()
        };
        let reports =
            self.negotiated.sack && (self.receiver.has_ahead() || self.receiver.has_duplicate());
        // Forty bytes of options hold four blocks, or three beside timestamps.
        let most: u8 = if timestamps { 3 } else { 4 };
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
        //# Note that some options might not be included on all segments, but that for each segment sent, the
        //# sender should adjust the data length accordingly, within the Eff.snd.MSS.
        // A full segment stays full and says nothing of holes: an acknowledgement of its own does.
        let room = self.sender.mss().saturating_sub(payload);
        let fits = payload == 0 || room >= SACK_HEADER + SACK_BLOCK * u32::from(most);
        if reports && fits {
            options.sack = self.receiver.sack_blocks(usize::from(most));
        }
        let window = self.receiver.offer_window(fits || !reports);
        Segment {
            seq: wrap(start, self.iss),
            ack: Some(wrap(self.receiver.next(), self.receiver.start)),
            flags,
            window,
            payload,
            options,
            ecn: EcnCodepoint::NotEct,
        }
    }
}
