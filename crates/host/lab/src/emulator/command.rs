//! What the emulator is told while it runs: words in lines.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use crate::emulator::EmulatorError;

/// One line of standard input.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Command {
    /// `counters`, or an empty line.
    Counters,
    /// `read`.
    Read,
    /// `start`.
    Start,
    /// `sample SECONDS`, or `sample off`.
    Sample(Option<Duration>),
    /// `quiet SECONDS`.
    Quiet(Duration),
    /// Anything else.
    Unknown(String),
}

/// Lines as they come, a part of one kept until its end has come.
#[derive(Debug)]
pub(super) struct Commands<'a> {
    input: &'a File,
    partial: Vec<u8>,
}

/// A command longer than this is none of ours; what came of it is dropped.
const LONGEST: usize = 4096;
/// Sampling more often would cost the packets their punctuality.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

// === impl Commands ===

impl<'a> Commands<'a> {
    pub(super) const fn new(input: &'a File) -> Self {
        Self {
            input,
            partial: Vec::new(),
        }
    }

    pub(super) const fn input(&self) -> &'a File {
        self.input
    }

    /// The commands that have arrived; `None` at the end. Waits where nothing has come.
    pub(super) fn read(&mut self) -> Result<Option<Vec<Command>>, EmulatorError> {
        let mut bytes = [0; 256];
        let length = self
            .input
            .read(&mut bytes)
            .map_err(|source| EmulatorError::ReadCommand { source })?;
        if length == 0 {
            return Ok(None);
        }
        let mut commands = Vec::new();
        for &byte in &bytes[..length] {
            if byte == b'\n' {
                let line = String::from_utf8_lossy(&self.partial);
                commands.push(Command::parse(&line));
                self.partial.clear();
            } else if self.partial.len() < LONGEST {
                self.partial.push(byte);
            }
        }
        Ok(Some(commands))
    }
}

// === impl Command ===

impl Command {
    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] | ["counters"] => Self::Counters,
            ["read"] => Self::Read,
            ["start"] => Self::Start,
            ["sample", "off"] => Self::Sample(None),
            ["sample", seconds] => match interval(seconds) {
                Some(interval) => Self::Sample(Some(interval)),
                None => Self::Unknown(line.to_owned()),
            },
            ["quiet", seconds] => match interval(seconds) {
                Some(span) => Self::Quiet(span),
                None => Self::Unknown(line.to_owned()),
            },
            _ => Self::Unknown(line.to_owned()),
        }
    }
}

fn interval(seconds: &str) -> Option<Duration> {
    let interval = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    (interval >= SHORTEST_INTERVAL).then_some(interval)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    #[test]
    fn lines_are_commands_and_what_is_none_is_kept_as_it_came() {
        let mut file = tempfile::tempfile().unwrap();
        let lines = "\ncounters\nread\nstart\nsample 0.01\nsample off\nsample 0\nsample x\nquiet 0.02\nquiet\nreed\nrea";
        file.write_all(lines.as_bytes()).unwrap();
        file.rewind().unwrap();
        let mut commands = Commands::new(&file);
        let unknown = |line: &str| Command::Unknown(line.to_owned());
        assert_eq!(
            commands.read().unwrap().unwrap(),
            [
                Command::Counters,
                Command::Counters,
                Command::Read,
                Command::Start,
                Command::Sample(Some(Duration::from_millis(10))),
                Command::Sample(None),
                unknown("sample 0"),
                unknown("sample x"),
                Command::Quiet(Duration::from_millis(20)),
                unknown("quiet"),
                unknown("reed"),
            ]
        );
        assert_eq!(commands.read().unwrap(), None);
    }

    #[test]
    fn a_command_may_come_in_parts() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        let mut commands = Commands::new(&file);
        writer.write_all(b"re").unwrap();
        assert_eq!(commands.read().unwrap().unwrap(), []);
        writer.write_all(b"ad\n").unwrap();
        assert_eq!(commands.read().unwrap().unwrap(), [Command::Read]);
    }
}
