use crate::DecodeError;

/// The captured bytes of one frame and its length on the wire. Every read of a header goes through
/// here, because only here it is known whether a missing byte was cut off or never existed.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    captured: &'a [u8],
    /// Length on the wire, link layer included; never below what was captured.
    len: usize,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(captured: &'a [u8], original_len: u32) -> Self {
        let claimed = usize::try_from(original_len).unwrap_or(usize::MAX);
        Self {
            captured,
            len: claimed.max(captured.len()),
        }
    }

    /// The frame without what lies behind `end`, such as Ethernet padding or a frame check sequence.
    pub(crate) fn until(self, end: usize) -> Self {
        Self {
            captured: &self.captured[..self.captured.len().min(end)],
            len: self.len.min(end),
        }
    }

    pub(crate) const fn len(self) -> usize {
        self.len
    }

    /// `N` bytes from `offset`.
    #[inline]
    pub(crate) fn array<const N: usize>(
        self,
        field: &'static str,
        offset: usize,
    ) -> Result<&'a [u8; N], DecodeError> {
        self.captured
            .get(offset..)
            .and_then(<[u8]>::first_chunk)
            .ok_or_else(|| self.missing(field, offset, N))
    }

    pub(crate) fn byte(self, field: &'static str, offset: usize) -> Result<u8, DecodeError> {
        self.array::<1>(field, offset).map(|[byte]| *byte)
    }

    /// A 16-bit field in network byte order.
    pub(crate) fn u16(self, field: &'static str, offset: usize) -> Result<u16, DecodeError> {
        self.array(field, offset).copied().map(u16::from_be_bytes)
    }

    /// What was captured of `start..end`, possibly nothing.
    pub(crate) fn captured(self, start: usize, end: usize) -> &'a [u8] {
        let end = end.min(self.captured.len());
        self.captured.get(start..end).unwrap_or_default()
    }

    #[cold]
    fn missing(self, field: &'static str, offset: usize, length: usize) -> DecodeError {
        if offset.saturating_add(length) > self.len {
            return DecodeError::Malformed {
                field,
                offset,
                length,
            };
        }
        DecodeError::Cut {
            field,
            offset,
            length,
            captured: self.captured.len(),
        }
    }
}
