//! The streams of a reactor, and the tokens by which it is told of them.

use std::sync::Arc;

use profile::Side;
use tokio::sync::OwnedSemaphorePermit;

use super::inside::{Guest, Inside};
use crate::tcp::plain::Plain;

/// All streams, each in a slot that another takes when it is over.
#[derive(Default)]
pub(super) struct Streams {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Slot {
    /// Which of those that have had this slot has it now: what is told of an earlier one is for nobody.
    generation: u32,
    served: Option<Box<Served>>,
}

/// A stream, and what is its own until it is over.
pub(super) struct Served {
    pub(super) plain: Plain,
    pub(super) place: OwnedSemaphorePermit,
    pub(super) guest: Guest,
    /// Whether it gets a turn next.
    pub(super) is_due: bool,
}

/// A stream's own for as long as it lasts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Key {
    slot: u32,
    generation: u32,
}

/// Whose readiness was told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Token {
    Bell,
    /// An entrance's number, and which of its sockets.
    Entrance(u32, u16),
    Stream(Key, Side),
}

// === impl Streams ===

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, served: Served) -> Key {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            // Descriptors end before.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let place = &mut self.slots[slot as usize];
        place.served = Some(Box::new(served));
        Key {
            slot,
            generation: place.generation,
        }
    }

    pub(super) fn get(&mut self, key: Key) -> Option<&mut Served> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        let is_it = slot.generation == key.generation;
        slot.served.as_deref_mut().filter(|_| is_it)
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Box<Served>> {
        self.get(key)?;
        let slot = &mut self.slots[key.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.slot);
        slot.served.take()
    }

    /// All.
    pub(super) fn all(&mut self) -> impl Iterator<Item = (Key, &mut Plain)> {
        let slots = (0_u32..).zip(&mut self.slots);
        slots.filter_map(|(slot, place)| {
            let generation = place.generation;
            let served = place.served.as_deref_mut()?;
            Some((Key { slot, generation }, &mut served.plain))
        })
    }

    pub(super) fn keys(&mut self) -> Vec<Key> {
        self.all().map(|(key, _)| key).collect()
    }

    /// Those of one listener.
    pub(super) fn keys_of(&mut self, inside: &Arc<Inside>) -> Vec<Key> {
        let mut keys = self.keys();
        keys.retain(|&key| {
            let served = self.get(key);
            served.is_some_and(|served| served.guest.is_of(inside))
        });
        keys
    }
}

// === impl Token ===

impl Token {
    /// As the kernel keeps it: the kind in the lowest two bits.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Bell => 0,
            Self::Entrance(number, socket) => u64::from(number) << 32 | u64::from(socket) << 2 | 1,
            Self::Stream(key, side) => {
                let kind = match side {
                    Side::Client => 2,
                    Side::Server => 3,
                };
                u64::from(key.generation) << 32 | u64::from(key.slot) << 2 | kind
            }
        }
    }

    /// What it stands for. A slot has 30 bits, more than there are descriptors.
    pub(super) fn of(number: u64) -> Self {
        let high = u32::try_from(number >> 32).unwrap_or_default();
        let low = u32::try_from(number >> 2 & 0x3fff_ffff).unwrap_or_default();
        let side = match number & 3 {
            0 => return Self::Bell,
            1 => return Self::Entrance(high, u16::try_from(low).unwrap_or_default()),
            2 => Side::Client,
            _ => Side::Server,
        };
        let key = Key {
            slot: low,
            generation: high,
        };
        Self::Stream(key, side)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_token_comes_back_as_it_was(slot in 0_u32..1 << 30, generation: u32, number: u32, socket: u16) {
            let key = Key { slot, generation };
            for token in [
                Token::Bell,
                Token::Entrance(number, socket),
                Token::Stream(key, Side::Client),
                Token::Stream(key, Side::Server),
            ] {
                prop_assert_eq!(Token::of(token.number()), token);
            }
        }
    }
}
