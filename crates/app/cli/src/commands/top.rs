//! `longhaul top`: live connections of this host and of running relays.

pub(crate) mod arguments;
mod lines;
mod screen;
mod session;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::commands::flow::on_signal;
use crate::failure::{Blame as _, Failure};
use crate::output;
use arguments::Top;
use lines::Lines;
use session::Session;

/// How soon a signal is heard.
const NAP: Duration = Duration::from_millis(50);

pub(crate) fn run(arguments: &Top) -> Result<ExitCode, Failure> {
    let filter = arguments
        .filter()
        .usage("`--filter` cannot be understood")?;
    let mut session = Session::open(arguments, filter)?;
    let mut lines = Lines::open(arguments, &session)?;
    if arguments.once {
        return once(arguments, &mut session, &mut lines);
    }
    if arguments.json || !std::io::stdout().is_terminal() {
        if !arguments.json && arguments.record.is_none() {
            return once(arguments, &mut session, &mut lines);
        }
        return stream(arguments, &mut session, &mut lines);
    }
    screen::run(arguments, &mut session, &mut lines)?;
    lines.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Two readings, because goodput lies between them, and a table.
fn once(arguments: &Top, session: &mut Session, lines: &mut Lines) -> Result<ExitCode, Failure> {
    session.read()?;
    lines.write(&session.reading(true))?;
    std::thread::sleep(arguments.interval.get());
    session.read()?;
    let mut reading = session.reading(true);
    lines.write(&reading)?;
    lines.finish()?;
    if !arguments.json {
        reading.connections.truncate(arguments.count);
        let width = terminal_size::terminal_size().map_or(160, |(width, _)| usize::from(width.0));
        output::data(&report::text::top(&reading, width, output::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line per reading until the time is up, a signal comes or nobody listens any more.
fn stream(arguments: &Top, session: &mut Session, lines: &mut Lines) -> Result<ExitCode, Failure> {
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&stopped);
    on_signal(Arc::new(move || stop.store(true, Ordering::Relaxed)))?;
    let began = Instant::now();
    let end = arguments.duration.map(|span| began + span.get());
    let mut is_first = true;
    loop {
        let read_at = Instant::now();
        session.read()?;
        let goes_on = lines.write(&session.reading(is_first))?;
        is_first = false;
        if !goes_on {
            break;
        }
        let next_at = read_at + session.wait();
        while !stopped.load(Ordering::Relaxed) && Instant::now() < next_at {
            std::thread::sleep(NAP.min(next_at.saturating_duration_since(Instant::now())));
        }
        if stopped.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
    }
    lines.finish()?;
    Ok(ExitCode::SUCCESS)
}
