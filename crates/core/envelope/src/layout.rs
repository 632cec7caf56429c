//! Which stored bytes hold which plaintext.

use std::ops::Range;

use crate::chunk::{CHUNK, ChunkKey, OVERHEAD, SEALED, chunks};
use crate::key::DataKey;
use crate::manifest::{Manifest, SALT, Segment};
use crate::{NotAuthentic, Opening};

/// How an object lies.
#[derive(Clone, Debug)]
pub struct Layout {
    key: DataKey,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// So many bytes in one sequence.
    Whole(u64),
    Parts(Manifest),
}

/// What to read for a range of the plaintext.
#[derive(Debug)]
pub struct Plan {
    /// First stored byte.
    pub first: u64,
    /// Last stored byte, included.
    pub last: u64,
    /// What makes plaintext of them.
    pub opening: Opening,
}

/// The chunks of a plan, in the order in which they are stored.
#[derive(Debug)]
pub(crate) struct Runs(Vec<Run>);

/// A sequence of chunks, or the middle of one.
#[derive(Debug)]
struct Run {
    key: RunKey,
    /// Stored bytes before its first chunk.
    at: u64,
    /// The first chunk that is wanted.
    chunk: u64,
    /// Behind the last chunk that is wanted.
    end_chunk: u64,
    /// Plaintext of the whole sequence.
    plain: u64,
    /// First and last byte of it that are wanted.
    wanted: (u64, u64),
}

/// A chunk in its place.
#[derive(Debug)]
pub(crate) struct Place {
    /// The number of its run.
    pub(crate) run: usize,
    /// Its number in its sequence.
    pub(crate) chunk: u64,
    /// Whether it is the last of its sequence.
    pub(crate) last: bool,
    /// Its first stored byte.
    pub(crate) at: u64,
    /// Stored bytes.
    pub(crate) length: u64,
    /// What is wanted of its plaintext.
    pub(crate) wanted: Range<usize>,
}

/// Which key; derived when the run begins, since an object may have thousands.
#[derive(Clone, Debug)]
enum RunKey {
    Whole(DataKey),
    Part(DataKey, crate::PartSalt),
}

impl Layout {
    /// Of an object that was written whole and has so many stored bytes.
    ///
    /// # Errors
    /// [`NotAuthentic::Length`] where no plaintext, or another than `claimed`, has this stored length.
    pub fn whole(key: DataKey, stored: u64, claimed: Option<u64>) -> Result<Self, NotAuthentic> {
        let plain = crate::plain_length(stored).ok_or(NotAuthentic::Length)?;
        if claimed.is_some_and(|claimed| claimed != plain) {
            return Err(NotAuthentic::Length);
        }
        Ok(Self {
            key,
            shape: Shape::Whole(plain),
        })
    }

    /// Of an object of parts whose manifest takes `manifest` of the `stored` bytes.
    ///
    /// # Errors
    /// [`NotAuthentic::Length`] where the parts are not as long as they were.
    pub fn parts(
        key: DataKey,
        parts: Manifest,
        stored: u64,
        manifest: u64,
    ) -> Result<Self, NotAuthentic> {
        if parts.stored().checked_add(manifest) != Some(stored) {
            return Err(NotAuthentic::Length);
        }
        Ok(Self {
            key,
            shape: Shape::Parts(parts),
        })
    }

    /// Bytes of the plaintext.
    #[must_use]
    pub fn plain(&self) -> u64 {
        match &self.shape {
            Shape::Whole(plain) => *plain,
            Shape::Parts(manifest) => manifest.plain(),
        }
    }

