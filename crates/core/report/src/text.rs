//! Records as plain text for terminals: [`lab()`] and [`explain()`] in up to 80 columns.
//!
//! Nothing is said by colour alone; with [`Style::Colour`] headings and severities stand out more.

mod change;
mod commands;
mod explain;
mod icmp;
mod lab;
mod layout;
mod sessions;
mod top;
mod traffic;
mod tune;
mod what_if;

pub use change::change;
pub use explain::explain;
pub use lab::lab;
pub use top::{close_wait, relay, top};
pub use tune::tune;
pub use what_if::what_if;

/// Whether text may carry ANSI colours. The caller decides by `NO_COLOR` and the terminal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Style {
    /// Characters only.
    #[default]
    Plain,
    /// With ANSI escape sequences for colour and weight.
    Colour,
}

/// What an emphasis says; the words say it too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Emphasis {
    Heading,
    Good,
    Notice,
    Alarm,
    Quiet,
}

impl Style {
    fn paint(self, emphasis: Emphasis, text: &str) -> String {
        let code = match (self, emphasis) {
            (Self::Plain, _) => return text.into(),
            (Self::Colour, Emphasis::Heading) => "1",
            (Self::Colour, Emphasis::Good) => "1;32",
            (Self::Colour, Emphasis::Notice) => "1;33",
            (Self::Colour, Emphasis::Alarm) => "1;31",
            (Self::Colour, Emphasis::Quiet) => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}
