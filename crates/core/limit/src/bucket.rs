//! Whether losses follow the fill of a token bucket.
//!
//! What a policer drops depends on what passed just before: it drops when its bucket is empty, and only then.
//! Random loss knows nothing of that. So the bucket is rebuilt, and what it had given away before each loss is
//! compared with what it had given away before the packets that came through (after Flach et al., "An
//! Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016, §3.1).

use std::collections::BTreeMap;

use core::time::Duration;

use units::Time;

use crate::Repair;
use crate::replay::Replay;

/// A piece of data as it met the bucket.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: Time,
    bytes: i64,
    lost: bool,
}

/// Everything that was sent, in order of time.
struct Pieces {
    all: Vec<Piece>,
    /// Most losses show as holes only: they struck ahead of the tap, at a moment that it did not see.
    behind: bool,
    first_loss: Time,
    last_loss: Time,
    /// Bytes that came through between those two.
    through: i64,
}

/// Whether the losses are those of a bucket, and not of chance.
pub(crate) fn is_emptied(replay: &Replay, rtt: Duration, mss: i64) -> bool {
    let Some(pieces) = Pieces::of(replay, mss) else {
        return false;
    };
    if pieces.behind && !pieces.came_faster(mss) {
        // What a short queue drops follows what passed before, too; but behind it nothing comes faster than the line.
        return false;
    }
    // A sender that never yields keeps the bucket empty: seen from behind, what passes then has one rate, and no
    // packet found it fuller than another. But no chance takes such a part of everything.
    (pieces.behind && pieces.loses_much(rtt))
        || (0..RATES)
            .filter_map(|step| pieces.ranks(step, rtt, mss))
            .any(Ranks::are_no_chance)
}

/// The bucket's rate is somewhat above what comes through while others idle: so many rates are tried, each by
/// [`STEP_PERCENT`] above the one before, up to twice what came through.
const RATES: i32 = 19;
const STEP_PERCENT: i64 = 104;

/// How far what losses found lies among what all packets found.
#[derive(Clone, Copy, Debug)]
struct Ranks {
    /// Share of the packets that had found the bucket fuller, on average over the losses.
    mean: f64,
    /// Losses that it is taken over.
    losses: f64,
}

impl Ranks {
    /// Ranks of chance are spread evenly from 0 to 1, so that the mean of n of them lies about a half with a
    /// variance of 1/(12 n). Three standard deviations say enough, within bounds: many losses make any small bias
    /// significant, and few of them any mean possible.
    fn are_no_chance(self) -> bool {
        const LEAST: f64 = 0.2;
        const ENOUGH: f64 = 0.4;
        let above = self.mean - 0.5;
        above >= ENOUGH || (above >= LEAST && above * above * 12.0 * self.losses >= 9.0)
    }

    /// Of losses and packets by what the bucket lacked when they came; equal ones count half.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of what a capture holds, far below 2^53"
    )]
    fn of(losses: &[i128], mut passes: Vec<i128>) -> Option<Self> {
        if losses.is_empty() || passes.is_empty() {
            return None;
        }
        passes.sort_unstable();
        let doubled: usize = losses
            .iter()
            .map(|lack| {
                passes.partition_point(|other| other < lack)
                    + passes.partition_point(|other| other <= lack)
            })
            .sum();
        let all = 2 * passes.len() * losses.len();
        Some(Self {
            mean: doubled as f64 / all as f64,
            losses: losses.len() as f64,
        })
    }
}

impl Pieces {
    fn of(replay: &Replay, mss: i64) -> Option<Self> {
        // When the bytes from each position on were sent again.
        let mut again: BTreeMap<i64, Vec<Time>> = BTreeMap::new();
        for repeat in &replay.repeats {
            if repeat.cause != Repair::Spurious {
                again.entry(repeat.from).or_default().push(repeat.at);
            }
        }
        let mut all = Vec::with_capacity(replay.sends.len() + replay.repeats.len());
        let mut holes = 0;
        let mut shown_to: Option<i64> = None;
        for send in &replay.sends {
            let mut push = |bytes, lost| {
                all.push(Piece {
                    at: send.at,
                    bytes,
                    lost,
                });
            };
            let hole = shown_to.unwrap_or(send.from)..send.from;
            if !hole.is_empty() {
                for _ in again.range(hole) {
                    push(mss, true);
                    holes += 1;
                }
            }
            let mut from = send.from;
            for (&position, _) in again.range(send.from..send.to.max(send.from)) {
                let to = (position + mss).min(send.to);
                push(position - from, false);
                push(to - position, true);
                from = to;
            }
            push(send.to - from, false);
            shown_to = Some(shown_to.map_or(send.to, |to| to.max(send.to)));
        }
        for times in again.values() {
            for (count, at) in (1..).zip(times) {
                all.push(Piece {
                    at: *at,
                    bytes: mss,
                    lost: count < times.len(),
                });
            }
        }
        all.retain(|piece| piece.bytes > 0);
        // Stable: what left at one moment keeps its order.
        all.sort_by_key(|piece| piece.at);
        let lost = || all.iter().filter(|piece| piece.lost);
        let (first_loss, last_loss) = (lost().next()?.at, lost().next_back()?.at);
        let through = all
            .iter()
            .filter(|piece| !piece.lost && piece.at >= first_loss && piece.at <= last_loss)
            .map(|piece| piece.bytes)
            .sum();
        Some(Self {
            behind: holes * 2 > lost().count(),
            first_loss,
            last_loss,
            through,
            all,
        })
    }

