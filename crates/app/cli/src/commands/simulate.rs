//! `longhaul simulate`: a lab scenario in virtual time, combinations of its factors side by side.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use record::lab::Document;
use scenario::Variant;
use sim::SimulateError;

use crate::arguments::Simulate;
use crate::commands::lab;
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;

pub(crate) fn run(arguments: &Simulate) -> Result<ExitCode, Failure> {
    let variants = lab::read(&arguments.scenario)?;
    let mut merged: Option<Document> = None;
    for (variant, document) in variants.iter().zip(simulated(&variants, arguments.seed)) {
        let document = document.usage(format!(
            "the scenario `{}` can't be simulated",
            arguments.scenario.display()
        ))?;
        match &mut merged {
            None => merged = Some(of_variant(variant, document)),
            Some(merged) => append(merged, of_variant(variant, document)),
        }
    }
    let Some(mut document) = merged else {
        return Ok(ExitCode::SUCCESS);
    };
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

/// Every variant's document, in the order of the variants, whichever thread has made it: a simulation
/// shares nothing with another.
fn simulated(variants: &[Variant], seed: Option<u64>) -> Vec<Result<Document, SimulateError>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let documents = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(variants.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(Variant { scenario, .. }) = variants.get(number) else {
                        return;
                    };
                    let document = sim::run(scenario, seed.unwrap_or(scenario.seed));
                    let mut done = documents.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((number, document));
                }
            });
        }
    });
    let mut documents = documents
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    documents.sort_by_key(|(number, _)| *number);
    documents
        .into_iter()
        .map(|(_, document)| document)
        .collect()
}

/// The document, told apart from those of other combinations.
fn of_variant(variant: &Variant, mut document: Document) -> Document {
    if variant.factors.is_empty() {
        return document;
    }
    let named = lab::combination(variant);
    for cell in &mut document.cells {
        cell.factors.clone_from(&variant.factors);
    }
    for assertion in &mut document.assertions {
        assertion.text = format!("{} ({named})", assertion.text);
    }
    for block in &mut document.order {
        *block = format!("{block} ({named})");
    }
    for priming in &mut document.priming {
        priming.arm = format!("{} ({named})", priming.arm);
    }
    let facts = std::mem::take(&mut document.manifest.facts);
    let facts = facts
        .into_iter()
        .map(|(fact, value)| (format!("{fact} ({named})"), value));
    document.manifest.facts = facts.collect();
    document
}

fn append(merged: &mut Document, mut more: Document) {
    merged.cells.append(&mut more.cells);
    merged.assertions.append(&mut more.assertions);
    merged.order.append(&mut more.order);
    merged.priming.append(&mut more.priming);
    merged.manifest.facts.append(&mut more.manifest.facts);
}
