//! The end of a lab run: what was measured, against floor, field report and prediction.

use record::lab::{Arm, Cell, Document, Priming};

use super::layout::{Align, Table, paragraph};
use super::{Emphasis, Style};
use crate::clean::for_terminal;
use crate::measure::Measured;
use crate::quantity::{DASH, percent, ratio, seconds, seconds_or_dash};
use crate::{headline, sentence};

/// Columns that the table may use.
const WIDTH: usize = 80;

/// A lab run as a table, up to 80 columns wide; ends with a newline.
pub fn lab(document: &Document, style: Style) -> String {
    let mut text = String::new();
    let title = format!(
        "{}  seed {}",
        for_terminal(&document.scenario),
        document.seed
    );
    line(&mut text, &style.paint(Emphasis::Heading, &title));
    if let Some(sentence) = headline::of(document) {
        text.push_str(&paragraph("", &sentence, WIDTH));
    }
    if let Some(conduct) = &document.conduct {
        text.push_str(&paragraph("", &sentence::conduct(conduct), WIDTH));
    }
    if let Some(why) = &document.broken {
        let warning = paragraph("Broken off: ", why, WIDTH);
        line(&mut text, &style.paint(Emphasis::Alarm, warning.trim_end()));
    }
    if document.interrupted {
        let warning = "Interrupted: what stands here was measured, the rest is missing.";
        line(&mut text, &style.paint(Emphasis::Notice, warning));
    }
    for cell in &document.cells {
        text.push('\n');
        cell_text(&mut text, cell, style);
    }
    priming(&mut text, &document.priming, style);
    assertions(&mut text, document, style);
    text
}

fn cell_text(text: &mut String, cell: &Cell, style: Style) {
    let title = paragraph("", &sentence::cell_title(cell), WIDTH);
    line(text, &style.paint(Emphasis::Heading, title.trim_end()));
    text.push_str(&paragraph("  path   ", &sentence::path(&cell.path), WIDTH));
    if let Some(bound) = sentence::bound(cell) {
        let label = format!("  {}  ", Measured::of(cell).bound_name());
        text.push_str(&paragraph(&label, &bound, WIDTH));
    }
    if !cell.valid {
        let why = cell.why.as_deref().unwrap_or("no reason is recorded");
        let warning = paragraph("  not valid: ", why, WIDTH);
        text.push_str(&style.paint(Emphasis::Alarm, warning.trim_end_matches('\n')));
        text.push('\n');
    }
    for arm in &cell.arms {
        if let Some(invalid) = sentence::invalid_blocks(arm) {
            let lines = paragraph("  ", &invalid, WIDTH);
            text.push_str(&style.paint(Emphasis::Notice, lines.trim_end_matches('\n')));
            text.push('\n');
        }
    }
    arms(text, cell, style);
    reported(text, cell);
    comparisons(text, cell);
    transport(text, cell);
    for prediction in &cell.predictions {
        let label = format!("  predicted for {}: ", for_terminal(&prediction.arm));
        let error = prediction.error.map_or_else(String::new, |error| {
            format!(" ({} %)", sentence::signed_percent(error))
        });
        let said = format!(
            "{}, measured {}{error}. {}",
            seconds(prediction.predicted_s),
            seconds_or_dash(prediction.measured_s),
            prediction.derivation
        );
        text.push_str(&paragraph(&label, &said, WIDTH));
    }
}

/// The table of a cell's arms, and below it what belongs to single arms.
fn arms(text: &mut String, cell: &Cell, style: Style) {
    let mut table = if Measured::of(cell).is_rate() {
        rates(cell)
    } else {
        times(cell)
    };
    table.fit(WIDTH);
    let lines = table.lines();
    for (index, row) in lines.iter().enumerate() {
        let emphasis = match index.checked_sub(1) {
            None => Some(Emphasis::Quiet),
            Some(arm) => emphasis_of(cell, arm),
        };
        line(
            text,
            &emphasis.map_or_else(|| row.clone(), |emphasis| style.paint(emphasis, row)),
        );
    }
    positions(text, cell);
    for arm in &cell.arms {
        if let Some(first) = arm.first_unprimed_s {
            let label = format!("  {}: ", for_terminal(&arm.name));
            let said = format!("first transfer through an unprimed pool {}", seconds(first));
            text.push_str(&paragraph(&label, &said, WIDTH));
        }
    }
}

