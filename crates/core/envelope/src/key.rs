//! Keys: those that wrap, and those that are wrapped.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

use crate::chunk::ChunkKey;

/// A secret that wraps the keys of objects.
#[derive(Clone)]
pub struct WrappingKey {
    secret: Zeroizing<[u8; 32]>,
    id: KeyId,
}

/// Which wrapping key it is; tells nothing about the key.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct KeyId(pub(crate) [u8; 8]);

/// The wrapping keys at hand. Objects are written under the first, and read under any.
#[derive(Clone, Debug)]
pub struct KeyRing {
    current: WrappingKey,
    by_id: BTreeMap<KeyId, WrappingKey>,
}

/// The secret of one object.
#[derive(Clone)]
pub struct DataKey(pub(crate) Zeroizing<[u8; 32]>);

/// Makes a sequence of chunks within an object unlike every other: random, and written down with it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PartSalt(pub [u8; 16]);

/// What a derived key is for; the same secret gives unrelated keys for different purposes.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    KeyId,
    Wrap,
    Whole,
    Part,
    Manifest,
}

// === impl WrappingKey ===

impl WrappingKey {
    /// From 32 random bytes.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        let secret = Zeroizing::new(secret);
        let derived = derive(&secret, &[], Purpose::KeyId);
        let mut id = [0; 8];
        id.copy_from_slice(&derived[..8]);
        Self {
            secret,
            id: KeyId(id),
        }
    }

    /// Its name in envelopes.
    #[must_use]
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// The key that wraps one data key.
    pub(crate) fn wrap(&self, salt: &[u8; 16]) -> ChunkKeyMaterial {
        derive(&self.secret, salt, Purpose::Wrap)
    }
}

/// Without the secret.
impl fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrappingKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

// === impl KeyRing ===

impl KeyRing {
    /// Writes under `current`; reads under it and `older`.
    #[must_use]
    pub fn new(current: WrappingKey, older: impl IntoIterator<Item = WrappingKey>) -> Self {
        let mut by_id: BTreeMap<KeyId, WrappingKey> =
            older.into_iter().map(|key| (key.id, key)).collect();
        by_id.insert(current.id, current.clone());
        Self { current, by_id }
    }

    /// The key that objects are written under.
    #[must_use]
    pub const fn current(&self) -> &WrappingKey {
        &self.current
    }

    /// The key of this id, if it is at hand.
    #[must_use]
    pub fn find(&self, id: KeyId) -> Option<&WrappingKey> {
        self.by_id.get(&id)
    }
}

// === impl DataKey ===

impl DataKey {
    /// From 32 random bytes, for one object.
    #[must_use]
    pub fn new(random: [u8; 32]) -> Self {
        Self(Zeroizing::new(random))
    }

    pub(crate) fn whole(&self) -> ChunkKey {
        ChunkKey::new(&derive(&self.0, &[], Purpose::Whole))
    }

    pub(crate) fn part(&self, salt: &PartSalt) -> ChunkKey {
        ChunkKey::new(&derive(&self.0, &salt.0, Purpose::Part))
    }

    pub(crate) fn manifest(&self, salt: &PartSalt) -> ChunkKey {
        ChunkKey::new(&derive(&self.0, &salt.0, Purpose::Manifest))
    }
}

/// Without the secret.
impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey")
    }
}

// === impl Purpose ===

impl Purpose {
    const fn info(self) -> &'static [u8] {
        match self {
            Self::KeyId => b"longhaul object 1 key id",
            Self::Wrap => b"longhaul object 1 wrap",
            Self::Whole => b"longhaul object 1 whole",
            Self::Part => b"longhaul object 1 part",
            Self::Manifest => b"longhaul object 1 manifest",
        }
    }
}

pub(crate) type ChunkKeyMaterial = Zeroizing<[u8; 32]>;

struct Key256;

impl KeyType for Key256 {
    fn len(&self) -> usize {
        32
    }
}

//= https://www.rfc-editor.org/rfc/rfc5869#section-2.3
//# HKDF-Expand(PRK, info, L) -> OKM
fn derive(secret: &Zeroizing<[u8; 32]>, salt: &[u8], purpose: Purpose) -> ChunkKeyMaterial {
    let mut key = Zeroizing::new([0; 32]);
    let info = [purpose.info()];
    let extracted = Salt::new(HKDF_SHA256, salt).extract(&secret[..]);
    let expanded = extracted.expand(&info, Key256);
    expanded
        .and_then(|expanded| expanded.fill(&mut key[..]))
        .expect("32 bytes are below 255 times the length of the hash");
    key
}
