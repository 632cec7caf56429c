//! `longhaul explain`: captures in, one verdict out.

pub(crate) mod arguments;
mod feed;
mod how_to_capture;
mod live;
mod outlook;
mod outputs;
mod reading;
mod recording;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;
use record::Manifest;
use record::explain::{Capture, Document, Severity};

use crate::commands::version;
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;
use arguments::{Explain, ExplainCommand, Severity as SeverityArgument};
use feed::Fed;

pub(crate) fn run(arguments: &Explain) -> Result<ExitCode, Failure> {
    if let Some(ExplainCommand::HowToCapture(asked)) = &arguments.command {
        return how_to_capture::run(asked);
    }
    if arguments.compare {
        return compare(arguments);
    }
    if let Some(interface) = &arguments.interface {
        return live::run(arguments, interface);
    }
    print(arguments, &explain(arguments, &arguments.files)?)
}

/// Connections up to which a document is indented for people.
const INDENTED: usize = 1_000;

/// Writes what was asked for, and judges by `--fail-on`.
fn print(arguments: &Explain, document: &Document) -> Result<ExitCode, Failure> {
    outputs::write(arguments, document)?;
    if arguments.json && arguments.follow {
        output::json_line(document)?;
    } else if arguments.json && document.connections.len() > INDENTED {
        output::large_json(document)?;
    } else if arguments.json {
        output::json(document)?;
    } else if arguments.markdown {
        output::data(&report::markdown::explain(document))?;
    } else {
        output::data(&report::text::explain(document, output::style()))?;
    }
    let worst = document
        .findings
        .iter()
        .map(|finding| finding.severity)
        .max();
    let limit = arguments.fail_on.map(|severity| match severity {
        SeverityArgument::Info => Severity::Info,
        SeverityArgument::Warning => Severity::Warning,
        SeverityArgument::Critical => Severity::Critical,
    });
    Ok(match (worst, limit) {
        (Some(worst), Some(limit)) if worst >= limit => ExitCode::from(Kind::Assertion.exit_code()),
        _ => ExitCode::SUCCESS,
    })
}

/// The last step of the loop: the same transfer before and after a remedy.
fn compare(arguments: &Explain) -> Result<ExitCode, Failure> {
    let [before, after] = arguments.files.as_slice() else {
        return Err(anyhow::anyhow!(
            "`--compare` takes two captures, before and after; there are {}",
            arguments.files.len()
        ))
        .usage("nothing to compare");
    };
    let before = explain(arguments, std::slice::from_ref(before))?;
    let after = explain(arguments, std::slice::from_ref(after))?;
    let change = explain::change(&before, &after);
    if arguments.json {
        output::json(&change)?;
    } else {
        output::data(&report::text::change(&change, output::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What one capture says, for those who need its path and not its remedies.
pub(crate) fn document_of(file: &Path) -> Result<Document, Failure> {
    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        explain: Explain,
    }
    let words = ["explain", "--predict", "never", "--"].map(OsString::from);
    let words = words.into_iter().chain([file.into()]);
    let alone = Alone::try_parse_from(words).usage("the capture's name can't be taken")?;
    explain(&alone.explain, &alone.explain.files)
}

/// What the captures say together; in the files' order of time.
fn explain(arguments: &Explain, files: &[PathBuf]) -> Result<Document, Failure> {
    if let Some(document) = recording::explain(arguments, files)? {
        return Ok(document);
    }
    let (captures, fed) = reading::read_all(arguments, files)?;
    let mut document = document(arguments, fed, captures);
    if !arguments.compare {
        outlook::predict(arguments.predict, &mut document)?;
    }
    Ok(document)
}

fn document(arguments: &Explain, fed: Fed, captures: Vec<Capture>) -> Document {
    let options = explain::Options {
        manifest: Manifest {
            longhaul: version::identity(),
            ..Manifest::default()
        },
        captures,
        series: outputs::needs_series(arguments),
        target: arguments.r#for,
    };
    explain::conclude(fed.judged, &fed.tracked, options)
}
