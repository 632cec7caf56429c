//! Factors: fields that take several values, and every combination of them.
//!
//! ```toml
//! [factors]
//! "path.rtt" = ["20 ms", "70 ms"]
//! "workloads.bulk.parallel" = [1, 4]
//!
//! [[factors.stack]]           # a named group of settings
//! name = "wan"
//! "hosts.client.congestion-control" = "bbr"
//! "hosts.client.tcp.initial-cwnd" = 32
//! [[factors.stack]]
//! name = "lan"
//! ```

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use crate::Problem;
use crate::problems::Problems;

/// A document without factors, and the values that went into it.
pub(super) struct Combination {
    pub(super) factors: BTreeMap<String, String>,
    pub(super) document: Table,
}

/// Combinations of a file at most: more would run for days.
const MOST: usize = 1_000;

/// A factor and its levels.
struct Factor {
    name: String,
    levels: Vec<Level>,
}

/// A value of a factor: what it is called, and what it sets.
struct Level {
    label: String,
    settings: Vec<(String, Value)>,
}

/// Every combination of the factors of `document`.
pub(super) fn combinations(document: &Table) -> Result<Vec<Combination>, Vec<Problem>> {
    let mut base = document.clone();
    let mut problems = Problems::default();
    let mut factors = Vec::new();
    match base.remove("factors") {
        None => {}
        Some(Value::Table(table)) => collect(&table, "", &mut factors, &mut problems),
        Some(_) => problems.add("factors", "wants a table: `[factors]`"),
    }
    let count = factors.iter().try_fold(1_usize, |count, factor: &Factor| {
        count.checked_mul(factor.levels.len())
    });
    if count.is_none_or(|count| count > MOST) {
        problems.add(
            "factors",
            format!("they have more than {MOST} combinations"),
        );
    }
    if !problems.0.is_empty() {
        return Err(problems.0);
    }
    let mut combinations = vec![Combination {
        factors: BTreeMap::new(),
        document: base,
    }];
    for factor in &factors {
        let mut next = Vec::new();
        for combination in &combinations {
            for level in &factor.levels {
                let mut document = combination.document.clone();
                for (path, value) in &level.settings {
                    if let Err(message) = set(&mut document, path, value) {
                        problems.add(format!("factors.{}", factor.name), message);
                    }
                }
                let mut factors = combination.factors.clone();
                factors.insert(factor.name.clone(), level.label.clone());
                next.push(Combination { factors, document });
            }
        }
        combinations = next;
    }
    if problems.0.is_empty() {
        Ok(combinations)
    } else {
        problems.0.dedup();
        Err(problems.0)
    }
}

/// The factors of a table. Keys with dots that are not quoted come as tables in tables.
fn collect(table: &Table, above: &str, factors: &mut Vec<Factor>, problems: &mut Problems) {
    for (key, value) in table {
        let name = if above.is_empty() {
            key.clone()
        } else {
            format!("{above}.{key}")
        };
        let field = format!("factors.{name}");
        if let Value::Table(inner) = value {
            collect(inner, &name, factors, problems);
            continue;
        }
        let Value::Array(values) = value else {
            problems.add(field, "wants a list of values");
            continue;
        };
        if values.is_empty() {
            problems.add(field, "has no values; leave it out");
            continue;
        }
        let levels = levels(&name, values, problems);
        let labels: BTreeSet<&str> = levels.iter().map(|level| level.label.as_str()).collect();
        if labels.len() < levels.len() {
            problems.add(&field, "has the same value twice");
        }
        factors.push(Factor { name, levels });
    }
}

fn levels(name: &str, values: &[Value], problems: &mut Problems) -> Vec<Level> {
    let groups = values.iter().all(Value::is_table);
    let mut levels = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let Value::Table(group) = value else {
            levels.push(Level {
                label: label(value),
                settings: vec![(name.to_owned(), value.clone())],
            });
            continue;
        };
        let field = format!("factors.{name}[{index}]");
        if !groups {
            problems.add(
                field,
                "is a group among values; write `[[factors.NAME]]` for each",
            );
            continue;
        }
        let Some(Value::String(label)) = group.get("name") else {
            problems.add(field, "a group of settings needs a `name`");
            continue;
        };
        let mut settings = Vec::new();
        for (path, value) in group.iter().filter(|(key, _)| *key != "name") {
            flatten(path, value, &mut settings);
        }
        levels.push(Level {
            label: label.clone(),
            settings,
        });
    }
    levels
}

/// Tables set what they hold, field by field, so that they leave the rest of a host alone.
fn flatten(path: &str, value: &Value, settings: &mut Vec<(String, Value)>) {
    let Some(table) = value.as_table().filter(|table| !table.is_empty()) else {
        settings.push((path.to_owned(), value.clone()));
        return;
    };
    for (key, inner) in table {
        let key = if key.contains('.') && !key.contains('"') {
            format!("\"{key}\"")
        } else {
            key.clone()
        };
        flatten(&format!("{path}.{key}"), inner, settings);
    }
}

/// A value as tables of results show it: text without its quotes.
fn label(value: &Value) -> String {
    let text = value.as_str().map(str::to_owned);
    text.unwrap_or_else(|| value.to_string())
}

/// Sets the field at `path`; tables on the way are made where they are missing, elements of lists are
/// not.
fn set(document: &mut Table, path: &str, value: &Value) -> Result<(), String> {
    let steps = steps(path)?;
    let Some((last, parents)) = steps.split_last() else {
        return Err("names no field".to_owned());
    };
    let mut table = document;
    let mut parents = parents.iter();
    while let Some(step) = parents.next() {
        let entry = table
            .entry(step.clone())
            .or_insert_with(|| Value::Table(Table::new()));
        table = if let Value::Array(elements) = entry {
            let Some(which) = parents.next() else {
                return Err(format!(
                    "`{step}` is a list: say which, such as `{step}[0]`"
                ));
            };
            element(step, elements, which)?
        } else {
            let inner = entry.as_table_mut();
            inner.ok_or_else(|| format!("`{step}` holds no fields"))?
        };
    }
    table.insert(last.clone(), value.clone());
    Ok(())
}

/// The element of a list of tables with this index or name.
fn element<'a>(
    list: &str,
    elements: &'a mut [Value],
    which: &str,
) -> Result<&'a mut Table, String> {
    let named = elements
        .iter()
        .position(|element| element.get("name").and_then(Value::as_str) == Some(which));
    let position = named.or_else(|| which.parse().ok());
    let found = position.and_then(|position| elements.get_mut(position));
    found
        .and_then(Value::as_table_mut)
        .ok_or_else(|| format!("`{list}` has no element `{which}`"))
}

/// `workloads[0].bytes`, `arms.relay.reuse` or `hosts.client.sysctls."net.ipv4.tcp_sack"`, cut at its
/// dots.
fn steps(path: &str) -> Result<Vec<String>, String> {
    let mut steps = vec![String::new()];
    let mut quoted = false;
    for letter in path.chars() {
        match letter {
            '"' => quoted = !quoted,
            '.' | '[' if !quoted => steps.push(String::new()),
            ']' if !quoted => {}
            _ => {
                if let Some(step) = steps.last_mut() {
                    step.push(letter);
                }
            }
        }
    }
    if quoted || steps.iter().any(String::is_empty) {
        return Err(format!(
            "`{path}` is no path to a field, such as `path.rtt`"
        ));
    }
    Ok(steps)
}
