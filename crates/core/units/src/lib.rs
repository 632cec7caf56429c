//! Quantities with their unit in the type.
//!
//! Every number that crosses a crate in Longhaul is one of these, so that nobody has to remember
//! whether a `u64` was bits, bytes, or bytes per second. All are integer newtypes: constructors name
//! the unit ([`Rate::mbit_per_s`], [`Bytes::kib`]), arithmetic is checked in 128 bits, and a division
//! by zero is `None`, never a convenient default.
//!
//! | type | unit | range |
//! |---|---|---|
//! | [`Time`] | nanoseconds since the start of a run, capture or simulation | 584 years |
//! | [`Bytes`] | bytes | 2^64 |
//! | [`Rate`] | bits per second of IP bytes | 2^64 |
//! | [`LossRate`] | lost packets per 10^9 | 0 to 1 |
//! | [`Span`] | a duration whose text form carries its unit | 584 years |
//! | [`SeqNum`] | a TCP sequence number, modulo 2^32 | wraps |

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bytes;
mod floor;
mod loss;
mod rate;
mod seq;
mod span;
mod time;

pub use bytes::Bytes;
pub use floor::{Floor, PacketOverhead};
pub use loss::LossRate;
pub use rate::Rate;
pub use seq::SeqNum;
pub use span::{Milliseconds, Span, format_span, parse_span};
pub use time::Time;

/// A text is not a quantity with a unit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParseQuantityError {
    /// What was read, as it was written.
    pub input: alloc::string::String,
    /// What the caller wanted, with an example that would have been accepted.
    pub expected: &'static str,
}

impl core::fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "`{}` is not {}", self.input, self.expected)
    }
}

impl core::error::Error for ParseQuantityError {}

/// Splits `12.5 Mbit/s` into its decimal number, scaled by 10^9, and its unit.
///
/// The scale keeps nine decimal places exactly, which is what integer nanoseconds and whole bits per
/// second can use. `None` where there is no number, the number is signed, or it overflows.
fn split_number(text: &str) -> Option<(u128, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    let mut nanos = whole.parse::<u64>().ok().map(u128::from)? * 1_000_000_000;
    if !fraction.is_empty() {
        let exponent = 9 - u32::try_from(fraction.len()).ok()?;
        nanos += fraction.parse::<u128>().ok()? * 10_u128.pow(exponent);
    }
    Some((nanos, unit))
}

#[cfg(feature = "serde")]
macro_rules! serde_as_text {
    ($type:ty, $expecting:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}
#[cfg(feature = "serde")]
pub(crate) use serde_as_text;

#[cfg(test)]
mod tests;
