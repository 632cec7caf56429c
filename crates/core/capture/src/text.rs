//! The text output of tcpdump, as people paste it into reports.
//!
//! Packet lines are read in the forms that `-n`, `-S`, `-e`, `-v`, `-#` and `-tt` to `-ttttt` give them;
//! whatever stands between them (prompts, banners, hex dumps, prose) is counted and passed over.

mod clock;
mod line;
mod numbers;
mod services;
mod stamp;

use core::str;

use units::Time;
use wire::{IcmpEcho, Observation, Resolution, Segment};

use crate::cursor::Cursor;
use clock::{Clock, Column};
use line::{Body, IpHeader, Line, PrintedSegment};
use numbers::Conversations;
use stamp::Stamp;

/// The longest line that is read, in bytes. The longest that tcpdump prints on one line stay far below;
/// what is longer is passed over without being held in memory.
const LINE_MAX: usize = 64 << 10;

/// How far the text is read ahead, in bytes, to know what its time stamps count from: hundreds of packets.
const LOOK_AHEAD: usize = 64 << 10;

/// The lines of a text capture.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TextCounts {
    /// All lines.
    pub lines: u64,
    /// Lines without any text.
    pub blank: u64,
    /// Lines that show no packet: prompts, banners, dumps, prose.
    pub prose: u64,
    /// Packet lines without a time stamp, as `-t` prints them; passed over.
    pub untimed: u64,
    /// Lines that begin as a packet does and could not be read on, such as one with an unknown service
    /// name; passed over.
    pub unreadable: u64,
    /// Whether the time stamps are spans that may count from the packet before (`-ttt`, as they were read) or from
    /// the first (`-ttttt`): they are too few to tell.
    pub spans_guessed: bool,
}

/// The state of a text capture between two lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parser {
    counts: TextCounts,
    clock: Clock,
    /// Whether the clock has seen the first lines.
    foreseen: bool,
    conversations: Conversations,
    /// The first half of a packet that `-v` prints on two lines.
    header: Option<Header>,
    /// In the middle of a line beyond [`LINE_MAX`].
    in_long_line: bool,
}

/// What stands before the addresses of a packet.
#[derive(Clone, Copy, Debug)]
struct Header {
    at: Time,
    frame: u64,
    ip: IpHeader,
}

/// The time stamps of the packets that a text begins with; those in the first [`LOOK_AHEAD`] bytes, so that the
/// pieces it comes in make no difference.
fn column(start: &[u8], ended: bool) -> Column {
    let start = &start[..start.len().min(LOOK_AHEAD)];
    let mut column = Column::default();
    let mut lines = start.split(|&byte| byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        // A last line without its end may go on.
        let whole = lines.peek().is_some() || ended && start.len() < LOOK_AHEAD;
        let text = str::from_utf8(line).map(str::trim_end);
        if let (true, Ok(text)) = (whole, text)
            && let Line::Packet { stamp, .. } | Line::Header { stamp, .. } = Line::read(text)
        {
            column.look(stamp);
        }
    }
    column
}

impl Parser {
    pub(crate) fn counts(&self) -> TextCounts {
        TextCounts {
            spans_guessed: self.clock.is_a_guess(),
            ..self.counts
        }
    }

    /// The next observation in `data` behind `cursor`. A last line without its line feed is read only
    /// when the stream has `ended`.
    pub(crate) fn next<'a>(
        &mut self,
        data: &'a [u8],
        cursor: &mut Cursor,
        ended: bool,
    ) -> Option<Observation<'a>> {
        if !self.foreseen {
            let start = cursor.rest(data);
            if start.len() < LOOK_AHEAD && !ended {
                return None;
            }
            self.clock.foresee(column(start, ended));
            self.foreseen = true;
        }
        while let Some(line) = self.next_line(data, cursor, ended) {
            if let Some(observation) = self.read(line) {
                return Some(observation);
            }
        }
        None
    }

    /// The next whole line, without its end. Lines that are too long come out empty.
    fn next_line<'a>(
        &mut self,
        data: &'a [u8],
        cursor: &mut Cursor,
        ended: bool,
    ) -> Option<&'a [u8]> {
        loop {
            let rest = cursor.rest(data);
            let window = &rest[..rest.len().min(LINE_MAX)];
            let line = match window.iter().position(|&byte| byte == b'\n') {
                Some(end) => {
                    cursor.consume(end + 1);
                    &window[..end]
                }
                None if window.len() == LINE_MAX => {
                    cursor.consume(LINE_MAX);
                    self.in_long_line = true;
                    continue;
                }
                None if ended && (!window.is_empty() || self.in_long_line) => {
                    cursor.consume(window.len());
                    window
                }
                None => return None,
            };
            self.counts.lines += 1;
            if core::mem::take(&mut self.in_long_line) {
                self.counts.prose += 1;
                continue;
            }
            return Some(line);
        }
    }

    fn read<'a>(&mut self, line: &'a [u8]) -> Option<Observation<'a>> {
        let Ok(text) = str::from_utf8(line) else {
            self.counts.prose += 1;
            return None;
        };
        let text = text.trim_end();
        if text.is_empty() {
            self.counts.blank += 1;
            return None;
        }
        let first_half = self.header.take();
        let (header, body) = match Line::read(text) {
            Line::Packet { stamp, ip, body } => (self.header(stamp, ip), body),
            Line::Header { stamp, ip } => {
                self.header = Some(self.header(stamp, ip));
                return None;
            }
            Line::Prose => match first_half {
                Some(header) if text.starts_with(char::is_whitespace) => {
                    (header, Body::read(text.trim_start()))
                }
                _ => {
                    self.counts.prose += 1;
                    return None;
                }
            },
            Line::Untimed => {
                self.counts.untimed += 1;
                return None;
            }
        };
        if body.is_none() {
            self.counts.unreadable += 1;
        }
        Some(match body? {
            Body::Tcp(printed) => Observation::Tcp(self.segment(header, &printed)),
            Body::Echo(echo) => Observation::IcmpEcho(IcmpEcho {
                at: header.at,
                frame: header.frame,
                ..echo
            }),
            Body::Resolution(resolution) => Observation::Resolution(Resolution {
                at: header.at,
                frame: header.frame,
                ..resolution
            }),
            Body::Other(name) => Observation::Other(name),
        })
    }

    fn header(&mut self, stamp: Stamp, ip: IpHeader) -> Header {
        Header {
            at: self.clock.at(stamp),
            frame: self.counts.lines,
            ip,
        }
    }

    fn segment<'a>(&mut self, header: Header, printed: &PrintedSegment<'a>) -> Segment<'a> {
        let numbers = self.conversations.restore(printed);
        Segment {
            at: header.at,
            frame: header.frame,
            source: printed.source,
            destination: printed.destination,
            flags: printed.flags,
            seq: numbers.seq,
            ack: numbers.ack,
            window: printed.window,
            payload_len: printed.payload_len,
            payload: printed.payload.as_bytes(),
            options: numbers.options,
            ip_id: header.ip.id,
            ttl: header.ip.ttl,
            ecn: header.ip.ecn,
            header_len: 0,
        }
    }
}
