//! One connection: what it is, where its time went, and its last minutes in charts.

use live::{Board, Point, Watched};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Axis, Block, Borders, Chart, Dataset, GraphType, Paragraph};
use record::top::Connection;
use report::{bytes, rate, short_seconds};

/// A curve: its name, its colour and what it shows of a point.
type Curve = (&'static str, Color, fn(&Point) -> f32);

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, watched: &Watched, board: &Board) {
    let row = board.row(watched);
    let facts = facts(&row);
    let height = u16::try_from(facts.lines.len()).unwrap_or(u16::MAX);
    let [top, charts] =
        Layout::vertical([Constraint::Length(height), Constraint::Min(6)]).areas(area);
    frame.render_widget(Paragraph::new(facts), top);
    let [goodput, below] =
        Layout::vertical([Constraint::Ratio(1, 2), Constraint::Ratio(1, 2)]).areas(charts);
    let [rtt, window] =
        Layout::horizontal([Constraint::Ratio(1, 2), Constraint::Ratio(1, 2)]).areas(below);
    let points: Vec<Point> = watched.history.points().copied().collect();
    let out: Curve = ("out", Color::Green, |point| point.out_bps);
    let into: Curve = ("in", Color::Blue, |point| point.in_bps);
    chart(frame, goodput, "goodput", &points, &[out, into], rate);
    let smoothed: Curve = ("rtt", Color::Yellow, |point| point.rtt_s);
    chart(
        frame,
        rtt,
        "round-trip time",
        &points,
        &[smoothed],
        short_seconds,
    );
    let cwnd: Curve = ("cwnd", Color::Cyan, |point| point.cwnd);
    let flight: Curve = ("in flight", Color::Magenta, |point| point.in_flight);
    chart(
        frame,
        window,
        "congestion window",
        &points,
        &[cwnd, flight],
        |value| bytes(whole(value)),
    );
}

fn facts<'a>(row: &Connection) -> Text<'a> {
    let process = row.process.as_ref().map_or_else(String::new, |process| {
        format!("   {} ({})", process.name, process.pid)
    });
    let time = |time: Option<f64>| time.map_or_else(|| "–".to_owned(), short_seconds);
    let size = |size: Option<u64>| size.map_or_else(|| "–".to_owned(), bytes);
    let mut lines = vec![
        Line::raw(format!(
            "{} → {}   {} for {}{}   {}{process}",
            row.local,
            row.peer,
            row.state,
            if row.state_seen { "" } else { "more than " },
            short_seconds(row.state_s),
            row.congestion_control.as_deref().unwrap_or("–"),
        )),
        Line::raw(format!(
            "sent {}   received {}   rtt {} (least {})   again {}   queued {} to send, {} to read",
            size(row.bytes_out),
            size(row.bytes_in),
            time(row.rtt_s),
            time(row.min_rtt_s),
            row.retransmissions,
            bytes(row.send_queue_bytes),
            bytes(row.receive_queue_bytes),
        )),
        Line::raw(format!(
            "cwnd {}   in flight {}   ssthresh {}   peer's window {}   delivery {}",
            bytes(row.cwnd_bytes),
            bytes(row.in_flight_bytes),
            size(row.ssthresh_bytes),
            size(row.peer_window_bytes),
            row.delivery_bps.map_or_else(|| "–".to_owned(), rate),
        )),
        Line::raw(format!(
            "now {} for {}; since it is watched:",
            row.limit,
            short_seconds(row.limit_s)
        )),
    ];
    if let Some(relayed) = &row.relayed {
        let other = relayed.other.as_deref().unwrap_or("nobody yet");
        let line = format!(
            "relayed by {} as {}, listener {}: its {} side; at the other {other}",
            relayed.admin,
            relayed.connection,
            relayed.listener,
            relayed.side.as_str(),
        );
        lines.insert(1, Line::raw(line));
    }
    let whole: f64 = row.limits.values().sum();
    let mut limits: Vec<_> = row.limits.iter().collect();
    limits.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    for (name, seconds) in limits.into_iter().take(6) {
        let share = if whole > 0.0 { seconds / whole } else { 0.0 };
        lines.push(Line::raw(format!(
            "  {name:<22} {:>8}  {:>5.1} %  {}",
            short_seconds(*seconds),
            share * 100.0,
            bar(share)
        )));
    }
    Text::from(lines)
}

/// A bar of at most forty characters.
fn bar(share: f64) -> String {
    (0..40_u8)
        .take_while(|step| f64::from(*step) + 0.5 <= share * 40.0)
        .map(|_| '█')
        .collect()
}

fn chart(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    points: &[Point],
    curves: &[Curve],
    label: impl Fn(f64) -> String,
) {
    let drawn: Vec<Vec<(f64, f64)>> = curves
        .iter()
        .map(|(_, _, value)| {
            let points = points.iter();
            points
                .map(|point| (f64::from(point.at_s), f64::from(value(point))))
                .collect()
        })
        .collect();
    let highest = drawn
        .iter()
        .flatten()
        .map(|(_, value)| *value)
        .fold(0.0, f64::max);
    let top = if highest > 0.0 { highest * 1.05 } else { 1.0 };
    let first = points.first().map_or(0.0, |point| f64::from(point.at_s));
    let last = points
        .last()
        .map_or(1.0, |point| f64::from(point.at_s))
        .max(first + 1.0);
    let sets = curves
        .iter()
        .zip(&drawn)
        .map(|((name, colour, _), points)| {
            Dataset::default()
                .name(*name)
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(Style::new().fg(*colour))
                .data(points)
        })
        .collect();
    let past = format!("-{}", short_seconds(last - first));
    let chart = Chart::new(sets)
        .block(
            Block::new()
                .borders(Borders::TOP)
                .title_top(format!(" {title} ")),
        )
        .x_axis(
            Axis::default()
                .bounds([first, last])
                .labels([past, "now".to_owned()]),
        )
        .y_axis(
            Axis::default()
                .bounds([0.0, top])
                .labels([label(0.0), label(highest)]),
        );
    frame.render_widget(chart, area);
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a label on an axis that begins at zero"
)]
const fn whole(value: f64) -> u64 {
    value as u64
}
