/// A captured frame could not be read to its end.
///
/// Offsets count from the first captured byte of the frame, lengths are bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// The frame had this field on the wire, but the snapshot length kept it out of the capture. The
    /// sender did nothing wrong; a capture with a larger snapshot length would show it.
    #[error(
        "{field} at byte {offset} needs {length} bytes, but the capture kept only {captured} bytes of the frame"
    )]
    Cut {
        /// The header or field that was wanted.
        field: &'static str,
        /// Where it begins.
        offset: usize,
        /// How many bytes it has.
        length: usize,
        /// How many bytes of the frame were captured.
        captured: usize,
    },
    /// The bytes contradict their own protocol: a field beyond the end of its packet, a wrong version,
    /// a header length below the minimum.
    #[error("{field} at byte {offset}, {length} bytes long, is malformed")]
    Malformed {
        /// The header or field that is wrong.
        field: &'static str,
        /// Where it begins.
        offset: usize,
        /// How many bytes it has, or claims.
        length: usize,
    },
}

impl DecodeError {
    /// The field that could not be read, a name stable enough to count by.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Cut { field, .. } | Self::Malformed { field, .. } => field,
        }
    }
}
