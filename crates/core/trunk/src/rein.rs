use core::time::Duration;

use units::{Rate, Time};

/// A bound on how fast a socket paces, while its start does not end by itself.
///
/// BBR paces at 2.89 times the delivery rate until that has stopped growing for three round trips, and rounds that
/// the application did not fill do not count (`bbr_check_full_bw_reached` in the kernel's `net/ipv4/tcp_bbr.c`).
/// An application that offers more than the path carries and less than 2.89 times that keeps it there for ever,
/// and everything above the path's rate is lost and sent again: 17 % was seen on a path of 1 Gbit/s. Bound to a
/// little more than the path carries, the socket always has something to send, and goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rein {
    held: Option<Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    /// Bytes per second.
    at: u64,
    until: Time,
}

/// A start paces at 2 (CUBIC) or 2.89 times (BBR) what comes through, everything later at 1.25 times at most.
const STARTS_ABOVE: (u64, u64) = (22, 10);
/// A little more than the path carries: enough to see whether it carries more, too little to fill a queue of a
/// round trip within three of them.
const BOUND: (u64, u64) = (21, 20);
/// Longer than three round trips of any path; what has not ended by then has another reason.
const LONGEST: Duration = Duration::from_secs(3);

impl Rein {
    /// The kernel paces at `pacing` bytes per second; `full` is the delivery rate that has stopped growing, if it
    /// has.
    pub(crate) fn observe(&mut self, pacing: u64, full: Option<u64>, now: Time) {
        self.held = match (self.held, full) {
            // A bound that is not reached any more: the start is over.
            (Some(held), _) if pacing < held.at || now >= held.until => None,
            (None, Some(full)) if above(pacing, full, STARTS_ABOVE) => Some(Held {
                at: full.saturating_mul(BOUND.0) / BOUND.1,
                until: now + LONGEST,
            }),
            (held, _) => held,
        };
    }

    pub(crate) fn rate(&self) -> Option<Rate> {
        let held = self.held?;
        Some(Rate::bit_per_s(held.at.saturating_mul(8)))
    }
}

fn above(rate: u64, other: u64, (times, of): (u64, u64)) -> bool {
    u128::from(rate) * u128::from(of) > u128::from(other) * u128::from(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: u64 = 125_000_000;

    #[test]
    fn a_start_that_does_not_end_is_bound_until_it_has() {
        let at = Time::from_millis;
        let mut rein = Rein::default();
        rein.observe(PATH * 3, None, at(0));
        assert_eq!(rein.rate(), None, "it still grows");
        rein.observe(PATH * 3, Some(PATH), at(500));
        let bound = rein.rate().map(Rate::bytes_per_s);
        assert_eq!(bound, Some(PATH * 21 / 20));
        rein.observe(PATH * 21 / 20, Some(PATH), at(600));
        assert!(rein.rate().is_some(), "it paces at the bound");
        rein.observe(PATH, Some(PATH), at(700));
        assert_eq!(rein.rate(), None, "it paces by itself");
        rein.observe(PATH * 21 / 20, Some(PATH), at(800));
        assert_eq!(rein.rate(), None, "probing is no start");
    }

    #[test]
    fn a_bound_that_changes_nothing_is_given_up() {
        let at = Time::from_millis;
        let mut rein = Rein::default();
        rein.observe(PATH * 3, Some(PATH), at(0));
        rein.observe(PATH * 21 / 20, Some(PATH), at(2_999));
        assert!(rein.rate().is_some());
        rein.observe(PATH * 21 / 20, Some(PATH), at(3_000));
        assert_eq!(rein.rate(), None);
    }
}
