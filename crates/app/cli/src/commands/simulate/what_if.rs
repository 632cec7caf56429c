//! `longhaul simulate --what-if`: one remedy at a time, ranked by what it saves.

use std::fs;
use std::process::ExitCode;

use record::what_if::Document;
use scenario::Variant;
use sim::{Trial, Trials};

use super::{cores, progress};
use crate::arguments::Simulate;
use crate::commands::lab;
use crate::failure::{Blame as _, Failure};
use crate::output;

pub(super) fn run(arguments: &Simulate, variants: &[Variant]) -> Result<ExitCode, Failure> {
    let unfit = || {
        let scenario = arguments.scenario.display();
        format!("`{scenario}` can't be tried with remedies")
    };
    let mut all = Vec::new();
    for variant in variants {
        let trials = Trials::new(&variant.scenario, arguments.arm.as_deref()).usage(unfit())?;
        let seed = arguments.seed.unwrap_or(variant.scenario.seed);
        all.push((variant, seed, trials));
    }
    // One list, so that no core waits for the end of a variant.
    let work: Vec<(u64, &Trial)> = all
        .iter()
        .flat_map(|(_, seed, trials)| trials.trials().iter().map(|trial| (*seed, trial)))
        .collect();
    let bar = progress::bar(work.len());
    let played = cores::each(
        &work,
        |(seed, trial)| trial.play(*seed),
        |(_, trial)| {
            bar.set_message(trial.label());
            bar.inc(1);
        },
    );
    bar.finish_and_clear();
    let mut played = played.into_iter();
    let mut merged: Option<Document> = None;
    for (variant, seed, trials) in &all {
        let own: Result<Vec<_>, _> = played.by_ref().take(trials.trials().len()).collect();
        let mut document = trials.rank(*seed, own.usage(unfit())?);
        for cell in &mut document.cells {
            cell.factors.clone_from(&variant.factors);
        }
        match &mut merged {
            None => merged = Some(document),
            Some(merged) => merged.cells.append(&mut document.cells),
        }
    }
    let Some(mut document) = merged else {
        return Ok(ExitCode::SUCCESS);
    };
    document.manifest = lab::manifest();
    if let Some(path) = &arguments.html {
        fs::write(path, report::html::what_if(&document))
            .environment(format!("can't write `{}`", path.display()))?;
    }
    if arguments.json {
        output::json(&document)?;
    } else {
        output::data(&report::text::what_if(&document, output::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}
