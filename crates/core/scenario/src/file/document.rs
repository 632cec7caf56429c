//! A TOML document as a scenario, with all that is wrong with its fields.
//!
//! `serde` stops at the first error. So where a document fails as a whole, each of its leaves is read
//! once more alone, in a document of nothing else: what fails then is wrong by itself. What is missing
//! from a table shows when the table is read without its faulty leaves, one field at a time. What is wrong
//! between fields that are sound themselves is said beside, as far as no faulty one has to do with it.

use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use toml::{Table, Value};

use super::nearest::nearest;
use crate::{Problem, Scenario};

/// The scenario that a document without factors describes.
pub(super) fn scenario(document: &Table) -> Result<Scenario, Vec<Problem>> {
    let whole = Value::Table(document.clone());
    Scenario::deserialize(Reader(&whole)).map_err(|first| {
        let faults = faults(&whole);
        let mut found = faults.problems.clone();
        if found.is_empty() {
            // Only fields together are wrong; the first error then says it.
            return vec![problem(&first.path(), &first.fault)];
        }
        found.extend(faults.unrelated());
        found
    })
}

/// A step from a table or a list to something in it.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    Key(String),
    Index(usize),
}

/// What is wrong, and where.
#[derive(Debug)]
struct Error {
    /// From the inside out.
    steps: Vec<Step>,
    fault: Fault,
}

#[derive(Debug)]
enum Fault {
    Missing(&'static str),
    Unknown {
        word: String,
        known: &'static [&'static str],
    },
    Other(String),
}

/// What every document must have; inside of its tables the types themselves tell.
const REQUIRED: [&str; 5] = ["name", "seed", "path", "workloads", "arms"];

/// What is wrong with fields by themselves.
struct Faults {
    problems: Vec<Problem>,
    /// Where those are that were taken out of `sound`.
    places: Vec<Vec<Step>>,
    /// The document without them.
    sound: Value,
}

fn faults(whole: &Value) -> Faults {
    let mut problems = Vec::new();
    let mut places: Vec<Vec<Step>> = Vec::new();
    let mut sound = whole.clone();
    for path in leaves(whole) {
        let Err(error) = Scenario::deserialize(Reader(&alone(whole, &path))) else {
            continue;
        };
        // An error that is not at the leaf is one of the leaf's being alone.
        let at = error.steps.len();
        let blames_leaf = match error.fault {
            Fault::Missing(_) => false,
            Fault::Unknown { .. } => true,
            Fault::Other(_) => at >= path.len(),
        };
        if blames_leaf {
            // A document of one leaf has one way down, so the length of the error's path tells where. An
            // unknown key is one step below the table that does not know it.
            let unknown = matches!(error.fault, Fault::Unknown { .. });
            let place = &path[..path.len().min(at + usize::from(unknown))];
            add(&mut problems, problem(place, &error.fault));
            remove(&mut sound, place);
            places.push(place.to_vec());
        }
    }
    for field in REQUIRED {
        if whole.get(field).is_none() {
            add(&mut problems, problem(&[], &Fault::Missing(field)));
        }
    }
    for path in tables(&sound) {
        let Err(error) = Scenario::deserialize(Reader(&alone(&sound, &path))) else {
            continue;
        };
        if let Fault::Missing(field) = error.fault
            && error.steps.len() == path.len()
        {
            let mut place = path.clone();
            place.push(Step::Key(field.to_owned()));
            // What was taken out above is not missing.
            if get(whole, &place).is_none() {
                add(&mut problems, problem(&path, &error.fault));
            }
        }
    }
    Faults {
        problems,
        places,
        sound,
    }
}

/// What is said of fields of a section depends on fields of other sections as well.
const DEPENDS: [(&str, &[&str]); 4] = [
    ("relays", &["path"]),
    ("arms", &["relays", "hosts"]),
    ("workloads", &["path", "arms"]),
    ("experiment", &["arms", "workloads"]),
];

// === impl Faults ===

impl Faults {
    /// What is wrong between sound fields and has nothing to do with a faulty one; nothing where the rest does
    /// not make a scenario.
    fn unrelated(&self) -> Vec<Problem> {
        let mut rest = self.sound.clone();
        if let Value::Table(table) = &mut rest {
            // Where these are missing or wrong that is said, and nothing that depends on them is.
            table.entry("name").or_insert_with(|| "unnamed".into());
            table.entry("seed").or_insert(Value::Integer(0));
            if let Some(Value::Table(path)) = table.get_mut("path") {
                path.entry("rtt").or_insert_with(|| "1 ms".into());
            }
        }
        let Ok(scenario) = Scenario::deserialize(Reader(&rest)) else {
            return Vec::new();
        };
        let mut problems = scenario.problems();
        problems.retain(|problem| !self.concern(&problem.field));
        problems
    }

    /// Whether a faulty field is in the table of `field`, or in a section on which its section depends.
    fn concern(&self, field: &str) -> bool {
        let section = field.split(['.', '[']).next().unwrap_or_default();
        let depends = DEPENDS.iter().find(|(of, _)| *of == section);
        let depends = depends.map_or(&[][..], |(_, on)| on);
        self.places.iter().any(|place| {
            let named = |on: &&str| matches!(place.first(), Some(Step::Key(key)) if key == on);
            let key = |step: &Step| matches!(step, Step::Key(_));
            let last = place.iter().rposition(key).unwrap_or_default();
            depends.iter().any(named) || field.starts_with(&text(&place[..last]))
        })
    }
}

fn add(problems: &mut Vec<Problem>, problem: Problem) {
    if !problems.contains(&problem) {
        problems.push(problem);
    }
}

