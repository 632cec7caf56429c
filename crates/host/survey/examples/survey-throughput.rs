//! Where the time of a large capture goes, step by step: `cargo run --release -p longhaul-survey --example survey-throughput FILE`.
#![allow(clippy::print_stdout, reason = "an example that prints")]

use std::fs::File;
use std::time::Instant;

use longhaul_survey::Survey;

/// Largest resident memory so far, in MB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() / 1000
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: throughput FILE")?;
    let began = Instant::now();
    let mut survey = Survey::new(false);
    let reading = survey.read(&mut File::open(path)?, |_| ());
    println!(
        "framed {} packets: {:?}, {} MB",
        reading.summary.frames,
        began.elapsed(),
        memory()
    );
    let surveyed = survey.finish();
    println!(
        "judged {} connections: {:?}, {} MB",
        surveyed.judged.len(),
        began.elapsed(),
        memory()
    );
    let options = explain::Options {
        captures: vec![record::explain::Capture::default()],
        ..explain::Options::default()
    };
    let document = explain::conclude(surveyed.judged, &surveyed.tracked, options);
    println!("concluded: {:?}, {} MB", began.elapsed(), memory());
    let mut out = std::io::BufWriter::new(File::create("/dev/null")?);
    serde_json::to_writer(&mut out, &document)?;
    println!("written: {:?}, {} MB", began.elapsed(), memory());
    Ok(())
}
