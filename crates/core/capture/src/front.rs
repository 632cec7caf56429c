use alloc::collections::BTreeMap;

use wire::{DecodeError, Observation};

use crate::binary::Decoder;
use crate::cursor::{Buffer, Cursor};
use crate::text::{self, TextCounts};
use crate::{Ending, Format, Packet, ReadError, pcap, pcapng};

/// A capture of any format, as observations.
///
/// Feed a chunk, take observations until there are none, feed the next; after the last chunk call
/// [`Capture::finish`] and take what is left. Frames that cannot be decoded are counted in the
/// [`Summary`] and passed over.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    parser: Parser,
    buffer: Buffer,
    ended: bool,
}

/// A capture that is in memory as a whole, as observations, without copying.
#[derive(Clone, Debug)]
pub struct Observations<'a> {
    parser: Parser,
    data: &'a [u8],
    cursor: Cursor,
}

/// What a capture held, and what could not be read of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Summary {
    /// The format; `None` while fewer than four bytes are known.
    pub format: Option<Format>,
    /// Packets read, or packet lines of a text.
    pub frames: u64,
    /// TCP segments among them.
    pub segments: u64,
    /// ICMP and `ICMPv6` echoes among them.
    pub echoes: u64,
    /// Packets of no interest, by name.
    pub others: BTreeMap<&'static str, u64>,
    /// Packets not decoded because the snapshot length cut them, by the field that was cut.
    pub cut: BTreeMap<&'static str, u64>,
    /// Packets not decoded because they contradict their protocol, by field.
    pub malformed: BTreeMap<&'static str, u64>,
    /// Packet blocks of a pcapng file whose content contradicts itself.
    pub unreadable_blocks: u64,
    /// Packets without a time stamp of their own.
    pub untimed: u64,
    /// Packets which the capturing system itself reports as dropped (pcapng interface statistics).
    pub dropped: u64,
    /// Lines of a text capture.
    pub text: TextCounts,
    /// Whether the last record is whole.
    pub ending: Ending,
}

impl Capture {
    /// A capture at its start.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.feed(bytes);
    }

    /// Says that no more bytes come, so that a last line without its line feed is read too.
    pub fn finish(&mut self) {
        self.ended = true;
    }

    /// The next observation; `None` where more bytes are needed, or after [`Capture::finish`] at the end.
    ///
    /// # Errors
    /// When the capture cannot be followed any further; every later call says the same.
    pub fn next_observation(&mut self) -> Result<Option<Observation<'_>>, ReadError> {
        self.parser
            .next(&self.buffer.bytes, &mut self.buffer.cursor, self.ended)
    }

    /// What was read so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.parser.summary(self.buffer.ending())
    }
}

impl<'a> Observations<'a> {
    /// The observations of `data`.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self {
            parser: Parser::default(),
            data,
            cursor: Cursor::default(),
        }
    }

    /// The next observation; `None` at the end.
    ///
    /// # Errors
    /// When the capture cannot be followed any further; every later call says the same.
    #[inline]
    pub fn next_observation(&mut self) -> Result<Option<Observation<'a>>, ReadError> {
        self.parser.next(self.data, &mut self.cursor, true)
    }

    /// What was read so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.parser.summary(self.cursor.ending(self.data))
    }
}

/// The state of a capture between two observations, wherever its bytes are.
#[derive(Clone, Debug, Default)]
struct Parser {
    state: State,
    counts: Counts,
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Start,
    Binary(Decoder),
    Text(text::Parser),
}

#[derive(Clone, Debug, Default)]
struct Counts {
    segments: u64,
    echoes: u64,
    others: BTreeMap<&'static str, u64>,
    cut: BTreeMap<&'static str, u64>,
    malformed: BTreeMap<&'static str, u64>,
}

