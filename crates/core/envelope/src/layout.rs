//! Which stored bytes hold which plaintext.

use std::collections::VecDeque;

use crate::chunk::{CHUNK, OVERHEAD, chunks, stored_length};
use crate::key::DataKey;
use crate::manifest::{Manifest, Segment};
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

/// A sequence of chunks, or the middle of one.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) key: RunKey,
    /// Bytes to leave out before it: what came before its first chunk.
    pub(crate) before: u64,
    /// The next chunk.
    pub(crate) chunk: u64,
    /// Behind the last chunk that is wanted.
    pub(crate) end_chunk: u64,
    /// Plaintext of the whole sequence.
    pub(crate) plain: u64,
    /// Plaintext to drop of the first chunk.
    pub(crate) skip: u64,
    /// Plaintext that is wanted.
    pub(crate) take: u64,
    /// Bytes to leave out behind it.
    pub(crate) after: u64,
}

/// Which key; derived when the run begins, since an object may have thousands.
#[derive(Clone, Debug)]
pub(crate) enum RunKey {
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
            Shape::Whole(plain) => return Some(self.plan_whole(*plain, first, last)),
            Shape::Parts(manifest) => manifest.segments(),
        };
        let mut runs = VecDeque::new();
        // Where the segment begins, stored and in the plaintext.
        let (mut at, mut plain_at) = (0, 0);
        let mut span: Option<(u64, u64)> = None;
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
                let mut run = Run::of(
                    RunKey::Part(self.key.clone(), segment.salt),
                    segment.plain,
                    from,
                    to,
                );
                let chunks_at = at + 16;
                // Of the first segment reading begins at a chunk; the others' salts pass by.
                let start = if span.is_none() {
                    chunks_at + run.chunk * (CHUNK + OVERHEAD)
                } else {
                    run.before = 16;
                    at
                };
                let read_to = run.stored_end();
                run.after = stored_length(segment.plain) - read_to + segment.filling();
                span = Some((
                    span.map_or(start, |(first, _)| first),
                    chunks_at + read_to - 1,
                ));
                runs.push_back(run);
            }
            at += segment.stored();
            plain_at = end;
        }
        let (first, last) = span?;
        Some(Plan {
            first,
            last,
            opening: Opening::new(runs),
        })
    }

    fn plan_whole(&self, plain: u64, first: u64, last: u64) -> Plan {
        let run = Run::of(
            RunKey::Whole(self.key.clone()),
            plain,
            first,
            last.min(plain.saturating_sub(1)),
        );
        Plan {
            first: run.chunk * (CHUNK + OVERHEAD),
            last: run.stored_end() - 1,
            opening: Opening::new(VecDeque::from([run])),
        }
    }
}

impl Run {
    /// The chunks of `plain` bytes that hold `first` to `last`.
    fn of(key: RunKey, plain: u64, first: u64, last: u64) -> Self {
        let chunk = first / CHUNK;
        Self {
            key,
            before: 0,
            chunk,
            end_chunk: last / CHUNK + 1,
            plain,
            skip: first - chunk * CHUNK,
            take: if plain == 0 { 0 } else { last - first + 1 },
            after: 0,
        }
    }

    /// Stored bytes from the first chunk of the sequence to the end of the last that is wanted.
    fn stored_end(&self) -> u64 {
        let end = (self.end_chunk * CHUNK).min(self.plain);
        end + self.end_chunk * OVERHEAD
    }

    /// Stored bytes of the next chunk, and whether it is the last of its sequence.
    pub(crate) fn next(&self) -> (u64, bool) {
        let last = self.chunk + 1 == chunks(self.plain);
        let plain = if last {
            self.plain - self.chunk * CHUNK
        } else {
            CHUNK
        };
        (plain + OVERHEAD, last)
    }
}
