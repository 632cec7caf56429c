//! `longhaul top` on a terminal: a table that sorts and filters, and one connection's history.

mod detail;
mod list;
mod view;

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event};

use super::arguments::Top;
use super::lines::Lines;
use super::session::Session;
use crate::failure::{Blame as _, Failure};
use view::{Turn, View};

/// Draws and listens until somebody leaves or the time is up.
pub(super) fn run(
    arguments: &Top,
    session: &mut Session,
    lines: &mut Lines,
) -> Result<(), Failure> {
    session.read()?;
    let mut terminal = ratatui::try_init().environment("cannot use this terminal")?;
    let result = drive(arguments, session, lines, &mut terminal);
    ratatui::restore();
    result
}

fn drive(
    arguments: &Top,
    session: &mut Session,
    lines: &mut Lines,
    terminal: &mut ratatui::DefaultTerminal,
) -> Result<(), Failure> {
    let end = arguments.duration.map(|span| Instant::now() + span.get());
    let mut view = View::new(&arguments.filter);
    lines.write(&session.reading(true))?;
    let mut next_at = Instant::now() + session.wait();
    loop {
        terminal
            .draw(|frame| list::draw(frame, &mut view, session))
            .environment("cannot draw on this terminal")?;
        let until = end.map_or(next_at, |end| end.min(next_at));
        if is_key_before(until)? {
            let happened = event::read().environment("cannot read the keyboard")?;
            if let Event::Key(key) = happened
                && view.key(key, session) == Turn::Leave
            {
                return Ok(());
            }
            continue;
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(());
        }
        if view.is_paused() {
            next_at = Instant::now() + session.wait();
            continue;
        }
        session.read()?;
        lines.write(&session.reading(false))?;
        next_at = Instant::now() + session.wait();
    }
}

fn is_key_before(moment: Instant) -> Result<bool, Failure> {
    let patience = moment
        .saturating_duration_since(Instant::now())
        .max(Duration::from_millis(1));
    event::poll(patience).environment("cannot read the keyboard")
}

#[cfg(test)]
mod tests;
