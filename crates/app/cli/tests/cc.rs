//! `longhaul cc` in the running kernel. Needs root: without it these tests fail, they are not skipped.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use common::{longhaul, run};

#[test]
fn a_controller_is_loaded_listed_and_taken_out_again() {
    let name = format!("lh_c{}", std::process::id());
    let loaded =
        run(longhaul().args(["cc", "load", "newreno", "--ssthresh", "44", "--name", &name]));
    assert_eq!(loaded.code, Some(0), "{loaded:#?}");
    assert_eq!(loaded.stdout.trim(), name);
    let listed = run(longhaul().args(["cc", "list", "--json"])).json();
    let names = listed["registered"].as_array().unwrap();
    assert!(
        names.iter().any(|one| one["name"] == name.as_str()),
        "{listed:#}"
    );
    let again = run(longhaul().args(["cc", "load", "newreno", "--name", &name]));
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("registered already"), "{again:#?}");
    let unloaded = run(longhaul().args(["cc", "unload", &name]));
    assert_eq!(unloaded.code, Some(0), "{unloaded:#?}");
    let gone = run(longhaul().args(["cc", "unload", &name]));
    assert_eq!(gone.code, Some(2));
    assert!(gone.stderr.contains("longhaul cc list"), "{gone:#?}");
}

#[test]
fn names_of_other_owners_and_misplaced_thresholds_are_refused() {
    let foreign = run(longhaul().args(["cc", "load", "highspeed", "--name", "cubic"]));
    assert_eq!(foreign.code, Some(2));
    assert!(foreign.stderr.contains("lh_"), "{foreign:#?}");
    let misplaced = run(longhaul().args(["cc", "load", "highspeed", "--ssthresh", "44"]));
    assert_eq!(misplaced.code, Some(2));
    assert!(misplaced.stderr.contains("newreno"), "{misplaced:#?}");
}
