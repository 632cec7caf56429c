//! From a scenario file to scenarios: every error at once, each with its field.

mod document;
mod factors;
mod nearest;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::{Problem, Scenario};

/// One combination of the factors of a file; the only one where it has none.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Factors and their values, as the file writes them; empty without factors.
    pub factors: BTreeMap<String, String>,
    /// The scenario with these values.
    pub scenario: Scenario,
}

/// A text is not a sound scenario.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It is no TOML.
    #[error("this is no TOML")]
    Syntax {
        /// Line, column and what was expected there.
        #[source]
        source: toml::de::Error,
    },
    /// It is TOML, and something in it is wrong.
    #[error("{}", list(problems))]
    Unsound {
        /// All of it, in the order of the file.
        problems: Vec<Problem>,
    },
}

/// Reads a scenario file.
///
/// # Errors
/// Everything that is wrong in any combination of its factors.
pub fn read(text: &str) -> Result<Vec<Variant>, FileError> {
    read_for(text, |_| Vec::new())
}

/// The same for somebody who can't play every sound scenario and says what is `beyond` him.
///
/// # Errors
/// Everything that is wrong or beyond him in any combination of its factors, together.
pub fn read_for(
    text: &str,
    beyond: impl Fn(&Scenario) -> Vec<Problem>,
) -> Result<Vec<Variant>, FileError> {
    let document = text
        .parse::<toml::Table>()
        .map_err(|source| FileError::Syntax { source })?;
    expand_for(&document, beyond).map_err(|problems| FileError::Unsound { problems })
}

/// Every combination of the factors of a document, in the order of their values, the last factor
/// changing fastest.
///
/// # Errors
/// Everything that is wrong: with the factors, with fields, and between them. A problem that only some
/// combinations have names them.
pub fn expand(document: &toml::Table) -> Result<Vec<Variant>, Vec<Problem>> {
    expand_for(document, |_| Vec::new())
}

fn expand_for(
    document: &toml::Table,
    beyond: impl Fn(&Scenario) -> Vec<Problem>,
) -> Result<Vec<Variant>, Vec<Problem>> {
    let combinations = factors::combinations(document)?;
    let total = combinations.len();
    let mut variants = Vec::new();
    let mut found = Found::default();
    for combination in combinations {
        match document::scenario(&combination.document) {
            Ok(scenario) => {
                let mut problems = scenario.problems();
                problems.extend(beyond(&scenario));
                found.add(&combination.factors, problems);
                variants.push(Variant {
                    factors: combination.factors,
                    scenario,
                });
            }
            Err(problems) => found.add(&combination.factors, problems),
        }
    }
    let problems = found.problems(total);
    if problems.is_empty() {
        Ok(variants)
    } else {
        Err(problems)
    }
}

/// Problems by combination, in the order in which they were first seen.
#[derive(Default)]
struct Found(Vec<(Problem, Vec<String>)>);

impl Found {
    fn add(&mut self, factors: &BTreeMap<String, String>, problems: Vec<Problem>) {
        let named: Vec<String> = factors
            .iter()
            .map(|(factor, value)| format!("{factor} = {value}"))
            .collect();
        let named = named.join(", ");
        let mut seen = BTreeSet::new();
        for problem in problems {
            // Two arms can have one problem; a combination is to be named once.
            if !seen.insert((problem.field.clone(), problem.message.clone())) {
                continue;
            }
            match self.0.iter_mut().find(|(known, _)| *known == problem) {
                Some((_, combinations)) => combinations.push(named.clone()),
                None => self.0.push((problem, vec![named.clone()])),
            }
        }
    }

    /// All of them; those that not all of `total` combinations have say which do.
    fn problems(self, total: usize) -> Vec<Problem> {
        let told = self.0.into_iter().map(|(mut problem, combinations)| {
            if combinations.len() < total {
                problem.message.push_str(" (with ");
                problem.message.push_str(&combinations[0]);
                if combinations.len() > 1 {
                    let more = format!(", and {} more combinations", combinations.len() - 1);
                    problem.message.push_str(&more);
                }
                problem.message.push(')');
            }
            problem
        });
        told.collect()
    }
}

fn list(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    match problems.len() {
        1 => format!("1 problem:\n  {}", lines.join("")),
        count => format!("{count} problems:\n  {}", lines.join("\n  ")),
    }
}