fn times(cell: &Cell) -> Table {
    use Align::{Left, Right};
    let unit = sentence::time_unit(cell);
    let mut table = Table::new(2, &[Left, Right, Right, Left, Right, Right, Right]);
    table.row([
        format!("times in {}", unit.symbol()),
        "n".into(),
        "median".into(),
        "95 % of median".into(),
        "p05".into(),
        "p95".into(),
        "of floor".into(),
    ]);
    for arm in &cell.arms {
        table.row([
            name_with_failures(arm),
            arm.n.to_string(),
            unit.number_or_dash(arm.median_s),
            unit.interval(arm.ci95_s),
            unit.number_or_dash(arm.p05_s),
            unit.number_or_dash(arm.p95_s),
            arm.share_of_floor.map_or_else(|| DASH.into(), percent),
        ]);
    }
    table
}

fn rates(cell: &Cell) -> Table {
    use Align::{Left, Right};
    let unit = sentence::rate_unit(cell);
    let measured = Measured::of(cell);
    let mut table = Table::new(2, &[Left, Right, Right, Left, Right]);
    table.row([
        format!("goodput in {}", unit.symbol()),
        "n".into(),
        "median".into(),
        "95 % of median".into(),
        "of ceiling".into(),
    ]);
    for arm in &cell.arms {
        table.row([
            name_with_failures(arm),
            arm.n.to_string(),
            unit.number_or_dash(measured.median(arm)),
            unit.interval(measured.interval(arm)),
            arm.share_of_floor.map_or_else(|| DASH.into(), percent),
        ]);
    }
    table
}

fn name_with_failures(arm: &Arm) -> String {
    if arm.failed == 0 {
        arm.name.clone()
    } else {
        format!("{} ({} failed)", arm.name, arm.failed)
    }
}

/// What the field report measured, beside what was measured here.
fn reported(text: &mut String, cell: &Cell) {
    let measured = Measured::of(cell);
    let unit = sentence::time_unit(cell);
    for arm in &cell.arms {
        let figures = measured.reported(arm);
        if figures.is_empty() {
            continue;
        }
        let shown = if measured.is_rate() {
            let rates = figures.iter().map(|figure| measured.shown(*figure));
            rates.collect::<Vec<_>>().join(", ")
        } else {
            format!("{} {}", unit.reported(figures), unit.symbol())
        };
        let said = format!("field report, {}: {shown}", arm.name);
        text.push_str(&paragraph("  ", &said, WIDTH));
    }
}

/// Every other arm against the first.
fn comparisons(text: &mut String, cell: &Cell) {
    use Align::{Left, Right};
    let Some(first) = cell.comparisons.first() else {
        return;
    };
    let unit = sentence::time_unit(cell);
    let mut table = Table::new(2, &[Left, Right, Left, Right, Right, Right]);
    table.row([
        format!("against {}", first.against),
        "ratio".into(),
        "95 % of ratio".into(),
        "difference".into(),
        "p".into(),
        "effect".into(),
    ]);
    for comparison in &cell.comparisons {
        let interval = comparison.ratio_ci95.map_or_else(
            || DASH.into(),
            |(low, high)| format!("{} to {}", ratio(low), ratio(high)),
        );
        table.row([
            comparison.arm.clone(),
            comparison.ratio.map_or_else(|| DASH.into(), ratio),
            interval,
            sentence::difference(comparison, unit),
            comparison.p.map_or_else(|| DASH.into(), sentence::p_value),
            sentence::effect(comparison.effect),
        ]);
    }
    table.fit(WIDTH);
    text.push('\n');
    for row in table.lines() {
        line(text, &row);
    }
    let tests = sentence::tests(&cell.comparisons);
    let tests = format!("{tests} The effect is Cliff's delta.");
    text.push_str(&paragraph("  ", &tests, WIDTH));
}

