use crate::binary::Decoder;
use crate::cursor::{Buffer, Cursor};
use crate::{Ending, Format, Packet, ReadError, Summary, pcap, pcapng};

/// Reads the packets of a pcap or pcapng stream that arrives in pieces.
///
/// Feed a chunk, take packets until there are none, feed the next. Packets point into the reader's
/// buffer; beyond the one copy of each chunk nothing is copied.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    decoder: Decoder,
    buffer: Buffer,
}

impl Reader {
    /// A reader at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the stream. Memory is used best when all packets of the chunk before
    /// have been taken.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.feed(bytes);
    }

    /// The next packet; `None` where it is not all there yet.
    ///
    /// # Errors
    /// When the stream cannot be followed any further; every later call says the same.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, ReadError> {
        self.decoder
            .next(&self.buffer.bytes, &mut self.buffer.cursor)
    }

    /// How the capture ended, if no more bytes come and all packets were taken.
    #[must_use]
    pub fn finish(&self) -> Ending {
        self.buffer.ending()
    }

    /// The format, once four bytes were there.
    #[must_use]
    pub const fn format(&self) -> Option<Format> {
        self.decoder.format()
    }
}

/// Reads the packets of a pcap or pcapng stream in the buffers of its caller, so that packets may outlive the next
/// piece of the stream.
///
/// What [`Framer::rest`] leaves of a piece has to stand in front of the next one.
#[derive(Clone, Debug, Default)]
pub struct Framer {
    decoder: Decoder,
    cursor: Cursor,
}

impl Framer {
    /// A framer at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a stream that begins with these bytes can be framed.
    #[must_use]
    pub fn frames(start: [u8; 4]) -> bool {
        start == pcapng::MAGIC || pcap::begins(start)
    }

    /// The next packet of `piece`; `None` where it is not all there.
    ///
    /// # Errors
    /// When the stream cannot be followed any further; every later call says the same.
    #[inline]
    pub fn next_packet<'a>(&mut self, piece: &'a [u8]) -> Result<Option<Packet<'a>>, ReadError> {
        self.decoder.next(piece, &mut self.cursor)
    }

    /// What is left of `piece` once it has no more packets. The next piece begins with these bytes.
    pub fn rest<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let rest = self.cursor.rest(piece);
        self.cursor.restart();
        rest
    }

    /// The next piece: what was left of the one before, and bytes behind it. A block that nobody reads may be
    /// longer than a piece.
    pub fn begin(&mut self, piece: &[u8]) {
        self.cursor.resume(piece);
    }

    /// What was read so far, if `piece` is all that is left.
    #[must_use]
    pub fn summary(&self, piece: &[u8]) -> Summary {
        Summary::of_binary(&self.decoder, self.cursor.ending(piece))
    }
}

/// Reads the packets of a pcap or pcapng file that is in memory as a whole, without copying.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    decoder: Decoder,
    data: &'a [u8],
    cursor: Cursor,
}

impl<'a> Packets<'a> {
    /// The packets of `data`.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self {
            decoder: Decoder::default(),
            data,
            cursor: Cursor::default(),
        }
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be followed any further; every later call says the same.
    #[inline]
    pub fn next_packet(&mut self) -> Result<Option<Packet<'a>>, ReadError> {
        self.decoder.next(self.data, &mut self.cursor)
    }

    /// How the capture ended, once there are no more packets.
    #[must_use]
    pub fn finish(&self) -> Ending {
        self.cursor.ending(self.data)
    }
}
