//! `longhaul lab`: scenarios from files to results, with progress on the way.

pub(crate) mod arguments;
mod csv;
mod netem;
pub(crate) mod new;
mod progress;
mod shell;
mod view;
mod worker;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use lab::experiment::{self, Backend, LabError, Options, Outcome};
use record::Manifest;
use report::Explained;
use scenario::{FileError, Scenario, Variant};

use crate::arguments::{Lab, LabCheck, LabCommand, LabRun, LinkBackend};
use crate::commands::lab::arguments::LabUp;
use crate::commands::version;
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;

/// Exit code of a run that was cut short, as shells report SIGINT.
const INTERRUPTED: u8 = 130;

pub(crate) fn run(arguments: Lab) -> Result<ExitCode, Failure> {
    match arguments.command {
        LabCommand::Run(run) => run_scenario(&run),
        LabCommand::Check(check) => check_scenario(&check),
        LabCommand::New(new) => new::run(&new),
        LabCommand::Up(up) => keep_up(&up),
        LabCommand::Shell(shell) => shell::run(&shell),
        LabCommand::View(view) => view::run(&view),
        LabCommand::Netem(netem) => netem::run(&netem),
        LabCommand::Worker(worker) => worker::run(worker.role),
    }
}

fn check_scenario(arguments: &LabCheck) -> Result<ExitCode, Failure> {
    let variants = read_for(&arguments.scenario, Backend::Ours)?;
    let path = arguments.scenario.display();
    let Some(Variant { scenario, .. }) = variants.first() else {
        return Ok(ExitCode::SUCCESS);
    };
    output::say(&format!(
        "`{path}` is sound: {} arms, {} workloads, {} transfers each",
        scenario.arms.len(),
        scenario.workloads.len(),
        scenario.experiment.runs
    ));
    if variants.len() > 1 {
        output::say(&format!("{} combinations of factors:", variants.len()));
        for variant in &variants {
            output::say(&format!("  {}", combination(variant)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `path.rtt = 70 ms, workloads.bulk.parallel = 4`.
pub(crate) fn combination(variant: &Variant) -> String {
    let factors = variant.factors.iter();
    let named: Vec<String> = factors
        .map(|(factor, value)| format!("{factor} = {value}"))
        .collect();
    named.join(", ")
}

fn run_scenario(arguments: &LabRun) -> Result<ExitCode, Failure> {
    let mut variants = read_for(&arguments.scenario, backend(arguments.link))?;
    if let Some(runs) = arguments.runs {
        for variant in &mut variants {
            let experiment = &mut variant.scenario.experiment;
            experiment.runs = runs;
            experiment.block = experiment.block.min(runs.max(1));
            experiment.max_runs = experiment.max_runs.map(|most| most.max(runs));
            refuse(&arguments.scenario, &variant.scenario)?;
        }
    }
    if let Some(program) = &arguments.client {
        for variant in &mut variants {
            variant.scenario.upload_by(program);
            refuse(&arguments.scenario, &variant.scenario)?;
        }
    }
    let scenario = first(&arguments.scenario, &variants)?.clone();
    let out = folder(&arguments.out)?;
    let options = isolated(Options {
        binary: std::env::current_exe().environment("cannot find this program's own file")?,
        out: out.clone(),
        seed: arguments.seed.unwrap_or(scenario.seed),
        backend: backend(arguments.link),
        stop: Arc::default(),
        manifest: manifest(),
    })?;
    let mut view = progress::View::new(&scenario, arguments);
    let outcome = experiment::run(&variants, &options, &mut |event| view.show(&event));
    view.finish();
    let text = format!("the scenario `{}` could not be run", scenario.name);
    let outcome = outcome.map_err(|error| blame(error, text))?;
    publish(arguments, &out, &outcome)
}

/// A scenario's network until a signal comes.
fn keep_up(arguments: &LabUp) -> Result<ExitCode, Failure> {
    let variants = read_for(&arguments.scenario, backend(arguments.link))?;
    let scenario = first(&arguments.scenario, &variants)?;
    let options = isolated(Options {
        binary: std::env::current_exe().environment("cannot find this program's own file")?,
        out: folder(&arguments.out)?,
        seed: arguments.seed.unwrap_or(scenario.seed),
        backend: backend(arguments.link),
        stop: Arc::default(),
        manifest: manifest(),
    })?;
    experiment::stand(scenario, &options, &mut |hosts| {
        output::say(&format!(
            "`{}` is up; its hosts, for `longhaul lab shell HOST`: {}\nCtrl-C ends it",
            scenario.name,
            hosts.join(", ")
        ));
    })
    .map_err(|error| {
        let text = format!("the scenario `{}` could not be built", scenario.name);
        blame(error, text)
    })?;
    Ok(ExitCode::SUCCESS)
}

const fn backend(link: LinkBackend) -> Backend {
    match link {
        LinkBackend::Ours => Backend::Ours,
        LinkBackend::Netem => Backend::Netem,
    }
}

/// A scenario that asks for too much is its author's to change, all else the machine's.
fn blame(error: LabError, text: String) -> Failure {
    let kind = if matches!(error, LabError::Beyond { .. }) {
        Kind::Usage
    } else {
        Kind::Environment
    };
    Failure::new(kind, anyhow::Error::new(error).context(text))
}

fn folder(path: &Path) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(path).usage(format!("cannot make `{}`", path.display()))?;
    path.canonicalize()
        .usage("cannot resolve the output folder")
}

/// Isolates this process and watches for signals. From here on this is init's child in a world of its own;
/// nothing survives it.
fn isolated(options: Options) -> Result<Options, Failure> {
    sys::isolation::isolate().map_err(|error| {
        let hint = error.hint();
        Failure::new(Kind::Environment, error).hint(hint)
    })?;
    Ok(Options {
        stop: stop_on_signals()?,
        ..options
    })
}

fn publish(arguments: &LabRun, out: &Path, outcome: &Outcome) -> Result<ExitCode, Failure> {
    let document = &outcome.document;
    let explained: Vec<Explained<'_>> = outcome
        .explanations
        .iter()
        .map(|(arm, document)| Explained { arm, document })
        .collect();
    let path = out.join("report.html");
    write(&path, &report::html::lab(document, &explained))?;
    for cell in &document.cells {
        let factors: Vec<&str> = cell.factors.values().map(String::as_str).collect();
        let cell_name = format!("{} {}", cell.workload, factors.join(" "));
        let picture = out.join(format!("transfers-{}.svg", experiment::slug(&cell_name)));
        write(&picture, &report::svg::transfers(cell))?;
    }
    if let Some(path) = &arguments.csv {
        write(path, &csv::table(&outcome.rows))?;
    }
    if arguments.json {
        output::json(document)?;
    } else {
        output::data(&report::text::lab(document, output::style()))?;
    }
    output::say(&format!("\nreport: {}", path.display()));

    if let Some(why) = &document.broken {
        let error =
            anyhow::anyhow!("the run was broken off, and what was measured before is kept: {why}");
        return Err(Failure::new(Kind::Environment, error));
    }
    if document.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let invalid = document.cells.iter().any(|cell| !cell.valid);
    let broken = document.assertions.iter().any(|assertion| !assertion.holds);
    Ok(if invalid || broken {
        ExitCode::from(Kind::Assertion.exit_code())
    } else {
        ExitCode::SUCCESS
    })
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).environment(format!("cannot write `{}`", path.display()))
}

/// Reads every combination of a scenario's factors, or refuses it with everything that is wrong, each
/// with its field.
pub(crate) fn read(path: &Path) -> Result<Vec<Variant>, Failure> {
    read_by(path, scenario::read)
}

/// The same, and refuses with the rest what the lab can't play.
fn read_for(path: &Path, backend: Backend) -> Result<Vec<Variant>, Failure> {
    read_by(path, |text| {
        scenario::read_for(text, |scenario| experiment::problems(scenario, backend))
    })
}

/// The same by a reader other than [`scenario::read`], with the traces that stand beside the file.
pub(crate) fn read_by(
    path: &Path,
    reader: impl FnOnce(&str) -> Result<Vec<Variant>, FileError>,
) -> Result<Vec<Variant>, Failure> {
    let text = std::fs::read_to_string(path).usage(format!("cannot read `{}`", path.display()))?;
    let mut variants =
        reader(&text).usage(format!("`{}` is not a sound scenario", path.display()))?;
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut bad = BTreeSet::new();
    for variant in &mut variants {
        for trace in variant.scenario.path.traces_mut() {
            let file = folder.join(trace.name());
            let name = file.display();
            match std::fs::read_to_string(&file) {
                Err(error) => {
                    bad.insert(format!("cannot read the trace `{name}`: {error}"));
                }
                Ok(text) => {
                    if let Err(error) = trace.read(&text) {
                        bad.insert(format!("`{name}` is not a trace: {error}"));
                    }
                }
            }
        }
    }
    if bad.is_empty() {
        return Ok(variants);
    }
    let bad: Vec<String> = bad.into_iter().collect();
    let error = anyhow::anyhow!("{}", bad.join("\n  "));
    Err(Failure::new(Kind::Usage, error))
}

/// The scenario of the first combination of factors, the only one where a file has none.
fn first<'a>(path: &Path, variants: &'a [Variant]) -> Result<&'a Scenario, Failure> {
    variants
        .first()
        .map(|variant| &variant.scenario)
        .ok_or_else(|| {
            let error = anyhow::anyhow!("`{}` has no combination to run", path.display());
            Failure::new(Kind::Usage, error)
        })
}

fn refuse(path: &Path, scenario: &Scenario) -> Result<(), Failure> {
    let problems = scenario.problems();
    if problems.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let list = list.join("\n  ");
    let error = anyhow::anyhow!(
        "{} problems in `{}`:\n  {list}",
        problems.len(),
        path.display()
    );
    Err(Failure::new(Kind::Usage, error))
}

/// SIGINT and SIGTERM ask the run to end after the transfer under way; a second one ends it at once, for
/// the signal then meets its default action.
fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .environment("cannot watch for signals")?;
    let flag = Arc::clone(&stop);
    std::thread::spawn(move || {
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let (Ok(mut interrupt), Ok(mut terminate)) = (
                signal(SignalKind::interrupt()),
                signal(SignalKind::terminate()),
            ) else {
                return;
            };
            for asked_before in [false, true] {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if asked_before {
                    stop_at_once();
                }
                flag.store(true, Ordering::Relaxed);
                output::say("\nstopping after this block and reporting; once more stops at once");
            }
        });
    });
    Ok(stop)
}

