//! Fresh inputs for fuzz bodies, for a given time.
//!
//! A body is a plain function of bytes that panics where something is wrong. An input is made of nothing
//! but the seed and its number, half of them from scratch, half from a file of the corpus that was changed
//! here and there. What fails is made shorter as long as it fails in the same place, and becomes a file of
//! the corpus, which the crate's own tests replay from then on.

mod input;
mod pipeline;
mod worker;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};

use worker::{Found, Worker};

/// A body and where its corpus lies, below `crates/`.
struct Target {
    name: &'static str,
    body: fn(&[u8]),
    corpus: &'static str,
    /// Longest input made from scratch, in bytes.
    longest: usize,
}

/// Every fuzz body of the house. A new one needs a line here and a test that replays its corpus. Those of the relay are
/// there with `cargo run --package longhaul-xtask --features relay -- fuzz relay`, those of the gateway likewise.
const TARGETS: &[Target] = &[
    Target {
        name: "capture",
        body: capture::fuzz::fuzz_capture,
        corpus: "core/capture/corpus",
        longest: 4_096,
    },
    Target {
        name: "envelope",
        body: envelope::fuzz::fuzz_stored,
        corpus: "core/envelope/corpus",
        longest: 4_096,
    },
    Target {
        name: "explain-file",
        body: pipeline::file,
        corpus: "core/capture/corpus",
        longest: 4_096,
    },
    Target {
        name: "explain-packets",
        body: pipeline::packets,
        corpus: "core/explain/corpus",
        longest: 4_000,
    },
    #[cfg(feature = "gateway")]
    Target {
        name: "gateway-policy",
        body: gateway::fuzz::fuzz_policy,
        corpus: "host/gateway/corpus/policy",
        longest: 600,
    },
    #[cfg(feature = "relay")]
    Target {
        name: "relay-config",
        body: relay::fuzz::fuzz_config,
        corpus: "host/relay/corpus/config",
        longest: 400,
    },
    #[cfg(feature = "relay")]
    Target {
        name: "relay-http",
        body: relay::fuzz::fuzz_http,
        corpus: "host/relay/corpus/http",
        longest: 2_000,
    },
    #[cfg(feature = "relay")]
    Target {
        name: "relay-proxy-header",
        body: relay::fuzz::fuzz_proxy_header,
        corpus: "host/relay/corpus/proxy-header",
        longest: 200,
    },
    Target {
        name: "script",
        body: script::fuzz::fuzz_script,
        corpus: "core/script/corpus",
        longest: 400,
    },
    Target {
        name: "sock-diag",
        body: sys::fuzz::fuzz_sock_diag,
        corpus: "host/sys/corpus/sock-diag",
        longest: 2_000,
    },
    Target {
        name: "tcp-exchange",
        body: tcp::fuzz::fuzz_exchange,
        corpus: "core/tcp/corpus/exchange",
        longest: 800,
    },
    Target {
        name: "tcp-segments",
        body: tcp::fuzz::fuzz_segments,
        corpus: "core/tcp/corpus/segments",
        longest: 2_000,
    },
    Target {
        name: "trunk-decode",
        body: trunk::fuzz::fuzz_decode,
        corpus: "core/trunk/corpus/decode",
        longest: 2_000,
    },
    Target {
        name: "trunk-peer",
        body: trunk::fuzz::fuzz_peer,
        corpus: "core/trunk/corpus/peer",
        longest: 4_800,
    },
    Target {
        name: "wire-decode",
        body: wire::fuzz::fuzz_decode,
        corpus: "core/wire/corpus",
        longest: 300,
    },
    Target {
        name: "wire-http",
        body: wire::fuzz::fuzz_http,
        corpus: "core/wire/corpus",
        longest: 2_000,
    },
    Target {
        name: "wire-tls",
        body: wire::fuzz::fuzz_tls,
        corpus: "core/wire/corpus",
        longest: 2_000,
    },
];

const USAGE: &str = "\
usage: cargo xtask fuzz NAME [--minutes N] [--cores N] [--seed N]
  NAME       a body, the beginning of several (`tcp`), or `all`
  --minutes  for how long, shared among the bodies (default 1)
  --cores    how many inputs are tried at a time (default 1)
  --seed     which inputs; printed where it is not given";

/// An input that takes more CPU time, in seconds, is a fault of its own. Not time on the wall: a process
/// that was stopped, or got no processor, is not stuck.
const PATIENCE: f64 = 60.0;

struct Plan {
    targets: Vec<&'static Target>,
    time: Duration,
    cores: u32,
    seed: u64,
}

/// Runs the bodies that `arguments` name. Fails where one of them did.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let plan = plan(arguments)?;
    worker::silence_panics();
    let share = plan.time / u32::try_from(plan.targets.len()).unwrap_or(u32::MAX);
    let mut faults = 0;
    for target in &plan.targets {
        faults += fuzz(target, share, &plan)?;
    }
    if faults > 0 {
        bail!(
            "{faults} faults found; their inputs are in the corpus now, `cargo test` replays them"
        );
    }
    Ok(())
}