    /// What to read for the plaintext from `first` to `last`, both included; with an empty object only for 0 and 0.
    /// `None` where the object has no such bytes.
    #[must_use]
    pub fn plan(&self, first: u64, last: u64) -> Option<Plan> {
        let empty = self.plain() == 0 && first == 0 && last == 0;
        if first > last || (last >= self.plain() && !empty) {
            return None;
        }
        let segments: &[Segment] = match &self.shape {
            Shape::Whole(plain) => return self.plan_whole(*plain, first, last),
            Shape::Parts(manifest) => manifest.segments(),
        };
        let mut runs = Vec::new();
        // Where the segment begins, stored and in the plaintext.
        let (mut at, mut plain_at) = (0, 0);
        for segment in segments {
            let end = plain_at + segment.plain;
            let touched = if segment.plain == 0 {
                // Read where it lies between others, or is all there is: its chunk proves that it is empty.
                (first < plain_at && plain_at <= last) || empty
            } else {
                plain_at <= last && first < end
            };
            if touched {
                let from = first.saturating_sub(plain_at);
                let to = (last - plain_at).min(segment.plain.saturating_sub(1));
                let key = RunKey::Part(self.key.clone(), segment.salt);
                runs.push(Run::of(key, at + SALT, segment.plain, from, to));
            }
            at += segment.stored();
            plain_at = end;
        }
        Plan::of(Runs(runs))
    }

    fn plan_whole(&self, plain: u64, first: u64, last: u64) -> Option<Plan> {
        let last = last.min(plain.saturating_sub(1));
        let key = RunKey::Whole(self.key.clone());
        Plan::of(Runs(vec![Run::of(key, 0, plain, first, last)]))
    }
}

impl Plan {
    fn of(runs: Runs) -> Option<Self> {
        let (first, last) = (runs.0.first()?.first(), runs.0.last()?.end() - 1);
        let opening = Opening::new(runs);
        Some(Self {
            first,
            last,
            opening,
        })
    }
}

impl Runs {
    /// The first stored byte.
    pub(crate) fn first(&self) -> u64 {
        self.0.first().map_or(0, Run::first)
    }

    /// The first chunk that begins with the stored byte `at`, or behind it.
    pub(crate) fn place(&self, at: u64) -> Option<Place> {
        let run = self.0.partition_point(|run| run.last_begins() < at);
        self.0.get(run).map(|found| found.place(run, at))
    }

    /// The key of this run.
    pub(crate) fn key(&self, run: usize) -> ChunkKey {
        self.0[run].key.derive()
    }
}

impl Run {
    /// The chunks of `plain` bytes that hold `first` to `last`; the first of all chunks is stored at `at`.
    fn of(key: RunKey, at: u64, plain: u64, first: u64, last: u64) -> Self {
        Self {
            key,
            at,
            chunk: first / CHUNK,
            end_chunk: last / CHUNK + 1,
            plain,
            wanted: (first, last),
        }
    }

    /// The first stored byte of its first chunk.
    const fn first(&self) -> u64 {
        self.at + self.chunk * SEALED
    }

    /// The first stored byte of its last chunk.
    const fn last_begins(&self) -> u64 {
        self.at + (self.end_chunk - 1) * SEALED
    }

    /// The stored byte behind its last chunk.
    fn end(&self) -> u64 {
        let plain = (self.end_chunk * CHUNK).min(self.plain);
        self.at + plain + self.end_chunk * OVERHEAD
    }

    /// The first chunk that begins with the stored byte `at`, or behind it; there is one.
    fn place(&self, run: usize, at: u64) -> Place {
        let chunk = at.saturating_sub(self.at).div_ceil(SEALED).max(self.chunk);
        let plain_at = chunk * CHUNK;
        let last = chunk + 1 == chunks(self.plain);
        let plain = if last { self.plain - plain_at } else { CHUNK };
        // Both lie within a chunk.
        let within =
            |byte: u64| usize::try_from(byte.saturating_sub(plain_at).min(plain)).unwrap_or(0);
        Place {
            run,
            chunk,
            last,
            at: self.at + chunk * SEALED,
            length: plain + OVERHEAD,
            wanted: within(self.wanted.0)..within(self.wanted.1 + 1),
        }
    }
}

impl Place {
    /// [`Place::length`] where memory is counted.
    pub(crate) fn size(&self) -> usize {
        usize::try_from(self.length).expect("no chunk is longer than 64 KiB and its tag")
    }
}

impl RunKey {
    fn derive(&self) -> ChunkKey {
        match self {
            Self::Whole(key) => key.whole(),
            Self::Part(key, salt) => key.part(salt),
        }
    }
}
