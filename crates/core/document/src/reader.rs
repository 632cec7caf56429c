//! A file's values as `serde` reads them, without what was struck out, and what does not fit with its place.

use std::collections::btree_set;
use std::fmt;
use std::ops::Range;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, Expected, IntoDeserializer as _, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use toml::Spanned;
use toml::de::{DeInteger, DeString, DeTable, DeValue};

use crate::problem::{Problem, nearest};
use crate::{Step, Struck};

/// Something that does not fit.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// From the inside out.
    steps: Vec<Step>,
    span: Option<Range<usize>>,
    /// Where the key or the element begins that is to be left out; or where the table ends that misses a field.
    pub(crate) edge: Option<usize>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Missing(&'static str),
    UnknownKey {
        key: String,
        known: &'static [&'static str],
    },
    UnknownWord {
        word: String,
        known: &'static [&'static str],
    },
    Other(String),
}

/// A value.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    value: &'a Spanned<DeValue<'a>>,
    struck: &'a Struck,
}

struct Entries<'a> {
    left: toml::map::Iter<'a, Spanned<DeString<'a>>, Spanned<DeValue<'a>>>,
    /// Fields that are read as if they were there.
    absent: btree_set::Range<'a, (usize, &'static str)>,
    value: Option<Entry<'a>>,
    struck: &'a Struck,
}

enum Entry<'a> {
    Written(&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>),
    Absent(&'static str),
}

struct Elements<'a> {
    left: std::iter::Enumerate<std::slice::Iter<'a, Spanned<DeValue<'a>>>>,
    struck: &'a Struck,
}

/// A value that is not there: empty, whatever is asked for.
struct Nothing;

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(crate) fn new(value: &'a Spanned<DeValue<'a>>, struck: &'a Struck) -> Self {
        Self { value, struck }
    }

    fn entries(self, table: &'a DeTable<'a>) -> Entries<'a> {
        let ends = self.value.span().end;
        Entries {
            left: table.iter(),
            absent: self.struck.absent.range((ends, "")..(ends + 1, "")),
            value: None,
            struck: self.struck,
        }
    }

    fn unexpected(self) -> Unexpected<'a> {
        match self.value.get_ref() {
            DeValue::String(text) => Unexpected::Str(text),
            DeValue::Integer(number) => whole(number).map_or(
                Unexpected::Other("a number of more than 64 bits"),
                Unexpected::Signed,
            ),
            DeValue::Float(_) => Unexpected::Other("a fraction"),
            DeValue::Boolean(flag) => Unexpected::Bool(*flag),
            DeValue::Datetime(_) => Unexpected::Other("a date"),
            DeValue::Array(_) => Unexpected::Seq,
            DeValue::Table(_) => Unexpected::Map,
        }
    }

    fn at<T>(self, result: Result<T, Fault>) -> Result<T, Fault> {
        result.map_err(|mut fault| {
            fault.span.get_or_insert_with(|| self.value.span());
            fault
        })
    }

    fn table<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        let read = match self.value.get_ref().as_table() {
            Some(table) => visitor.visit_map(self.entries(table)),
            None => Err(de::Error::invalid_type(self.unexpected(), &"a table")),
        };
        self.at(read.map_err(|mut fault: Fault| {
            if matches!(fault.kind, Kind::Missing(_)) {
                fault.edge.get_or_insert_with(|| self.value.span().end);
            }
            fault
        }))
    }
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.at(match self.value.get_ref() {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(number) => match whole(number) {
                Some(number) => visitor.visit_i64(number),
                None => Err(de::Error::invalid_type(self.unexpected(), &visitor)),
            },
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => Err(de::Error::invalid_type(self.unexpected(), &visitor)),
            },
            DeValue::Boolean(flag) => visitor.visit_bool(*flag),
            DeValue::Datetime(_) => Err(de::Error::invalid_type(self.unexpected(), &visitor)),
            DeValue::Array(array) => visitor.visit_seq(Elements {
                left: array.iter().enumerate(),
                struck: self.struck,
            }),
            DeValue::Table(_) => self.table(visitor),
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = self.value.get_ref();
        if value.is_array() {
            return self.deserialize_any(visitor);
        }
        self.at(Err(if value.is_table() {
            de::Error::custom(
                "wants a list, not a table: each table of a list begins with its name in two pairs of brackets",
            )
        } else {
            de::Error::invalid_type(self.unexpected(), &"a list")
        }))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.table(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.table(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.at(match self.value.get_ref().as_str() {
            Some(word) => {
                let word: StrDeserializer<'_, Fault> = word.into_deserializer();
                visitor.visit_enum(word)
            }
            None => Err(de::Error::invalid_type(self.unexpected(), &OneOf(variants))),
        })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct tuple tuple_struct identifier ignored_any
    }
}

fn whole(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

// === impl Entries ===

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let struck = self.struck;
        let next = self
            .left
            .find(|(key, _)| !struck.places.contains(&key.span().start));
        if let Some((key, value)) = next {
            self.value = Some(Entry::Written(key, value));
            let word: StrDeserializer<'_, Fault> = key.get_ref().as_ref().into_deserializer();
            return seed.deserialize(word).map(Some).map_err(|fault| Fault {
                span: Some(key.span()),
                ..fault.below(Step::Key(key.get_ref().to_string()), key.span().start)
            });
        }
        let Some((_, field)) = self.absent.next() else {
            return Ok(None);
        };
        self.value = Some(Entry::Absent(field));
        let word: StrDeserializer<'_, Fault> = (*field).into_deserializer();
        seed.deserialize(word).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        match self.value.take() {
            Some(Entry::Written(key, value)) => {
                let reader = Reader::new(value, self.struck);
                seed.deserialize(reader).map_err(|fault| {
                    fault.below(Step::Key(key.get_ref().to_string()), key.span().start)
                })
            }
            Some(Entry::Absent(field)) => seed
                .deserialize(Nothing)
                .map_err(|_| de::Error::missing_field(field)),
            None => Err(de::Error::custom("a value was asked for before its key")),
        }
    }
}

