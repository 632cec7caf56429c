//! Frames: what follows the preface.
//!
//! ```text
//!  0        1                          4                          8
//!  +--------+--------------------------+--------------------------+---------------
//!  | kind   | length of the body (24)  | CRC32C of all but itself | body ...
//!  +--------+--------------------------+--------------------------+---------------
//! ```
//!
//! Reliable frames begin their body with a sequence number (64 bits) that is the same on whatever
//! connection the frame is repeated. The others describe a connection or the present, and are replaced by
//! newer ones instead of being repeated.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use crate::digest::{Digest, crc32c, slices};
use crate::field::{Fields, put_text};
use crate::{ConnectionId, DigestKind, Explanation, Reason, StreamId, Target, Violation};

/// Kind, length and CRC.
pub(crate) const HEADER_LEN: usize = 8;
/// Sequence, stream and offset in front of a DATA frame's payload.
pub(crate) const DATA_HEAD_LEN: usize = 24;
/// The longest chunk of a stream in one frame. At 64 KiB the frame's 32 bytes are 0.05 %, and at
/// 100 Mbit/s it occupies a connection for 5 ms, which is what an interactive stream may wait behind it.
pub const MAX_CHUNK: usize = 64 << 10;
/// The longest body of a frame that carries a chunk: an OPEN with a target of full length.
const MAX_DATA_BODY: usize = MAX_CHUNK + DATA_HEAD_LEN + Target::MAX_LEN;
/// The longest body of any other frame: an ACK of 64 connections.
const MAX_CONTROL_BODY: usize = 1024;
/// The most connections that one ACK frame can name.
pub(crate) const MAX_ACKED: usize = 64;

/// A kind of frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Open,
    Accept,
    Data,
    Finish,
    Receipt,
    Reset,
    StreamCredit,
    TrunkCredit,
    Width,
    Leave,
    Ack,
    Ping,
    Pong,
    Padding,
    Goodbye,
    Retire,
}

impl Kind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Open => 0x01,
            Self::Accept => 0x02,
            Self::Data => 0x03,
            Self::Finish => 0x04,
            Self::Receipt => 0x05,
            Self::Reset => 0x06,
            Self::StreamCredit => 0x07,
            Self::TrunkCredit => 0x08,
            Self::Width => 0x09,
            Self::Leave => 0x0a,
            Self::Ack => 0x40,
            Self::Ping => 0x41,
            Self::Pong => 0x42,
            Self::Padding => 0x43,
            Self::Goodbye => 0x44,
            Self::Retire => 0x45,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x01 => Self::Open,
            0x02 => Self::Accept,
            0x03 => Self::Data,
            0x04 => Self::Finish,
            0x05 => Self::Receipt,
            0x06 => Self::Reset,
            0x07 => Self::StreamCredit,
            0x08 => Self::TrunkCredit,
            0x09 => Self::Width,
            0x0a => Self::Leave,
            0x40 => Self::Ack,
            0x41 => Self::Ping,
            0x42 => Self::Pong,
            0x43 => Self::Padding,
            0x44 => Self::Goodbye,
            0x45 => Self::Retire,
            _ => return None,
        })
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Accept => "accept",
            Self::Data => "data",
            Self::Finish => "finish",
            Self::Receipt => "receipt",
            Self::Reset => "reset",
            Self::StreamCredit => "stream-credit",
            Self::TrunkCredit => "trunk-credit",
            Self::Width => "width",
            Self::Leave => "leave",
            Self::Ack => "ack",
            Self::Ping => "ping",
            Self::Pong => "pong",
            Self::Padding => "padding",
            Self::Goodbye => "goodbye",
            Self::Retire => "retire",
        }
    }

    /// Whether its payload stays where it was received; the rest is small and read from one slice.
    pub(crate) const fn carries_chunk(self) -> bool {
        matches!(self, Self::Data | Self::Open | Self::Padding)
    }

    const fn max_body(self) -> usize {
        if self.carries_chunk() {
            MAX_DATA_BODY
        } else {
            MAX_CONTROL_BODY
        }
    }
}

