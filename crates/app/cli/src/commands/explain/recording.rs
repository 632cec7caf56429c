//! Recordings of `longhaul top`: what a kernel counted, instead of packets.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use record::Manifest;
use record::explain::Document;
use record::top::Line;

use super::arguments::Explain;
use super::outputs;
use crate::commands::version;
use crate::failure::{Blame as _, Failure};
use crate::input;

/// How a recording begins.
const BEGINNING: &[u8] = br#"{"line":"header","schema":"longhaul.top""#;

/// What a recording says; `None` where the files are captures.
pub(super) fn explain(arguments: &Explain, files: &[PathBuf]) -> Result<Option<Document>, Failure> {
    let recordings = files.iter().filter(|path| is_recording(path)).count();
    if recordings == 0 {
        return Ok(None);
    }
    let [file] = files else {
        return Err(anyhow::anyhow!(
            "{recordings} of {} files are recordings of `longhaul top`, and one is explained at a time",
            files.len()
        ))
        .usage("these files can't be explained together");
    };
    if arguments.anonymize || arguments.emit_scenario.is_some() {
        return Err(anyhow::anyhow!(
            "`{}` is a recording of `longhaul top`: it holds no packets to anonymize or rebuild a path from",
            file.display()
        ))
        .usage("`--anonymize` and `--emit-scenario` need a capture");
    }
    let lines = read(file).usage("this recording can't be explained")?;
    let manifest = Manifest {
        longhaul: version::identity(),
        ..Manifest::default()
    };
    let series = outputs::needs_series(arguments);
    let name = file.display().to_string();
    Ok(Some(live::explain(
        lines.into_iter(),
        &name,
        manifest,
        series,
    )))
}

/// Standard input is never looked at: what is read from it here would be missing from a capture.
fn is_recording(path: &Path) -> bool {
    if path.as_os_str() == "-" || !path.is_file() {
        return false;
    }
    let mut start = Vec::new();
    let read = input::open(path).map(|input| {
        let length = u64::try_from(BEGINNING.len()).unwrap_or(u64::MAX);
        input.reader.take(length).read_to_end(&mut start)
    });
    matches!(read, Ok(Ok(_))) && start == BEGINNING
}

fn read(path: &Path) -> anyhow::Result<Vec<Line>> {
    let name = path.display();
    let input = input::open(path)?;
    let mut lines = Vec::new();
    let mut texts = BufReader::new(input.reader).lines().zip(1_u64..).peekable();
    while let Some((text, number)) = texts.next() {
        let text = text.with_context(|| format!("cannot read `{name}`"))?;
        match serde_json::from_str(&text) {
            Ok(line) => lines.push(line),
            // Whoever recorded was stopped in the middle of a line; what was written before stands.
            Err(_) if texts.peek().is_none() && lines.len() > 1 => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("line {number} of `{name}` is no reading"));
            }
        }
    }
    Ok(lines)
}