// === impl Elements ===

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let struck = self.struck;
        let next = self
            .left
            .find(|(_, value)| !struck.places.contains(&value.span().start));
        let Some((index, value)) = next else {
            return Ok(None);
        };
        let read = seed.deserialize(Reader::new(value, struck));
        read.map(Some)
            .map_err(|fault| fault.below(Step::Index(index), value.span().start))
    }
}

// === impl Nothing ===

impl<'de> Deserializer<'de> for Nothing {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str("")
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str("")
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let none = std::iter::empty::<&str>();
        visitor.visit_seq(de::value::SeqDeserializer::<_, Fault>::new(none))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf option unit
        unit_struct newtype_struct tuple tuple_struct map struct enum identifier ignored_any
    }
}

// === impl Fault ===

impl Fault {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            steps: Vec::new(),
            span: None,
            edge: None,
        }
    }

    /// The same, seen from around the key or the element that begins there.
    fn below(mut self, step: Step, begins: usize) -> Self {
        self.steps.push(step);
        self.edge.get_or_insert(begins);
        self
    }

    pub(crate) fn span(&self) -> Range<usize> {
        self.span.clone().unwrap_or_default()
    }

    /// Where it is; of a missing field where that would be.
    pub(crate) fn place(&self) -> Vec<Step> {
        let mut place: Vec<Step> = self.steps.iter().rev().cloned().collect();
        if let Kind::Missing(field) = self.kind {
            place.push(Step::from(field));
        }
        place
    }

    /// Where a key that is not known would be if it were what was probably meant.
    pub(crate) fn meant(&self) -> Option<Vec<Step>> {
        let Kind::UnknownKey { key, known } = &self.kind else {
            return None;
        };
        let mut place = self.place();
        *place.last_mut()? = Step::from(nearest(key, known.iter().copied())?);
        Some(place)
    }

    pub(crate) fn problem(&self) -> Problem {
        let meant = |word: &str, known: &[&'static str]| match nearest(word, known.iter().copied())
        {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("known are `{}`", known.join("`, `")),
        };
        let (what, hint) = match &self.kind {
            Kind::Missing(field) => (
                format!("`{field}` is missing"),
                Some("say it in this table".into()),
            ),
            Kind::UnknownKey { key, known } => (
                format!("there is no key `{key}` here"),
                Some(meant(key, known)),
            ),
            Kind::UnknownWord { word, known } => (
                format!("`{word}` is not known here"),
                Some(meant(word, known)),
            ),
            Kind::Other(what) => (what.clone(), None),
        };
        Problem::new(&self.place(), what, hint)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem().what)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Kind::Other(message.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = match expected.to_string().as_str() {
            "u8" => "a whole number from 0 to 255".to_owned(),
            "u16" => "a whole number from 0 to 65535".to_owned(),
            "u32" | "u64" | "usize" => "a whole number, 0 or more".to_owned(),
            "a boolean" => "`true` or `false`".to_owned(),
            other => other.to_owned(),
        };
        let found = found.to_string();
        let found = match found.split_once(' ') {
            // `integer `5``, `string "x"`: what is written tells its kind.
            Some(("integer" | "string" | "boolean", written)) => written,
            _ if found == "map" => "a table",
            _ if found == "sequence" => "a list",
            _ => &found,
        };
        Self::custom(format_args!("wants {expected}, not {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(Kind::UnknownKey {
            key: field.to_owned(),
            known: expected,
        })
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(Kind::UnknownWord {
            word: variant.to_owned(),
            known: expected,
        })
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Kind::Missing(field))
    }
}

/// The words that a field may hold.
struct OneOf(&'static [&'static str]);

// === impl OneOf ===

impl Expected for OneOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of `{}`", self.0.join("`, `"))
    }
}
