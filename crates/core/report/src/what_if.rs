//! The words and numbers of a ranking of remedies, whichever way it is shown.

use record::lab::Measure;
use record::what_if::{Cell, Outcome, Remedy, Verdict};

use crate::limits;
use crate::quantity::{DASH, RateUnit, TimeUnit, percent, rate, seconds};
use crate::sentence::without_total;
use crate::sweep;

/// Limits named for today; the rest is small.
const MOST_LIMITS: usize = 3;
/// Places in a block that are told one by one where a remedy makes them differ.
const MOST_PLACES: usize = 5;

/// A workload with its factors.
pub(crate) fn title(cell: &Cell) -> String {
    let factors = cell.factors.iter();
    let factors = factors.map(|(name, value)| format!(", {} {value}", sweep::short(name)));
    format!("{}{}", cell.workload, factors.collect::<String>())
}

/// Path, bound and today, each with its label.
pub(crate) fn facts(cell: &Cell) -> Vec<(&'static str, String)> {
    let path = format!("{}, {}", seconds(cell.rtt_s), rate(cell.rate_bps));
    let mut facts = vec![("path", path)];
    match (cell.measure, cell.ceiling_bps) {
        (Measure::Time, _) if cell.floor_s > 0.0 => {
            let derivation = without_total(&cell.floor_derivation);
            facts.push(("floor", format!("{} = {derivation}", seconds(cell.floor_s))));
        }
        (Measure::Rate, Some(ceiling)) => {
            let said = format!("{} = payload of full packets", rate(ceiling));
            facts.push(("ceiling", said));
        }
        (Measure::Time | Measure::Rate, _) => {}
    }
    facts.push(("today", today(cell)));
    facts
}

fn today(cell: &Cell) -> String {
    if let Some(failure) = &cell.today.failure {
        return failure.clone();
    }
    let shown = match cell.measure {
        Measure::Time => cell.today.median_s.map(seconds),
        Measure::Rate => cell.today.goodput_bps.map(rate),
    };
    let mut said = shown.unwrap_or_else(|| DASH.into());
    if let Some(share) = cell.today.share_of_floor {
        let share = format!(", {} of {}", percent(share), bound(cell));
        said.push_str(&share);
    }
    if let Some(held) = held_by(&cell.today) {
        said.push_str("; ");
        said.push_str(&held);
    }
    said
}

/// What would hold transfers back with the best remedy, if any helps.
pub(crate) fn then(cell: &Cell) -> Option<String> {
    held_by(&of(cell, Verdict::Helps).next()?.outcome)
}

fn held_by(outcome: &Outcome) -> Option<String> {
    let parts = limits::by_size(&outcome.limits).into_iter();
    let parts: Vec<String> = parts
        .take(MOST_LIMITS)
        .map(|part| format!("{} {}", part.name, seconds(part.seconds)))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

const fn bound(cell: &Cell) -> &'static str {
    match cell.measure {
        Measure::Time => "floor",
        Measure::Rate => "ceiling",
    }
}

/// The remedies of one verdict, best first.
pub(crate) fn of(cell: &Cell, verdict: Verdict) -> impl Iterator<Item = &Remedy> {
    let remedies = cell.remedies.iter();
    remedies.filter(move |remedy| remedy.verdict == verdict)
}

/// What was not tried and why, kinds with one reason together.
pub(crate) fn not_tried(cell: &Cell) -> Vec<String> {
    let mut said: Vec<(Vec<&str>, &str)> = Vec::new();
    for one in &cell.not_tried {
        let same = said.iter_mut().find(|(_, why)| *why == one.why);
        match same {
            Some((names, _)) => names.push(one.name.as_str()),
            None => said.push((vec![one.name.as_str()], &one.why)),
        }
    }
    said.into_iter()
        .map(|(names, why)| format!("{}: {why}", names.join(", ")))
        .collect()
}

/// The columns of a table of remedies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    measure: Measure,
    times: TimeUnit,
    rates: RateUnit,
}

impl Columns {
    /// One unit for all of a cell.
    pub(crate) fn of(cell: &Cell) -> Self {
        let all = || {
            let remedies = cell.remedies.iter().map(|remedy| &remedy.outcome);
            remedies.chain([&cell.today])
        };
        let largest = |of: fn(&Outcome) -> Option<f64>| all().filter_map(of).fold(0.0, f64::max);
        Self {
            measure: cell.measure,
            times: TimeUnit::for_times(largest(|outcome| outcome.median_s)),
            rates: RateUnit::for_rates(largest(|outcome| outcome.goodput_bps)),
        }
    }

    pub(crate) const fn unit(self) -> &'static str {
        match self.measure {
            Measure::Time => self.times.symbol(),
            Measure::Rate => self.rates.symbol(),
        }
    }

    pub(crate) fn heads(self) -> Vec<String> {
        let heads = match self.measure {
            Measure::Time => ["remedy", "median", "saved", "of floor"],
            Measure::Rate => ["remedy", "median", "times", "of ceiling"],
        };
        heads.map(str::to_owned).to_vec()
    }

    pub(crate) fn row(self, remedy: &Remedy) -> Vec<String> {
        let outcome = &remedy.outcome;
        let (median, gained) = match self.measure {
            Measure::Time => (
                self.times.number_or_dash(outcome.median_s),
                self.times.number_or_dash(remedy.saved_s),
            ),
            Measure::Rate => (
                self.rates.number_or_dash(outcome.goodput_bps),
                remedy
                    .ratio
                    .map_or_else(|| DASH.into(), crate::quantity::times),
            ),
        };
        let share = outcome.share_of_floor;
        vec![
            remedy.change.clone(),
            median,
            gained,
            share.map_or_else(|| DASH.into(), percent),
        ]
    }

    /// Where transfers of a block differ, as on a connection that grows: each by its place.
    pub(crate) fn places(self, remedy: &Remedy) -> Option<String> {
        let places = &remedy.outcome.by_position_s;
        let (first, last) = (places.first()?, places.last()?);
        // A tenth is what people would call another time.
        if self.measure == Measure::Rate || (first - last).abs() <= 0.1 * first {
            return None;
        }
        let shown: Vec<String> = places
            .iter()
            .take(MOST_PLACES)
            .map(|seconds| self.times.number(*seconds))
            .collect();
        Some(format!(
            "{}: {} {}, one after the other",
            remedy.change,
            shown.join(", "),
            self.times.symbol()
        ))
    }
}
