//! `--set FIELD=VALUE`: fields of a scenario file that take another value for this run.

use anyhow::anyhow;
use scenario::{FileError, Variant};
use toml::{Table, Value};

use crate::failure::{Failure, Kind};

/// A field, as factors name it, and its value.
pub(super) struct Override {
    field: String,
    value: Value,
}

/// Values are TOML where they are any (`true`, `4`, `["a", "b"]`, `"0"`), and text where they are not
/// (`10 Gbit/s`).
pub(super) fn parse(settings: &[String]) -> Result<Vec<Override>, Failure> {
    let one = |setting: &String| match setting.split_once('=') {
        Some((field, value)) if !field.trim().is_empty() => Ok(Override {
            field: field.trim().to_owned(),
            value: value_of(value.trim()),
        }),
        _ => {
            let error = anyhow!("`--set {setting}` is not FIELD=VALUE, such as `path.rtt=70 ms`");
            Err(Failure::new(Kind::Usage, error))
        }
    };
    settings.iter().map(one).collect()
}

/// Reads a scenario file, each override as a factor with one value, so that results carry it.
pub(super) fn read(text: &str, overrides: &[Override]) -> Result<Vec<Variant>, FileError> {
    if overrides.is_empty() {
        return scenario::read(text);
    }
    let mut document: Table = text
        .parse()
        .map_err(|source| FileError::Syntax { source })?;
    let factors = document
        .entry("factors")
        .or_insert_with(|| Value::Table(Table::new()));
    // Whatever else it is, the reader says so.
    if let Value::Table(factors) = factors {
        for Override { field, value } in overrides {
            forget(factors, field);
            factors.insert(field.clone(), Value::Array(vec![value.clone()]));
        }
    }
    scenario::expand(&document).map_err(|problems| FileError::Unsound { problems })
}

fn value_of(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>().ok();
    let value = parsed.and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Takes a factor out, also where its key's dots were not quoted and made tables of it.
fn forget(factors: &mut Table, field: &str) {
    factors.remove(field);
    for (key, inner) in factors.iter_mut() {
        let rest = field
            .strip_prefix(key.as_str())
            .and_then(|rest| rest.strip_prefix('.'));
        if let (Some(rest), Value::Table(inner)) = (rest, inner) {
            forget(inner, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
        name = "s"
        seed = 1
        [path]
        rtt = "20 ms"
        rate = "10 Mbit/s"
        queue = "100 kB"
        [[workloads]]
        name = "bulk"
        bytes = "1 MB"
        [[arms]]
        name = "direct"
        [factors]
        path.rtt = ["20 ms", "70 ms"]
        "workloads.bulk.parallel" = [1, 4]
    "#;

    fn variants(settings: &[&str]) -> Result<Vec<Variant>, String> {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let overrides = parse(&settings).map_err(|failure| failure.error.to_string())?;
        read(SCENARIO, &overrides).map_err(|error| error.to_string())
    }

    #[test]
    fn a_factor_that_is_set_takes_one_value() {
        assert_eq!(variants(&[]).unwrap().len(), 4);
        for settings in [["path.rtt=5 ms"], ["path.rtt = \"5 ms\""]] {
            let set = variants(&settings).unwrap();
            assert_eq!(set.len(), 2, "{settings:?}");
            assert!(set.iter().all(|one| one.factors["path.rtt"] == "5 ms"));
        }
        let set = variants(&["path.rtt=5 ms", "workloads.bulk.parallel=2"]).unwrap();
        assert_eq!(set.len(), 1);
        assert_eq!(set[0].scenario.path.rtt.get().as_millis(), 5);
        assert_eq!(set[0].scenario.workloads[0].parallel, Some(2));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        let unknown = variants(&["path.rat=1 Mbit/s"]).unwrap_err();
        assert!(unknown.contains("`path.rat`"), "{unknown}");
        let value = variants(&["path.rate=fast"]).unwrap_err();
        assert!(value.contains("`path.rate`"), "{value}");
        let missing = variants(&["workloads.none.bytes=1 MB"]).unwrap_err();
        assert!(missing.contains("workloads.none.bytes"), "{missing}");
        let shape = variants(&["path.rate"]).unwrap_err();
        assert!(shape.contains("FIELD=VALUE"), "{shape}");
    }
}
