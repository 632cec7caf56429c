//! Counts by value.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How often each value was seen, in order of the values. Most have one value, of which a capture's hosts have thousands:
/// a map would take ten times the memory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tally(Vec<(Box<str>, u64)>);

impl Tally {
    /// Counts `value` once more.
    pub fn count(&mut self, value: &str) {
        match self.0.binary_search_by(|(known, _)| (**known).cmp(value)) {
            Ok(place) => {
                if let Some((_, count)) = self.0.get_mut(place) {
                    *count += 1;
                }
            }
            Err(place) => {
                self.0.reserve_exact(1);
                self.0.insert(place, (value.into(), 1));
            }
        }
    }

    /// Values and how often each was seen.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> + '_ {
        self.0.iter().map(|(value, count)| (&**value, *count))
    }

    /// How many different values there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was counted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Tally {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Tally {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = BTreeMap::<Box<str>, u64>::deserialize(deserializer)?;
        Ok(Self(counts.into_iter().collect()))
    }
}

impl JsonSchema for Tally {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, u64>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, u64>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_is_written_and_read_as_the_map_that_it_stands_for() {
        let mut tally = Tally::default();
        let mut map = BTreeMap::new();
        for value in ["1460", "none", "1460", "1200", "none", "1460"] {
            tally.count(value);
            *map.entry(value).or_insert(0_u64) += 1;
        }
        let text = serde_json::to_string(&tally).unwrap();
        assert_eq!(text, serde_json::to_string(&map).unwrap());
        assert_eq!(serde_json::from_str::<Tally>(&text).unwrap(), tally);
    }
}
