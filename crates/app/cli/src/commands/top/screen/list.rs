//! The table of connections, with the host above it and the keys below.

use live::Watched;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table};
use report::{bytes, rate, short_seconds};

use super::detail;
use super::view::View;
use crate::commands::top::session::Session;

const KEYS: &str = "↑↓ choose  Enter history  s/S sort  / filter  p pause  ? help  q leave";

const HELP: &str = "\
 ↑ ↓ j k PgUp PgDn g G   choose a connection
 Enter or →              its history;  Esc or ← goes back
 s or >, S or <          sort by the next, by the one before
 / or f                  filter: dport = :443 and limit receive-window; Enter takes it
 p or space              pause: nothing is read meanwhile
 q or Ctrl-C             leave

 out, in    payload acknowledged, received per second since the last reading
 rtt, min   smoothed round-trip time, and the smallest of the kernel's window
 again      segments sent again since the connection was made
 limit      what holds this end's sending back, and for how long it has been so
 >          at least: it was so before the first reading";

/// More would not be read by anybody: scrolling ends here, sorting and filtering find the rest.
const LISTED: usize = 2000;

pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View, session: &Session) {
    let head = head(view, session);
    let height = u16::try_from(head.lines.len()).unwrap_or(u16::MAX);
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(height),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head), top);
    match view.detail.and_then(|id| session.board.find(id)) {
        Some(watched) => detail::draw(frame, middle, watched, &session.board),
        None if view.detail.is_some() => {
            let gone = "this connection is no more; Esc goes back";
            frame.render_widget(Paragraph::new(gone), middle);
        }
        None => table(frame, middle, view, session),
    }
    frame.render_widget(Paragraph::new(foot(view)), bottom);
    if view.help {
        help(frame);
    }
}

fn head<'a>(view: &View, session: &Session) -> Text<'a> {
    let summary = session.board.summary(&session.filter);
    let mut lines = vec![Line::styled(
        format!(
            "{} connections   {} out   {} in   {:.0} segments/s sent again   every {} for {:.1} % of a core{}",
            summary.connections,
            rate(summary.out_bps),
            rate(summary.in_bps),
            summary.retransmissions_per_s,
            short_seconds(session.wait().as_secs_f64()),
            100.0 * session.cost.as_secs_f64() / session.wait().as_secs_f64().max(1e-3),
            if view.is_paused() { "   PAUSED" } else { "" },
        ),
        Style::new().add_modifier(Modifier::BOLD),
    )];
    let joined = |words: Vec<String>| words.join(", ");
    let states = summary.states.iter();
    let states = joined(
        states
            .map(|(name, count)| format!("{name} {count}"))
            .collect(),
    );
    let limits = summary.limits.iter();
    let limits = joined(
        limits
            .map(|(name, count)| format!("{name} {count}"))
            .collect(),
    );
    lines.push(Line::raw(format!("states  {states}")));
    lines.push(Line::raw(format!("limits  {limits}")));
    for pile in session.board.close_wait(&session.filter).iter().take(3) {
        lines.push(Line::styled(
            report::text::close_wait(pile),
            Style::new().add_modifier(Modifier::REVERSED),
        ));
    }
    for relay in session.relays.iter().take(4) {
        lines.push(Line::raw(format!("relay   {}", report::text::relay(relay))));
    }
    if let Some(trouble) = &session.trouble {
        lines.push(Line::raw(format!("relay   {trouble}")));
    }
    Text::from(lines)
}

fn foot<'a>(view: &View) -> Line<'a> {
    match (&view.writing, &view.mistake) {
        (Some(text), Some(mistake)) => Line::raw(format!("filter: {text}_   {mistake}")),
        (Some(text), None) => Line::raw(format!("filter: {text}_")),
        (None, _) if view.filter.is_empty() => Line::raw(KEYS),
        (None, _) => Line::raw(format!("[{}]  {KEYS}", view.filter)),
    }
}

