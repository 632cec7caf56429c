//! What two ends of a flow tell each other, version 1.
//!
//! A connection carries frames in both directions:
//!
//! ```text
//!   0        2         3        4                12
//!   | "LF"   | version | kind   | length (64, BE) | body of `length` bytes |
//! ```
//!
//! | kind | name | from | body |
//! |---|---|---|---|
//! | 1 | HELLO | client, first | JSON: [`Hello`] |
//! | 2 | ASK | client | JSON: [`Ask`]: what the server shall send |
//! | 3 | DATA | both | a piece of the stream |
//! | 4 | END | both | none: the stream asked for is complete |
//! | 5 | RECEIPT | the receiver of a stream | JSON: [`Receipt`] |
//! | 6 | REPORT | server, after its END | JSON: [`Report`]: how its kernel saw the stream |
//! | 7 | REFUSAL | server, last | text: why |
//!
//! The bytes of all streams of a direction follow each other in one [pattern](Hello::seed). A decoder
//! keeps at most [`MOST_BODY`] bytes of a body; DATA passes through.

use serde::{Deserialize, Serialize};

use record::flow::Sample;

/// The version that this build speaks.
pub const VERSION: u8 = 1;
/// Bytes of a frame's header.
pub const HEADER: usize = 12;
/// Longest body that is not DATA: the receipt of a long flow with its series.
pub const MOST_BODY: u64 = 4 << 20;
const MAGIC: [u8; 2] = *b"LF";

/// How a client introduces a connection.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Seed of the stream towards the server; the stream towards the client has its complement.
    pub seed: u64,
    /// Nanoseconds between two points of a series; 0 for none.
    pub interval_ns: u64,
    /// A receiver counts what comes within this time from its first byte and then gives its receipt;
    /// without it, a stream counts to its end.
    pub window_ns: Option<u64>,
    /// A receiver stops reading once: after so many bytes, for so many nanoseconds.
    pub read_pause: Option<ReadPause>,
    /// Answer every stream that ends with one of so many bytes, instead of a receipt.
    pub response: Option<u64>,
    /// Congestion control of the server's socket, by its name in the kernel.
    pub congestion_control: Option<String>,
    /// Bits per second of payload above which the server's socket does not send.
    pub pace_bps: Option<u64>,
}

/// When a receiver stops reading, and for how long.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReadPause {
    /// Payload bytes received before it.
    pub after_bytes: u64,
    /// How long nothing is read.
    pub for_ns: u64,
}

/// What the server shall send.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Ask {
    /// So many bytes.
    Bytes(u64),
    /// As much as goes in so many nanoseconds.
    Nanoseconds(u64),
}

/// What a receiver says of a stream.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Payload bytes that count.
    pub bytes: u64,
    /// From the first byte to the last, or the window asked for.
    pub duration_ns: u64,
    /// Offset of the first byte that is not the one sent, from the connection's start.
    pub first_difference: Option<u64>,
    /// Nanoseconds since the first byte, and bytes until then.
    pub progress: Vec<(u64, u64)>,
}

/// How the server's socket saw what it sent.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The congestion control in effect.
    pub congestion_control: Option<String>,
    /// Samples of its `TCP_INFO`, on the time of the stream's sender.
    pub samples: Vec<Sample>,
}

/// A frame, or the next part of one that carries data.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<'a> {
    /// The first frame of a connection.
    Hello(Hello),
    /// The server shall send.
    Ask(Ask),
    /// The next bytes of the stream.
    Data(&'a [u8]),
    /// The stream is complete.
    End,
    /// Of the stream that ended, or whose window closed.
    Receipt(Receipt),
    /// Of the server.
    Report(Report),
    /// The server will not do what was asked.
    Refusal(String),
}

/// What came is not this protocol.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Something else speaks on that port.
    #[error("the peer does not speak the flow protocol: a frame begins with {start:02x?}")]
    Magic {
        /// The first two bytes.
        start: [u8; 2],
    },
    /// A build that speaks another version.
    #[error("the peer speaks version {version} of the flow protocol, this build speaks {VERSION}")]
    Version {
        /// As announced.
        version: u8,
    },
    /// No such frame in this version.
    #[error("frame kind {kind} is unknown")]
    Kind {
        /// As announced.
        kind: u8,
    },
    /// More than is ever sent.
    #[error("a frame of kind {kind} announces {length} bytes, more than {most}")]
    Length {
        /// The frame.
        kind: u8,
        /// As announced.
        length: u64,
        /// What would have been accepted.
        most: u64,
    },
    /// A body that is not what its kind says.
    #[error("the body of a frame of kind {kind} cannot be read")]
    Body {
        /// The frame.
        kind: u8,
        /// What JSON has to say.
        #[source]
        source: serde_json::Error,
    },
}