/// The first eight bytes of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Bytes of the body.
    pub(crate) len: usize,
    pub(crate) crc: u32,
}

impl Header {
    pub(crate) fn decode(bytes: [u8; HEADER_LEN]) -> Result<Self, Violation> {
        let [code, a, b, c, crc @ ..] = bytes;
        let kind = Kind::from_code(code).ok_or(Violation::UnknownFrame { kind: code })?;
        let len = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        if len > kind.max_body() {
            return Err(Violation::FrameLength {
                kind: kind.name(),
                len,
            });
        }
        Ok(Self {
            kind,
            len,
            crc: u32::from_be_bytes(crc),
        })
    }
}

/// Everything that a frame can say, payload aside.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Frame {
    /// Repeated until acknowledged, and taken once.
    Reliable { sequence: u64, message: Message },
    /// How many reliable frames each of these connections has brought.
    Ack { counts: Vec<(ConnectionId, u64)> },
    /// To be echoed at once.
    Ping { nonce: u64 },
    /// The echo.
    Pong { nonce: u64 },
    /// Bytes that keep a connection hot.
    Padding,
    /// No more reliable frames come on this connection.
    Retire,
    /// The trunk is over.
    Goodbye { why: Explanation },
}

/// What a reliable frame says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Message {
    /// A new stream, with its first bytes behind it.
    Open { stream: StreamId, target: Target },
    /// The far relay has reached the target.
    Accept { stream: StreamId },
    /// A chunk of a stream, whose bytes are behind it.
    Data { stream: StreamId, offset: u64 },
    /// The stream has this many bytes in this direction, and this digest.
    Finish { stream: StreamId, end: Summary },
    /// All bytes of this direction have been handed to the application's socket.
    Receipt { stream: StreamId, end: Summary },
    /// The stream is over, both directions.
    Reset { stream: StreamId, why: Explanation },
    /// The stream's bytes up to `limit` may be sent; those up to `consumed` have left the relay.
    StreamCredit {
        stream: StreamId,
        consumed: u64,
        limit: u64,
    },
    /// Bytes of all streams up to `limit` may be sent; a new stream may begin with `stream` bytes.
    TrunkCredit { limit: u64, stream: u64 },
    /// The acceptor's wish for this many connections.
    Width { connections: u32 },
    /// The sender opens no more streams in this session than these, and would like to end it with the last.
    Leave { opened: u64 },
}

/// How long a direction of a stream is, and its digest as the sender of the frame computed it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Summary {
    pub(crate) bytes: u64,
    pub(crate) digest: Digest,
}

impl Summary {
    fn encode(&self, out: &mut BytesMut) {
        out.extend_from_slice(&self.bytes.to_be_bytes());
        out.extend_from_slice(&self.digest.bytes);
    }

    fn decode(fields: &mut Fields<'_>, digest: DigestKind) -> Option<Self> {
        Some(Self {
            bytes: fields.u64()?,
            digest: Digest::new(digest, fields.array()?),
        })
    }
}

