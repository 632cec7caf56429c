//! What a terminal shows while flows run: a chart of each.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write as _};
use std::time::Duration;

use flow::{FlowProgress, Progress};

use super::table::{float, rate_text, seconds, size};

/// Steps of a chart.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Intervals that a chart remembers.
const WIDTH: usize = 32;

/// A line for each open flow, and one for all of them.
pub(super) struct Ticker {
    on: bool,
    at: Duration,
    flows: BTreeMap<u64, Chart>,
    all: Chart,
    /// Lines on the terminal that the next picture replaces.
    drawn: usize,
}

/// The rates of the last intervals.
#[derive(Default)]
struct Chart {
    bytes: u64,
    rates: VecDeque<f64>,
}

// === impl Ticker ===

impl Ticker {
    pub(super) fn new(on: bool) -> Self {
        Self {
            on,
            at: Duration::ZERO,
            flows: BTreeMap::new(),
            all: Chart::default(),
            drawn: 0,
        }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        if !self.on {
            return;
        }
        let (width, height) = terminal_size::terminal_size().map_or((80, 24), |(width, height)| {
            (width.0.into(), height.0.into())
        });
        let lines = self.lines(progress, height);
        // A line that wraps would be two, and the next picture would begin in the wrong place.
        let fitting = lines
            .iter()
            .map(|line| line.chars().take(width).collect::<String>());
        let picture = fitting.collect::<Vec<_>>().join("\n");
        write(&format!("{}{picture}", self.erase()));
        self.drawn = lines.len();
    }

    pub(super) fn clear(&mut self) {
        if self.on {
            write(&self.erase());
            self.drawn = 0;
        }
    }

    /// Moves to the beginning of what was drawn, and wipes it away.
    fn erase(&self) -> String {
        match self.drawn.saturating_sub(1) {
            0 => "\r\x1b[J".to_owned(),
            up => format!("\r\x1b[{up}A\x1b[J"),
        }
    }

    /// The picture, on a terminal of `height` lines.
    fn lines(&mut self, progress: &Progress, height: usize) -> Vec<String> {
        let span = progress.elapsed.saturating_sub(self.at);
        self.at = progress.elapsed;
        self.all.push(progress.bytes, span);
        let open = |index: &u64| progress.flows.iter().any(|flow| flow.index == *index);
        self.flows.retain(|index, _| open(index));
        for flow in &progress.flows {
            self.flows
                .entry(flow.index)
                .or_default()
                .push(flow.bytes, span);
        }
        let elapsed = progress.elapsed.as_secs_f64();
        if let [flow] = progress.flows.as_slice() {
            // The sum holds what earlier connections of the same lane carried.
            return vec![format!(
                "{elapsed:>6.1} s  {}",
                self.all.line(self.all.most(), flow)
            )];
        }
        // One scale for all, so that they can be compared; the sum has its own.
        let most = self.flows.values().map(Chart::most).fold(0.0, f64::max);
        let room = height.saturating_sub(3).max(1);
        let mut flows: Vec<FlowProgress> = progress.flows.clone();
        flows.sort_by_key(|flow| flow.index);
        let mut lines: Vec<String> = flows
            .iter()
            .take(room)
            .filter_map(|flow| {
                let chart = self.flows.get(&flow.index)?;
                Some(format!(
                    "flow {:>3}  {}",
                    flow.index,
                    chart.line(most, flow)
                ))
            })
            .collect();
        if flows.len() > room {
            lines.push(format!("and {} flows more", flows.len() - room));
        }
        let all = FlowProgress {
            cwnd: flows.iter().map(|flow| flow.cwnd).sum(),
            rtt_s: flows
                .iter()
                .map(|flow| flow.rtt_s)
                .filter(|rtt| *rtt > 0.0)
                .reduce(f64::min)
                .unwrap_or(0.0),
            retransmits: flows.iter().map(|flow| flow.retransmits).sum(),
            ..FlowProgress::default()
        };
        lines.push(format!(
            "{elapsed:>6.1} s  {}",
            self.all.line(self.all.most(), &all)
        ));
        lines
    }
}

