use core::fmt;
use core::ops::Add;

/// A TCP sequence number (RFC 9293 §3.4). Deliberately not [`Ord`]: order exists only within half the
/// sequence space, and a captured, hostile packet can lie anywhere outside it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SeqNum(u32);

impl SeqNum {
    /// The number as the header carries it.
    #[must_use]
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The raw header value.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// How far this number lies after `base`, negative if before; exact while the true distance is
    /// below 2^31, as RFC 7323 §2.3 guarantees for windows up to 1 GiB.
    #[must_use]
    #[expect(
        clippy::cast_possible_wrap,
        reason = "the wrap is the definition of serial arithmetic"
    )]
    pub const fn distance_from(self, base: Self) -> i32 {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.4
        //# Since the space is finite, all arithmetic dealing with sequence numbers must be
        //# performed modulo 2^32.
        self.0.wrapping_sub(base.0) as i32
    }
}

impl Add<u32> for SeqNum {
    type Output = Self;
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl fmt::Display for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
