//! HTTP/1.1 messages as far as a forwarder has to understand them (RFC 9112): where each one ends, and
//! whether the connection outlives it. Pure: bytes in, decisions out.

pub(crate) mod body;
pub(crate) mod chunked;
pub(crate) mod fields;
pub(crate) mod head;
pub(crate) mod request;
pub(crate) mod response;
#[cfg(test)]
mod tests;

/// Why a message is not forwarded. Each of these lets two implementations disagree on where a message
/// ends, which is how requests are smuggled.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("a line ends in LF without CR")]
    BareLineFeed,
    #[error("CR without LF")]
    BareCarriageReturn,
    #[error("a NUL byte in the head")]
    Nul,
    #[error("the head does not parse")]
    Syntax,
    #[error("a field line is folded")]
    FoldedField,
    #[error("more than 128 fields")]
    TooManyFields,
    #[error("the start line is not of the form that HTTP/1 has")]
    StartLine,
    #[error("a version other than HTTP/1.0 and HTTP/1.1")]
    Version,
    #[error("both Content-Length and Transfer-Encoding")]
    LengthAndEncoding,
    #[error("more than one Content-Length")]
    RepeatedLength,
    #[error("Content-Length is not a plain decimal number")]
    Length,
    #[error("Transfer-Encoding is not `chunked` as the last coding, once")]
    Encoding,
    #[error("Transfer-Encoding in an HTTP/1.0 message")]
    EncodingBeforeVersion11,
    #[error("not exactly one Host field")]
    Host,
    #[error("Connection names a field that frames or routes the message")]
    Nomination,
    #[error("a chunk size is not plain hexadecimal")]
    ChunkSize,
    #[error("a chunk's data is not followed by CR LF")]
    ChunkEnd,
    #[error("a chunk's line or the trailers are too long")]
    ChunkOverhead,
    #[error("a trailer line is not a field")]
    Trailer,
}

impl From<httparse::Error> for Malformed {
    fn from(error: httparse::Error) -> Self {
        match error {
            httparse::Error::TooManyHeaders => Self::TooManyFields,
            httparse::Error::Version => Self::Version,
            httparse::Error::HeaderName
            | httparse::Error::HeaderValue
            | httparse::Error::NewLine
            | httparse::Error::Status
            | httparse::Error::Token => Self::Syntax,
        }
    }
}
