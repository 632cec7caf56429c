//! `longhaul doctor`: which verbs this host can run, and why not.

mod checks;

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::arguments::Doctor;
use crate::failure::Failure;
use crate::output;
use checks::{Check, Weight};

pub(crate) fn run(arguments: &Doctor) -> Result<ExitCode, Failure> {
    let verbs = checks::all();
    if arguments.json {
        let verbs: Vec<Value> = verbs
            .iter()
            .map(|(verb, checks)| {
                json!({
                    "verb": verb,
                    "runs": runs(checks),
                    "checks": checks.iter().map(describe).collect::<Vec<_>>(),
                })
            })
            .collect();
        output::json(&json!({ "verbs": verbs }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for (verb, checks) in &verbs {
        let all = checks.iter().all(|check| check.result.is_ok());
        let verdict = match (runs(checks), all) {
            (true, true) => "runs here",
            (true, false) => "runs here, but for what is marked `no`",
            (false, _) => "does not run here",
        };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{verb}: {verdict}");
        for check in checks {
            let (mark, said) = match &check.result {
                Ok(said) => ("ok", said),
                Err(said) => ("no", said),
            };
            let _ = writeln!(text, "  {mark}  {}: {said}", check.what);
        }
    }
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn runs(checks: &[Check]) -> bool {
    checks
        .iter()
        .all(|check| check.weight == Weight::Extra || check.result.is_ok())
}

fn describe(check: &Check) -> Value {
    let (ok, said) = match &check.result {
        Ok(said) => (true, said),
        Err(said) => (false, said),
    };
    json!({
        "what": check.what,
        "needed": check.weight == Weight::Needed,
        "ok": ok,
        "says": said,
    })
}
