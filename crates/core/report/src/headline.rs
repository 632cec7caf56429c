//! A lab run in one sentence.

use record::lab::{Arm, Cell, Document};

use crate::quantity::{bytes, percent, seconds, times};

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
        let fastest = || {
            cell.arms
                .iter()
                .filter_map(|arm| Some((arm, arm.median_s?)))
                .min_by(|(_, one), (_, other)| one.total_cmp(other))
                .map(|(arm, _)| arm)
        };
        let after = named("relay").or_else(fastest)?;
        let factor = before.median_s? / after.median_s.filter(|median| *median > 0.0)?;
        (before.name != after.name && factor.is_finite()).then_some(Self {
            cell,
            before,
            after,
            factor,
        })
    }
}

/// The run's result in one sentence, for the first cell that has one.
pub(crate) fn of(document: &Document) -> Option<String> {
    sentence(&document.cells.iter().find_map(Contrast::of)?)
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
    let verdict = if *factor >= 1.0 {
        format!("{} times faster", times(*factor))
    } else {
        format!("{} times slower", times(1.0 / factor))
    };
    Some(format!(
        "{} over {}: {} {}, {} {}. That is {verdict} and {} of what the path allows.",
        bytes(cell.bytes),
        seconds(rtt),
        before.name,
        seconds(before.median_s?),
        after.name,
        seconds(after.median_s?),
        percent(after.share_of_floor?),
    ))
}
