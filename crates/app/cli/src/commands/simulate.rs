//! `longhaul simulate`: a lab scenario in virtual time.

use std::process::ExitCode;

use crate::arguments::Simulate;
use crate::commands::lab;
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;

pub(crate) fn run(arguments: &Simulate) -> Result<ExitCode, Failure> {
    let scenario = lab::read(&arguments.scenario)?;
    let seed = arguments.seed.unwrap_or(scenario.seed);
    let mut document = sim::run(&scenario, seed).usage(format!(
        "the scenario `{}` can't be simulated",
        scenario.name
    ))?;
    let facts = std::mem::take(&mut document.manifest.facts);
    document.manifest = record::Manifest {
        facts,
        ..lab::manifest()
    };
    if arguments.json {
        output::json(&document)?;
    } else {
        output::data(&report::text::lab(&document, output::style()))?;
    }
    let broken = document.assertions.iter().any(|assertion| !assertion.holds);
    Ok(if broken {
        ExitCode::from(Kind::Assertion.exit_code())
    } else {
        ExitCode::SUCCESS
    })
}
