use core::time::Duration;

use units::{Bytes, Rate};

/// How much a socket may hold that it has not sent.
///
/// It is what nothing can overtake and what cannot move to another connection, and all that there is to send while the
/// driver is late. So it is a time: long enough for a busy host to wake up twice, since Linux asks for more when half of
/// it is left, and too short to be noticed behind a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reserve {
    held: Option<u64>,
}

const TIME: Duration = Duration::from_millis(16);
/// Some segments, and a system call's worth.
const LEAST: u64 = 64 << 10;
/// 4 Gbit/s for so long.
const MOST: u64 = 8 << 20;

impl Reserve {
    /// The kernel paces at this rate. Powers of two, and smaller ones only for a quarter, so that a controller's own
    /// cycle changes nothing.
    pub(crate) fn observe(&mut self, pacing: Rate) {
        let wanted = pacing
            .checked_mul(TIME)
            .map_or(MOST, Bytes::get)
            .clamp(LEAST, MOST)
            .next_power_of_two();
        if self
            .held
            .is_none_or(|held| wanted > held || wanted <= held / 4)
        {
            self.held = Some(wanted);
        }
    }

    pub(crate) fn bytes(&self) -> Option<Bytes> {
        self.held.map(Bytes::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rates: &[u64]) -> Option<u64> {
        let mut reserve = Reserve::default();
        for rate in rates {
            reserve.observe(Rate::mbit_per_s(*rate));
        }
        reserve.bytes().map(Bytes::get)
    }

    #[test]
    fn it_is_a_time_and_bounded_both_ways() {
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[1]), Some(64 << 10));
        assert_eq!(after(&[100]), Some(256 << 10));
        assert_eq!(after(&[1_000]), Some(2 << 20));
        assert_eq!(after(&[100_000]), Some(8 << 20));
    }

    #[test]
    fn what_a_controller_does_in_its_cycle_changes_nothing() {
        assert_eq!(after(&[120, 90]), after(&[120]));
        assert_eq!(after(&[125, 94, 157, 125]), after(&[157]));
        assert_eq!(after(&[1_000, 100]), after(&[100]));
    }
}
