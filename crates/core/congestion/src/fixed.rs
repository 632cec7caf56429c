use core::time::Duration;

use units::Time;

use crate::algorithm::Parameters;
use crate::{Acknowledgement, Controller};

/// No congestion control: the window is what it was set to. For experiments on paths of one's own,
/// where the receive window or the send buffer is to be the only limit.
#[derive(Debug)]
pub(crate) struct Fixed {
    cwnd: u32,
}

impl Fixed {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self {
            cwnd: parameters.initial_cwnd.max(1),
        }
    }
}

impl Controller for Fixed {
    fn cwnd(&self) -> u32 {
        self.cwnd
    }

    fn ssthresh(&self) -> u32 {
        self.cwnd
    }

    fn on_ack(&mut self, _ack: &Acknowledgement) {}

    fn on_congestion_event(&mut self, _now: Time, _in_flight: u32) {}

    fn on_timeout(&mut self, _now: Time, _in_flight: u32) {}

    fn on_repeated_timeout(&mut self, _now: Time, _in_flight: u32) {}

    fn on_idle(&mut self, _now: Time, _idle: Duration, _rto: Duration, _restart: bool) {}

    fn on_application_limited(&mut self, _used: u32) {}

    fn undo(&mut self) {}
}
