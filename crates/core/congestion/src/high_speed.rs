use core::time::Duration;

use units::Time;

use crate::algorithm::Parameters;
use crate::window::Window;
use crate::{Acknowledgement, Controller};

/// `HighSpeed` TCP (RFC 3649): above 38 segments it grows by more than one segment per round trip and
/// falls by less than one half, both by a table over the window.
#[derive(Debug)]
pub(crate) struct HighSpeed {
    window: Window,
    /// Position in [`TABLE`]; the increase a(w) is one more.
    position: usize,
}

/// RFC 3649 appendix B: from which window a(w) = position + 1 applies, in segments, and b(w) there in
/// 256ths. Computed by the program of that appendix; the RFC prints b(w) with two decimals.
pub(crate) const TABLE: [(u32, u32); 73] = [
    (38, 128),
    (118, 113),
    (221, 105),
    (347, 99),
    (495, 94),
    (663, 90),
    (851, 87),
    (1058, 84),
    (1284, 81),
    (1529, 79),
    (1793, 77),
    (2076, 75),
    (2378, 73),
    (2699, 71),
    (3039, 70),
    (3399, 68),
    (3778, 67),
    (4177, 65),
    (4596, 64),
    (5036, 63),
    (5497, 62),
    (5979, 61),
    (6483, 60),
    (7009, 59),
    (7558, 58),
    (8130, 57),
    (8726, 56),
    (9346, 55),
    (9991, 54),
    (10661, 53),
    (11358, 52),
    (12082, 51),
    (12834, 50),
    (13614, 50),
    (14424, 49),
    (15265, 48),
    (16137, 47),
    (17042, 47),
    (17981, 46),
    (18955, 45),
    (19965, 45),
    (21013, 44),
    (22101, 43),
    (23230, 43),
    (24402, 42),
    (25618, 41),
    (26881, 41),
    (28193, 40),
    (29557, 39),
    (30975, 39),
    (32450, 38),
    (33986, 37),
    (35586, 37),
    (37253, 36),
    (38992, 36),
    (40808, 35),
    (42707, 34),
    (44694, 34),
    (46776, 33),
    (48961, 33),
    (51258, 32),
    (53677, 31),
    (56230, 31),
    (58932, 30),
    (61799, 30),
    (64851, 29),
    (68113, 28),
    (71617, 28),
    (75401, 27),
    (79517, 26),
    (84035, 25),
    (89053, 25),
    (94717, 24),
];

// === impl HighSpeed ===

impl HighSpeed {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        let mut controller = Self {
            window: Window::new(parameters),
            position: 0,
        };
        controller.look_up();
        controller
    }

    /// Windows move by small steps, so the neighbour is nearly always the next row.
    fn look_up(&mut self) {
        let cwnd = self.window.cwnd;
        while self.position + 1 < TABLE.len() && cwnd > TABLE[self.position].0 {
            self.position += 1;
        }
        while self.position > 0 && cwnd <= TABLE[self.position - 1].0 {
            self.position -= 1;
        }
    }

    /// a(w), segments per round trip.
    fn increase(&self) -> u32 {
        u32::try_from(self.position + 1).unwrap_or(u32::MAX)
    }

    fn reduced(&mut self) -> u32 {
        self.look_up();
        let cwnd = self.window.cwnd;
        //= https://www.rfc-editor.org/rfc/rfc3649#section-7
        //# w <- (1-b(w))w.
        let fall = (u64::from(cwnd) * u64::from(TABLE[self.position].1)) >> 8;
        cwnd - u32::try_from(fall).unwrap_or(cwnd)
    }
}

impl Controller for HighSpeed {
    fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> u32 {
        self.window.ssthresh
    }

    fn on_ack(&mut self, ack: &Acknowledgement) {
        if !(ack.may_grow && ack.cwnd_limited) {
            return;
        }
        let mut rest = ack.delivered;
        if self.window.in_slow_start() {
            rest = self.window.slow_start(rest);
        }
        if rest > 0 {
            self.look_up();
            //= https://www.rfc-editor.org/rfc/rfc3649#section-7
            //# w <- w + a(w)/w.
            // Per segment delivered, where Linux counts ACKs (`hstcp_cong_avoid`) and so halves a(w)
            // when every second segment is acknowledged.
            let credit = rest.saturating_mul(self.increase());
            self.window.grow_linearly(self.window.cwnd, credit);
        }
    }

    fn on_congestion_event(&mut self, _now: Time, _in_flight: u32) {
        let reduced = self.reduced();
        self.window.reduce_to(reduced);
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: u32) {
        let reduced = self.reduced();
        self.window.collapse(reduced);
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