    /// Whether a sixteenth of what was sent was lost, beyond what slow start ran into.
    fn loses_much(&self, rtt: Duration) -> bool {
        let settled = self.first_loss + rtt * 3;
        let lost: i64 = self
            .all
            .iter()
            .filter(|piece| piece.lost && piece.at >= settled)
            .map(|piece| piece.bytes)
            .sum();
        lost * 16 >= lost + self.through
    }

    /// Whether a burst, as a full bucket lets it pass, came at one and a half times the rate that came through, or
    /// faster.
    fn came_faster(&self, mss: i64) -> bool {
        /// Less may be a lump of the receiving host, or jitter.
        const SEGMENTS: i64 = 12;
        const PIECES: usize = 4;
        let passed: Vec<&Piece> = self.all.iter().filter(|piece| !piece.lost).collect();
        let span = self.last_loss.since(self.first_loss).as_nanos();
        let through = u128::try_from(self.through).unwrap_or(0);
        let (mut from, mut bytes) = (0, 0);
        for (to, piece) in passed.iter().enumerate() {
            // What the first one carries came before the time that is measured.
            bytes += if to > 0 { piece.bytes } else { 0 };
            while let Some(next) = passed.get(from + 1)
                && bytes - next.bytes >= SEGMENTS * mss
                && to - from > PIECES
            {
                from += 1;
                bytes -= next.bytes;
            }
            let Some(first) = passed.get(from) else {
                return false;
            };
            let took = piece.at.since(first.at).as_nanos();
            let carried = u128::try_from(bytes).unwrap_or(0);
            let enough = bytes >= SEGMENTS * mss && to - from >= PIECES;
            if enough && carried * span * 2 >= through * took * 3 {
                return true;
            }
        }
        false
    }

    /// The ranks of the losses at one of the [`RATES`].
    fn ranks(&self, step: i32, rtt: Duration, mss: i64) -> Option<Ranks> {
        /// As many packets as tell ranks to a thousandth; more would only take time.
        const SAMPLES: usize = 4_096;
        // What the sending host handed down as one left as packets: a loss stands behind those ahead of it in that,
        // and so does each of them. Taken at its start alone, all of it would have found the bucket fuller.
        let packets = |piece: &Piece| usize::try_from(1.max(piece.bytes / mss)).unwrap_or(1);
        let count: usize = self.all.iter().map(packets).sum();
        let every = count.div_ceil(SAMPLES);
        let nanos = |from: Time, to: Time| i128::try_from(to.since(from).as_nanos()).ok();
        let span = nanos(self.first_loss, self.last_loss).filter(|span| *span > 0)?;
        let rate = i128::from((0..step).fold(self.through, |rate, _| rate * STEP_PERCENT / 100));
        // What the bucket lacks to be full, in bytes times `span`: whole numbers throughout.
        let mut lacks: i128 = 0;
        let mut before = self.all.first()?.at;
        let mut struck_at: Option<Time> = None;
        let mut number = 0;
        let (mut losses, mut passes) = (Vec::new(), Vec::new());
        let until_last = self
            .all
            .iter()
            .take_while(|piece| piece.at <= self.last_loss);
        for piece in until_last {
            let left_lacking = lacks;
            lacks = (lacks - rate * nanos(before, piece.at)?).max(0);
            before = piece.at;
            // Behind the bucket a loss has no time of its own; all that is sure is what it followed.
            let found = if self.behind { left_lacking } else { lacks };
            // A loss within the round trip of another says the same as that one, and so does what passes there.
            let apart = struck_at.is_none_or(|struck_at| piece.at.since(struck_at) > rtt * 3 / 2);
            if piece.lost {
                if apart {
                    losses.push(found);
                    struck_at = Some(piece.at);
                }
                continue;
            }
            let packet = i128::from(mss) * span;
            for ahead in (0_i128..).take(packets(piece)) {
                if apart && number % every == 0 {
                    passes.push(found + ahead * packet);
                }
                number += 1;
            }
            lacks += i128::from(piece.bytes) * span;
        }
        Ranks::of(&losses, passes)
    }
}

#[cfg(test)]
mod tests;
