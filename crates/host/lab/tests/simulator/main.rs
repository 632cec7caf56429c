//! The simulator against this machine's kernel: the same paths, the same fate of the n-th packet, the same
//! objects. Needs root; without it, these tests fail.
//!
//! ```text
//! cargo test -p longhaul-lab --test simulator              ten cells, traces, reused connections
//! cargo test -p longhaul-lab --test simulator -- matrix    all cells, kept in a file as they are measured
//! cargo test -p longhaul-lab --test simulator -- slow-start    where HyStart leaves it; wants a machine that is idle
//! ```

mod cell;
mod kernel;
mod matrix;
mod simulated;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;
use std::{env, thread};

use libtest_mimic::{Arguments, Failed, Trial};
use link::{LossSpec, PathSpec};
use longhaul_lab::emulator;
use sys::isolation;
use units::{Bytes, Rate};

use crate::cell::{Cell, Outcome, median, quantile};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Bytes acknowledged, and the window in segments then.
type Windows = Vec<(u64, u32)>;

/// One transfer: seconds to the last byte, the sender's window in segments after so many bytes were acknowledged, and
/// the slow-start threshold at its end in segments, where it had one.
#[derive(Clone, Debug)]
struct Trace {
    seconds: f64,
    windows: Windows,
    ssthresh: Option<u32>,
}

/// In the median cell, medians of completion time differ by at most so much of the kernel's.
const MEDIAN_CELL: f64 = 0.05;
/// And in the cell at the 95th percentile.
const WORST_CELLS: f64 = 0.15;
/// Loss-free windows differ by at most so much, in the mean over a trace.
const WINDOWS: f64 = 0.05;
/// Where single packets or moments are compared, the middle of so many runs on the kernel counts.
const RUNS: usize = 5;
/// Transfers that share the machine; none of them loads it by itself.
const AT_ONCE: usize = 3;
const STEP: Duration = Duration::from_millis(10);

#[expect(
    clippy::print_stderr,
    reason = "a test's only way to say why it cannot run"
)]
fn main() -> ExitCode {
    let argument = env::args().nth(1);
    if argument.as_deref() == Some("emulator") {
        return match emulator::worker() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    if let Err(error) = isolation::isolate() {
        eprintln!("{error}; {}", error.hint());
        return ExitCode::from(3);
    }
    let by_hand: Option<fn() -> Result> = match argument.as_deref() {
        Some("matrix") => Some(matrix::run),
        Some("slow-start") => Some(slow_start),
        _ => None,
    };
    if let Some(run) = by_hand {
        return match run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let tests = vec![
        trial("ten_cells_end_when_the_kernel_s_do", ten_cells),
        trial("loss_free_windows_grow_as_the_kernel_s", windows),
        trial("reused_connections_upload_as_the_kernel_s_once_warm", reuse),
    ];
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn trial(name: &str, test: impl FnOnce() -> Result + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test().map_err(|error| Failed::from(error.to_string()))
    })
}

fn ten_cells() -> Result {
    let cells = Cell::subset();
    let outcomes = measure(&cells, &[1, 2, 3])?;
    let table = table(&cells, &outcomes);
    say(&table);
    judge(&outcomes).map_err(|why| format!("{why}\n{table}").into())
}

/// All seeds of all cells, on the kernel some at once, in virtual time one after the other.
fn measure(cells: &[Cell], seeds: &[u64]) -> Result<Vec<Outcome>> {
    let jobs: Vec<(usize, u64)> = (0..cells.len())
        .flat_map(|cell| seeds.iter().map(move |&seed| (cell, seed)))
        .collect();
    let queue = Mutex::new(jobs.iter());
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let job = queue
                        .lock()
                        .ok()
                        .and_then(|mut queue| queue.next().copied());
                    let Some((index, seed)) = job else { break };
                    let cell = &cells[index];
                    let path = cell.path(seed);
                    let measured = kernel::bulk(&path, cell.algorithm, cell.bytes, STEP)
                        .map(|trace| trace.seconds)
                        .map_err(|error| format!("{cell}, seed {seed}: {error}"));
                    if let Ok(mut results) = results.lock() {
                        results.push((index, measured));
                    }
                }
            });
        }
    });
    let mut outcomes = vec![Outcome::default(); cells.len()];
    for (index, measured) in results.into_inner().map_err(|_| "a worker panicked")? {
        outcomes[index].kernel.push(measured?);
    }
    for (cell, outcome) in cells.iter().zip(&mut outcomes) {
        for &seed in seeds {
            let trace = simulated::bulk(&cell.path(seed), cell.algorithm, cell.bytes, STEP)?;
            outcome.simulated.push(trace.seconds);
        }
    }
    Ok(outcomes)
}

