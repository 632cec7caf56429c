//! A lab run in one sentence.

use record::lab::{Arm, Cell, Document};

use crate::measure::Measured;
use crate::quantity::{bytes, percent, seconds, times};
use crate::sentence;

/// Two arms of a cell: what people have, and what they could have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contrast<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) before: &'a Arm,
    pub(crate) after: &'a Arm,
    /// Median before over median after.
    pub(crate) factor: f64,
}

impl<'a> Contrast<'a> {
    /// `direct` against `relay`, or the first arm against the fastest where a scenario has others.
    pub(crate) fn of(cell: &'a Cell) -> Option<Self> {
        let named = |name: &str| cell.arms.iter().find(|arm| arm.name == name);
        let before = named("direct").or_else(|| cell.arms.first())?;
        let measured = Measured::of(cell);
        // How long a given amount takes, whatever the cell measures.
        let slowness = |arm: &Arm| {
            let median = measured.median(arm).filter(|median| *median > 0.0)?;
            Some(if measured.is_rate() {
                1.0 / median
            } else {
                median
            })
        };
        let fastest = || {
            let others = cell.arms.iter().filter(|arm| arm.name != before.name);
            others
                .filter_map(|arm| Some((arm, slowness(arm)?)))
                .min_by(|(_, one), (_, other)| one.total_cmp(other))
                .map(|(arm, _)| arm)
        };
        let after = named("relay").or_else(fastest)?;
        let factor = slowness(before)? / slowness(after)?;
        (before.name != after.name && factor.is_finite()).then_some(Self {
            cell,
            before,
            after,
            factor,
        })
    }
}

/// The run's result in one sentence, for the first cell that has one; of a sweep, for the cell in which
/// the arms differ most.
pub(crate) fn of(document: &Document) -> Option<String> {
    let swept = document.cells.iter().any(|cell| !cell.factors.is_empty());
    let mut contrasts = document.cells.iter().filter_map(Contrast::of);
    let contrast = if swept {
        let valid = contrasts.filter(|contrast| contrast.cell.valid);
        valid.max_by(|one, other| one.factor.total_cmp(&other.factor))?
    } else {
        contrasts.next()?
    };
    sentence(&contrast)
}

/// A cell's result in one sentence.
pub(crate) fn sentence(contrast: &Contrast<'_>) -> Option<String> {
    let Contrast {
        cell,
        before,
        after,
        factor,
    } = contrast;
    let rtt = cell.path.rtt_achieved_s.unwrap_or(cell.path.rtt_asked_s);
    let by = times(factor.max(1.0 / factor));
    let verdict = if by == times(1.0) {
        "as fast".to_owned()
    } else if *factor > 1.0 {
        format!("{by} times faster")
    } else {
        format!("{by} times slower")
    };
    let measured = Measured::of(cell);
    let what = if !cell.factors.is_empty() {
        sentence::cell_title(cell)
    } else if cell.bytes == 0 {
        format!("{} over {}", cell.workload, seconds(rtt))
    } else {
        format!("{} over {}", bytes(cell.bytes), seconds(rtt))
    };
    let share = after.share_of_floor.map_or_else(String::new, |share| {
        format!(" and {} of what the path allows", percent(share))
    });
    Some(format!(
        "{what}: {} {}, {} {}. That is {verdict}{share}.",
        before.name,
        measured.shown(measured.median(before)?),
        after.name,
        measured.shown(measured.median(after)?),
    ))
}
