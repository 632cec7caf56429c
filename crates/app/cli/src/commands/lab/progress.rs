//! What a person sees while a scenario runs: the path, what was explained and predicted, a bar with the
//! remaining time. All of it on stderr.

use std::time::{Duration, Instant};

use comparison::Transfer;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::experiment::Progress;
use record::lab::NetworkCheck;
use report::text::Style;
use scenario::Scenario;
use units::Milliseconds;

use crate::arguments::LabRun;
use crate::output;

/// The person's view of a run.
pub(super) struct View {
    bar: ProgressBar,
    /// Transfers in a block.
    block: u64,
    blocks: usize,
    /// Combinations of factors from this one on.
    parts_left: usize,
    /// Of the block under way, from 1.
    number: usize,
    /// When the first block could begin.
    began: Instant,
}

impl View {
    pub(super) fn new(scenario: &Scenario, arguments: &LabRun) -> Self {
        output::say(&format!("{}: {}", scenario.name, scenario.title));
        let seed = arguments.seed.unwrap_or(scenario.seed);
        output::say(&format!("path: {}; seed {seed}", scenario.path));
        if arguments.client.is_some() {
            output::say(
                "note: a program of yours uploads: arms that reuse a connection are left out, and so is what the \
                 scenario reports and asserts in seconds of its own client",
            );
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(4));
        Self {
            bar,
            block: u64::from(scenario.experiment.block),
            blocks: 0,
            parts_left: 1,
            number: 0,
            began: Instant::now(),
        }
    }

    pub(super) fn show(&mut self, event: &Progress<'_>) {
        match event {
            Progress::Part {
                index,
                parts,
                factors,
            } => {
                self.parts_left = parts - index;
                if !factors.is_empty() {
                    let pairs: Vec<String> = factors
                        .iter()
                        .map(|(factor, value)| format!("{factor} = {value}"))
                        .collect();
                    self.say(&format!("{}/{parts}: {}", index + 1, pairs.join(", ")));
                }
            }
            Progress::Started { blocks, unpunctual } => {
                if let Some(why) = unpunctual {
                    self.say(&format!("note: no real-time priority for the link: {why}"));
                }
                self.blocks = *blocks;
                // The parts to come are taken to be like this one.
                let ahead = (*blocks * self.parts_left) as u64 * self.block;
                self.bar.set_length(self.bar.position() + ahead);
                let style = "{bar:28} {pos}/{len} transfers, {eta} left  {msg}";
                // The template is a constant; a test would show it broken.
                if let Ok(style) = ProgressStyle::with_template(style) {
                    self.bar.set_style(style);
                }
                self.bar.enable_steady_tick(Duration::from_millis(250));
            }
            Progress::Path(check, unchecked) => self.say(&path(check, unchecked)),
            Progress::Primed(priming) => self.say(&format!(
                "{}: {} connections hot after {:.1} s, {} requests and {:.2} MB of priming",
                priming.arm,
                priming.connections,
                priming.seconds,
                priming.requests,
                megabytes(priming.bytes)
            )),
            Progress::Block { index, label } => {
                self.number = index + 1;
                self.bar.set_message((*label).to_owned());
            }
            Progress::More { blocks } => {
                self.blocks += blocks;
                self.bar.inc_length(*blocks as u64 * self.block);
                self.say(&format!(
                    "{blocks} blocks more: medians are not as precise yet as asked"
                ));
            }
            Progress::Done { label, transfers } => {
                self.bar.inc(transfers.len() as u64);
                let failures = transfers.iter().filter_map(|one| one.failure.as_ref());
                for failure in failures {
                    self.say(&format!("failed: {label}: {failure}"));
                }
                if self.bar.is_hidden() {
                    // In a log nobody sees a bar; a line for each block shows that it goes on.
                    let (number, blocks) = (self.number, self.blocks);
                    self.say(&format!(
                        "{number}/{blocks} {label}: {}{}",
                        times(transfers),
                        self.left()
                    ));
                }
            }
            Progress::Invalid { label, why, again } => {
                let next = if *again {
                    "it does not count and is repeated"
                } else {
                    "nothing of this run counts"
                };
                self.say(&format!("the path was off in {label}: {why}; {next}"));
            }
            Progress::Explained {
                document,
                predictions,
            } => {
                self.say(&report::text::explain(document, Style::Plain));
                for (workload, predicted) in *predictions {
                    self.say(&format!(
                        "prediction, before the arm was run: {workload} in {} ms ({})",
                        Milliseconds(Duration::from_secs_f64(predicted.seconds.max(0.0))),
                        predicted.derivation
                    ));
                }
            }
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// `; 3 minutes left`, when transfers go on as they went so far; nothing after the last.
    fn left(&self) -> String {
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or_default());
        match (all.checked_sub(done), u32::try_from(done)) {
            (Some(ahead @ 1..), Ok(done @ 1..)) => {
                let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
                let left = self.began.elapsed().saturating_mul(ahead) / done;
                format!("; {} left", HumanDuration(left))
            }
            _ => String::new(),
        }
    }

    /// Above the bar, or as a plain line where stderr is no terminal.
    fn say(&self, text: &str) {
        self.bar.suspend(|| output::say(text));
    }
}

/// `153, 151 ms`; failed ones are missing.
fn times(transfers: &[Transfer]) -> String {
    let good = transfers.iter().filter(|one| one.failure.is_none());
    let times: Vec<String> = good
        .map(|one| format!("{:.0}", one.seconds * 1e3))
        .collect();
    if times.is_empty() {
        "none succeeded".to_owned()
    } else {
        format!("{} ms", times.join(", "))
    }
}

fn path(check: &NetworkCheck, unchecked: &[String]) -> String {
    let measured = |value: Option<f64>, scale: f64, unit: &str| match value {
        Some(value) => format!("{:.2} {unit}", value * scale),
        None => "not measured".to_owned(),
    };
    let rate = |value| measured(value, 1e-6, "Mbit/s");
    let mut text = format!(
        "measured by endpoints: {} round trip, {} to the origin, {} back",
        measured(check.rtt_achieved_s, 1e3, "ms"),
        rate(check.rate_achieved_bps),
        rate(check.backward_rate_achieved_bps)
    );
    if !unchecked.is_empty() {
        text.push_str("; not checked: ");
        text.push_str(&unchecked.join(", "));
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "a number of bytes for people")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