fn plan(mut arguments: impl Iterator<Item = String>) -> Result<Plan> {
    let Some(name) = arguments.next() else {
        bail!("{USAGE}\nbodies: {}", names());
    };
    let targets: Vec<_> = TARGETS
        .iter()
        .filter(|target| name == "all" || target.name.starts_with(&name))
        .collect();
    if targets.is_empty() {
        bail!("`{name}` begins the name of no body: {}", names());
    }
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let mut plan = Plan {
        targets,
        time: Duration::from_mins(1),
        cores: 1,
        seed: clock.map_or(0, |since| since.as_secs()),
    };
    while let Some(flag) = arguments.next() {
        let number: u64 = arguments
            .next()
            .and_then(|value| value.parse().ok())
            .with_context(|| format!("`{flag}` needs a whole number\n{USAGE}"))?;
        match flag.as_str() {
            "--minutes" => plan.time = Duration::from_secs(number.saturating_mul(60)),
            "--cores" => plan.cores = u32::try_from(number).unwrap_or(u32::MAX).max(1),
            "--seed" => plan.seed = number,
            _ => bail!("`{flag}` is unknown\n{USAGE}"),
        }
    }
    Ok(plan)
}

fn names() -> String {
    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    names.join(", ")
}

/// Feeds one body for `time` and returns in how many places it failed.
fn fuzz(target: &'static Target, time: Duration, plan: &Plan) -> Result<usize> {
    let folder = corpus_folder(target);
    let corpus = read_corpus(&folder)?;
    println!(
        "{}: seed {}, {} files in the corpus, {} s on {} cores",
        target.name,
        plan.seed,
        corpus.len(),
        time.as_secs(),
        plan.cores
    );
    let stop = AtomicBool::new(false);
    let workers: Vec<_> = (0..plan.cores)
        .map(|number| Worker::new(target.body, target.longest, plan.seed, number.into()))
        .collect();
    let mut places = BTreeMap::new();
    let cpu_before = cpu_seconds();
    let mut progress = vec![(0, cpu_before); workers.len()];
    thread::scope(|scope| -> Result<()> {
        let (tell, found) = channel();
        for worker in &workers {
            let (tell, stop, corpus) = (tell.clone(), &stop, &corpus);
            scope.spawn(move || worker.run(corpus, stop, &tell));
        }
        let end = Instant::now() + time;
        while Instant::now() < end {
            match found.recv_timeout(Duration::from_secs(1)) {
                Ok(Found { place, input }) => {
                    let path = folder.join(format!("found-{:016x}", input::hash(&input)));
                    fs::write(&path, &input)
                        .with_context(|| format!("cannot write {}", path.display()))?;
                    println!("{}: {place}\n  input: {}", target.name, path.display());
                    places.insert(place, path);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            for (worker, progress) in workers.iter().zip(&mut progress) {
                if worker.inputs() != progress.0 {
                    *progress = (worker.inputs(), cpu_seconds());
                }
                // The process's time is that of all workers, of which each has its share at least.
                let stuck = cpu_seconds() - progress.1 > PATIENCE * f64::from(plan.cores);
                if let Some(input) = worker.under_way().filter(|_| stuck) {
                    let path = folder.join(format!("slow-{:016x}", input::hash(&input)));
                    fs::write(&path, &input)
                        .with_context(|| format!("cannot write {}", path.display()))?;
                    println!(
                        "{}: an input takes more than a minute: {}",
                        target.name,
                        path.display()
                    );
                    // It may never end, and a thread cannot be ended from outside.
                    std::process::abort();
                }
            }
        }
        stop.store(true, Ordering::Release);
        Ok(())
    })?;
    let inputs: u64 = workers.iter().map(Worker::inputs).sum();
    println!(
        "{}: {inputs} inputs in {:.2} CPU-hours, {} faults",
        target.name,
        (cpu_seconds() - cpu_before) / 3600.0,
        places.len()
    );
    Ok(places.len())
}

fn corpus_folder(target: &Target) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../crates")
        .join(target.corpus)
}

fn read_corpus(folder: &PathBuf) -> Result<Vec<Vec<u8>>> {
    let read = || -> std::io::Result<Vec<Vec<u8>>> {
        let mut files: Vec<_> = fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        // So that a seed means the same everywhere.
        files.sort();
        files.iter().map(fs::read).collect()
    };
    read().with_context(|| format!("cannot read the corpus {}", folder.display()))
}

/// CPU time of this process so far (`/proc/self/stat`, fields 14 and 15, in hundredths of a second).
pub(crate) fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in field 2 may hold anything but ends with the last parenthesis.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: f64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    ticks / 100.0
}