const HELLO: u8 = 1;
const ASK: u8 = 2;
const DATA: u8 = 3;
const END: u8 = 4;
const RECEIPT: u8 = 5;
const REPORT: u8 = 6;
const REFUSAL: u8 = 7;

/// The header of a DATA frame.
#[must_use]
pub fn data_header(length: u64) -> [u8; HEADER] {
    header(DATA, length)
}

/// A whole frame other than DATA. [`Frame::Data`] gives its header and bytes all the same.
pub fn encode(frame: &Frame<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let (kind, body) = match frame {
        Frame::Hello(hello) => (HELLO, serde_json::to_vec(hello)?),
        Frame::Ask(ask) => (ASK, serde_json::to_vec(ask)?),
        Frame::Data(bytes) => (DATA, bytes.to_vec()),
        Frame::End => (END, Vec::new()),
        Frame::Receipt(receipt) => (RECEIPT, serde_json::to_vec(receipt)?),
        Frame::Report(report) => (REPORT, serde_json::to_vec(report)?),
        Frame::Refusal(why) => (REFUSAL, why.clone().into_bytes()),
    };
    let length = u64::try_from(body.len()).unwrap_or(u64::MAX);
    let mut bytes = header(kind, length).to_vec();
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

fn header(kind: u8, length: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..2].copy_from_slice(&MAGIC);
    bytes[2] = VERSION;
    bytes[3] = kind;
    bytes[4..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Takes frames out of a stream of bytes, wherever it is cut.
#[derive(Debug, Default)]
pub struct Decoder {
    /// What came of a header or a body that is not complete.
    partial: Vec<u8>,
    body: Option<Body>,
}

#[derive(Clone, Copy, Debug)]
struct Body {
    kind: u8,
    left: u64,
}

// === impl Decoder ===

impl Decoder {
    /// The next frame of `input`, which moves on; `None` when it is used up. After an error the stream
    /// is of no further use.
    pub fn decode<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Frame<'a>>, FrameError> {
        loop {
            let Some(body) = self.body else {
                let missing = HEADER.saturating_sub(self.partial.len());
                self.partial.extend_from_slice(take(input, missing));
                let Some(&bytes) = self.partial.first_chunk::<HEADER>() else {
                    return Ok(None);
                };
                self.partial.clear();
                self.body = Some(Body::announced(bytes)?);
                continue;
            };
            if body.kind == DATA {
                let bytes = take(input, usize::try_from(body.left).unwrap_or(usize::MAX));
                let left = body.left.saturating_sub(bytes.len() as u64);
                self.body = (left > 0).then_some(Body { left, ..body });
                if bytes.is_empty() {
                    if left > 0 {
                        return Ok(None);
                    }
                    continue;
                }
                return Ok(Some(Frame::Data(bytes)));
            }
            let bytes = take(input, usize::try_from(body.left).unwrap_or(usize::MAX));
            self.partial.extend_from_slice(bytes);
            let left = body.left.saturating_sub(bytes.len() as u64);
            if left > 0 {
                self.body = Some(Body { left, ..body });
                return Ok(None);
            }
            self.body = None;
            let whole = std::mem::take(&mut self.partial);
            return frame(body.kind, &whole).map(Some);
        }
    }
}

/// Takes at most `most` bytes off the front.
fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    taken
}

fn frame(kind: u8, body: &[u8]) -> Result<Frame<'static>, FrameError> {
    fn json<T: for<'de> Deserialize<'de>>(kind: u8, body: &[u8]) -> Result<T, FrameError> {
        serde_json::from_slice(body).map_err(|source| FrameError::Body { kind, source })
    }
    match kind {
        HELLO => json(kind, body).map(Frame::Hello),
        ASK => json(kind, body).map(Frame::Ask),
        END => Ok(Frame::End),
        RECEIPT => json(kind, body).map(Frame::Receipt),
        REPORT => json(kind, body).map(Frame::Report),
        REFUSAL => Ok(Frame::Refusal(String::from_utf8_lossy(body).into_owned())),
        kind => Err(FrameError::Kind { kind }),
    }
}

// === impl Body ===

impl Body {
    fn announced(header: [u8; HEADER]) -> Result<Self, FrameError> {
        let [a, b, version, kind, length @ ..] = header;
        if [a, b] != MAGIC {
            return Err(FrameError::Magic { start: [a, b] });
        }
        if version != VERSION {
            return Err(FrameError::Version { version });
        }
        let length = u64::from_be_bytes(length);
        let most = match kind {
            DATA => u64::MAX,
            END => 0,
            // Small ones from strangers: nobody shall make a server keep megabytes with twelve bytes.
            HELLO | ASK | REFUSAL => 4096,
            RECEIPT | REPORT => MOST_BODY,
            kind => return Err(FrameError::Kind { kind }),
        };
        if length > most {
            return Err(FrameError::Length { kind, length, most });
        }
        Ok(Self { kind, left: length })
    }
}

#[cfg(test)]
mod tests;
