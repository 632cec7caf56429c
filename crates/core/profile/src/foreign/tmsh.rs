//! The text that `tmsh list ltm profile tcp` prints: blocks `ltm profile tcp NAME { field value ... }`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A text is not what `tmsh list ltm profile tcp` prints.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TmshError {
    /// There is no profile in it.
    #[error(
        "there is no `ltm profile tcp NAME {{ ... }}` in it: save what `tmsh list ltm profile tcp` prints"
    )]
    Nothing,
    /// A block does not end.
    #[error("line {line}: the profile `{name}` has no closing brace")]
    Open {
        /// Its first line, from 1.
        line: usize,
        /// The profile.
        name: String,
    },
    /// A line of a block is no field.
    #[error("line {line}: `{text}` is no field with a value")]
    Field {
        /// The line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
}

/// A profile as it was printed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Block {
    pub(super) name: String,
    /// Fields and values, in order.
    pub(super) fields: Vec<(String, String)>,
}

/// All TCP profiles of a text; other objects in it are left alone.
pub(super) fn parse(text: &str) -> Result<Vec<Block>, TmshError> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(name) = header(line) else {
            continue;
        };
        let first = index + 1;
        let mut fields = Vec::new();
        if !line.trim_end().ends_with('}') {
            loop {
                let Some((index, line)) = lines.next() else {
                    let name = name.to_string();
                    return Err(TmshError::Open { line: first, name });
                };
                let line = line.trim();
                if line == "}" {
                    break;
                }
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let Some((field, value)) = line.split_once(char::is_whitespace) else {
                    return Err(TmshError::Field {
                        line: index + 1,
                        text: line.to_string(),
                    });
                };
                let value = value.trim().trim_matches('"');
                fields.push((field.to_string(), value.to_string()));
            }
        }
        blocks.push(Block {
            name: name.to_string(),
            fields,
        });
    }
    if blocks.is_empty() {
        return Err(TmshError::Nothing);
    }
    Ok(blocks)
}

/// The name in `ltm profile tcp NAME {`.
fn header(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let kind = [words.next()?, words.next()?, words.next()?];
    let name = words.next()?;
    (kind == ["ltm", "profile", "tcp"] && words.next()?.starts_with('{')).then_some(name)
}
