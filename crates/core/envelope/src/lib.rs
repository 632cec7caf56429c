//! How a gateway encrypts objects, without I/O: bytes and randomness in, bytes out.
//!
//! The format is specified in `docs/object-format.md`; the names here are its names.
//!
//! - [`Envelope`]: the data key of one object, wrapped, bound to the object's name and length. It travels in the
//!   object's metadata, so that every answer of a store brings it along.
//! - [`Sealing`] and [`Opening`]: plaintext to chunks of [`CHUNK`] bytes and back (the STREAM construction of Hoang,
//!   Reyhanitabar, Rogaway and Vizár, CRYPTO 2015, over AES-256-GCM).
//! - [`Layout`]: which stored bytes hold which plaintext, for objects that were written whole, and for those that a
//!   client has put together of parts ([`Manifest`]).
//!
//! Whoever stores the bytes can delete them, give back a whole older object, or say nothing. Everything else that they
//! do to them is found before a wrong byte leaves [`Opening`].

mod buffers;
mod chunk;
mod cipher;
mod envelope;
pub mod fuzz;
mod key;
mod layout;
mod manifest;
mod opening;
mod sealing;

pub use buffers::Buffers;
pub use chunk::{CHUNK, OVERHEAD, plain_length, stored_length};
pub use envelope::{Envelope, Kind, Name, Opened};
pub use key::{DataKey, KeyId, KeyRing, PartSalt, WrappingKey};
pub use layout::{Layout, Plan};
pub use manifest::{FOOTER, Footer, Manifest, Segment, segment_length};
pub use opening::{Early, Opening, Piece};
pub use sealing::Sealing;

/// Why stored bytes are not what was written. Says nothing about keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAuthentic {
    /// The envelope's text cannot be read.
    #[error("the envelope is not one of this format's")]
    Envelope,
    /// The envelope names a key that is not at hand.
    #[error("the object's key is wrapped by a key that is not configured")]
    UnknownKey,
    /// The envelope was made for another object, another length, or was changed.
    #[error("the envelope does not belong to this object")]
    Binding,
    /// Stored and announced length do not agree.
    #[error("the object has another length than was written")]
    Length,
    /// A chunk was changed, moved, or comes from elsewhere.
    #[error("a chunk is not what was written in its place")]
    Chunk,
    /// The list of parts cannot be read, or was changed.
    #[error("the list of parts is not what was written")]
    Manifest,
    /// The bytes end early.
    #[error("the object ends early")]
    Truncated,
}