/// A column: its head, its width, whether numbers stand in it, and from which width of the screen on it is
/// shown.
const COLUMNS: [(&str, Constraint, bool, u16); 13] = [
    ("process", Constraint::Length(12), false, 70),
    ("local", Constraint::Fill(2), false, 110),
    ("peer", Constraint::Fill(2), false, 0),
    ("state", Constraint::Length(11), false, 0),
    ("for", Constraint::Length(8), true, 90),
    ("out", Constraint::Length(12), true, 0),
    ("in", Constraint::Length(12), true, 60),
    ("rtt", Constraint::Length(8), true, 0),
    ("min", Constraint::Length(8), true, 120),
    ("cwnd", Constraint::Length(9), true, 100),
    ("flight", Constraint::Length(9), true, 130),
    ("again", Constraint::Length(7), true, 80),
    ("limit, for", Constraint::Length(28), false, 0),
];

fn table(frame: &mut Frame<'_>, area: Rect, view: &mut View, session: &Session) {
    let (listed, all) = session.board.top(&session.filter, session.order, LISTED);
    view.height = usize::from(area.height.saturating_sub(2));
    let place = view.place(listed.iter().map(|watched| watched.id).collect());
    if place < view.first {
        view.first = place;
    } else if place >= view.first + view.height {
        view.first = place + 1 - view.height;
    }
    view.first = view
        .first
        .min(listed.len().saturating_sub(view.height.max(1)));
    let shown = |column: &(&str, Constraint, bool, u16)| area.width >= column.3;
    let rows = listed
        .iter()
        .enumerate()
        .skip(view.first)
        .take(view.height)
        .map(|(number, watched)| {
            let cells = COLUMNS
                .iter()
                .zip(cells(watched, session))
                .filter(|(column, _)| shown(column))
                .map(|(column, text)| cell(text, column.2));
            let row = Row::new(cells.collect::<Vec<_>>());
            if number == place {
                row.style(Style::new().add_modifier(Modifier::REVERSED))
            } else {
                row
            }
        });
    let widths = COLUMNS.iter().filter(|column| shown(column)).map(|c| c.1);
    let heads = COLUMNS
        .iter()
        .filter(|column| shown(column))
        .map(|column| cell(column.0.to_owned(), column.2));
    let title = format!(
        " by {}   {} to {} of {all} ",
        session.order.as_str(),
        (view.first + 1).min(listed.len()),
        (view.first + view.height).min(listed.len()),
    );
    let table = Table::new(rows.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
        .header(
            Row::new(heads.collect::<Vec<_>>()).style(Style::new().add_modifier(Modifier::BOLD)),
        )
        .block(
            Block::new()
                .title_top(title)
                .borders(ratatui::widgets::Borders::TOP),
        );
    frame.render_widget(table, area);
}

fn cell<'a>(text: String, is_number: bool) -> Cell<'a> {
    let text = Text::from(text);
    Cell::from(if is_number {
        text.right_aligned()
    } else {
        text
    })
}

fn cells(watched: &Watched, session: &Session) -> [String; 13] {
    let row = session.board.row(watched);
    let time = |time: Option<f64>| time.map_or_else(|| "–".to_owned(), short_seconds);
    let local = match &row.namespace {
        Some(namespace) => format!("{namespace}: {}", row.local),
        None => row.local.clone(),
    };
    let at_least = if row.state_seen { "" } else { ">" };
    [
        row.process
            .map_or_else(|| "–".to_owned(), |process| printable(&process.name)),
        printable(&local),
        row.peer,
        row.state.to_string(),
        format!("{at_least}{}", short_seconds(row.state_s)),
        rate(row.out_bps),
        rate(row.in_bps),
        time(row.rtt_s),
        time(row.min_rtt_s),
        bytes(row.cwnd_bytes),
        bytes(row.in_flight_bytes),
        row.retransmissions.to_string(),
        format!("{} {}", row.limit, short_seconds(row.limit_s)),
    ]
}

/// A process chooses its own name: what could move the cursor stays out.
fn printable(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

fn help(frame: &mut Frame<'_>) {
    let lines = u16::try_from(HELP.lines().count()).unwrap_or(u16::MAX);
    let area = frame.area();
    let [middle] = Layout::vertical([Constraint::Length(lines.saturating_add(2))])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    let [middle] = Layout::horizontal([Constraint::Length(90)])
        .flex(ratatui::layout::Flex::Center)
        .areas(middle);
    frame.render_widget(Clear, middle);
    let text = Paragraph::new(HELP).block(Block::bordered().title(" keys and columns "));
    frame.render_widget(text, middle);
}
