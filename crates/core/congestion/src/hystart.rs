//! Leaving slow start before it overflows the bottleneck's queue.

use core::time::Duration;

use units::Time;

use crate::Acknowledgement;

/// What one ACK means to slow start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// Grow by every segment delivered.
    Continue,
    /// Grow by a quarter of that: Conservative Slow Start of RFC 9406.
    Conservatively,
    /// The path is full: `ssthresh` becomes the window.
    Leave,
}

/// A way to end slow start without a loss.
#[derive(Debug)]
pub(crate) enum Detector {
    Off,
    Linux(HyStart),
    PlusPlus(HyStartPlusPlus),
}

/// Linux' `hystart_update`: an ACK train longer than half the smallest RTT, or eight samples of a round
/// all above the smallest RTT by an eighth.
#[derive(Debug, Default)]
pub(crate) struct HyStart {
    paced: bool,
    round: Option<Round>,
    last_ack_at: Time,
    started_at: Time,
}

/// RFC 9406 section 4.2.
#[derive(Debug, Default)]
pub(crate) struct HyStartPlusPlus {
    round: Option<Round>,
    last_round_min: Option<Duration>,
    /// Smallest RTT of the round in which the conservative phase began, and rounds left in it.
    conservative: Option<(Duration, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    ends_at: u64,
    min_rtt: Option<Duration>,
    samples: u32,
}

/// `hystart_low_window`: below, a round has too few ACKs to tell anything.
const LOW_WINDOW: u32 = 16;
/// `hystart_ack_delta_us`: ACKs closer than this belong to one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// What a receiver may hold an ACK back for merging segments (`hystart_ack_delay`).
const MERGE_DELAY: Duration = Duration::from_millis(1);
//= https://www.rfc-editor.org/rfc/rfc9406#section-4.3
//# It is RECOMMENDED that a HyStart++ implementation use the following
//# constants:
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_ROUNDS: u32 = 5;
/// By how much slower the window grows in the conservative phase (`CSS_GROWTH_DIVISOR`).
pub(crate) const CSS_GROWTH_DIVISOR: u32 = 4;

// === impl Detector ===

impl Detector {
    pub(crate) fn linux(paced: bool) -> Self {
        Self::Linux(HyStart {
            paced,
            ..HyStart::default()
        })
    }

    /// To be called in slow start only.
    pub(crate) fn on_ack(
        &mut self,
        ack: &Acknowledgement,
        min_rtt: Option<Duration>,
        cwnd: u32,
    ) -> Verdict {
        match self {
            Self::Off => Verdict::Continue,
            Self::Linux(detector) => detector.on_ack(ack, min_rtt, cwnd),
            Self::PlusPlus(detector) => detector.on_ack(ack),
        }
    }

    /// Forgets the round under way; slow start begins anew.
    pub(crate) fn reset(&mut self) {
        match self {
            Self::Off => {}
            Self::Linux(detector) => detector.round = None,
            Self::PlusPlus(detector) => *detector = HyStartPlusPlus::default(),
        }
    }
}

// === impl HyStart ===

impl HyStart {
    fn on_ack(&mut self, ack: &Acknowledgement, min_rtt: Option<Duration>, cwnd: u32) -> Verdict {
        let (Some(rtt), Some(min_rtt)) = (ack.rtt, min_rtt) else {
            return Verdict::Continue;
        };
        let round = match &mut self.round {
            Some(round) if ack.acked_to <= round.ends_at => round,
            round => {
                self.started_at = ack.now;
                self.last_ack_at = ack.now;
                round.insert(Round::until(ack.sent_to))
            }
        };
        if cwnd < LOW_WINDOW {
            return Verdict::Continue;
        }
        if ack.now.since(self.last_ack_at) <= TRAIN_GAP {
            self.last_ack_at = ack.now;
            let full = min_rtt + MERGE_DELAY;
            // Pacing spreads the sending itself over half a round trip.
            let threshold = if self.paced { full } else { full / 2 };
            if ack.now.since(self.started_at) > threshold {
                return Verdict::Leave;
            }
        }
        let enough = round.samples >= N_RTT_SAMPLE;
        let smallest = round.sample(rtt);
        if enough && smallest > min_rtt + rtt_threshold(min_rtt) {
            return Verdict::Leave;
        }
        Verdict::Continue
    }
}

// === impl HyStartPlusPlus ===

impl HyStartPlusPlus {
    fn on_ack(&mut self, ack: &Acknowledgement) -> Verdict {
        if let Some(round) = self.round.filter(|round| ack.acked_to > round.ends_at) {
            self.round = None;
            self.last_round_min = round.min_rtt;
            if let Some((_, left)) = &mut self.conservative {
                *left = left.saturating_sub(1);
                //= https://www.rfc-editor.org/rfc/rfc9406#section-4.2
                //# If CSS_ROUNDS rounds are complete, enter congestion avoidance by
                //# setting the ssthresh to the current cwnd.
                if *left == 0 {
                    return Verdict::Leave;
                }
            }
        }
        let round = self.round.get_or_insert_with(|| Round::until(ack.sent_to));
        if let Some(rtt) = ack.rtt {
            round.sample(rtt);
        }
        let (samples, current) = (round.samples, round.min_rtt);
        if let (true, Some(current)) = (samples >= N_RTT_SAMPLE, current) {
            match (self.conservative, self.last_round_min) {
                // The growth of the RTT was a passing one.
                (Some((baseline, _)), _) if current < baseline => self.conservative = None,
                (None, Some(last)) if current >= last + rtt_threshold(last) => {
                    self.conservative = Some((current, CSS_ROUNDS));
                }
                _ => {}
            }
        }
        if self.conservative.is_some() {
            Verdict::Conservatively
        } else {
            Verdict::Continue
        }
    }
}

// === impl Round ===

impl Round {
    const fn until(offset: u64) -> Self {
        Self {
            ends_at: offset,
            min_rtt: None,
            samples: 0,
        }
    }

    fn sample(&mut self, rtt: Duration) -> Duration {
        self.samples += 1;
        let smallest = self.min_rtt.map_or(rtt, |min| min.min(rtt));
        self.min_rtt = Some(smallest);
        smallest
    }
}

//= https://www.rfc-editor.org/rfc/rfc9406#section-4.2
//# RttThresh = max(MIN_RTT_THRESH,
//#   min(lastRoundMinRTT / MIN_RTT_DIVISOR, MAX_RTT_THRESH))
fn rtt_threshold(min_rtt: Duration) -> Duration {
    (min_rtt / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}
