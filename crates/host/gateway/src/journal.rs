//! Uploads that this gateway has begun, written down so that the next start can give up those that a crash has left.
//!
//! Lines of text: `begun BUCKET KEY ID`, `over ID`, encoded as in URLs. Names and ids only, never a byte of an object.
//! What the operating system has is kept when the process is killed; a host that loses power may lose the last lines.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The file, or nothing where none is configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    file: Option<Arc<Mutex<File>>>,
}

/// An upload that a crash has left.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Left {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) id: String,
}

/// An upload's place in the journal.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    journal: Journal,
    id: String,
}

// === impl Journal ===

impl Journal {
    /// Opens the file; what is still open in it stays there, until it is noted to be over.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Vec<Left>)> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let left = left(&text);
        // Begun anew with what is open, so that it does not grow for ever; a crash in between keeps the old one.
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let lines: String = left.iter().map(Left::line).collect();
        std::fs::write(&beside, lines)?;
        std::fs::rename(&beside, path)?;
        let file = OpenOptions::new().append(true).open(path)?;
        let journal = Self {
            file: Some(Arc::new(Mutex::new(file))),
        };
        Ok((journal, left))
    }

    /// An upload has begun.
    pub(crate) fn begun(&self, bucket: &str, key: &str, id: &str) -> Note {
        let left = Left {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            id: id.to_owned(),
        };
        self.write(&left.line());
        self.note(id)
    }

    /// The place of an upload that is in the journal already.
    pub(crate) fn note(&self, id: &str) -> Note {
        Note {
            journal: self.clone(),
            id: id.to_owned(),
        }
    }

    fn write(&self, line: &str) {
        if let Some(file) = &self.file {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // One write: a line is there or not. A full disk must not end the upload that works without.
            let _ = file.write_all(line.as_bytes());
        }
    }
}

// === impl Note ===

impl Note {
    /// The upload is complete, or the origin knows nothing of it any more.
    pub(crate) fn over(&self) {
        self.journal.write(&format!("over {}\n", encoded(&self.id)));
    }
}

// === impl Left ===

impl Left {
    fn line(&self) -> String {
        let [bucket, key, id] = [&self.bucket, &self.key, &self.id].map(|text| encoded(text));
        format!("begun {bucket} {key} {id}\n")
    }
}

/// What is begun and not over. A line that is cut, as the last one may be, says nothing.
fn left(text: &str) -> Vec<Left> {
    let mut open = BTreeMap::new();
    for line in text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
    {
        let words: Option<Vec<String>> = line.split(' ').map(decoded).collect();
        match words.as_deref() {
            Some([verb, bucket, key, id]) if verb == "begun" => {
                let left = Left {
                    bucket: bucket.clone(),
                    key: key.clone(),
                    id: id.clone(),
                };
                open.insert(id.clone(), left);
            }
            Some([verb, id]) if verb == "over" => {
                open.remove(id);
            }
            _ => {}
        }
    }
    open.into_values().collect()
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    Some(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_over_is_left_and_a_cut_line_says_nothing() {
        let text =
            "begun b a%20key 1\nbegun b k 2\nover 2\nnonsense\nbegun b k 3\nover 3\nbegun b k 4";
        let left = left(text);
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].key.as_str(), left[0].id.as_str()), ("a key", "1"));
        assert_eq!(left[0].line(), "begun b a%20key 1\n");
    }
}
