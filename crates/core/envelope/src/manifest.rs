//! What a client's parts are, in order: written behind them when they are put together.
//!
//! ```text
//!   part 1          part 2                    the last part of the upload
//!   [salt chunks…]  [salt chunks… zeros]  …   [salt, sealed list, plaintext (8), length of salt and list (4), "LHPARTS1"]
//! ```
//!
//! Stores refuse parts below 5 MiB unless they are the last; the manifest is the last, so shorter ones are filled with
//! zeros, which no one reads.

use bytes::{Buf as _, Bytes};

use crate::NotAuthentic;
use crate::chunk::{TAG, stored_length};
use crate::key::{DataKey, PartSalt};

/// Stored bytes of the smallest part.
const SMALLEST: u64 = 5 << 20;
/// S3's most parts, one of which is the manifest.
const MOST: usize = 9_999;
const MARK: &[u8; 8] = b"LHPARTS1";
/// Bytes of [`Footer`].
pub const FOOTER: u64 = 20;
/// Bytes of one entry.
const ENTRY: usize = 2 + 8 + 16;
/// Bytes before the chunks of a part.
pub(crate) const SALT: u64 = 16;

/// One part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment {
    /// The client's number for it.
    pub number: u16,
    /// Bytes of its plaintext.
    pub plain: u64,
    /// What its chunks' key is derived with.
    pub salt: PartSalt,
}

/// All parts in order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Manifest {
    segments: Vec<Segment>,
}

/// The end of an object of parts, which tells how long its manifest is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Footer {
    /// Stored bytes of the manifest, this footer included.
    pub manifest: u64,
    /// Bytes of the plaintext. Proved only by [`Manifest::open`].
    pub claimed_plain: u64,
}

/// Stored bytes of a part of `plain` bytes: salt, chunks, and zeros where it would be too short.
#[must_use]
pub const fn segment_length(plain: u64) -> u64 {
    let stored = SALT.saturating_add(stored_length(plain));
    if stored < SMALLEST { SMALLEST } else { stored }
}

impl Segment {
    /// Stored bytes, zeros included.
    #[must_use]
    pub const fn stored(&self) -> u64 {
        segment_length(self.plain)
    }

    /// Zeros at its end.
    #[must_use]
    pub const fn filling(&self) -> u64 {
        self.stored() - SALT - stored_length(self.plain)
    }
}

impl Manifest {
    /// Of parts in ascending order.
    ///
    /// # Errors
    /// [`NotAuthentic::Manifest`] where there are none, too many, or their numbers do not ascend.
    pub fn new(segments: Vec<Segment>) -> Result<Self, NotAuthentic> {
        let ascending = segments
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if a.number < b.number));
        let length = segments.iter().try_fold(0_u64, |sum, segment| {
            sum.checked_add(segment.plain).filter(|sum| *sum < 1 << 60)
        });
        if segments.is_empty() || segments.len() > MOST || !ascending || length.is_none() {
            return Err(NotAuthentic::Manifest);
        }
        Ok(Self { segments })
    }

    /// The parts.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Bytes of the plaintext.
    #[must_use]
    pub fn plain(&self) -> u64 {
        self.segments.iter().map(|segment| segment.plain).sum()
    }

    /// Stored bytes before the manifest.
    #[must_use]
    pub fn stored(&self) -> u64 {
        self.segments.iter().map(Segment::stored).sum()
    }

    /// What is stored behind the parts; `salt` is random.
    #[must_use]
    pub fn seal(&self, key: &DataKey, salt: PartSalt) -> Bytes {
        let mut list = Vec::new();
        for segment in &self.segments {
            list.extend_from_slice(&segment.number.to_be_bytes());
            list.extend_from_slice(&segment.plain.to_be_bytes());
            list.extend_from_slice(&segment.salt.0);
        }
        key.manifest(&salt).seal(0, true, &mut list);
        let mut stored = salt.0.to_vec();
        stored.append(&mut list);
        let length = u32::try_from(stored.len()).expect("9,999 entries of 26 bytes");
        stored.extend_from_slice(&self.plain().to_be_bytes());
        stored.extend_from_slice(&length.to_be_bytes());
        stored.extend_from_slice(MARK);
        Bytes::from(stored)
    }

    /// Reads what [`Manifest::seal`] gave, footer included.
    ///
    /// # Errors
    /// [`NotAuthentic::Manifest`].
    pub fn open(key: &DataKey, stored: &[u8]) -> Result<Self, NotAuthentic> {
        let wrong = NotAuthentic::Manifest;
        let footer = Footer::read(stored)?;
        if footer.manifest != stored.len() as u64 {
            return Err(wrong);
        }
        let sealed = stored
            .len()
            .checked_sub(MARK.len() + 12)
            .and_then(|end| stored.get(..end))
            .ok_or(wrong)?;
        let (salt, sealed) = sealed.split_first_chunk::<16>().ok_or(wrong)?;
        let mut list = sealed.to_vec();
        key.manifest(&PartSalt(*salt))
            .open(0, true, &mut list)
            .map_err(|_| wrong)?;
        list.truncate(list.len().saturating_sub(TAG));
        if list.len() % ENTRY != 0 {
            return Err(wrong);
        }
        let mut list = Bytes::from(list);
        let mut segments = Vec::new();
        while list.remaining() >= ENTRY {
            let (number, plain) = (list.get_u16(), list.get_u64());
            let mut salt = [0; 16];
            list.copy_to_slice(&mut salt);
            segments.push(Segment {
                number,
                plain,
                salt: PartSalt(salt),
            });
        }
        let manifest = Self::new(segments)?;
        if manifest.plain() != footer.claimed_plain {
            return Err(wrong);
        }
        Ok(manifest)
    }
}

impl Footer {
    /// Reads the last bytes of an object.
    ///
    /// # Errors
    /// [`NotAuthentic::Manifest`].
    pub fn read(end: &[u8]) -> Result<Self, NotAuthentic> {
        let wrong = NotAuthentic::Manifest;
        let (rest, mark) = end.split_last_chunk::<8>().ok_or(wrong)?;
        let (rest, length) = rest.split_last_chunk::<4>().ok_or(wrong)?;
        let (_, plain) = rest.split_last_chunk::<8>().ok_or(wrong)?;
        if mark != MARK {
            return Err(wrong);
        }
        Ok(Self {
            manifest: u64::from(u32::from_be_bytes(*length)) + FOOTER,
            claimed_plain: u64::from_be_bytes(*plain),
        })
    }
}
