//! `longhaul flow play`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use flow::play::{PlayError, against_kernel};
use record::play::{Document, Outcome, Packet, Play};
use script::{Endpoint, Script, Tolerance, Who};

use super::arguments::{Against, Play as Arguments};
use crate::commands::lab;
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;

/// What the files of a folder of scripts end with.
const EXTENSION: &str = "play";

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let hosts: &[Who] = match arguments.against {
        Against::Ours => &[Who::Ours],
        Against::Kernel => &[Who::Kernel],
        Against::Both => &[Who::Ours, Who::Kernel],
    };
    let tolerance = Tolerance {
        fixed: arguments.tolerance.get(),
        ..Tolerance::default()
    };
    let mut plays = Vec::new();
    for file in files(&arguments.files)? {
        let text = fs::read_to_string(&file)
            .usage(format!("cannot read the script `{}`", file.display()))?;
        let script =
            Script::read(&text).usage(format!("`{}` is no packet script", file.display()))?;
        for &who in hosts {
            let play = one(&file, &script, who, arguments.ipv6, tolerance)?;
            if !arguments.json {
                output::data(&describe(&play, arguments.packets))?;
            }
            plays.push(play);
        }
    }
    let failed = plays.iter().any(|play| play.outcome == Outcome::Failed);
    let unsaid = [Outcome::TooLate, Outcome::NotPlayable];
    let unjudged = plays.iter().any(|play| unsaid.contains(&play.outcome));
    if arguments.json {
        output::json(&Document {
            schema: "longhaul.play".into(),
            version: record::VERSION,
            manifest: lab::manifest(),
            plays,
        })?;
    } else if plays.len() > 1 {
        output::data(&sum(&plays))?;
    }
    Ok(if failed {
        ExitCode::from(Kind::Assertion.exit_code())
    } else if unjudged {
        ExitCode::from(Kind::Environment.exit_code())
    } else {
        ExitCode::SUCCESS
    })
}

/// The scripts that are named, and those in folders that are.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let list = || -> std::io::Result<Vec<PathBuf>> {
            fs::read_dir(path)?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect()
        };
        let mut inside = list().usage(format!("cannot list `{}`", path.display()))?;
        inside.retain(|path| path.extension().is_some_and(|found| found == EXTENSION));
        if inside.is_empty() {
            return Err(Failure::new(
                Kind::Usage,
                anyhow::anyhow!("`{}` holds no scripts", path.display()),
            )
            .hint("scripts end with `.play`; docs/flow.md says how they are written"));
        }
        inside.sort();
        files.append(&mut inside);
    }
    Ok(files)
}

fn one(
    file: &Path,
    script: &Script,
    who: Who,
    ipv6: bool,
    tolerance: Tolerance,
) -> Result<Play, Failure> {
    let mut record = Play {
        file: file.display().to_string(),
        title: script.title.clone(),
        host: who.to_string(),
        outcome: Outcome::Passed,
        reason: None,
        line: None,
        packets: Vec::new(),
    };
    if let Some(reason) = script.excludes(who) {
        record.outcome = Outcome::NotForThisHost;
        record.reason = Some(reason.to_owned());
        return Ok(record);
    }
    let (play, late) = match who {
        Who::Ours => (
            script::play(script, &mut Endpoint::new(script), tolerance),
            None,
        ),
        Who::Kernel => {
            let verdict = match against_kernel(script, ipv6, tolerance) {
                // Other scripts may want what it has.
                Err(error @ (PlayError::CongestionControl { .. } | PlayError::Setting { .. })) => {
                    record.outcome = Outcome::NotPlayable;
                    record.reason = Some(error.to_string());
                    return Ok(record);
                }
                verdict => verdict.environment(format!(
                    "cannot play `{}` against the kernel",
                    file.display()
                ))?,
            };
            let late = (!verdict.is_valid).then_some(verdict.late);
            (verdict.play, late)
        }
    };
    record.packets = play
        .exchanged
        .iter()
        .map(|exchanged| Packet {
            at_s: exchanged.at.as_secs_f64(),
            sent: exchanged.sent,
            packet: exchanged.packet.to_string(),
        })
        .collect();
    if let Some(failure) = play.failure {
        record.line = failure.line.and_then(|line| u64::try_from(line).ok());
        record.reason = Some(reason(&failure, late));
        record.outcome = if late.is_some() {
            Outcome::TooLate
        } else {
            Outcome::Failed
        };
    }
    Ok(record)
}

fn reason(failure: &script::Failure, late: Option<Duration>) -> String {
    late.map_or_else(
        || failure.to_string(),
        |late| {
            format!("{failure}; but the player itself was late by {late:.1?}, so this says nothing: play it on an idle machine, or with a larger --tolerance")
        },
    )
}

fn describe(play: &Play, packets: bool) -> String {
    let word = match play.outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "FAILED",
        Outcome::NotForThisHost => "left out",
        Outcome::TooLate => "TOO LATE",
        Outcome::NotPlayable => "CANNOT",
    };
    let mut text = format!("{word:8}  {:6}  {}\n", play.host, play.file);
    // Writing to a String cannot fail, here and below.
    if let Some(reason) = &play.reason {
        let _ = writeln!(text, "          {reason}");
    }
    if packets || play.outcome == Outcome::Failed {
        for packet in &play.packets {
            let way = if packet.sent { '>' } else { '<' };
            let _ = writeln!(
                text,
                "          {:9.4} {way} {}",
                packet.at_s, packet.packet
            );
        }
    }
    text
}

fn sum(plays: &[Play]) -> String {
    let count = |outcome| plays.iter().filter(|play| play.outcome == outcome).count();
    let mut text = format!(
        "\n{} passed, {} failed",
        count(Outcome::Passed),
        count(Outcome::Failed)
    );
    for (outcome, what) in [
        (Outcome::NotForThisHost, "left out with a reason"),
        (Outcome::TooLate, "too late to judge"),
        (Outcome::NotPlayable, "not playable on this host"),
    ] {
        if count(outcome) > 0 {
            let _ = write!(text, ", {} {what}", count(outcome));
        }
    }
    text.push('\n');
    text
}
