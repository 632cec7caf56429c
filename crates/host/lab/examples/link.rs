//! The link's accuracy and speed as its endpoints see them: a table. Needs root.
//!
//! ```text
//! cargo run --release -p longhaul-lab --example link            # everything
//! cargo run --release -p longhaul-lab --example link 6000       # lines that contain `6000`
//! ```
//! For every path, one kernel TCP flow per congestion control: goodput at the receiver after a warm-up as
//! a share of what the rate allows, retransmissions by the sender's own count, packets dropped by the
//! link's queue, the RTT error that a probe met while the path was idle, the link's lateness during the
//! flow, and processor seconds per second of the link and of everything.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    reason = "a table of measured figures is what this program is for"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use link::{LossSpec, PathSpec};
use longhaul_lab::emulator;
use longhaul_lab::probe::Depth;
use sys::isolation;
use units::{Bytes, Rate};

use crate::support::{Bench, Family, Outcome};

/// One line of the table.
struct Case {
    /// `None`: as fast as the machine.
    mbit: Option<u64>,
    one_way_ms: u64,
    congestion_control: &'static str,
    warm_up_s: u64,
}

const WINDOW: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    match play() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn play() -> Outcome {
    let filter = env::args().nth(1).unwrap_or_default();
    if filter == "emulator" {
        return Ok(emulator::worker()?);
    }
    isolation::isolate()?;
    println!(
        "| Mbit/s | one way ms | cc | goodput Mbit/s | of theory | retransmitted | dropped | RTT error us \
         | late p50 us | p99 us | max us | link CPU | all CPU |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for case in cases() {
        let label = case.label();
        if label.contains(&filter) {
            println!("| {label} | {} |", case.run()?);
        }
    }
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for congestion_control in ["cubic", "bbr"] {
        for mbit in [
            Some(1),
            Some(10),
            Some(100),
            Some(1000),
            Some(3000),
            Some(6000),
            None,
        ] {
            for one_way_ms in [0, 10, 35] {
                cases.push(Case {
                    mbit,
                    one_way_ms,
                    congestion_control,
                    // Slow start, and for BBR the first probe of the minimum RTT, lie in it.
                    warm_up_s: match (mbit, one_way_ms) {
                        (Some(1), _) => 10,
                        (_, 0) => 1,
                        _ => 5,
                    },
                });
            }
        }
    }
    cases
}

// === impl Case ===

impl Case {
    fn label(&self) -> String {
        let rate = self
            .mbit
            .map_or_else(|| "none".to_owned(), |mbit| mbit.to_string());
        format!("{rate} | {} | {}", self.one_way_ms, self.congestion_control)
    }

    fn path(&self) -> PathSpec {
        let rate = self.mbit.map(Rate::mbit_per_s);
        let rtt = Duration::from_millis(2 * self.one_way_ms);
        // A bandwidth-delay product and a bit: nothing need be dropped, and cubic keeps the path full.
        let queue = rate
            .and_then(|rate| rate.checked_mul(rtt + Duration::from_millis(5)))
            .map_or(Bytes::new(60_000), |bytes| bytes.max(Bytes::new(60_000)));
        PathSpec::symmetric(rtt, rate, queue, LossSpec::None, 1)
    }

    fn run(&self) -> Outcome<String> {
        let path = self.path();
        let mut bench = Bench::with_congestion_control(&path, self.congestion_control)?;
        let reading = bench.measure(Depth::RoundTrip)?;
        let rtt = reading.rtt().ok_or("no echo")?;
        let rtt_error_us = (rtt.as_secs_f64() - path.rtt().as_secs_f64()) * 1e6;
        let (mut link_ticks, mut all_ticks, mut began) = (0, 0, Instant::now());
        let warm_up = Duration::from_secs(self.warm_up_s);
        bench.read()?;
        let mut dropped_before = 0;
        let flow = bench.flow(Family::V4, warm_up, WINDOW, |bench| {
            link_ticks = bench.processor_time()?;
            all_ticks = busy_ticks()?;
            began = Instant::now();
            let (interval, _) = bench.read()?;
            dropped_before = interval.counters.forward.dropped.packets;
            Ok(())
        })?;
        let seconds = began.elapsed().as_secs_f64();
        let (interval, _) = bench.read()?;
        let link_cpu = ticks_per_second(bench.processor_time()? - link_ticks, seconds);
        let all_cpu = ticks_per_second(busy_ticks()? - all_ticks, seconds);
        let lateness = interval.counters.lateness;
        let share = self.mbit.map_or_else(
            || "-".to_owned(),
            |mbit| {
                let theory = Rate::mbit_per_s(mbit).bits_per_s() as f64 * 1448.0 / 1500.0;
                format!("{:.2} %", flow.goodput_bps / theory * 100.0)
            },
        );
        bench.stop()?;
        Ok(format!(
            "{:.1} | {share} | {} | {} | {rtt_error_us:+.0} | {:.0} | {:.0} | {:.0} | {link_cpu:.2} | \
             {all_cpu:.2}",
            flow.goodput_bps / 1e6,
            flow.info.total_retrans,
            dropped_before + interval.counters.forward.dropped.packets,
            lateness.p50_s * 1e6,
            lateness.p99_s * 1e6,
            lateness.max_s * 1e6,
        ))
    }
}

fn ticks_per_second(ticks: u64, seconds: f64) -> f64 {
    ticks as f64 / 100.0 / seconds
}

/// Ticks of 10 ms in which a processor of this machine was not idle (`proc_stat(5)`).
fn busy_ticks() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let fields: Vec<u64> = text
        .lines()
        .next()
        .ok_or("stat")?
        .split_whitespace()
        .skip(1)
        .map_while(|field| field.parse().ok())
        .collect();
    let idle = fields.get(3).ok_or("idle")? + fields.get(4).ok_or("iowait")?;
    Ok(fields.iter().take(8).sum::<u64>() - idle)
}