impl Message {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Open { .. } => Kind::Open,
            Self::Accept { .. } => Kind::Accept,
            Self::Data { .. } => Kind::Data,
            Self::Finish { .. } => Kind::Finish,
            Self::Receipt { .. } => Kind::Receipt,
            Self::Reset { .. } => Kind::Reset,
            Self::StreamCredit { .. } => Kind::StreamCredit,
            Self::TrunkCredit { .. } => Kind::TrunkCredit,
            Self::Width { .. } => Kind::Width,
            Self::Leave { .. } => Kind::Leave,
        }
    }

    /// The stream that it is about.
    const fn stream(&self) -> Option<StreamId> {
        match self {
            Self::Open { stream, .. }
            | Self::Accept { stream }
            | Self::Data { stream, .. }
            | Self::Finish { stream, .. }
            | Self::Receipt { stream, .. }
            | Self::Reset { stream, .. }
            | Self::StreamCredit { stream, .. } => Some(*stream),
            Self::TrunkCredit { .. } | Self::Width { .. } | Self::Leave { .. } => None,
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        if let Some(stream) = self.stream() {
            out.extend_from_slice(&stream.0.to_be_bytes());
        }
        match self {
            Self::Open { target, .. } => put_text(out, target.as_str()),
            Self::Accept { .. } => {}
            Self::Data { offset, .. } => out.extend_from_slice(&offset.to_be_bytes()),
            Self::Finish { end, .. } | Self::Receipt { end, .. } => end.encode(out),
            Self::Reset { why, .. } => encode_why(why, out),
            Self::StreamCredit {
                consumed, limit, ..
            } => {
                out.extend_from_slice(&consumed.to_be_bytes());
                out.extend_from_slice(&limit.to_be_bytes());
            }
            Self::TrunkCredit { limit, stream } => {
                out.extend_from_slice(&limit.to_be_bytes());
                out.extend_from_slice(&stream.to_be_bytes());
            }
            Self::Width { connections } => out.extend_from_slice(&connections.to_be_bytes()),
            Self::Leave { opened } => out.extend_from_slice(&opened.to_be_bytes()),
        }
    }
}

impl Frame {
    const fn kind(&self) -> Kind {
        match self {
            Self::Reliable { message, .. } => message.kind(),
            Self::Ack { .. } => Kind::Ack,
            Self::Ping { .. } => Kind::Ping,
            Self::Pong { .. } => Kind::Pong,
            Self::Padding => Kind::Padding,
            Self::Retire => Kind::Retire,
            Self::Goodbye { .. } => Kind::Goodbye,
        }
    }

    /// Header and body, up to where a payload of these pieces follows.
    pub(crate) fn encode(&self, out: &mut BytesMut, payload: &[Bytes]) {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_LEN]);
        self.encode_body(out);
        let payload_len: usize = payload.iter().map(Bytes::len).sum();
        let len = out.len() - start - HEADER_LEN + payload_len;
        // Chunks and texts are bounded far below 2^24 where they are made.
        let [_, a, b, c] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
        let head = [self.kind().code(), a, b, c];
        let (_, frame) = out.split_at_mut(start);
        let (header, body) = frame.split_at_mut(HEADER_LEN);
        let crc = crc32c([&head, &*body].into_iter().chain(slices(payload)));
        let (front, back) = header.split_at_mut(4);
        front.copy_from_slice(&head);
        back.copy_from_slice(&crc.to_be_bytes());
    }

    fn encode_body(&self, out: &mut BytesMut) {
        match self {
            Self::Reliable { sequence, message } => {
                out.extend_from_slice(&sequence.to_be_bytes());
                message.encode(out);
            }
            Self::Ack { counts } => {
                for (connection, count) in counts {
                    out.extend_from_slice(&connection.0.to_be_bytes());
                    out.extend_from_slice(&count.to_be_bytes());
                }
            }
            Self::Ping { nonce } | Self::Pong { nonce } => {
                out.extend_from_slice(&nonce.to_be_bytes());
            }
            Self::Padding | Self::Retire => {}
            Self::Goodbye { why } => encode_why(why, out),
        }
    }

    /// Reads a frame's body. Of kinds that carry a chunk only the front is needed: with the frame comes
    /// where its payload begins.
    pub(crate) fn decode(
        kind: Kind,
        body: &[u8],
        digest: DigestKind,
    ) -> Result<(Self, usize), Violation> {
        let mut fields = Fields::new(body);
        let wrong = || Violation::FrameLength {
            kind: kind.name(),
            len: body.len(),
        };
        let frame = match kind {
            Kind::Padding => {
                fields.rest();
                Self::Padding
            }
            Kind::Retire => Self::Retire,
            Kind::Ack => Self::Ack {
                counts: decode_counts(&mut fields).ok_or_else(wrong)?,
            },
            Kind::Ping => Self::Ping {
                nonce: fields.u64().ok_or_else(wrong)?,
            },
            Kind::Pong => Self::Pong {
                nonce: fields.u64().ok_or_else(wrong)?,
            },
            Kind::Goodbye => Self::Goodbye {
                why: decode_why(&mut fields).ok_or_else(wrong)?,
            },
            Kind::Open
            | Kind::Accept
            | Kind::Data
            | Kind::Finish
            | Kind::Receipt
            | Kind::Reset
            | Kind::StreamCredit
            | Kind::TrunkCredit
            | Kind::Width
            | Kind::Leave => {
                let sequence = fields.u64().ok_or_else(wrong)?;
                let message = decode_message(kind, &mut fields, digest).ok_or_else(wrong)??;
                Self::Reliable { sequence, message }
            }
        };
        if kind.carries_chunk() {
            return Ok((frame, body.len() - fields.rest().len()));
        }
        if fields.is_empty() {
            Ok((frame, body.len()))
        } else {
            Err(wrong())
        }
    }
}

