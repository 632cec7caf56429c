//! Readings as JSON lines: on standard output, in a file, or both.

use std::fs::File;
use std::io::{BufWriter, Write};

use record::Manifest;
use record::top::{Header, Line, Reading};

use super::arguments::Top;
use super::session::Session;
use crate::commands::version;
use crate::failure::{Blame as _, Failure};
use crate::output;

/// Where lines go.
pub(super) struct Lines {
    prints: bool,
    file: Option<Sink>,
}

enum Sink {
    Plain(BufWriter<File>),
    Compressed(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

/// Fast, and a tenth of the size.
const COMPRESSION: i32 = 3;

impl Lines {
    pub(super) fn open(arguments: &Top, session: &Session) -> Result<Self, Failure> {
        let mut lines = Self {
            prints: arguments.json,
            file: None,
        };
        if let Some(path) = &arguments.record {
            let cannot = format!("cannot write the recording `{}`", path.display());
            let file = BufWriter::new(File::create(path).environment(cannot.clone())?);
            let is_compressed = path.extension().is_some_and(|extension| extension == "zst");
            lines.file = Some(if is_compressed {
                let encoder = zstd::stream::write::Encoder::new(file, COMPRESSION);
                Sink::Compressed(encoder.environment(cannot)?)
            } else {
                Sink::Plain(file)
            });
        }
        let header = Header {
            schema: record::top::SCHEMA.to_owned(),
            version: record::top::VERSION,
            manifest: Manifest {
                longhaul: version::identity(),
                ..Manifest::default()
            },
            namespaces: session.board.namespaces().to_vec(),
            filter: Some(arguments.filter.clone()).filter(|filter| !filter.is_empty()),
        };
        lines.write_line(&Line::Header(header))?;
        Ok(lines)
    }

    /// Whether anybody still reads.
    pub(super) fn write(&mut self, reading: &Reading) -> Result<bool, Failure> {
        if !self.prints && self.file.is_none() {
            return Ok(true);
        }
        self.write_line(&Line::Reading(reading.clone()))
    }

    fn write_line(&mut self, line: &Line) -> Result<bool, Failure> {
        let mut text = serde_json::to_string(line).bug("cannot serialise a reading")?;
        text.push('\n');
        if let Some(file) = &mut self.file {
            let sink: &mut dyn Write = match file {
                Sink::Plain(file) => file,
                Sink::Compressed(file) => file,
            };
            sink.write_all(text.as_bytes())
                .environment("cannot write the recording")?;
        }
        if self.prints {
            return output::stream(&text);
        }
        Ok(true)
    }

    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        let cannot = "cannot finish the recording";
        match self.file.take() {
            None => Ok(()),
            Some(Sink::Plain(mut file)) => file.flush().environment(cannot),
            Some(Sink::Compressed(file)) => file
                .finish()
                .and_then(|mut file| file.flush())
                .environment(cannot),
        }
    }
}