fn judge(outcomes: &[Outcome]) -> Result {
    let off: Vec<f64> = outcomes.iter().map(|one| one.difference().abs()).collect();
    let (middle, high) = (median(&off), quantile(&off, 0.95));
    let text = format!(
        "median cell {:.1} % off, 95th percentile {:.1} %",
        middle * 100.0,
        high * 100.0
    );
    say(&text);
    if middle <= MEDIAN_CELL && high <= WORST_CELLS {
        Ok(())
    } else {
        Err(text.into())
    }
}

fn table(cells: &[Cell], outcomes: &[Outcome]) -> String {
    use std::fmt::Write as _;
    let mut text = "| cell | kernel s | simulated s | difference |\n|---|---|---|---|".to_owned();
    for (cell, outcome) in cells.iter().zip(outcomes) {
        let _ = write!(
            text,
            "\n| {cell} | {} | {} | {:+.1} % |",
            spread(&outcome.kernel),
            spread(&outcome.simulated),
            outcome.difference() * 100.0
        );
    }
    let off: Vec<f64> = outcomes.iter().map(|one| one.difference().abs()).collect();
    let _ = write!(
        text,
        "\n\nDifference without its sign: median cell {:.1} %, 95th percentile {:.1} %, worst {:.1} %.",
        median(&off) * 100.0,
        quantile(&off, 0.95) * 100.0,
        quantile(&off, 1.0) * 100.0
    );
    text
}

/// Median, with the smallest and the largest.
fn spread(values: &[f64]) -> String {
    format!(
        "{:.3} ({:.3} to {:.3})",
        median(values),
        quantile(values, 0.0),
        quantile(values, 1.0)
    )
}

/// Windows of transfers without a loss: in slow start, and with CUBIC also after it. They are compared where as many
/// bytes are acknowledged, because a late machine acknowledges later; how long transfers take is [`ten_cells`]' matter.
///
/// Where slow start ends is the kernel's in both. HyStart decides that by whether single ACKs come 2 ms apart
/// (`net/ipv4/tcp_cubic.c`); one stall of the machine makes another trace of all that follows, and neither is wrong.
/// That it decides alike where nothing stalls is [`slow_start`]'s matter.
fn windows() -> Result {
    for (algorithm, alike, rtt, rate, bytes) in [
        ("reno", "reno", 40, 20, 4_000_000),
        ("cubic", "cubic-without-hystart", 40, 20, 8_000_000),
        ("cubic", "cubic-without-hystart", 100, 50, 12_000_000),
    ] {
        let path = deep(rtt, rate);
        // Ours finely, so that a window is found for each of the kernel's.
        let (step, fine) = (Duration::from_millis(2), Duration::from_micros(100));
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let kernel = kernel::bulk(&path, algorithm, bytes, step)?;
            let simulated = simulated::bulk_from(&path, alike, kernel.ssthresh, bytes, fine)?;
            let off = difference_of_windows(&kernel, &simulated);
            runs.push((off, kernel, simulated));
        }
        runs.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (off, kernel, simulated) = &runs[RUNS / 2];
        let text = format!(
            "{algorithm}, {rtt} ms, {rate} Mbit/s: windows {:.1} % off in the mean ({:.1} to {:.1} %), slow start to \
             {:?}, last {:?} and {:?}, {:.3} s and {:.3} s",
            off * 100.0,
            runs[0].0 * 100.0,
            runs[RUNS - 1].0 * 100.0,
            kernel.ssthresh,
            kernel.windows.last().map(|last| last.1),
            simulated.windows.last().map(|last| last.1),
            kernel.seconds,
            simulated.seconds
        );
        say(&text);
        if off.is_nan() || *off > WINDOWS {
            return Err(text.into());
        }
    }
    Ok(())
}

