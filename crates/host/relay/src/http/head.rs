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
    /// Bytes looked at so far, counted from the head's start.
    scanned: usize,
    /// Where the line under the eye started.
    line_start: usize,
    last_was_cr: bool,
}

impl HeadScanner {
    /// Looks at `bytes`, the head from its start as far as it has arrived (so a prefix is passed again
    /// each time, and only its new part is read). Returns the head's length, the empty line included,
    /// once it is complete.
    pub(crate) fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        for (index, &byte) in bytes.iter().enumerate().skip(self.scanned) {
            self.scanned = index + 1;
            match byte {
                b'\n' if !self.last_was_cr => return Err(Malformed::BareLineFeed),
                b'\n' => {
                    self.last_was_cr = false;
                    // An empty line is its CR LF alone.
                    if index == self.line_start + 1 {
                        return Ok(Some(index + 1));
                    }
                    self.line_start = index + 1;
                }
                _ if self.last_was_cr => return Err(Malformed::BareCarriageReturn),
                b'\r' => self.last_was_cr = true,
                0 => return Err(Malformed::Nul),
                _ => {}
            }
        }
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
