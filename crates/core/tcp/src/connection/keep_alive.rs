//! Asking a silent peer if it is still there (RFC 9293 section 3.8.4).

use units::Time;

use super::{Bare, Connection};
use crate::output::Event;

impl Connection {
    /// When the next question is due; only while nothing is outstanding that would be answered anyway.
    pub(super) fn probe_at(&self) -> Option<Time> {
        let keep_alive = self.config.keep_alive?;
        if self.sender.nxt() > self.sender.una() || !self.state.synchronised() {
            return None;
        }
        let probing = &self.keep_alive;
        Some(if probing.sent == 0 {
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
            //# Keep-alive packets MUST only be sent when no sent data is
            //# outstanding, and no data or acknowledgment packets have been received
            //# for the connection within an interval (MUST-26).
            probing.heard_at + keep_alive.idle
        } else {
            probing.sent_at + keep_alive.interval
        })
    }

    pub(super) fn probe_silence(&mut self, now: Time) {
        let Some(keep_alive) = self.config.keep_alive else {
            return;
        };
        if self.probe_at().is_none_or(|at| at > now) {
            return;
        }
        if self.keep_alive.sent >= keep_alive.probes {
            self.end(Event::TimedOut);
            self.urgent = Some(Bare::Reset);
            return;
        }
        self.keep_alive.sent += 1;
        self.keep_alive.sent_at = now;
        // A byte before the window: the peer answers with where it is.
        self.urgent = Some(Bare::WindowProbe);
    }
}