impl Parser {
    #[inline]
    fn next<'a>(
        &mut self,
        data: &'a [u8],
        cursor: &mut Cursor,
        ended: bool,
    ) -> Result<Option<Observation<'a>>, ReadError> {
        if matches!(self.state, State::Start) {
            match recognise(cursor.rest(data), ended)? {
                Some(state) => self.state = state,
                None => return Ok(None),
            }
        }
        let observation = match &mut self.state {
            State::Binary(decoder) => next_decoded(decoder, &mut self.counts, data, cursor)?,
            State::Text(text) => text.next(data, cursor, ended),
            State::Start => None,
        };
        if let Some(observation) = &observation {
            self.counts.note(observation);
        }
        Ok(observation)
    }

    fn summary(&self, ending: Ending) -> Summary {
        let counts = self.counts.clone();
        let pcapng = match &self.state {
            State::Binary(decoder) => decoder.pcapng(),
            State::Start | State::Text(_) => None,
        };
        Summary {
            format: match &self.state {
                State::Start => None,
                State::Binary(decoder) => decoder.format(),
                State::Text(_) => Some(Format::TcpdumpText),
            },
            frames: match &self.state {
                State::Start => 0,
                State::Binary(decoder) => decoder.frames(),
                State::Text(_) => {
                    counts.segments + counts.echoes + counts.others.values().sum::<u64>()
                }
            },
            segments: counts.segments,
            echoes: counts.echoes,
            others: counts.others,
            cut: counts.cut,
            malformed: counts.malformed,
            unreadable_blocks: pcapng.map_or(0, pcapng::File::unreadable),
            untimed: pcapng.map_or(0, pcapng::File::untimed),
            dropped: pcapng.map_or(0, pcapng::File::dropped),
            text: match &self.state {
                State::Text(text) => text.counts(),
                State::Start | State::Binary(_) => TextCounts::default(),
            },
            ending,
        }
    }
}

#[inline]
fn next_decoded<'a>(
    decoder: &mut Decoder,
    counts: &mut Counts,
    data: &'a [u8],
    cursor: &mut Cursor,
) -> Result<Option<Observation<'a>>, ReadError> {
    while let Some(packet) = decoder.next(data, cursor)? {
        match packet.decode() {
            Ok(observation) => return Ok(Some(observation)),
            Err(error) => counts.note_error(&error),
        }
    }
    Ok(None)
}

/// Tells the format from the first bytes of a capture; `None` where there are too few to judge.
fn recognise(start: &[u8], ended: bool) -> Result<Option<State>, ReadError> {
    let Some(magic) = start.first_chunk::<4>() else {
        // Too short for a file header: an empty text.
        return Ok(ended.then(|| State::Text(text::Parser::default())));
    };
    if *magic == pcapng::MAGIC || pcap::begins(*magic) {
        return Ok(Some(State::Binary(Decoder::default())));
    }
    let printable = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x1b | 0x20..=0xfd);
    if magic.iter().all(printable) {
        return Ok(Some(State::Text(text::Parser::default())));
    }
    Err(ReadError::Unrecognised { magic: *magic })
}

impl Summary {
    /// Of a binary capture whose packets somebody else decodes and counts.
    pub(crate) fn of_binary(decoder: &Decoder, ending: Ending) -> Self {
        let pcapng = decoder.pcapng();
        Self {
            format: decoder.format(),
            frames: decoder.frames(),
            segments: 0,
            echoes: 0,
            others: BTreeMap::new(),
            cut: BTreeMap::new(),
            malformed: BTreeMap::new(),
            unreadable_blocks: pcapng.map_or(0, pcapng::File::unreadable),
            untimed: pcapng.map_or(0, pcapng::File::untimed),
            dropped: pcapng.map_or(0, pcapng::File::dropped),
            text: TextCounts::default(),
            ending,
        }
    }

    /// Counts what a packet was.
    #[inline]
    pub fn note(&mut self, decoded: &Result<Observation<'_>, DecodeError>) {
        match decoded {
            Ok(observation) => match observation.kind() {
                Some(kind) => *self.others.entry(kind).or_default() += 1,
                None if matches!(observation, Observation::IcmpEcho(_)) => self.echoes += 1,
                None => self.segments += 1,
            },
            Err(error) => {
                let kind = match error {
                    DecodeError::Cut { .. } => &mut self.cut,
                    DecodeError::Malformed { .. } => &mut self.malformed,
                };
                *kind.entry(error.field()).or_default() += 1;
            }
        }
    }
}

impl<'a> Packet<'a> {
    /// What the packet means.
    ///
    /// # Errors
    /// As [`wire::decode`].
    #[inline]
    pub fn decode(&self) -> Result<Observation<'a>, DecodeError> {
        wire::decode(
            self.link,
            self.at,
            self.frame,
            self.captured,
            self.original_len,
        )
    }
}

impl Counts {
    #[inline]
    fn note(&mut self, observation: &Observation<'_>) {
        match observation.kind() {
            Some(kind) => *self.others.entry(kind).or_default() += 1,
            None if matches!(observation, Observation::IcmpEcho(_)) => self.echoes += 1,
            None => self.segments += 1,
        }
    }

    fn note_error(&mut self, error: &DecodeError) {
        let kind = match error {
            DecodeError::Cut { .. } => &mut self.cut,
            DecodeError::Malformed { .. } => &mut self.malformed,
        };
        *kind.entry(error.field()).or_default() += 1;
    }
}