/// Init ends with this process, and the kernel ends everything with init.
#[expect(
    clippy::exit,
    reason = "whoever asks twice wants no more of our code to run"
)]
fn stop_at_once() -> ! {
    std::process::exit(INTERRUPTED.into())
}

pub(crate) fn manifest() -> Manifest {
    let words = std::env::args_os().map(|word| experiment::quoted(&word.to_string_lossy()));
    let command: Vec<String> = words.collect();
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let model = read("/proc/cpuinfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        line.split_once(':')
            .map(|(_, model)| model.trim().to_owned())
    });
    Manifest {
        longhaul: version::identity(),
        started_at: Some(rfc3339(std::time::SystemTime::now())),
        command: Some(command.join(" ")),
        kernel: read("/proc/sys/kernel/osrelease"),
        machine: model.map(|model| format!("{processors} x {model}")),
        ..Manifest::default()
    }
}

/// `2026-11-21T21:43:00Z`. The civil date of a day count is Howard Hinnant's algorithm.
pub(crate) fn rfc3339(time: std::time::SystemTime) -> String {
    let since_epoch = time
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let (days, seconds) = (
        since_epoch.as_secs() / 86_400,
        since_epoch.as_secs() % 86_400,
    );
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// What a worker reads as its first line.
fn configuration<T: serde::de::DeserializeOwned>() -> Result<T, Failure> {
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .bug("cannot read the worker's configuration")?;
    serde_json::from_str(&line)
        .with_context(|| "the configuration on standard input is not what `lab run` sends")
        .usage("this command is a part of `longhaul lab run`")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn dates_are_civil() {
        assert_eq!(rfc3339(UNIX_EPOCH), "1970-01-01T00:00:00Z");
        // 2024-02-29, a leap day; `date -u -d @1709210096` agrees.
        assert_eq!(
            rfc3339(UNIX_EPOCH + Duration::from_secs(1_709_210_096)),
            "2024-02-29T12:34:56Z"
        );
        assert_eq!(
            rfc3339(UNIX_EPOCH + Duration::from_secs(4_102_444_799)),
            "2099-12-31T23:59:59Z"
        );
    }
}
