//! The rate of a policer (`lt_bw` of `tcp_bbr.c`; Flach and others, "An Internet-Wide Analysis of Traffic
//! Policing", SIGCOMM 2016): what passes in the long run between one loss and another.

use core::time::Duration;

use units::Time;

use super::BANDWIDTH_SHIFT;

/// What has been delivered and lost over a connection's life, and when that was last counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) at: Time,
    /// Segments.
    pub(super) delivered: u64,
    pub(super) lost: u64,
}

/// What an ACK, or a timeout, adds to what is known about losses.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one moment"
)]
pub(super) struct News {
    pub(super) lost: bool,
    pub(super) application_limited: bool,
    pub(super) round_started: bool,
    /// Whether the mode is that in which a path's rate is used and probed.
    pub(super) probing: bool,
}

/// Intervals of some round trips, each from one loss to another. Two in a row that lose much and deliver at
/// one rate mean a policer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongTerm {
    /// Of the last interval, in segments per 2^24 us; the mean of two once a policer is found.
    bandwidth: Option<u64>,
    policed: bool,
    sampling: bool,
    /// Round trips in this interval, or since the policer was found.
    rounds: u32,
    since: Count,
}

/// `bbr_lt_intvl_min_rtts`; an interval that takes four times as many is given up.
const LEAST_ROUNDS: u32 = 4;
/// `bbr_lt_loss_thresh`: 50 segments lost of 256 delivered.
const LOST: u64 = 50;
const OF_DELIVERED: u64 = 256;
/// `bbr_lt_bw_diff`: rates that differ by no more, in bytes per second, are one rate.
const SAME_BYTES_PER_S: u64 = 500;
/// `bbr_lt_bw_max_rtts`: so long is a policer believed in.
const MOST_ROUNDS: u32 = 48;

// === impl LongTerm ===

impl LongTerm {
    /// The rate that the policer lets through, while there is one.
    pub(super) const fn bandwidth(&self) -> Option<u64> {
        if self.policed { self.bandwidth } else { None }
    }

    /// Forgets everything (`bbr_reset_lt_bw_sampling`).
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// `bbr_lt_bw_sampling`. Returns whether a policer has been believed in for long enough, so that the
    /// path is to be probed again.
    pub(super) fn update(&mut self, count: Count, news: News, mss: u32) -> bool {
        if self.policed {
            if news.probing && news.round_started {
                self.rounds += 1;
                if self.rounds >= MOST_ROUNDS {
                    self.reset();
                    return true;
                }
            }
            return false;
        }
        if !self.sampling {
            // The policer's tokens are to be used up first, or their burst would pass for its rate.
            if !news.lost {
                return false;
            }
            self.begin(count);
            self.sampling = true;
        }
        if news.application_limited {
            self.reset();
            return false;
        }
        self.rounds += u32::from(news.round_started);
        if self.rounds > 4 * LEAST_ROUNDS {
            self.reset();
            return false;
        }
        if self.rounds >= LEAST_ROUNDS && news.lost {
            self.end(count, mss);
        }
        false
    }

    fn begin(&mut self, count: Count) {
        self.since = count;
        self.rounds = 0;
    }

    /// The interval ends with a loss, where enough was lost in it.
    fn end(&mut self, count: Count, mss: u32) {
        let lost = count.lost - self.since.lost;
        let delivered = count.delivered - self.since.delivered;
        let span = count.at.since(self.since.at);
        if delivered == 0
            || lost * OF_DELIVERED < LOST * delivered
            || span < Duration::from_millis(1)
        {
            return;
        }
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let bandwidth = (delivered << BANDWIDTH_SHIFT) / micros;
        match self.bandwidth {
            Some(before) if is_one_rate(before, bandwidth, mss) => {
                self.bandwidth = Some(u64::midpoint(before, bandwidth));
                self.policed = true;
                self.rounds = 0;
            }
            Some(_) | None => {
                self.bandwidth = Some(bandwidth);
                self.begin(count);
            }
        }
    }
}

/// Whether two rates differ by an eighth of the earlier one at most (`bbr_lt_bw_ratio`), or hardly at all.
fn is_one_rate(before: u64, bandwidth: u64, mss: u32) -> bool {
    let difference = bandwidth.abs_diff(before);
    let bytes = u128::from(difference) * u128::from(mss) * 1_000_000;
    difference * 8 <= before || (bytes >> BANDWIDTH_SHIFT) <= u128::from(SAME_BYTES_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: u64 = 100;

    /// Round after round of a tenth of a second, each with `lost` of `sent` segments lost at its end, as
    /// far as the long term's rate needs.
    fn after(rounds: u64, sent: u64, lost: u64, rates: impl Fn(u64) -> u64) -> LongTerm {
        let mut long_term = LongTerm::default();
        let mut count = Count::default();
        for round in 0..rounds {
            count.at = Time::from_millis(ROUND * (round + 1));
            count.delivered += rates(round).min(sent) - lost;
            count.lost += lost;
            let news = News {
                lost: lost > 0,
                application_limited: false,
                round_started: true,
                probing: true,
            };
            long_term.update(count, news, 1448);
        }
        long_term
    }

    #[test]
    fn two_lossy_intervals_of_one_rate_mean_a_policer() {
        // Sampling begins with the first loss, and an interval takes four round trips.
        assert_eq!(after(7, 100, 30, |_| 100).bandwidth(), None);
        let policed = after(8, 100, 30, |_| 100).bandwidth();
        // 70 segments per 100 ms.
        assert_eq!(policed, Some((70 << BANDWIDTH_SHIFT) / 100_000));
    }

    #[test]
    fn a_fifth_has_to_be_lost_and_the_rate_has_to_last() {
        assert_eq!(after(60, 100, 15, |_| 100).bandwidth(), None);
        assert_eq!(after(60, 100, 0, |_| 100).bandwidth(), None);
        let doubling = |round: u64| 100 << (round / 3);
        assert_eq!(after(20, u64::MAX, 90, doubling).bandwidth(), None);
    }

    #[test]
    fn after_48_round_trips_the_path_is_probed_again() {
        assert!(after(8 + 47, 100, 30, |_| 100).bandwidth().is_some());
        assert_eq!(after(8 + 48, 100, 30, |_| 100).bandwidth(), None);
    }

    #[test]
    fn an_application_that_sends_too_little_ends_an_interval() {
        let mut long_term = LongTerm::default();
        let mut count = Count::default();
        for round in 0..40 {
            count.at = Time::from_millis(ROUND * (round + 1));
            count.delivered += 70;
            count.lost += 30;
            let news = News {
                lost: true,
                application_limited: round % 6 == 5,
                round_started: true,
                probing: true,
            };
            long_term.update(count, news, 1448);
            assert_eq!(long_term.bandwidth(), None, "{round}");
        }
    }
}
