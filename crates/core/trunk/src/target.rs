use alloc::string::{String, ToString};
use core::fmt;

/// Where a stream is to go, as the opener names it: usually `host:port`, or the name of a route. The
/// trunk carries it and looks at nothing but its form; what it may be is the far relay's to decide.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Target(String);

/// A text cannot name a target.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadTarget {
    /// It is empty, or longer than any host name with its port.
    #[error("a target has 1 to {max} bytes, not {len}", max = Target::MAX_LEN)]
    Length {
        /// Its length in bytes.
        len: usize,
    },
    /// It could forge a line in a log.
    #[error("a target has no control characters or white space, but one stands at byte {at}")]
    Character {
        /// Offset of the first such character.
        at: usize,
    },
    /// Bytes from the wire that are no text.
    #[error("a target is UTF-8 text, but byte {at} is not")]
    NotText {
        /// Offset of the first bad byte.
        at: usize,
    },
}

impl Target {
    /// A DNS name has at most 253 bytes, an IPv6 address with a zone fewer; the rest is for port and prefix.
    pub const MAX_LEN: usize = 300;

    /// A target of this name.
    pub fn new(name: &str) -> Result<Self, BadTarget> {
        if name.is_empty() || name.len() > Self::MAX_LEN {
            return Err(BadTarget::Length { len: name.len() });
        }
        if let Some(at) = name.find(|c: char| c.is_control() || c.is_whitespace()) {
            return Err(BadTarget::Character { at });
        }
        Ok(Self(name.to_string()))
    }

    /// From the bytes of an OPEN frame.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadTarget> {
        let name = core::str::from_utf8(bytes).map_err(|error| BadTarget::NotText {
            at: error.valid_up_to(),
        })?;
        Self::new(name)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
