//! The only place that writes to the terminal. stdout is data, stderr is talk.

#![expect(clippy::print_stderr, reason = "this module is the program's voice")]

use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::CommandFactory as _;
use report::text::Style;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::failure::{Blame as _, Failure};

/// Writes data to stdout. A reader that has gone is success: it has what it wanted.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    stream(text).map(drop)
}

/// Writes a part of a stream to stdout; whether anybody still reads it.
pub(crate) fn stream(text: &str) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).environment("cannot write to standard output"),
        Ok(()) => Ok(true),
    }
}

/// Writes one JSON document, indented for people, with a final newline.
pub(crate) fn json(document: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(document).bug("cannot serialise the result")?;
    text.push('\n');
    data(&text)
}

/// Writes one JSON document that may be larger than memory has room for twice: a piece at a time, and without
/// indentation, which would make most of it.
pub(crate) fn large_json(document: &impl Serialize) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let written = serde_json::to_writer(&mut out, document).map_err(io::Error::from);
    let written = written
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            // What is left would be tried once more.
            let _ = out.into_parts();
            Ok(())
        }
        other => other.environment("cannot write to standard output"),
    }
}

/// Writes one JSON value on a line of its own, for streams.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string(value).bug("cannot serialise an event")?;
    text.push('\n');
    data(&text)
}

/// Says something to the person, on stderr.
pub(crate) fn say(text: &str) {
    // Where nobody listens any more there is nobody to tell, and that must not end what is under way.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Colour where it helps: on a terminal, unless somebody said no (<https://no-color.org>).
pub(crate) fn style() -> Style {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted && io::stdout().is_terminal() {
        Style::Colour
    } else {
        Style::Plain
    }
}

/// Prints a failure: what, the chain of causes once each, and the next step.
pub(crate) fn failure(failure: &Failure) -> ExitCode {
    eprintln!("error: {}", failure.error);
    for cause in failure.error.chain().skip(1) {
        eprintln!("  caused by: {cause}");
    }
    if let Some(hint) = &failure.hint {
        eprintln!("hint: {hint}");
    }
    ExitCode::from(failure.kind.exit_code())
}

/// Prints what clap has to say: help on stdout with success, a usage error on stderr with code 2.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // A broken pipe while printing help is nobody's failure.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    }
}

/// Prints the overview of all verbs.
pub(crate) fn help() -> ExitCode {
    let _ = Arguments::command().print_help();
    ExitCode::from(2)
}
