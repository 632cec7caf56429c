//! The end of a run: explanations of what was captured, and the result document.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error as _;
use std::fs;
use std::path::PathBuf;

use comparison::Transfer;
use record::LimitSeconds;
use record::explain;
use record::lab::{Document, Series};
use serde_json::json;

use crate::bench::{Lasts, Leg};
use crate::experiment::apparatus::Apparatus;
use crate::experiment::legs::LegCaptures;
use crate::experiment::run::{Ending, Run};
use crate::experiment::{LabError, Outcome, Row, slug};

/// Where the series of all transfers are.
const SERIES: &str = "series.jsonl";

impl<A: Apparatus> Run<'_, A> {
    pub(super) fn finish(mut self, ending: &Ending) -> Result<Outcome, LabError> {
        let broken = match ending {
            Ending::Broken(error) => Some(with_causes(error)),
            Ending::Complete | Ending::Interrupted | Ending::PathOff(_) => None,
        };
        let interrupted = broken.is_some() || matches!(ending, Ending::Interrupted);
        if let Ending::PathOff(why) = ending {
            self.evidence.invalid_path = Some(why.clone());
        }
        // What has broken may be what these ask, and is reported already.
        let whole = |error| broken.is_none().then_some(error).map_or(Ok(()), Err);
        self.bench
            .stop_relays()
            .map_err(LabError::from)
            .or_else(whole)?;
        let explanations = match self.explain_arms() {
            Ok(explanations) => explanations,
            Err(error) => whole(error).map(|()| Vec::new())?,
        };
        let cells = comparison::cells(self.scenario, self.options.seed, &self.evidence);
        let assertions = if interrupted {
            Vec::new()
        } else {
            comparison::assertions(self.scenario, &cells)
        };
        let mut manifest = self.options.manifest.clone();
        match self.bench.facts() {
            Ok(mut facts) => manifest.facts.append(&mut facts),
            Err(error) => whole(error.into())?,
        }
        let document = Document {
            schema: "longhaul.lab".to_owned(),
            version: record::lab::VERSION,
            manifest,
            scenario: self.scenario.name.clone(),
            seed: self.options.seed,
            interrupted,
            broken,
            conduct: Some(comparison::conduct(self.scenario)),
            order: self.done.iter().map(|block| self.label(*block)).collect(),
            cells,
            priming: self.priming.clone(),
            assertions,
        };
        self.write_json("result.json", &document)?;
        self.write_series()?;
        Ok(Outcome {
            document,
            explanations,
            rows: self.rows(),
        })
    }

    /// Limits, series and explanations of all arms.
    fn explain_arms(&mut self) -> Result<Vec<(String, explain::Document)>, LabError> {
        let mut explanations = Vec::new();
        for arm in 0..self.scenario.arms.len() {
            let mut read = Explained::default();
            self.complete_arm(arm, &mut read)?;
            explanations.extend(self.explain_arm(arm, &mut read)?);
        }
        Ok(explanations)
    }

    /// Limits and the representative series of an arm's cells.
    fn complete_arm(&mut self, arm: usize, read: &mut Explained) -> Result<(), LabError> {
        for workload in 0..self.scenario.workloads.len() {
            let Some(kept) = self.kept.get(&(arm, workload)) else {
                continue;
            };
            let mut legs = Vec::new();
            for leg in &kept.legs {
                let document = match leg.lasts {
                    Lasts::Block => &self.bench.explain(&leg.files, false)?,
                    Lasts::Run => read.document(&self.bench, &leg.files)?,
                };
                legs.push(leg.limits(document, kept.captured, &kept.moments));
            }
            let measured = self.evidence.measured.entry((arm, workload)).or_default();
            measured.series = representative(&measured.transfers, &kept.series);
            let long_haul = legs.iter().find(|leg| leg.crosses_wan);
            measured.limits = long_haul.map_or_else(LimitSeconds::new, |leg| leg.limits.clone());
            measured.legs = legs;
        }
        Ok(())
    }

    /// What `explain` says of an arm, by hop of its payload and by where that was captured. Pictures show the
    /// long path. Findings in captures of a relay's pool are left out: they would speak of its priming.
    fn explain_arm(
        &mut self,
        arm: usize,
        read: &mut Explained,
    ) -> Result<Vec<(String, explain::Document)>, LabError> {
        let name = self.scenario.arms[arm].name.clone();
        let mut explanations = Vec::new();
        for (number, captured) in self.legs_of(arm).into_iter().enumerate() {
            let leg = &captured.leg;
            let mut document = match captured.lasts {
                Lasts::Block => self.bench.explain(&captured.files, leg.crosses_wan)?,
                Lasts::Run => read.document(&self.bench, &captured.files)?.clone(),
            };
            document
                .connections
                .retain(|connection| leg.has(connection));
            if captured.lasts == Lasts::Run {
                document.findings.clear();
            }
            if !leg.crosses_wan {
                for connection in &mut document.connections {
                    connection.series = None;
                }
            }
            let of = if number == 0 {
                name.clone()
            } else {
                format!("{name} {} to {}", leg.from, leg.to)
            };
            self.write_json(&format!("explain-{}.json", slug(&of)), &document)?;
            explanations.push((name.clone(), document));
        }
        Ok(explanations)
    }

    /// Captures of an arm's legs over all workloads; both ways of a leg are one where one host captured them.
    fn legs_of(&self, arm: usize) -> Vec<LegCaptures> {
        let mut legs: Vec<LegCaptures> = Vec::new();
        let of_arm = self.kept.iter().filter(|((number, _), _)| *number == arm);
        for captured in of_arm.flat_map(|(_, kept)| &kept.legs) {
            let alike = |other: &LegCaptures| {
                let ends = |leg: &Leg| (leg.client, leg.server);
                ends(&other.leg) == ends(&captured.leg)
                    && (other.leg.from == captured.leg.from || other.files == captured.files)
            };
            match legs.iter_mut().find(|other| alike(other)) {
                Some(known) => {
                    let new = captured.files.iter().cloned();
                    known.files.extend(new);
                    // Names begin with the block's number, so that this is the order in time.
                    known.files.sort();
                    known.files.dedup();
                }
                None => legs.push(captured.clone()),
            }
        }
        legs
    }

    /// A line for every transfer of the evidence whose sender's TCP was watched: the document has the median's.
    fn write_series(&self) -> Result<(), LabError> {
        let mut lines = Vec::new();
        for ((arm, workload), kept) in &self.kept {
            let (arm, workload) = (
                &self.scenario.arms[*arm].name,
                &self.scenario.workloads[*workload].name,
            );
            for (number, series) in (1_u32..).zip(&kept.series) {
                if let Some(series) = series {
                    let line = json!({
                        "workload": workload, "arm": arm, "transfer": number, "series": series,
                    });
                    lines.push(line.to_string());
                }
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        lines.push(String::new());
        let path = self.options.out.join(SERIES);
        fs::write(&path, lines.join("\n")).map_err(|source| LabError::Write { path, source })
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

/// An error and what caused it, in one line.
pub(super) fn with_causes(error: &LabError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
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

/// What `explain` says, with series, of captures that many cells share.
#[derive(Debug, Default)]
struct Explained(BTreeMap<Vec<PathBuf>, explain::Document>);

// === impl Explained ===

impl Explained {
    fn document(
        &mut self,
        bench: &impl Apparatus,
        files: &[PathBuf],
    ) -> Result<&explain::Document, LabError> {
        match self.0.entry(files.to_vec()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(bench.explain(files, true)?)),
        }
    }
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
