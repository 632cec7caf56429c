mod http;
mod tls;

use alloc::vec::Vec;

use wire::tls::RecordHeader;

/// What both sides of a source and its replacement have in common: a place, and how far it was copied.
struct Keeper<'a> {
    from: &'a [u8],
    to: &'a mut [u8],
    at: usize,
}

/// Puts `payload` into `masked`, byte for byte as long, without anything that says more than which turn of
/// which protocol it is.
pub fn mask(payload: &[u8], masked: &mut Vec<u8>) {
    masked.clear();
    masked.resize(payload.len(), 0);
    if RecordHeader::read(payload).is_some() {
        tls::keep(&mut Keeper::over(payload, masked));
    } else if wire::http::Head::read(payload).is_some() {
        http::keep(payload, masked);
    } else if let Some(name) = ssh(payload) {
        masked[..name.len()].copy_from_slice(name);
        if let Some(end) = masked.get_mut(name.len()) {
            *end = b'\n';
        }
    }
}

/// Protocol and kind of software in an SSH identification string, without its version.
fn ssh(payload: &[u8]) -> Option<&'static [u8]> {
    let known: [&[u8]; 2] = [b"SSH-2.0-OpenSSH", b"SSH-2.0-"];
    known.into_iter().find(|name| payload.starts_with(name))
}

impl<'a> Keeper<'a> {
    fn over(from: &'a [u8], to: &'a mut [u8]) -> Self {
        Self { from, to, at: 0 }
    }

    /// Copies the next `len` bytes, as many as there are, and returns them.
    fn keep(&mut self, len: usize) -> &'a [u8] {
        let end = self.at.saturating_add(len).min(self.from.len());
        let kept = &self.from[self.at..end];
        self.to[self.at..end].copy_from_slice(kept);
        self.at = end;
        kept
    }

    /// Leaves the next `len` bytes as zeros.
    fn skip(&mut self, len: usize) {
        self.at = self.at.saturating_add(len).min(self.from.len());
    }

    /// Copies a length of one byte, and returns it.
    fn keep_len8(&mut self) -> usize {
        self.keep(1).first().map_or(0, |len| usize::from(*len))
    }

    /// Copies a number of two bytes, and returns it.
    fn keep_u16(&mut self) -> Option<u16> {
        match self.keep(2) {
            [high, low] => Some(u16::from_be_bytes([*high, *low])),
            _ => None,
        }
    }

    /// The same as a length, zero where it is cut off.
    fn keep_len16(&mut self) -> usize {
        self.keep_u16().map_or(0, usize::from)
    }
}
