use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::{ConnectionId, StreamId};

/// The most reliable frames that may be out unacknowledged: 512 MiB in the smallest chunks that a fast
/// path gets, and a bound on what the peer has to remember.
pub(crate) const MAX_FLIGHTS: u64 = 1 << 16;

/// Reliable frames that went out and are not acknowledged, by their sequence number.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    /// From `first` on; `None` where acknowledged.
    slots: VecDeque<Option<Flight>>,
    first: u64,
    /// Slots that are not empty.
    count: usize,
}

/// A frame as it was written, for writing it again.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) header: Bytes,
    pub(crate) payload: Vec<Bytes>,
    pub(crate) chunk: Option<(StreamId, u64)>,
    /// The connection it was last written to.
    pub(crate) on: ConnectionId,
}

impl Flight {
    pub(crate) fn len(&self) -> u64 {
        self.header.len() as u64 + self.payload_len()
    }

    pub(crate) fn payload_len(&self) -> u64 {
        self.chunk.map_or(0, |(_, len)| len)
    }
}

impl Flights {
    /// The number of the next frame.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() as u64 >= MAX_FLIGHTS
    }

    /// Adds the frame numbered [`Self::next`].
    pub(crate) fn push(&mut self, flight: Flight) {
        self.slots.push_back(Some(flight));
        self.count += 1;
    }

    pub(crate) fn get_mut(&mut self, sequence: u64) -> Option<&mut Flight> {
        let index = self.slot(sequence)?;
        self.slots.get_mut(index)?.as_mut()
    }

    /// Takes an acknowledged frame out; `None` if it was acknowledged before.
    pub(crate) fn remove(&mut self, sequence: u64) -> Option<Flight> {
        let index = self.slot(sequence)?;
        let flight = self.slots.get_mut(index)?.take()?;
        self.count -= 1;
        while self.slots.front().is_some_and(Option::is_none) {
            self.slots.pop_front();
            self.first += 1;
        }
        Some(flight)
    }

    /// How many are out.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    fn slot(&self, sequence: u64) -> Option<usize> {
        usize::try_from(sequence.checked_sub(self.first)?).ok()
    }
}
