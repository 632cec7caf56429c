//! Lines to a file that cannot always be written, because its disk is full or nobody reads the pipe any more.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// A file that whole lines go to. One that cannot be written is lost, and never waited for.
#[derive(Debug)]
pub struct Lines(Mutex<State>);

#[derive(Debug)]
struct State {
    file: File,
    /// Whether the file ends in the middle of a line.
    torn: bool,
    lost: Option<Loss>,
}

/// Lines that could not be written.
#[derive(Debug)]
pub struct Loss {
    /// How many, since the last one that could.
    pub lines: u64,
    /// What the kernel said of the first of them.
    pub why: io::Error,
}

/// What became of a line.
#[derive(Debug)]
pub enum Fate {
    /// It was written.
    Written,
    /// It was written as the first one after these were lost.
    WrittenAfter(Loss),
    /// It is lost, as the first one: this is what the kernel said.
    FirstLost(io::Error),
    /// It is lost, like the one before.
    Lost,
}

// === impl Lines ===

impl Lines {
    /// Lines to this file from now on.
    #[must_use]
    pub const fn to(file: File) -> Self {
        Self(Mutex::new(State {
            file,
            torn: false,
            lost: None,
        }))
    }

    /// Lines to what is open there, such as standard output.
    ///
    /// # Errors
    ///
    /// Where nothing is open, or there are no descriptors.
    pub fn to_copy_of(open: impl AsFd) -> io::Result<Self> {
        let copy: OwnedFd = open.as_fd().try_clone_to_owned()?;
        Ok(Self::to(File::from(copy)))
    }

    /// Writes a line, which brings its own end. Tried once: what has no room now has none a moment later, and
    /// whoever writes has more to do.
    pub fn write(&self, line: &[u8]) -> Fate {
        // Valid whatever its holder was doing when it panicked: at worst a line is torn.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.write(line) {
            Ok(()) => state.lost.take().map_or(Fate::Written, Fate::WrittenAfter),
            Err(why) => {
                if let Some(loss) = &mut state.lost {
                    loss.lines += 1;
                    return Fate::Lost;
                }
                let said = io::Error::new(why.kind(), why.to_string());
                state.lost = Some(Loss { lines: 1, why });
                Fate::FirstLost(said)
            }
        }
    }
}

// === impl State ===

impl State {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            // The next line is to stand on its own.
            self.put(b"\n")?;
        }
        self.put(line)
    }

    /// As `write_all`, but known is how far it came.
    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.torn = bytes[count - 1] != b'\n';
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, pipe};

    use super::*;

    #[test]
    fn a_full_device_is_told_of_once_and_its_lines_are_counted() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let lines = Lines::to(full);
        let Fate::FirstLost(why) = lines.write(b"one\n") else {
            panic!("it was written");
        };
        assert_eq!(why.kind(), io::ErrorKind::StorageFull, "{why}");
        assert!(matches!(lines.write(b"two\n"), Fate::Lost));
        assert!(matches!(lines.write(b"three\n"), Fate::Lost));
        // The disk gets room again.
        let (mut reader, writer) = pipe().unwrap();
        lines.0.lock().unwrap().file = File::from(OwnedFd::from(writer));
        let Fate::WrittenAfter(loss) = lines.write(b"four\n") else {
            panic!("nothing is known of the loss");
        };
        assert_eq!(loss.lines, 3);
        assert_eq!(loss.why.kind(), io::ErrorKind::StorageFull);
        assert!(matches!(lines.write(b"five\n"), Fate::Written));
        drop(lines);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "four\nfive\n");
    }

    #[test]
    fn a_line_after_half_a_line_begins_a_new_one() {
        let (mut reader, writer) = pipe().unwrap();
        let lines = Lines::to_copy_of(writer).unwrap();
        lines.write(b"hal");
        lines.write(b"whole\n");
        lines.write(b"next\n");
        drop(lines);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hal\nwhole\nnext\n");
    }
}
