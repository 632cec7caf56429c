//! The envelope: an object's key, wrapped, and what it is bound to.
//!
//! As text: `1.` and the base64url (RFC 4648 section 5, without padding) of 81 bytes:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 1 | kind: 0 whole, 1 parts |
//! | 1 | 8 | id of the wrapping key |
//! | 9 | 8 | length of the plaintext, big-endian; all ones where it was not known |
//! | 17 | 16 | salt of the wrapping |
//! | 33 | 48 | the data key, sealed |

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use crate::key::{ChunkKeyMaterial, DataKey, KeyId, KeyRing};
use crate::{NotAuthentic, WrappingKey};

const VERSION: &str = "1.";
const LENGTH: usize = 81;
const UNKNOWN: u64 = u64::MAX;

/// How the plaintext lies in the stored bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// One sequence of chunks.
    Whole,
    /// Parts of a client's multipart upload, with a [`Manifest`](crate::Manifest) behind them.
    Parts,
}

/// What an object is called where it is stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Name<'a> {
    /// The bucket, by the store's name.
    pub bucket: &'a str,
    /// The key.
    pub key: &'a str,
}

/// A wrapped data key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Envelope {
    kind: Kind,
    id: KeyId,
    length: Option<u64>,
    salt: [u8; 16],
    wrapped: [u8; 48],
}

/// What an envelope holds, once it has proved to belong to its object.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The object's key.
    pub key: DataKey,
    /// How it lies.
    pub kind: Kind,
    /// Bytes of the plaintext, where they were known when it was written.
    pub length: Option<u64>,
}

impl Envelope {
    /// Wraps `key` for the object `name` of `length` bytes under `with`; `salt` is random.
    #[must_use]
    pub fn seal(
        with: &WrappingKey,
        key: &DataKey,
        kind: Kind,
        length: Option<u64>,
        name: Name<'_>,
        salt: [u8; 16],
    ) -> Self {
        let mut envelope = Self {
            kind,
            id: with.id(),
            length,
            salt,
            wrapped: [0; 48],
        };
        let mut sealed = Zeroizing::new(key.0.to_vec());
        gcm(&with.wrap(&salt))
            .seal_in_place_append_tag(
                only_nonce(),
                Aad::from(envelope.bound_to(name)),
                &mut *sealed,
            )
            .expect("a key is far below what GCM takes");
        envelope.wrapped.copy_from_slice(&sealed);
        envelope
    }

    /// Unwraps the key, if this envelope was made for `name` and by a key of `ring`.
    ///
    /// # Errors
    /// [`NotAuthentic::UnknownKey`] and [`NotAuthentic::Binding`].
    pub fn open(&self, ring: &KeyRing, name: Name<'_>) -> Result<Opened, NotAuthentic> {
        let with = ring.find(self.id).ok_or(NotAuthentic::UnknownKey)?;
        let mut sealed = Zeroizing::new(self.wrapped.to_vec());
        let plain = gcm(&with.wrap(&self.salt))
            .open_in_place(only_nonce(), Aad::from(self.bound_to(name)), &mut sealed)
            .map_err(|_| NotAuthentic::Binding)?;
        let mut key = Zeroizing::new([0; 32]);
        key.copy_from_slice(plain);
        Ok(Opened {
            key: DataKey(key),
            kind: self.kind,
            length: self.length,
        })
    }

    /// The same key of the same object, wrapped by `with`; `salt` is random. What the object's bytes are sealed under
    /// stays.
    ///
    /// # Errors
    /// As [`Envelope::open`].
    pub fn rewrap(
        &self,
        ring: &KeyRing,
        with: &WrappingKey,
        name: Name<'_>,
        salt: [u8; 16],
    ) -> Result<Self, NotAuthentic> {
        let Opened { key, kind, length } = self.open(ring, name)?;
        Ok(Self::seal(with, &key, kind, length, name, salt))
    }

    /// Which key it is wrapped by.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.id
    }

    /// What it says about the plaintext's length. Proved only by [`Envelope::open`].
    #[must_use]
    pub const fn claimed_length(&self) -> Option<u64> {
        self.length
    }

    /// As it travels.
    #[must_use]
    pub fn text(&self) -> String {
        let mut bytes = self.head();
        bytes.extend_from_slice(&self.salt);
        bytes.extend_from_slice(&self.wrapped);
        format!("{VERSION}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads what [`Envelope::text`] wrote.
    ///
    /// # Errors
    /// [`NotAuthentic::Envelope`].
    pub fn parse(text: &str) -> Result<Self, NotAuthentic> {
        let coded = text.strip_prefix(VERSION).ok_or(NotAuthentic::Envelope)?;
        let bytes = URL_SAFE_NO_PAD
            .decode(coded)
            .map_err(|_| NotAuthentic::Envelope)?;
        let bytes: [u8; LENGTH] = bytes.try_into().map_err(|_| NotAuthentic::Envelope)?;
        let mut length = [0; 8];
        length.copy_from_slice(&bytes[9..17]);
        let mut envelope = Self {
            kind: match bytes[0] {
                0 => Kind::Whole,
                1 => Kind::Parts,
                _ => return Err(NotAuthentic::Envelope),
            },
            id: KeyId([0; 8]),
            length: Some(u64::from_be_bytes(length)).filter(|length| *length != UNKNOWN),
            salt: [0; 16],
            wrapped: [0; 48],
        };
        envelope.id.0.copy_from_slice(&bytes[1..9]);
        envelope.salt.copy_from_slice(&bytes[17..33]);
        envelope.wrapped.copy_from_slice(&bytes[33..]);
        Ok(envelope)
    }

    fn head(&self) -> Vec<u8> {
        let mut bytes = vec![match self.kind {
            Kind::Whole => 0,
            Kind::Parts => 1,
        }];
        bytes.extend_from_slice(&self.id.0);
        bytes.extend_from_slice(&self.length.unwrap_or(UNKNOWN).to_be_bytes());
        bytes
    }

    /// All that must be the same when the key is unwrapped. The bucket's length stands before it, so that no two
    /// names give the same bytes.
    fn bound_to(&self, name: Name<'_>) -> Vec<u8> {
        let mut bytes = b"longhaul object 1".to_vec();
        bytes.extend_from_slice(&self.head());
        bytes.extend_from_slice(&(name.bucket.len() as u64).to_be_bytes());
        bytes.extend_from_slice(name.bucket.as_bytes());
        bytes.extend_from_slice(name.key.as_bytes());
        bytes
    }
}

fn gcm(key: &ChunkKeyMaterial) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key[..]).expect("AES-256 takes 32 bytes"))
}

/// The key is derived from a random salt and seals nothing else.
fn only_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}