/// `None` where the fields end too early.
fn decode_message(
    kind: Kind,
    fields: &mut Fields<'_>,
    digest: DigestKind,
) -> Option<Result<Message, Violation>> {
    if kind == Kind::TrunkCredit {
        return Some(Ok(Message::TrunkCredit {
            limit: fields.u64()?,
            stream: fields.u64()?,
        }));
    }
    if kind == Kind::Width {
        return Some(Ok(Message::Width {
            connections: fields.u32()?,
        }));
    }
    if kind == Kind::Leave {
        return Some(Ok(Message::Leave {
            opened: fields.u64()?,
        }));
    }
    let stream = StreamId(fields.u64()?);
    Some(Ok(match kind {
        Kind::Open => {
            let len = usize::from(fields.u16()?);
            match Target::decode(fields.bytes(len)?) {
                Ok(target) => Message::Open { stream, target },
                Err(bad) => return Some(Err(Violation::Target(bad))),
            }
        }
        Kind::Accept => Message::Accept { stream },
        Kind::Data => Message::Data {
            stream,
            offset: fields.u64()?,
        },
        Kind::Finish => Message::Finish {
            stream,
            end: Summary::decode(fields, digest)?,
        },
        Kind::Receipt => Message::Receipt {
            stream,
            end: Summary::decode(fields, digest)?,
        },
        Kind::Reset => Message::Reset {
            stream,
            why: decode_why(fields)?,
        },
        Kind::StreamCredit => {
            let (consumed, limit) = (fields.u64()?, fields.u64()?);
            if consumed > limit {
                return Some(Err(Violation::Field {
                    kind: kind.name(),
                    field: "limit",
                }));
            }
            Message::StreamCredit {
                stream,
                consumed,
                limit,
            }
        }
        Kind::TrunkCredit
        | Kind::Width
        | Kind::Leave
        | Kind::Ack
        | Kind::Ping
        | Kind::Pong
        | Kind::Padding
        | Kind::Goodbye
        | Kind::Retire => return None,
    }))
}

fn decode_counts(fields: &mut Fields<'_>) -> Option<Vec<(ConnectionId, u64)>> {
    let mut counts = Vec::new();
    while !fields.is_empty() {
        if counts.len() == MAX_ACKED {
            return None;
        }
        counts.push((ConnectionId(fields.u32()?), fields.u64()?));
    }
    Some(counts)
}

fn encode_why(why: &Explanation, out: &mut BytesMut) {
    out.extend_from_slice(&why.reason.code().to_be_bytes());
    put_text(out, &why.detail);
}

fn decode_why(fields: &mut Fields<'_>) -> Option<Explanation> {
    let (code, len) = (fields.u16()?, fields.u16()?);
    let detail = fields.bytes(usize::from(len))?;
    Some(Explanation::new(
        Reason::from_code(code),
        &String::from_utf8_lossy(detail),
    ))
}
