use core::time::Duration;

use units::{Bytes, LossRate};

use crate::chance::{Dice, Draw};
use crate::fate::{LossSpec, Losses};
use crate::jitter::JitterDraws;
use crate::queue::Entry;
use crate::schedule::{Schedule, Settings};
use crate::spec::{Direction, DirectionSpec};

/// What chance holds for a packet behind the bottleneck.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Lot {
    /// Delay beyond the propagation delay.
    pub(crate) jitter: Duration,
    /// Taken out of its order.
    pub(crate) reordered: bool,
    /// The packet itself.
    pub(crate) original: Outcome,
    /// Its copy, where it gets one.
    pub(crate) copy: Option<Outcome>,
}

/// How a packet ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) lost: bool,
    pub(crate) corrupted: bool,
    /// Whether it is the copy of a packet.
    pub(crate) copy: bool,
}

/// The stages behind the bottleneck that draw, in the order in which a packet meets them. Each draw is a
/// function of seed, direction and packet number alone.
#[derive(Debug)]
pub(crate) struct Lots {
    jitter: Option<JitterDraws>,
    reorder: Share,
    duplicate: Share,
    corrupt: Share,
    corrupt_copy: Share,
    losses: Losses,
    own_loss: LossSpec,
    /// The change whose loss holds.
    loss_of: Option<usize>,
    /// Whether anything but loss is drawn.
    only_loss: bool,
    /// The last packet looked at: the one that ends a burst is asked for again as the first of the next.
    known: Option<(u64, Lot)>,
}

/// Some of all packets.
#[derive(Clone, Copy, Debug)]
struct Share {
    dice: Dice,
    share: LossRate,
}

// === impl Lots ===

impl Lots {
    pub(crate) fn new(spec: &DirectionSpec, seed: u64, direction: Direction) -> Self {
        let share = |draw, share| Share {
            dice: Dice::new(seed, direction, draw),
            share,
        };
        let reorder = spec.reorder.map_or(LossRate::ZERO, |reorder| reorder.share);
        Self {
            jitter: spec
                .jitter
                .map(|jitter| JitterDraws::new(jitter, seed, direction)),
            reorder: share(Draw::Reorder, reorder),
            duplicate: share(Draw::Duplicate, spec.duplicate),
            corrupt: share(Draw::Corrupt, spec.corrupt),
            corrupt_copy: share(Draw::CopyCorrupt, spec.corrupt),
            losses: Losses::new(seed, direction),
            own_loss: spec.loss.clone(),
            loss_of: None,
            only_loss: spec.jitter.is_none()
                && [reorder, spec.duplicate, spec.corrupt] == [LossRate::ZERO; 3],
            known: None,
        }
    }

    /// How many of the entry's first segments leave together: within `limit` bytes but at least one, and
    /// all with the same lot.
    #[inline]
    pub(crate) fn next<T>(
        &mut self,
        entry: &Entry<T>,
        limit: Bytes,
        schedule: &Schedule,
        settings: Settings,
    ) -> (u32, Lot) {
        if settings.loss != self.loss_of {
            self.loss_of = settings.loss;
            self.losses.change_spec();
            self.known = None;
        }
        let loss = schedule.loss(settings);
        let start = entry.range.start;
        let lot = self.lot(entry.first_index(), loss);
        let mut end = start + 1;
        // A damaged packet travels alone.
        let damaged = lot.original.corrupted || lot.copy.is_some_and(|copy| copy.corrupted);
        while end < entry.range.end
            && entry.segments.bytes(&(start..end + 1)) <= limit
            && !damaged
            && self.lot(entry.item_index + u64::from(end), loss) == lot
        {
            end += 1;
        }
        (end - start, lot)
    }

    /// A number for a damaged packet, from which the damage is chosen.
    pub(crate) fn damage(&self, n: u64, copy: bool) -> u64 {
        let share = if copy {
            self.corrupt_copy
        } else {
            self.corrupt
        };
        // Reversed: its high bits have decided that the packet is damaged.
        share.dice.bits(n).reverse_bits()
    }

    #[inline]
    fn lot(&mut self, n: u64, scheduled_loss: Option<&LossSpec>) -> Lot {
        let Self {
            losses, own_loss, ..
        } = self;
        let loss = scheduled_loss.unwrap_or(own_loss);
        if self.only_loss {
            let lost = *loss != LossSpec::None && losses.is_lost(loss, n);
            return Lot {
                original: Outcome {
                    lost,
                    ..Outcome::default()
                },
                ..Lot::default()
            };
        }
        if let Some((known, lot)) = self.known
            && known == n
        {
            return lot;
        }
        let lot = Lot {
            jitter: self
                .jitter
                .as_mut()
                .map_or(Duration::ZERO, |jitter| jitter.delay(n)),
            reordered: self.reorder.has(n),
            original: Outcome {
                lost: losses.is_lost(loss, n),
                corrupted: self.corrupt.has(n),
                copy: false,
            },
            copy: self.duplicate.has(n).then(|| Outcome {
                lost: losses.is_copy_lost(loss, n),
                corrupted: self.corrupt_copy.has(n),
                copy: true,
            }),
        };
        self.known = Some((n, lot));
        lot
    }
}

// === impl Share ===

impl Share {
    fn has(self, n: u64) -> bool {
        self.share != LossRate::ZERO && self.dice.hits(n, self.share)
    }
}
