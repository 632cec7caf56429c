//! What a serving process writes its events with. A full disk, or a reader that has gone, costs the events and
//! nothing else: it is told of once where anybody may still listen, counted, and told of in the log itself once
//! that can be written again.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::lines::{Fate, Lines, Loss};

use crate::output;

/// Writes lines, each as a whole.
#[derive(Debug)]
pub(super) struct Pen {
    /// None where nothing is open.
    lines: Option<Lines>,
    /// Whether standard error is another file than this.
    may_say: bool,
    regained: Mutex<Option<Loss>>,
}

/// A line of the log on its way.
#[derive(Debug)]
pub(super) struct LogLine(Arc<Pen>);

// === impl Pen ===

impl Pen {
    /// For JSON lines on standard output.
    pub(super) fn of_events() -> Self {
        Self::new(Lines::to_copy_of(io::stdout()), true)
    }

    /// For the log on standard error.
    pub(super) fn of_log() -> Self {
        Self::new(Lines::to_copy_of(io::stderr()), false)
    }

    /// Somebody who has closed the file wants to hear nothing.
    fn new(lines: io::Result<Lines>, may_say: bool) -> Self {
        Self {
            lines: lines.ok(),
            may_say,
            regained: Mutex::default(),
        }
    }

    /// For one line of the log.
    pub(super) fn log(self: &Arc<Self>) -> LogLine {
        LogLine(Arc::clone(self))
    }

    /// Writes a line, which brings its own end.
    pub(super) fn write(&self, line: &[u8]) {
        let Some(lines) = &self.lines else {
            return;
        };
        match lines.write(line) {
            Fate::Written => {}
            Fate::WrittenAfter(loss) => *self.regained_mut() = Some(loss),
            Fate::Lost => relay::count_lost(relay::Loss::Log, 1),
            Fate::FirstLost(why) => {
                relay::count_lost(relay::Loss::Log, 1);
                // A reader that has gone has heard what it wanted.
                if self.may_say && why.kind() != io::ErrorKind::BrokenPipe {
                    output::say(&format!(
                        "events cannot be written to standard output: {why}; the relay goes on and counts them \
                         (longhaul_lines_lost_total)"
                    ));
                }
            }
        }
    }

    /// What was lost, told once, when lines can be written again.
    pub(super) fn regained(&self) -> Option<Loss> {
        self.regained_mut().take()
    }

    fn regained_mut(&self) -> MutexGuard<'_, Option<Loss>> {
        // One value: valid whatever its holder was doing when it panicked.
        self.regained.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl LogLine ===

impl Write for LogLine {
    /// The log gives each line whole, and is never told of a failure: it could do nothing about it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
