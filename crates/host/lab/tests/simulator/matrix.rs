//! All cells, a long way: what the kernel took is kept in a file, so that a run that was stopped goes on
//! where it was, and seeds go round before they repeat, so that every stop leaves all cells with as many.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Outcome};
use crate::{AT_ONCE, Result, STEP, judge, kernel, simulated, table};

const SEEDS: u64 = 5;
const USAGE: &str = "\
usage: simulator matrix [--results FILE] [--seeds N] [--minutes N]
  --results  where the kernel's times are kept and taken up again
             (default out/bench/kernel-matrix.jsonl)
  --seeds    transfers per cell (default 5)
  --minutes  begin no transfer after so long; what there is then is judged (default: no end)";

/// What is asked for.
struct Plan {
    results: PathBuf,
    seeds: u64,
    until: Option<Instant>,
}

/// One transfer of the kernel's, a line of the file.
#[derive(Debug, Deserialize, Serialize)]
struct Measured {
    kernel: String,
    cell: String,
    seed: u64,
    seconds: f64,
}

/// Measures what is missing, plays the same in virtual time, and prints the table.
#[expect(clippy::print_stdout, reason = "the table is what is asked for")]
pub(crate) fn run() -> Result {
    let plan = Plan::read()?;
    let cells = Cell::matrix();
    let known = measure(&plan, &cells)?;
    let mut played = Vec::new();
    let mut outcomes = Vec::new();
    for cell in &cells {
        let mut outcome = Outcome::default();
        for seed in 1..=plan.seeds {
            let Some(seconds) = known.get(&(cell.to_string(), seed)) else {
                continue;
            };
            outcome.kernel.push(*seconds);
            let trace = simulated::bulk(&cell.path(seed), cell.algorithm, cell.bytes, STEP)?;
            outcome.simulated.push(trace.seconds);
        }
        if !outcome.kernel.is_empty() {
            played.push(*cell);
            outcomes.push(outcome);
        }
    }
    println!("{}", table(&played, &outcomes));
    println!(
        "\n{} of {} cells, {} transfers of the kernel, {}.",
        played.len(),
        cells.len(),
        outcomes.iter().map(|one| one.kernel.len()).sum::<usize>(),
        release()
    );
    judge(&outcomes)
}

/// The kernel's seconds by cell and seed: those of the file, and as many more as time allows.
fn measure(plan: &Plan, cells: &[Cell]) -> Result<BTreeMap<(String, u64), f64>> {
    let mut known = read(&plan.results)?;
    let missing: Vec<(u64, &Cell)> = (1..=plan.seeds)
        .flat_map(|seed| scattered(cells).map(move |cell| (seed, cell)))
        .filter(|(seed, cell)| !known.contains_key(&(cell.to_string(), *seed)))
        .collect();
    say(&format!(
        "{} transfers are known from {}, {} to go",
        known.len(),
        plan.results.display(),
        missing.len()
    ));
    let keep = Mutex::new(Keep {
        file: append(&plan.results)?,
        begun: Instant::now(),
        done: 0,
        of: missing.len(),
    });
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let errors = Mutex::new(Vec::new());
    let measured = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed)
                    && plan.until.is_none_or(|until| Instant::now() < until)
                    && let Some((seed, cell)) = missing.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let result = one(cell, *seed).and_then(|line| {
                        keep.lock().map_err(|_| "a worker panicked")?.take(&line)?;
                        measured.lock().map_err(|_| "a worker panicked")?.push(line);
                        Ok(())
                    });
                    if let Err(error) = result {
                        failed.store(true, Ordering::Relaxed);
                        if let Ok(mut errors) = errors.lock() {
                            errors.push(format!("{cell}, seed {seed}: {error}"));
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = errors.into_inner().map_err(|_| "a worker panicked")?.pop() {
        return Err(error.into());
    }
    for line in measured.into_inner().map_err(|_| "a worker panicked")? {
        known.insert((line.cell, line.seed), line.seconds);
    }
    Ok(known)
}

/// The cells in an order in which every part has some of all kinds.
fn scattered(cells: &[Cell]) -> impl Iterator<Item = &Cell> {
    // A prime that divides no number of cells meets each of them once.
    const STRIDE: usize = 61;
    (0..cells.len()).map(|place| &cells[place * STRIDE % cells.len()])
}

fn one(cell: &Cell, seed: u64) -> Result<Measured> {
    let trace = kernel::bulk(&cell.path(seed), cell.algorithm, cell.bytes, STEP)?;
    Ok(Measured {
        kernel: release(),
        cell: cell.to_string(),
        seed,
        seconds: trace.seconds,
    })
}

/// What this kernel took before; another kernel's times are passed over.
fn read(path: &Path) -> Result<BTreeMap<(String, u64), f64>> {
    let mut known = BTreeMap::new();
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(known),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display()).into()),
    };
    let release = release();
    for (number, line) in text.lines().enumerate() {
        match serde_json::from_str::<Measured>(line) {
            Ok(one) if one.kernel == release => {
                known.insert((one.cell, one.seed), one.seconds);
            }
            Ok(_) => {}
            // The last line of a run that was ended while it wrote.
            Err(_) if number + 1 == text.lines().count() => {}
            Err(error) => {
                let place = format!("{}, line {}", path.display(), number + 1);
                return Err(format!("{place}: {error}; remove the file to begin anew").into());
            }
        }
    }
    Ok(known)
}

fn append(path: &Path) -> Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    // A run that was ended while it wrote has left half a line.
    let whole = fs::read(path)?
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |last| last + 1);
    file.set_len(u64::try_from(whole)?)?;
    Ok(file)
}

fn release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", text.trim())
}

#[expect(
    clippy::print_stderr,
    reason = "progress; the table is on standard output"
)]
fn say(text: &str) {
    eprintln!("{text}");
}

/// The file, and how far it is.
struct Keep {
    file: File,
    begun: Instant,
    done: u32,
    of: usize,
}

// === impl Keep ===

impl Keep {
    fn take(&mut self, line: &Measured) -> Result {
        writeln!(self.file, "{}", serde_json::to_string(line)?)?;
        self.done += 1;
        if self.done.is_multiple_of(20) {
            let each = self.begun.elapsed() / self.done;
            let left = u32::try_from(self.of)?.saturating_sub(self.done);
            let left = (each * left).as_secs().div_ceil(60);
            say(&format!(
                "{}/{} transfers, {left} min to go",
                self.done, self.of
            ));
        }
        Ok(())
    }
}

// === impl Plan ===

impl Plan {
    fn read() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let mut plan = Self {
            results: root.join("out/bench/kernel-matrix.jsonl"),
            seeds: SEEDS,
            until: None,
        };
        let mut arguments = env::args().skip(2);
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or(USAGE)?;
            match flag.as_str() {
                "--results" => plan.results = value.into(),
                "--seeds" => plan.seeds = value.parse().map_err(|_| USAGE)?,
                "--minutes" => {
                    let minutes: u64 = value.parse().map_err(|_| USAGE)?;
                    plan.until = Some(Instant::now() + Duration::from_mins(minutes));
                }
                _ => return Err(USAGE.into()),
            }
        }
        Ok(plan)
    }
}