fn problem(path: &[Step], fault: &Fault) -> Problem {
    let message = match fault {
        Fault::Missing(field) => format!("`{field}` is missing"),
        Fault::Unknown { word, known } => match nearest(word, known) {
            Some(meant) => format!("there is no `{word}`; did you mean `{meant}`?"),
            None => format!(
                "there is no `{word}`; known here are `{}`",
                known.join("`, `")
            ),
        },
        Fault::Other(message) => message.clone(),
    };
    let field = if path.is_empty() {
        "the file".to_owned()
    } else {
        text(path)
    };
    Problem { field, message }
}

/// `workloads[1].bytes`.
fn text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
            Step::Index(index) => {
                text.push('[');
                text.push_str(&index.to_string());
                text.push(']');
            }
        }
    }
    text
}

/// Paths of everything that holds nothing else.
fn leaves(value: &Value) -> Vec<Vec<Step>> {
    let mut paths = Vec::new();
    visit(value, &mut Vec::new(), &mut |path, value| {
        let holds = value.as_table().is_some_and(|table| !table.is_empty())
            || value.as_array().is_some_and(|array| !array.is_empty());
        if !holds {
            paths.push(path.to_vec());
        }
    });
    paths
}

/// Paths of all tables, the document itself first.
fn tables(value: &Value) -> Vec<Vec<Step>> {
    let mut paths = Vec::new();
    visit(value, &mut Vec::new(), &mut |path, value| {
        if value.is_table() {
            paths.push(path.to_vec());
        }
    });
    paths
}

fn visit(value: &Value, path: &mut Vec<Step>, each: &mut dyn FnMut(&[Step], &Value)) {
    each(path, value);
    if let Some(table) = value.as_table() {
        for (key, inner) in table {
            path.push(Step::Key(key.clone()));
            visit(inner, path, each);
            path.pop();
        }
    }
    for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
        path.push(Step::Index(index));
        visit(inner, path, each);
        path.pop();
    }
}

/// A document that holds what is at `path` and nothing else; lists on the way have one element.
fn alone(whole: &Value, path: &[Step]) -> Value {
    let mut value = get(whole, path).cloned().unwrap_or(Value::Boolean(false));
    for step in path.iter().rev() {
        value = match step {
            Step::Key(key) => Value::Table(Table::from_iter([(key.clone(), value)])),
            Step::Index(_) => Value::Array(vec![value]),
        };
    }
    value
}

fn get<'a>(value: &'a Value, path: &[Step]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

/// Takes out what is at `path`; of a list element the list, or the table in it, so that paths stay right.
fn remove(value: &mut Value, path: &[Step]) {
    let key = |step: &Step| matches!(step, Step::Key(_));
    let Some(place) = path.iter().rposition(key) else {
        return;
    };
    let (parents, Step::Key(last)) = (&path[..place], &path[place]) else {
        return;
    };
    let parent = parents.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(index),
    });
    if let Some(Value::Table(table)) = parent {
        table.remove(last);
    }
}

/// Reads a value and keeps the path to what is wrong in it.
struct Reader<'a>(&'a Value);

struct Entries<'a> {
    left: toml::map::Iter<'a, String, Value>,
    value: Option<(&'a str, &'a Value)>,
}

struct Elements<'a> {
    left: std::iter::Enumerate<std::slice::Iter<'a, Value>>,
}

// === impl Reader ===

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::String(text) => visitor.visit_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(flag) => visitor.visit_bool(*flag),
            Value::Datetime(time) => visitor.visit_string(time.to_string()),
            Value::Array(array) => visitor.visit_seq(Elements {
                left: array.iter().enumerate(),
            }),
            Value::Table(table) => visitor.visit_map(Entries {
                left: table.iter(),
                value: None,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let found = match self.0 {
            Value::String(text) => {
                let variant: StrDeserializer<'_, Error> = text.as_str().into_deserializer();
                return visitor.visit_enum(variant);
            }
            Value::Table(table) => {
                return visitor.visit_enum(MapAccessDeserializer::new(Entries {
                    left: table.iter(),
                    value: None,
                }));
            }
            Value::Integer(number) => Unexpected::Signed(*number),
            Value::Float(number) => Unexpected::Float(*number),
            Value::Boolean(flag) => Unexpected::Bool(*flag),
            Value::Datetime(_) => Unexpected::Other("a date"),
            Value::Array(_) => Unexpected::Seq,
        };
        Err(serde::de::Error::invalid_type(found, &OneOf(variants)))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.left.next() else {
            return Ok(None);
        };
        self.value = Some((key, value));
        let key: StrDeserializer<'_, Error> = key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some((key, value)) = self.value.take() else {
            return Err(serde::de::Error::custom(
                "a value was asked for before its key",
            ));
        };
        seed.deserialize(Reader(value))
            .map_err(|error| error.below(Step::Key(key.to_owned())))
    }
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some((index, value)) = self.left.next() else {
            return Ok(None);
        };
        seed.deserialize(Reader(value))
            .map(Some)
            .map_err(|error| error.below(Step::Index(index)))
    }
}

/// The words that a field may hold.
struct OneOf(&'static [&'static str]);

// === impl OneOf ===

impl Expected for OneOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one of ")?;
        for (index, word) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}`{word}`")?;
        }
        Ok(())
    }
}

// === impl Error ===

impl Error {
    fn new(fault: Fault) -> Self {
        Self {
            steps: Vec::new(),
            fault,
        }
    }

    fn below(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn path(&self) -> Vec<Step> {
        self.steps.iter().rev().cloned().collect()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        problem(&self.path(), &self.fault).fmt(f)
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Fault::Other(message.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("wants {expected}, not {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(Fault::Unknown {
            word: field.to_owned(),
            known: expected,
        })
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::unknown_field(variant, expected)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Fault::Missing(field))
    }
}
