use core::time::Duration;

use units::Time;

use crate::algorithm::Parameters;
use crate::window::Window;
use crate::{Acknowledgement, Controller};

/// RFC 5681 and RFC 6582: one segment per round trip, half the window at a loss.
#[derive(Debug)]
pub(crate) struct NewReno {
    window: Window,
}

impl NewReno {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self {
            window: Window::new(parameters),
        }
    }
}

impl Controller for NewReno {
    fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> u32 {
        self.window.ssthresh
    }

    fn on_ack(&mut self, ack: &Acknowledgement) {
        self.window.grow_as_reno(ack);
    }

    fn on_congestion_event(&mut self, _now: Time, _in_flight: u32) {
        // RFC 5681 equation 4 halves FlightSize; Linux halves cwnd (`tcp_reno_ssthresh`) and keeps an
        // unused window from counting by not growing it (`cwnd_limited`). We do as Linux does, so that
        // the two can be compared.
        self.window.reduce_to(self.window.cwnd / 2);
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: u32) {
        self.window.collapse(self.window.cwnd / 2);
    }

    fn on_repeated_timeout(&mut self, _now: Time, _in_flight: u32) {
        self.window.collapse_again();
    }

    fn on_idle(&mut self, _now: Time, idle: Duration, rto: Duration, restart: bool) {
        if restart {
            self.window.restart(idle, rto);
        }
    }

    fn on_application_limited(&mut self, used: u32) {
        self.window.follow_application(used);
    }

    fn limit(&mut self, cwnd: u32) {
        self.window.limit(cwnd);
    }

    fn undo(&mut self) {
        self.window.undo();
    }
}
