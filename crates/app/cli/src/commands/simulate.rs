//! `longhaul simulate`: a lab scenario in virtual time, combinations of its factors side by side.

pub(super) mod cores;
mod overrides;
mod progress;
mod what_if;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum as _;
use record::lab::Document;
use scenario::{HostName, Variant};
use sim::{HostCapture, SimulateError};

use crate::arguments::{CapturePoint, Simulate};
use crate::commands::lab;
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;

/// A played variant, and what its hosts saw.
type Played = Result<(Document, Vec<HostCapture>), SimulateError>;

pub(crate) fn run(arguments: &Simulate) -> Result<ExitCode, Failure> {
    let overrides = overrides::parse(&arguments.set)?;
    let variants = lab::read_by(&arguments.scenario, |text| {
        overrides::read(text, &overrides)
    })?;
    if arguments.what_if {
        return what_if::run(arguments, &variants);
    }
    let hosts = arguments.pcap.as_ref().map(|_| points(&arguments.at));
    let hosts = hosts.unwrap_or_default();
    let mut passed = BTreeSet::new();
    let mut merged: Option<Document> = None;
    for (variant, played) in variants
        .iter()
        .zip(simulated(&variants, arguments.seed, &hosts))
    {
        let (document, captures) = played.usage(format!(
            "the scenario `{}` can't be simulated",
            arguments.scenario.display()
        ))?;
        if let Some(directory) = &arguments.pcap {
            // The only combination needs no telling apart, and overrides would make long names.
            let combination = match variants.as_slice() {
                [_] => String::new(),
                _ => lab::combination(variant),
            };
            write(directory, &combination, &captures)?;
        }
        passed.extend(captures.iter().map(|capture| capture.host));
        match &mut merged {
            None => merged = Some(of_variant(variant, document)),
            Some(merged) => append(merged, of_variant(variant, document)),
        }
    }
    if !arguments.at.is_empty()
        && let Some(host) = hosts.iter().find(|host| !passed.contains(host))
    {
        let error = anyhow::anyhow!(
            "nothing to capture at `{host}`: no connection of `{}` begins or ends there",
            arguments.scenario.display()
        );
        return Err(Failure::new(Kind::Usage, error)
            .hint("leave out `--at` to capture wherever packets pass"));
    }
    let Some(mut document) = merged else {
        return Ok(ExitCode::SUCCESS);
    };
    let facts = std::mem::take(&mut document.manifest.facts);
    document.manifest = record::Manifest {
        facts,
        ..lab::manifest()
    };
    if let Some(path) = &arguments.html {
        fs::write(path, report::html::lab(&document, &[]))
            .environment(format!("can't write `{}`", path.display()))?;
    }
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

/// Every variant's document: a simulation shares nothing with another.
fn simulated(variants: &[Variant], seed: Option<u64>, hosts: &[HostName]) -> Vec<Played> {
    let play = |Variant { scenario, .. }: &Variant| {
        let seed = seed.unwrap_or(scenario.seed);
        let mut captures = Vec::new();
        let document = sim::run_captured(scenario, seed, hosts, &mut |capture| {
            captures.push(capture);
        });
        document.map(|document| (document, captures))
    };
    let bar = progress::bar(variants.len());
    let played = cores::each(variants, play, |_| bar.inc(1));
    bar.finish_and_clear();
    played
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

/// Without a wish, everywhere.
fn points(asked: &[CapturePoint]) -> Vec<HostName> {
    let wanted = if asked.is_empty() {
        CapturePoint::value_variants()
    } else {
        asked
    };
    wanted
        .iter()
        .map(|point| match point {
            CapturePoint::Client => HostName::Client,
            CapturePoint::Relay => HostName::Relay,
            CapturePoint::FarRelay => HostName::FarRelay,
            CapturePoint::Origin => HostName::Origin,
            CapturePoint::Rival => HostName::Rival,
        })
        .collect()
}

/// One file for each capture; the combination of factors, where there is one, comes first in its name.
fn write(directory: &Path, combination: &str, captures: &[HostCapture]) -> Result<(), Failure> {
    fs::create_dir_all(directory).environment(format!(
        "can't make the directory `{}`",
        directory.display()
    ))?;
    for capture in captures {
        let mut name = format!(
            "{}-{}-{}-{}.pcapng",
            capture.arm,
            capture.workload,
            capture.block,
            capture.host.as_str()
        );
        if !combination.is_empty() {
            name = format!("{combination}-{name}");
        }
        let path = directory.join(name.replace([' ', '/'], "_"));
        fs::write(&path, &capture.pcapng)
            .environment(format!("can't write `{}`", path.display()))?;
    }
    Ok(())
}
