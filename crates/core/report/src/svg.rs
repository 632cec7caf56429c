//! Pictures of records: axes with units, legends, and colours that differ also in lightness and dash.
//!
//! Every function returns one `<svg>` element that stands alone: its style sheet is inside, follows the
//! reader's light or dark scheme, and nothing is fetched. Title and description say in words what the
//! picture shows. Pages that hold several pictures use [`html`](crate::html), which shares one sheet.

mod axis;
mod budget;
mod canvas;
mod distribution;
mod legend;
mod series;
mod style;
mod sweep;
mod trace;

use record::explain::Connection;
use record::lab::{Arm, Cell, Document};

use crate::excerpt::Excerpt;

pub(crate) use budget::{Row, budgets};
pub(crate) use distribution::{completion, strips};
pub(crate) use series::{Track, time_series, tracks};
pub(crate) use style::{Sheet, limit_class};
pub(crate) use sweep::along;
pub(crate) use trace::{Scale, in_flight, sequence};

/// Sheet of all pictures, for pages.
pub(crate) const STYLE: &str = style::STYLE;

/// The sequence graph of a connection, as Stevens drew it: data segments, ACKs, the edge of the receive
/// window, and retransmissions marked; below the axis, which limit held. `None` without points.
pub fn sequence_graph(connection: &Connection) -> Option<String> {
    let excerpt = Excerpt::whole(connection)?;
    Some(sequence(&excerpt, &Scale::of(&[&excerpt]), Sheet::Own))
}

/// Bytes in flight of a connection against the receive window. `None` without points.
pub fn in_flight_graph(connection: &Connection) -> Option<String> {
    let excerpt = Excerpt::whole(connection)?;
    Some(in_flight(&excerpt, &Scale::of(&[&excerpt]), Sheet::Own))
}

/// The share of transfers that had ended after a time, per arm, with the floor.
pub fn completion_times(cell: &Cell) -> String {
    completion(cell, Sheet::Own)
}

/// Every transfer of every arm as a point, with quartiles, median, floor and the field report's figures.
pub fn transfers(cell: &Cell) -> String {
    strips(cell, Sheet::Own)
}

/// Goodput, congestion window, RTT, bytes in flight and queue over the transfer that took the median time,
/// per arm. `None` where no arm has a series.
pub fn transfer_over_time(cell: &Cell) -> Option<String> {
    time_series(cell, MOST_POINTS, Sheet::Own)
}

/// Goodput of every arm along each numeric factor of a sweep (RTT, loss, ...), one picture for each
/// combination of the others; empty without a sweep.
pub fn goodput_along_factors(document: &Document) -> Vec<String> {
    let slices = crate::sweep::slices(document);
    slices
        .iter()
        .map(|slice| along(slice, Sheet::Own))
        .collect()
}

/// Most points of a line; more would not be seen.
pub(crate) const MOST_POINTS: usize = 500;

/// Where each second of a transfer went, per arm.
pub fn limit_budgets(arms: &[Arm]) -> String {
    let rows: Vec<Row<'_>> = arms
        .iter()
        .map(|arm| Row {
            name: &arm.name,
            limits: &arm.limits,
        })
        .collect();
    budgets(&rows, Sheet::Own)
}
