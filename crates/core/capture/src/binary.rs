use crate::cursor::Cursor;
use crate::{Format, Packet, ReadError, pcap, pcapng};

/// The longest record or block that is held in memory, in bytes. Wireshark refuses beyond the same 16
/// MiB; real packets end at the 512 KiB that "BIG TCP" can build.
pub(crate) const RECORD_MAX: u32 = 16 << 20;

/// A pcap or pcapng stream: its state between two records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoder {
    state: State,
    frames: u64,
    /// Once the stream is lost, it stays lost.
    failed: Option<ReadError>,
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Start,
    Pcap(pcap::File),
    Pcapng(pcapng::File),
}

impl Decoder {
    /// The next packet in `data` behind `cursor`; `None` where more bytes are needed.
    #[inline]
    pub(crate) fn next<'a>(
        &mut self,
        data: &'a [u8],
        cursor: &mut Cursor,
    ) -> Result<Option<Packet<'a>>, ReadError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let next = self.advance(data, cursor);
        match next {
            Ok(Some(mut packet)) => {
                self.frames += 1;
                packet.frame = self.frames;
                Ok(Some(packet))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.failed = Some(error);
                Err(error)
            }
        }
    }

    #[inline]
    fn advance<'a>(
        &mut self,
        data: &'a [u8],
        cursor: &mut Cursor,
    ) -> Result<Option<Packet<'a>>, ReadError> {
        if matches!(self.state, State::Start) {
            let Some(magic) = cursor.rest(data).first_chunk::<4>() else {
                return Ok(None);
            };
            if *magic == pcapng::MAGIC {
                self.state = State::Pcapng(pcapng::File::default());
            } else if let Some(file) = pcap::File::read(*magic, data, cursor)? {
                self.state = State::Pcap(file);
            }
        }
        match &mut self.state {
            State::Start => Ok(None),
            State::Pcap(file) => file.next(data, cursor),
            State::Pcapng(file) => file.next(data, cursor),
        }
    }

    /// What the first bytes said, once they were there.
    pub(crate) const fn format(&self) -> Option<Format> {
        match self.state {
            State::Pcap(_) => Some(Format::Pcap),
            State::Pcapng(_) => Some(Format::Pcapng),
            State::Start => None,
        }
    }

    pub(crate) const fn frames(&self) -> u64 {
        self.frames
    }

    pub(crate) fn pcapng(&self) -> Option<&pcapng::File> {
        match &self.state {
            State::Pcapng(file) => Some(file),
            State::Start | State::Pcap(_) => None,
        }
    }
}

/// The byte order of a file or section.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Order {
    #[default]
    Little,
    Big,
}

impl Order {
    /// The 32-bit field at `offset`; zero where it does not exist, which callers rule out by length.
    #[inline]
    pub(crate) fn u32(self, bytes: &[u8], offset: usize) -> u32 {
        let field = bytes.get(offset..).and_then(<[u8]>::first_chunk);
        match self {
            Self::Little => field.map_or(0, |b| u32::from_le_bytes(*b)),
            Self::Big => field.map_or(0, |b| u32::from_be_bytes(*b)),
        }
    }

    /// The 16-bit field at `offset`, likewise.
    #[inline]
    pub(crate) fn u16(self, bytes: &[u8], offset: usize) -> u16 {
        let field = bytes.get(offset..).and_then(<[u8]>::first_chunk);
        match self {
            Self::Little => field.map_or(0, |b| u16::from_le_bytes(*b)),
            Self::Big => field.map_or(0, |b| u16::from_be_bytes(*b)),
        }
    }
}
