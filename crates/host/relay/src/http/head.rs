use memchr::memchr3;

use super::Malformed;

/// Finds the end of a head in bytes that arrive in pieces, and refuses line ends that others may read
/// differently.
///
//= https://www.rfc-editor.org/rfc/rfc9112#section-2.2
//# A recipient of such a bare CR MUST consider that element to be invalid or replace each bare CR
//# with SP
/// A single LF is refused as well, which the same section leaves to the recipient: what a relay passes
/// on must mean the same behind it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct HeadScanner {
    /// Bytes looked at so far, counted from the head's start. A CR is looked at together with what follows it.
    scanned: usize,
    /// Where the line under the eye started.
    line_start: usize,
}

impl HeadScanner {
    /// Looks at `bytes`, the head from its start as far as it has arrived (so a prefix is passed again
    /// each time, and only its new part is read). Returns the head's length, the empty line included,
    /// once it is complete.
    pub(crate) fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        while let Some(offset) = memchr3(b'\r', b'\n', 0, &bytes[self.scanned..]) {
            let index = self.scanned + offset;
            self.scanned = index;
            match (bytes[index], bytes.get(index + 1)) {
                (b'\r', None) => return Ok(None),
                (b'\r', Some(b'\n')) => {
                    let next = index + 2;
                    // An empty line is its CR LF alone.
                    if index == self.line_start {
                        return Ok(Some(next));
                    }
                    (self.line_start, self.scanned) = (next, next);
                }
                (b'\r', Some(_)) => return Err(Malformed::BareCarriageReturn),
                (b'\n', _) => return Err(Malformed::BareLineFeed),
                (_, _) => return Err(Malformed::Nul),
            }
        }
        self.scanned = bytes.len();
        Ok(None)
    }
}

/// How many bytes of empty lines stand before a request line.
///
//= https://www.rfc-editor.org/rfc/rfc9112#section-2.2
//# a server that is expecting to receive and parse a request-line SHOULD ignore at least one empty
//# line
pub(crate) fn leading_empty_line(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\r\n") { 2 } else { 0 }
}