fn transport(text: &mut String, cell: &Cell) {
    let tables = [sentence::transport(cell), sentence::rivals(cell)];
    for of_cell in tables.into_iter().flatten() {
        let mut columns = vec![Align::Right; of_cell.heads.len()];
        if let Some(names) = columns.first_mut() {
            *names = Align::Left;
        }
        let mut table = Table::new(2, &columns);
        table.row(&of_cell.heads);
        for row in &of_cell.rows {
            table.row(row);
        }
        table.fit(WIDTH);
        text.push('\n');
        for row in table.lines() {
            line(text, &row);
        }
    }
}

/// Failures alarm; the relay is what people look for.
fn emphasis_of(cell: &Cell, index: usize) -> Option<Emphasis> {
    match cell.arms.get(index) {
        Some(arm) if arm.failed > 0 => Some(Emphasis::Alarm),
        Some(arm) if arm.name == "relay" => Some(Emphasis::Good),
        _ => None,
    }
}

/// Places in a block that have a column of their own, beside the last.
const FIRST_PLACES: usize = 5;

/// Where arms change from the first to the last transfer of a block, as a reused connection does.
fn positions(text: &mut String, cell: &Cell) {
    if Measured::of(cell).is_rate() {
        return;
    }
    let shown: Vec<&Arm> = cell
        .arms
        .iter()
        .filter(|arm| arm.by_position_s.len() > 1)
        .collect();
    let most = shown.iter().map(|arm| arm.by_position_s.len()).max();
    let Some(most) = most else { return };
    let unit = sentence::time_unit(cell);
    // What changes does so in the first few; the last shows where it ends.
    let places: Vec<usize> = (0..most)
        .filter(|place| *place < FIRST_PLACES || *place + 1 == most)
        .collect();
    let mut columns = vec![Align::Left];
    columns.resize(places.len() + 1, Align::Right);
    let mut table = Table::new(2, &columns);
    let heads = places.iter().map(|place| format!("{}.", place + 1));
    table.row(
        ["median by place in block".to_owned()]
            .into_iter()
            .chain(heads),
    );
    for arm in shown {
        let values = places
            .iter()
            .map(|place| unit.number_or_dash(arm.by_position_s.get(*place).copied()));
        table.row([arm.name.clone()].into_iter().chain(values));
    }
    table.fit(WIDTH);
    text.push('\n');
    for row in table.lines() {
        line(text, &row);
    }
}

fn priming(text: &mut String, priming: &[Priming], style: Style) {
    if priming.is_empty() {
        return;
    }
    text.push('\n');
    line(text, &style.paint(Emphasis::Heading, "Priming"));
    for cost in priming {
        let label = format!("  {}: ", for_terminal(&cost.arm));
        text.push_str(&paragraph(&label, &sentence::priming(cost), WIDTH));
    }
}

fn assertions(text: &mut String, document: &Document, style: Style) {
    if document.assertions.is_empty() {
        return;
    }
    text.push('\n');
    let held = document.assertions.iter().filter(|one| one.holds).count();
    let title = format!("Assertions: {held} of {} hold", document.assertions.len());
    line(text, &style.paint(Emphasis::Heading, &title));
    for assertion in &document.assertions {
        let (mark, emphasis) = if assertion.holds {
            ("  holds  ", Emphasis::Good)
        } else {
            ("  FAILS  ", Emphasis::Alarm)
        };
        let said = format!("{}  {}", assertion.text, assertion.detail);
        let lines = paragraph(mark, &said, WIDTH);
        // Only the mark is painted, after the line was broken by its real width.
        text.push_str(&style.paint(emphasis, mark));
        text.push_str(lines.strip_prefix(mark).unwrap_or(&lines));
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