// === impl Chart ===

impl Chart {
    fn push(&mut self, bytes: u64, span: Duration) {
        let rate = units::Bytes::new(bytes.saturating_sub(self.bytes)).checked_per(span);
        self.bytes = bytes;
        self.rates
            .push_back(rate.map_or(0.0, |rate| float(rate.bits_per_s())));
        if self.rates.len() > WIDTH {
            self.rates.pop_front();
        }
    }

    fn most(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    fn line(&self, most: f64, flow: &FlowProgress) -> String {
        format!(
            "{:<WIDTH$}  {:>11}  cwnd {:>9}  rtt {:>10}  {} retransmitted",
            self.bars(most),
            rate_text(self.rates.back().copied()),
            size(flow.cwnd),
            seconds(flow.rtt_s),
            flow.retransmits,
        )
    }

    fn bars(&self, most: f64) -> String {
        let bar = |rate: &f64| {
            let step = BARS.iter().enumerate().skip(1).find(|(index, _)| {
                let bound = most * float(u64::try_from(*index).unwrap_or(0)) / 8.0;
                *rate < bound
            });
            step.map_or(BARS[BARS.len() - 1], |(index, _)| BARS[index - 1])
        };
        self.rates.iter().map(bar).collect()
    }
}

/// On stderr without a newline; a terminal that has gone is nobody's failure.
fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows that carried so many bytes each by `second`.
    fn progress(second: u64, bytes: &[u64]) -> Progress {
        let flows = bytes.iter().zip(0..).map(|(bytes, index)| FlowProgress {
            index,
            bytes: *bytes,
            cwnd: 14_480,
            rtt_s: 0.02,
            retransmits: 1,
        });
        Progress {
            elapsed: Duration::from_secs(second),
            bytes: bytes.iter().sum(),
            flows: flows.collect(),
        }
    }

    #[test]
    fn bars_span_the_largest_value() {
        let chart = Chart {
            bytes: 0,
            rates: VecDeque::from([0.0, 1.0, 4.0, 8.0]),
        };
        assert_eq!(chart.bars(8.0), "▁▂▅█");
        assert_eq!(chart.bars(16.0), "▁▁▃▅");
    }

    #[test]
    fn one_flow_is_one_line() {
        let mut ticker = Ticker::new(true);
        let lines = ticker.lines(&progress(1, &[1_000_000]), 24);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("1.0 s  █"), "{lines:?}");
        assert!(lines[0].contains("8.00 Mbit/s"), "{lines:?}");
    }

    #[test]
    fn every_flow_has_a_chart_on_one_scale_and_all_together_another() {
        let mut ticker = Ticker::new(true);
        ticker.lines(&progress(1, &[4_000_000, 1_000_000]), 24);
        let lines = ticker.lines(&progress(2, &[8_000_000, 2_000_000]), 24);
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("flow   0  ██"), "{lines:?}");
        assert!(lines[1].starts_with("flow   1  ▃▃"), "{lines:?}");
        assert!(lines[1].contains("8.00 Mbit/s"), "{lines:?}");
        assert!(lines[2].contains("40.00 Mbit/s"), "{lines:?}");
        assert!(lines[2].contains("28.96 kB"), "{lines:?}");
    }

    #[test]
    fn no_more_lines_than_the_terminal_has() {
        let mut ticker = Ticker::new(true);
        let lines = ticker.lines(&progress(1, &[1_000; 40]), 10);
        assert!(lines.len() < 10, "{lines:?}");
        assert!(
            lines[lines.len() - 2].contains("33 flows more"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_flow_that_ended_has_no_line() {
        let mut ticker = Ticker::new(true);
        ticker.lines(&progress(1, &[1, 2, 3]), 24);
        assert_eq!(ticker.lines(&progress(2, &[1, 2]), 24).len(), 3);
        assert_eq!(ticker.flows.len(), 2);
    }
}