/// HyStart leaves slow start at the kernel's window, where no packet was late enough to part two ACKs.
fn slow_start() -> Result {
    /// Two ACKs may come 2 ms apart. By the rate alone they come up to 1.2 ms apart here; what is left may be spent on
    /// the way there and on the way back.
    const SPARE: Duration = Duration::from_micros(400);
    for (rtt, rate, bytes) in [(40, 20, 1_000_000), (100, 50, 4_000_000)] {
        let path = deep(rtt, rate);
        let simulated = simulated::bulk(&path, "cubic", bytes, STEP)?;
        let expected = simulated.ssthresh.ok_or("slow start does not end here")?;
        let mut left_at = Vec::new();
        for _ in 0..RUNS {
            let kernel = kernel::bulk_to_the_packet(&path, "cubic", bytes, STEP, SPARE)?;
            left_at.push(kernel.ssthresh.map_or(f64::INFINITY, f64::from));
        }
        let off = (f64::from(expected) / median(&left_at) - 1.0).abs();
        let text = format!(
            "cubic, {rtt} ms, {rate} Mbit/s: the kernel leaves slow start at {left_at:?} segments, simulated {expected}"
        );
        say(&text);
        if off.is_nan() || off > WINDOWS {
            return Err(text.into());
        }
    }
    Ok(())
}

/// A path with a queue that never overflows: nothing but growth.
fn deep(rtt: u64, rate: u64) -> PathSpec {
    PathSpec::symmetric(
        Duration::from_millis(rtt),
        Some(Rate::mbit_per_s(rate)),
        Bytes::mib(16),
        LossSpec::None,
        1,
    )
}

/// The mean of the differences, each as a share of the kernel's window when so many bytes were acknowledged.
fn difference_of_windows(kernel: &Trace, simulated: &Trace) -> f64 {
    let mut sum = 0.0;
    let mut count = 0.0;
    for &(acknowledged, window) in &kernel.windows {
        let after = simulated
            .windows
            .partition_point(|&(bytes, _)| bytes <= acknowledged);
        let Some((_, other)) = after
            .checked_sub(1)
            .and_then(|before| simulated.windows.get(before))
        else {
            continue;
        };
        sum += (f64::from(*other) / f64::from(window) - 1.0).abs();
        count += 1.0;
    }
    sum / count
}

/// Uploads of 100 KiB on one connection over field case C's path. The second one meets a send buffer that is
/// a little too small for it (87,040 bytes, `tcp_sndbuf_expand`), unless the program was late in the first
/// one and the buffer has grown: on the kernel it takes two round trips or one, from run to run (seen: 402 ms
/// and 209 ms). Our programs are never late, so ours takes two, and the kernel's either as many or as the third.
fn reuse() -> Result {
    const UPLOADS: u32 = 5;
    let path = PathSpec::symmetric(
        Duration::from_micros(200_400),
        Some(Rate::mbit_per_s(100)),
        Bytes::mib(2),
        LossSpec::None,
        1,
    );
    let sizes = (600, 102_400, 230);
    let pause = Duration::from_millis(2);
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(kernel::uploads(&path, sizes, UPLOADS, pause)?);
    }
    // Of an odd number, so that each is a time that was measured.
    let kernel: Vec<f64> = (0..runs[0].len())
        .map(|upload| median(&runs.iter().map(|run| run[upload]).collect::<Vec<_>>()))
        .collect();
    let simulated = simulated::uploads(&path, sizes, UPLOADS, pause)?;
    let text = format!("kernel {kernel:.1?} ms, simulated {simulated:.1?} ms");
    say(&text);
    for (number, (one, other)) in kernel.iter().zip(&simulated).enumerate() {
        let mut allowed = vec![*other];
        if number == 1 {
            allowed.extend(simulated.get(2));
        }
        let near = |other: &f64| (other / one - 1.0).abs() <= MEDIAN_CELL;
        if !allowed.iter().any(near) {
            return Err(text.into());
        }
    }
    Ok(())
}

/// Measured figures, for whoever asks for them with `--nocapture`.
#[expect(
    clippy::print_stderr,
    reason = "standard output belongs to the harness"
)]
fn say(text: &str) {
    if env::args().any(|argument| ["--nocapture", "slow-start"].contains(&argument.as_str())) {
        eprintln!("{text}");
    }
}
