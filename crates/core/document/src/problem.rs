//! What is wrong with a configuration, and how it is shown.

use std::fmt;
use std::ops::Range;

use crate::Step;

/// A configuration cannot be used: everything that is wrong with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigError {
    /// At least one.
    problems: Vec<Problem>,
    /// What the file is called, where there is one.
    file: Option<String>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The keys to it, joined by dots.
    pub key: String,
    /// The sentence.
    pub what: String,
    /// The next step, where the sentence does not say it.
    pub hint: Option<String>,
    /// Where it stands in a file; nowhere for what a command line says.
    pub position: Option<Position>,
}

/// A place in a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Position {
    /// From 1 on.
    pub line: usize,
    /// In characters, from 1 on.
    pub column: usize,
    /// Characters that it is about; within its line, and at least 1.
    pub width: usize,
    /// The line.
    pub text: String,
}

/// Collects what is wrong with what options mean, with the place of each.
///
/// Keys are those of the table or the element that [`Problems::within`] has gone into.
#[derive(Debug, Default)]
pub struct Problems {
    within: Vec<Step>,
    found: Vec<Found>,
    /// The options are only a part of what their file says.
    in_part: bool,
}

/// A problem and where its value would be written.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) place: Vec<Step>,
    pub(crate) problem: Problem,
}

// === impl ConfigError ===

impl ConfigError {
    pub(crate) fn new(problems: Vec<Problem>) -> Self {
        Self {
            problems,
            file: None,
        }
    }

    /// The same about the file of this name.
    #[must_use]
    pub fn in_file(mut self, name: impl fmt::Display) -> Self {
        self.file = Some(name.to_string());
        self
    }

    /// All of them, in the order of the file.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// All in one line, for events.
    pub fn in_one_line(&self) -> String {
        let told: Vec<String> = self
            .problems
            .iter()
            .map(|problem| self.place(problem) + &problem.sentence())
            .collect();
        told.join("; ")
    }

    /// `relay.toml:3:1: `, or the key where there is no file.
    fn place(&self, problem: &Problem) -> String {
        match (&problem.position, &self.file) {
            (Some(at), Some(file)) => format!("{file}:{}:{}: ", at.line, at.column),
            (Some(at), None) => format!("line {}, column {}: ", at.line, at.column),
            (None, _) if problem.key.is_empty() => String::new(),
            (None, _) => format!("{}: ", problem.key),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self
            .file
            .as_deref()
            .map_or_else(|| "the configuration".into(), |file| format!("`{file}`"));
        match self.problems.len() {
            1 => write!(f, "one thing is wrong with {what}")?,
            count => write!(f, "{count} things are wrong with {what}")?,
        }
        for problem in &self.problems {
            match &problem.position {
                Some(position) => {
                    write!(f, "\n\n{}{}\n{position}", self.place(problem), problem.what)?;
                    if let Some(hint) = &problem.hint {
                        write!(f, " {hint}")?;
                    }
                }
                None => write!(f, "\n  {}{}", self.place(problem), problem.sentence())?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

// === impl Problem ===

impl Problem {
    pub(crate) fn new(place: &[Step], what: impl Into<String>, hint: Option<String>) -> Self {
        let keys = place.iter().filter_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        });
        Self {
            key: keys.collect::<Vec<_>>().join("."),
            what: what.into(),
            hint,
            position: None,
        }
    }

    /// The same, found where `span` is in `text`.
    pub(crate) fn at(self, text: &str, span: Range<usize>) -> Self {
        Self {
            position: Some(Position::of(text, span)),
            ..self
        }
    }

    fn sentence(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.what),
            None => self.what.clone(),
        }
    }
}

// === impl Position ===

impl Position {
    /// Where `span`, a range of bytes, is in `text`. What goes on over several lines is shown by its first.
    fn of(text: &str, span: Range<usize>) -> Self {
        let start = text.floor_char_boundary(span.start);
        let (before, after) = text.split_at(start);
        let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
        let (_, left) = before.split_at(begin);
        let right = after.lines().next().unwrap_or_default();
        let length = span.end.saturating_sub(start).min(right.len());
        let (about, _) = right.split_at(right.floor_char_boundary(length));
        Self {
            line: before.matches('\n').count() + 1,
            column: left.chars().count() + 1,
            width: about.chars().count().max(1),
            text: format!("{left}{right}").trim_end_matches('\r').to_owned(),
        }
    }
}

impl fmt::Display for Position {
    /// The line, and carets below what it is about.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A tab is as wide as the terminal likes, so the line below has the same ones.
        let before: String = self
            .text
            .chars()
            .take(self.column - 1)
            .map(|letter| if letter == '\t' { '\t' } else { ' ' })
            .collect();
        let shown = self.text.replace(
            |letter: char| letter.is_control() && letter != '\t',
            "\u{fffd}",
        );
        let carets = "^".repeat(self.width);
        write!(f, "{:>5} | {shown}\n      | {before}{carets}", self.line)
    }
}

// === impl Problems ===

impl Problems {
    /// With options that are all that their file says, or only a part of it.
    pub(crate) fn with(in_part: bool) -> Self {
        Self {
            in_part,
            ..Self::default()
        }
    }

    /// What `look` finds is in this table, or in this element of a list.
    pub fn within<R>(&mut self, step: impl Into<Step>, look: impl FnOnce(&mut Self) -> R) -> R {
        self.within.push(step.into());
        let seen = look(self);
        self.within.pop();
        seen
    }

    /// The same, several steps down.
    pub fn at<R>(&mut self, place: Vec<Step>, look: impl FnOnce(&mut Self) -> R) -> R {
        let depth = self.within.len();
        self.within.extend(place);
        let seen = look(self);
        self.within.truncate(depth);
        seen
    }

    /// Notes what is wrong with the value of `key`: a key, several joined by dots, or none for the table itself.
    pub fn tell(&mut self, key: &str, what: impl Into<String>) {
        self.note(key, what.into(), None);
    }

    /// The same with the next step.
    pub fn tell_with(&mut self, key: &str, what: impl Into<String>, hint: impl Into<String>) {
        self.note(key, what.into(), Some(hint.into()));
    }

    /// [`Self::tell`] where something does not hold.
    pub fn require(&mut self, holds: bool, key: &str, sentence: &str) {
        if !holds {
            self.tell(key, sentence);
        }
    }

    /// Whether nothing is wrong so far, nor with the text that the options were read from.
    ///
    /// What does more than look waits for this, such as running a program: one of its arguments may have been left out.
    pub fn none_yet(&self) -> bool {
        self.found.is_empty() && !self.in_part
    }

    /// What options mean, or all that was found.
    pub fn or<C>(self, meant: C) -> Result<C, ConfigError> {
        if self.found.is_empty() {
            return Ok(meant);
        }
        let found = self.found.into_iter();
        Err(ConfigError::new(found.map(|found| found.problem).collect()))
    }

    pub(crate) fn into_found(self) -> Vec<Found> {
        self.found
    }

    fn note(&mut self, key: &str, what: String, hint: Option<String>) {
        let mut place = self.within.clone();
        let keys = key.split('.').filter(|key| !key.is_empty());
        place.extend(keys.map(Step::from));
        let problem = Problem::new(&place, what, hint);
        self.found.push(Found { place, problem });
    }
}

/// The known word that was probably meant: a third of its letters may be wrong, and two in any case.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    let distances = known
        .into_iter()
        .map(|known| (strsim::osa_distance(word, known), known));
    distances
        .filter(|(distance, known)| *distance <= limit && *distance < known.len())
        .min()
        .map(|(_, known)| known)
}
