//! Configuration files: everything that is wrong with one is told at once, each with its line and a caret.
//!
//! The structures that `serde` fills say what a file may hold. `serde` stops at the first thing that does not fit: that is
//! noted and left out, and the file read again, until the rest fits. Then what its values mean is asked, and what is
//! wrong with that goes beside it. Before all that, what is no TOML is left out as well.
//!
//! [`read`] does all of it. Whoever asks what values mean notes what is wrong in [`Problems`], by key: the same serves options
//! that come from a command line, which have keys and no lines.

mod legible;
mod problem;
mod reader;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use legible::{Legible, Lost};
use problem::Found;
pub use problem::{ConfigError, Position, Problem, Problems, nearest};
use reader::{Fault, Kind, Reader};

/// Who has written so much that does not fit has another file in mind.
const MOST: usize = 100;

/// A step from a table or a list to something in it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Step {
    /// A key of a table.
    Key(String),
    /// An element of a list, from 0 on.
    Index(usize),
}

/// What to leave out of a file when reading it once more.
#[derive(Debug, Default)]
struct Struck {
    /// Keys, and elements of lists, by where they begin.
    places: BTreeSet<usize>,
    /// Fields that a table should have: they are read as if they were there, and empty. By where the table ends: the root
    /// and the table in its first line begin at the same place.
    absent: BTreeSet<(usize, &'static str)>,
}

/// Reads a file's text and asks what it means; or tells everything that is wrong with it.
///
/// `resolve` is asked whenever the text can be read at all, also where some of it does not fit and is left out: what it finds
/// wrong only because of that is not told.
pub fn read<O: DeserializeOwned, C>(
    text: &str,
    resolve: impl FnOnce(O, &mut Problems) -> C,
) -> Result<C, ConfigError> {
    let legible = Legible::of(text);
    let root = match DeTable::parse(&legible.text) {
        Ok(root) if !legible.given_up => {
            Spanned::new(root.span(), DeValue::Table(root.into_inner()))
        }
        Ok(_) | Err(_) => return Err(told(text, legible.told)),
    };
    let lost = legible.lost;
    let (options, faults) = fit::<O>(&root, &lost);
    let mut problems = Problems::with(!(faults.is_empty() && legible.told.is_empty()));
    let meant = options.map(|options| resolve(options, &mut problems));
    let meaning = problems.into_found().into_iter();
    let unrelated = meaning.filter(|found| {
        !faults.iter().any(|fault| explains(fault, found, &root))
            && !lost.iter().any(|lost| hides(lost, found, &root, text))
    });
    let mut all = legible.told;
    all.extend(unrelated.map(|found| (written(&root, &found.place).0.span(), found.problem)));
    all.extend(faults.iter().map(|fault| (fault.span(), fault.problem())));
    match meant {
        Some(meant) if all.is_empty() => Ok(meant),
        _ => Err(told(text, all)),
    }
}

/// Problems with their places, in the order of the file.
fn told(text: &str, mut problems: Vec<(Range<usize>, Problem)>) -> ConfigError {
    problems.sort_by_key(|(span, _)| span.start);
    let told = problems
        .into_iter()
        .map(|(span, problem)| problem.at(text, span));
    ConfigError::new(told.collect())
}

/// What can be read of a file, and what does not fit.
fn fit<O: DeserializeOwned>(root: &Spanned<DeValue<'_>>, lost: &[Lost]) -> (Option<O>, Vec<Fault>) {
    let mut struck = Struck::default();
    let mut faults = Vec::new();
    while faults.len() < MOST {
        let fault = match O::deserialize(Reader::new(root, &struck)) {
            Ok(options) => return (Some(options), faults),
            Err(fault) => fault,
        };
        let left_out = match (&fault.kind, fault.edge) {
            (Kind::Missing(field), Some(ends)) => struck.absent.insert((ends, field)),
            (_, Some(begins)) => struck.places.insert(begins),
            (_, None) => false,
        };
        // A field that was left out, or is there under a slip of its name, is missing now: that is no second fault. Nor is one
        // that may be in what could not be read.
        let may_be_lost = |lost: &Lost| lost.table.is_none_or(|ends| fault.edge == Some(ends));
        let consequence = matches!(fault.kind, Kind::Missing(_))
            && (get(root, &fault.place()).is_some()
                || lost.iter().any(may_be_lost)
                || faults
                    .iter()
                    .any(|other| other.meant().as_ref() == Some(&fault.place())));
        if !consequence && (left_out || faults.is_empty()) {
            faults.push(fault);
        }
        if !left_out {
            break;
        }
    }
    (None, faults)
}

/// Whether a problem with the meaning of a file may be there only because of a fault: it is about what was left out, or
/// about a table as a whole, or about what is not written in a table, of which something was left out.
fn explains(fault: &Fault, found: &Found, root: &Spanned<DeValue<'_>>) -> bool {
    let left_out = fault.place();
    if found.place.starts_with(&left_out) {
        return true;
    }
    let (value, depth) = written(root, &found.place);
    if depth == found.place.len() && !value.get_ref().is_table() {
        return false;
    }
    let (around, _) = found.place.split_at(depth);
    let is_key = |step: &Step| matches!(step, Step::Key(_));
    let table = left_out.iter().rposition(is_key).unwrap_or_default();
    let (table, _) = left_out.split_at(table);
    table.starts_with(around) || around.starts_with(table)
}

/// The same of text that could not be read: it may hold what is missing, or what a name stands for.
fn hides(lost: &Lost, found: &Found, root: &Spanned<DeValue<'_>>, text: &str) -> bool {
    let (value, depth) = written(root, &found.place);
    if depth == found.place.len() && !value.get_ref().is_table() {
        let unread = text.get(lost.span.clone()).unwrap_or_default();
        return names(value.get_ref()).any(|name| says(unread, name));
    }
    let Some(table) = lost.table.and_then(|ends| table_ending(root, ends)) else {
        return true;
    };
    let (around, _) = found.place.split_at(depth);
    table.starts_with(around) || around.starts_with(&table)
}

/// Whether a text has this name in it, and not only as a part of another one.
fn says(text: &str, name: &str) -> bool {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
    text.match_indices(name).any(|(begins, _)| {
        let (before, rest) = text.split_at(begins);
        let (_, behind) = rest.split_at(name.len());
        !before.ends_with(is_of_name) && !behind.starts_with(is_of_name)
    })
}

/// The texts of a value.
fn names<'a>(value: &'a DeValue<'_>) -> impl Iterator<Item = &'a str> {
    let single = std::slice::from_ref(value).iter();
    let several = value.as_array().into_iter().flatten();
    let texts = single
        .chain(several.map(Spanned::get_ref))
        .filter_map(DeValue::as_str);
    texts.filter(|text| !text.is_empty())
}

/// Where the table is whose head ends there.
fn table_ending(value: &Spanned<DeValue<'_>>, ends: usize) -> Option<Vec<Step>> {
    let inside: Vec<(Step, &Spanned<DeValue<'_>>)> = match value.get_ref() {
        DeValue::Table(_) if value.span().end == ends => return Some(Vec::new()),
        DeValue::Table(table) => {
            let entries = table.iter();
            entries
                .map(|(key, value)| (Step::from(key.get_ref().as_ref()), value))
                .collect()
        }
        DeValue::Array(array) => {
            let elements = array.iter().enumerate();
            elements
                .map(|(index, value)| (Step::from(index), value))
                .collect()
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => return None,
    };
    inside.into_iter().find_map(|(step, value)| {
        let mut place = table_ending(value, ends)?;
        place.insert(0, step);
        Some(place)
    })
}

/// The value at a place, or else what it would be in; and how many steps lead there.
fn written<'a, 'i>(
    root: &'a Spanned<DeValue<'i>>,
    place: &[Step],
) -> (&'a Spanned<DeValue<'i>>, usize) {
    let depths = (1..=place.len()).rev();
    let mut values = depths.filter_map(|depth| {
        let (steps, _) = place.split_at(depth);
        get(root, steps).map(|value| (value, depth))
    });
    values.next().unwrap_or((root, 0))
}

fn get<'a, 'i>(root: &'a Spanned<DeValue<'i>>, steps: &[Step]) -> Option<&'a Spanned<DeValue<'i>>> {
    steps.iter().try_fold(root, |value, step| match step {
        Step::Key(key) => value.get_ref().get(key.as_str()),
        Step::Index(index) => value.get_ref().get(*index),
    })
}

// === impl Step ===

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}
