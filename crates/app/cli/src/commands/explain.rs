//! `longhaul explain`: captures in, one verdict out.

mod how_to_capture;

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use capture::{Ending, Summary};
use connections::Tracker;
use indicatif::{ProgressBar, ProgressStyle};
use record::Manifest;
use record::explain::{Capture, Document, Severity};
use units::Time;
use wire::Observation;

use crate::arguments::{Explain, ExplainCommand, Severity as SeverityArgument};
use crate::commands::version;
use crate::failure::{Blame as _, Failure, Kind};
use crate::{input, output};

/// Bytes read at once; larger chunks bring nothing, smaller ones cost system calls.
const CHUNK: usize = 1 << 20;

pub(crate) fn run(arguments: &Explain) -> Result<ExitCode, Failure> {
    if let Some(ExplainCommand::HowToCapture(asked)) = &arguments.command {
        return how_to_capture::run(asked);
    }
    if arguments.compare {
        return compare(arguments);
    }
    let document = explain(arguments, &arguments.files)?;
    if let Some(path) = &arguments.html {
        let html = report::html::explain(&document);
        std::fs::write(path, html).usage(format!("cannot write `{}`", path.display()))?;
        output::say(&format!("report: {}", path.display()));
    }
    if let Some(path) = &arguments.emit_scenario {
        let scenario = explain::scenario(&document).usage("no scenario can be made of this")?;
        std::fs::write(path, scenario).usage(format!("cannot write `{}`", path.display()))?;
        output::say(&format!("scenario: {}", path.display()));
    }
    if arguments.json {
        output::json(&document)?;
    } else if arguments.markdown {
        output::data(&report::markdown::explain(&document))?;
    } else {
        output::data(&report::text::explain(&document, output::style()))?;
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

fn explain(arguments: &Explain, files: &[PathBuf]) -> Result<Document, Failure> {
    let mut tracker = Tracker::new();
    let mut captures = Vec::new();
    let progress = progress(files);
    for (index, path) in files.iter().enumerate() {
        if index > 0 {
            tracker.next_capture();
        }
        let capture =
            read(path, &mut tracker, &progress).usage("this capture can't be explained")?;
        captures.push(capture);
    }
    progress.finish_and_clear();
    let options = explain::Options {
        manifest: Manifest {
            longhaul: version::identity(),
            ..Manifest::default()
        },
        captures,
        series: arguments.series || arguments.html.is_some(),
    };
    Ok(explain::explain(&tracker.finish(), options))
}

/// Feeds one file to the tracker and says what it was.
fn read(path: &Path, tracker: &mut Tracker, progress: &ProgressBar) -> anyhow::Result<Capture> {
    let name = path.display().to_string();
    let mut input = input::open(path)?;
    let mut source = capture::Capture::new();
    let mut chunk = vec![0; CHUNK];
    let mut times: Option<(Time, Time)> = None;
    let mut broken = None;
    let mut ended = false;
    while !ended {
        let count = match input.reader.read(&mut chunk) {
            Ok(count) => count,
            // A compressed file that ends early still holds all packets before.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                broken = Some(format!("the compressed file is cut short: {error}"));
                0
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read `{name}`")),
        };
        if count == 0 {
            source.finish();
            ended = true;
        }
        source.feed(&chunk[..count]);
        progress.inc(count as u64);
        if let Err(error) = observe(&mut source, tracker, &mut times) {
            if source.summary().frames == 0 {
                return Err(error).with_context(|| format!("cannot read `{name}`"));
            }
            // What was read before stands.
            broken = Some(format!("nothing behind this was read: {error}"));
            ended = true;
        }
    }
    let summary = source.summary();
    anyhow::ensure!(
        summary.frames > 0,
        "`{name}` holds no packet: is it a capture, or the text that tcpdump prints?"
    );
    let mut caveats = caveats(&summary);
    caveats.extend(broken);
    Ok(Capture {
        file: name,
        format: summary
            .format
            .map_or_else(|| "unknown".to_owned(), |format| format.to_string()),
        compression: input.compression.map(str::to_owned),
        packets: summary.frames,
        other: other(&summary),
        duration_s: times.map_or(0.0, |(first, last)| last.since(first).as_secs_f64()),
        caveats,
    })
}

/// Hands over everything that `source` has, and widens `times` to its first and last moment.
fn observe(
    source: &mut capture::Capture,
    tracker: &mut Tracker,
    times: &mut Option<(Time, Time)>,
) -> Result<(), capture::ReadError> {
    while let Some(observation) = source.next_observation()? {
        if let Some(at) = time_of(&observation) {
            let (first, last) = times.unwrap_or((at, at));
            *times = Some((first.min(at), last.max(at)));
        }
        tracker.observe(&observation);
    }
    Ok(())
}

const fn time_of(observation: &Observation<'_>) -> Option<Time> {
    match observation {
        Observation::Tcp(segment) => Some(segment.at),
        Observation::IcmpEcho(echo) => Some(echo.at),
        Observation::Other(_) => None,
    }
}

/// Packets that are not TCP, by kind, and those that could not be decoded, with the reason.
fn other(summary: &Summary) -> BTreeMap<String, u64> {
    let mut other: BTreeMap<String, u64> = summary
        .others
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect();
    for (field, count) in &summary.cut {
        other.insert(format!("cut by the snapshot length in {field}"), *count);
    }
    for (field, count) in &summary.malformed {
        other.insert(format!("malformed {field}"), *count);
    }
    if summary.echoes > 0 {
        other.insert("ICMP echo".to_owned(), summary.echoes);
    }
    other
}

fn caveats(summary: &Summary) -> Vec<String> {
    let mut caveats = Vec::new();
    if let Ending::CutShort { offset, present } = summary.ending {
        caveats.push(format!(
            "the last record, at byte {offset}, is cut short after {present} bytes; all before it was read"
        ));
    }
    if summary.dropped > 0 {
        caveats.push(format!(
            "the capturing system reports {} packets that it dropped",
            summary.dropped
        ));
    }
    if summary.untimed > 0 {
        caveats.push(format!(
            "{} packets carry no time stamp of their own",
            summary.untimed
        ));
    }
    if summary.unreadable_blocks > 0 {
        caveats.push(format!(
            "{} blocks contradict themselves",
            summary.unreadable_blocks
        ));
    }
    caveats
}

/// A bar over the bytes of all files, where stderr is a terminal and there is much to read. Compressed
/// bytes count once they are unpacked, so that a bar for them would lie: they get a counter.
fn progress(files: &[PathBuf]) -> ProgressBar {
    const WORTH_IT: u64 = 64 << 20;
    let sizes: Option<u64> = files
        .iter()
        .map(|path| std::fs::metadata(path).ok().map(|data| data.len()))
        .sum();
    match sizes {
        Some(total) if total >= WORTH_IT && std::io::stderr().is_terminal() => {
            let bar = ProgressBar::new(total);
            if let Ok(style) =
                ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes}, {eta} left")
            {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        }
        _ => ProgressBar::hidden(),
    }
}
