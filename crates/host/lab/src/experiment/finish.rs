//! The end of a run: explanations of what was captured, and the result document.

use comparison::Transfer;
use record::LimitSeconds;
use record::explain;
use record::lab::{Document, Series};

use crate::experiment::apparatus::Apparatus;
use crate::experiment::run::{Ending, Run};
use crate::experiment::{LabError, Outcome, Row, slug};

impl<A: Apparatus> Run<'_, A> {
    pub(super) fn finish(mut self, ending: &Ending) -> Result<Outcome, LabError> {
        let interrupted = matches!(ending, Ending::Interrupted);
        if let Ending::PathOff(why) = ending {
            self.evidence.invalid_path = Some(why.clone());
        }
        let mut explanations = Vec::new();
        for arm in 0..self.scenario.arms.len() {
            self.complete_arm(arm)?;
            explanations.extend(self.explain_arm(arm)?);
        }
        let cells = comparison::cells(self.scenario, self.options.seed, &self.evidence);
        let assertions = if interrupted {
            Vec::new()
        } else {
            comparison::assertions(self.scenario, &cells)
        };
        let mut manifest = self.options.manifest.clone();
        manifest.facts.append(&mut self.bench.facts()?);
        let document = Document {
            schema: "longhaul.lab".to_owned(),
            version: record::lab::VERSION,
            manifest,
            scenario: self.scenario.name.clone(),
            seed: self.options.seed,
            interrupted,
            order: self.done.iter().map(|block| self.label(*block)).collect(),
            cells,
            priming: self.priming.clone(),
            assertions,
        };
        self.write_json("result.json", &document)?;
        Ok(Outcome {
            document,
            explanations,
            rows: self.rows(),
        })
    }

    /// Limits and the representative series of an arm's cells.
    fn complete_arm(&mut self, arm: usize) -> Result<(), LabError> {
        for workload in 0..self.scenario.workloads.len() {
            let Some(kept) = self.kept.get(&(arm, workload)) else {
                continue;
            };
            let measured = self.evidence.measured.entry((arm, workload)).or_default();
            measured.series = representative(&measured.transfers, &kept.series);
            if !kept.captures.is_empty() {
                let document = self.bench.explain(&kept.captures, false)?;
                measured.limits = limits_per_transfer(&document, kept.captured);
            }
        }
        Ok(())
    }

    fn explain_arm(&mut self, arm: usize) -> Result<Vec<(String, explain::Document)>, LabError> {
        let spec = &self.scenario.arms[arm];
        let files = self.captures_of(arm);
        if files.is_empty() {
            return Ok(Vec::new());
        }
        // Pictures show the long path: at the client, or behind the relay.
        let document = self.bench.explain(&files, spec.relay.is_direct())?;
        self.write_json(&format!("explain-{}.json", slug(&spec.name)), &document)?;
        let mut explanations = vec![(spec.name.clone(), document)];
        let behind = self.explain_relay(arm)?;
        explanations.extend(behind.map(|document| (spec.name.clone(), document)));
        Ok(explanations)
    }

    /// What passed between an arm's relay and the far end, with series. Its findings are left out: they
    /// would speak of the relay's own priming.
    fn explain_relay(&mut self, arm: usize) -> Result<Option<explain::Document>, LabError> {
        let Some(capture) = self.bench.stop_relay(arm)? else {
            return Ok(None);
        };
        let mut document = self.bench.explain(&[capture], true)?;
        document
            .connections
            .retain(|connection| self.bench.is_far(&connection.server.host));
        document.findings.clear();
        Ok(Some(document))
    }

    /// Every transfer that counts, in the order of arms and workloads.
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for ((arm, workload), measured) in &self.evidence.measured {
            for (number, transfer) in (1..).zip(&measured.transfers) {
                rows.push(Row {
                    factors: self.evidence.factors.clone(),
                    workload: self.scenario.workloads[*workload].name.clone(),
                    arm: self.scenario.arms[*arm].name.clone(),
                    number,
                    transfer: transfer.clone(),
                });
            }
        }
        rows
    }
}

/// The series of the transfer that took the median time, of those that have one.
fn representative(transfers: &[Transfer], series: &[Option<Series>]) -> Option<Series> {
    let mut seen: Vec<(f64, &Series)> = transfers
        .iter()
        .zip(series)
        .filter(|(transfer, _)| transfer.failure.is_none())
        .filter_map(|(transfer, series)| Some((transfer.seconds, series.as_ref()?)))
        .collect();
    seen.sort_by(|a, b| a.0.total_cmp(&b.0));
    let middle = seen.len().checked_sub(1)? / 2;
    Some(seen[middle].1.clone())
}

/// Mean seconds per limit: over all connections towards the server, divided by the transfers.
fn limits_per_transfer(document: &explain::Document, transfers: usize) -> LimitSeconds {
    let mut sum = LimitSeconds::new();
    for connection in &document.connections {
        for (name, seconds) in &connection.directions.client_to_server.limits {
            *sum.entry(*name).or_default() += seconds;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of transfers")]
    let count = transfers.max(1) as f64;
    for seconds in sum.values_mut() {
        *seconds /= count;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_shown_is_that_of_the_median_transfer() {
        let transfer = |seconds, failure: Option<&str>| Transfer {
            seconds,
            failure: failure.map(str::to_owned),
            ..Transfer::default()
        };
        let series = |interval_s| {
            Some(Series {
                interval_s,
                points: Vec::new(),
            })
        };
        let transfers = [
            transfer(3.0, None),
            transfer(1.0, None),
            transfer(2.0, None),
            transfer(0.1, Some("no")),
        ];
        let all = [series(3.0), series(1.0), series(2.0), series(0.1)];
        let shown = representative(&transfers, &all).unwrap();
        assert!((shown.interval_s - 2.0).abs() < 1e-9);
        let unseen = [series(3.0), None, None, series(0.1)];
        let shown = representative(&transfers, &unseen).unwrap();
        assert!((shown.interval_s - 3.0).abs() < 1e-9);
        assert_eq!(representative(&[], &[]), None);
    }
}
