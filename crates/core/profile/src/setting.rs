use alloc::string::ToString;
use core::fmt::{self, Display};
use core::marker::PhantomData;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A value, or `"off"`: what an inheriting profile writes to undo its parent's choice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Setting<T> {
    /// The option is left as the kernel has it.
    Off,
    /// The option is set to this.
    Value(T),
}

impl<T> Setting<T> {
    /// The value, if it is not off.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Off => None,
            Self::Value(value) => Some(value),
        }
    }
}

impl<T: Display> Serialize for Setting<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str("off"),
            Self::Value(value) => serializer.collect_str(value),
        }
    }
}

impl<'de, T> Deserialize<'de> for Setting<T>
where
    T: FromStr<Err: Display>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text<T>(PhantomData<T>);
        impl<T: FromStr<Err: Display>> de::Visitor<'_> for Text<T> {
            type Value = Setting<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity with its unit, or \"off\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Setting<T>, E> {
                if text == "off" {
                    return Ok(Setting::Off);
                }
                text.parse()
                    .map(Setting::Value)
                    .map_err(|error: T::Err| E::custom(error.to_string()))
            }
        }
        deserializer.deserialize_str(Text(PhantomData))
    }
}
