//! A packet in tcpdump's notation: `P. 1:101(100) ack 1 win 257 <nop,nop,sack 201:301>`.

use alloc::format;
use alloc::string::String;
use core::fmt::{self, Write as _};

use tcp::{EcnCodepoint, Segment};
use units::SeqNum;
use wire::{TcpFlags, TcpOptions, Timestamps};

use crate::read::Reason;

/// A packet whose numbers count from each side's SYN, and which of its parts a script names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet {
    /// The segment; what is not named has some value.
    pub segment: Segment,
    /// What the text says something about.
    pub named: Named,
}

/// Parts of a packet. Flags but PSH, numbers and SACK blocks always count.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each part of a header is named or not"
)]
pub struct Named {
    /// The acknowledgement number.
    pub ack: bool,
    /// The window field.
    pub window: bool,
    /// What the IP header says about congestion.
    pub ecn: bool,
    /// The MSS option.
    pub mss: bool,
    /// The window scale option.
    pub window_scale: bool,
    /// The SACK-permitted option.
    pub sack_permitted: bool,
    /// The timestamps option.
    pub timestamps: bool,
}

/// As tcpdump orders them, the acknowledgement last.
const LETTERS: [(char, TcpFlags); 8] = [
    ('F', TcpFlags::FIN),
    ('S', TcpFlags::SYN),
    ('R', TcpFlags::RST),
    ('P', TcpFlags::PSH),
    ('U', TcpFlags::URG),
    ('W', TcpFlags::CWR),
    ('E', TcpFlags::ECE),
    ('.', TcpFlags::ACK),
];

const CODEPOINTS: [(&str, EcnCodepoint); 4] = [
    ("none", EcnCodepoint::NotEct),
    ("ect1", EcnCodepoint::Ect1),
    ("ect0", EcnCodepoint::Ect0),
    ("ce", EcnCodepoint::Ce),
];

// === impl Packet ===

impl Packet {
    /// Reads what stands behind `<` or `>`.
    pub(crate) fn read(text: &str) -> Result<Self, Reason> {
        let (head, options) = match text.split_once('<') {
            Some((head, rest)) => {
                let inside = rest.trim_end().strip_suffix('>');
                (head, inside.ok_or(Reason::Options)?)
            }
            None => (text, ""),
        };
        let mut words = head.split_whitespace();
        let flags = flags(words.next().ok_or(Reason::Packet)?)?;
        let (first, length) = range(words.next().ok_or(Reason::Packet)?)?;
        let mut packet = Self {
            segment: Segment {
                seq: first,
                ack: None,
                flags,
                window: u16::MAX,
                payload: length,
                options: TcpOptions::default(),
                ecn: EcnCodepoint::NotEct,
            },
            named: Named::default(),
        };
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| Reason::no_value(word))?;
            packet.read_word(word, value)?;
        }
        for option in options.split(',').map(str::trim) {
            packet.read_option(option)?;
        }
        if packet.named.ack != flags.contains(TcpFlags::ACK) {
            return Err(Reason::AckAndFlag);
        }
        Ok(packet)
    }

    /// A packet that was seen, all of it named.
    #[must_use]
    pub const fn seen(segment: Segment) -> Self {
        let options = &segment.options;
        Self {
            named: Named {
                ack: segment.ack.is_some(),
                window: true,
                ecn: !matches!(segment.ecn, EcnCodepoint::NotEct),
                mss: options.mss.is_some(),
                window_scale: options.window_scale.is_some(),
                sack_permitted: options.sack_permitted,
                timestamps: options.timestamps.is_some(),
            },
            segment,
        }
    }

    /// In what `seen` differs from what is asked for, in words.
    #[must_use]
    pub fn difference(&self, seen: &Segment) -> Option<&'static str> {
        let (asked, named) = (&self.segment, &self.named);
        let push = |flags: TcpFlags| TcpFlags::from_bits(flags.bits() & !TcpFlags::PSH.bits());
        let pushed = asked.flags.contains(TcpFlags::PSH);
        let differs = [
            ("a flag", push(asked.flags) != push(seen.flags)),
            ("the flag P", pushed && !seen.flags.contains(TcpFlags::PSH)),
            ("the first byte", asked.seq != seen.seq),
            ("the length", asked.payload != seen.payload),
            ("the acknowledgement", named.ack && asked.ack != seen.ack),
            ("the window", named.window && asked.window != seen.window),
            ("the ECN field", named.ecn && asked.ecn != seen.ecn),
            ("a SACK block", asked.options.sack != seen.options.sack),
            (
                "the MSS",
                named.mss && asked.options.mss != seen.options.mss,
            ),
            (
                "the window scale",
                named.window_scale && asked.options.window_scale != seen.options.window_scale,
            ),
            (
                "SACK-permitted",
                named.sack_permitted && asked.options.sack_permitted != seen.options.sack_permitted,
            ),
            (
                "the timestamps",
                named.timestamps && asked.options.timestamps != seen.options.timestamps,
            ),
        ];
        differs
            .iter()
            .find(|(_, differs)| *differs)
            .map(|(part, _)| *part)
    }

    fn read_word(&mut self, word: &str, value: &str) -> Result<(), Reason> {
        match word {
            "ack" => {
                self.segment.ack = Some(number(value)?);
                self.named.ack = true;
            }
            "win" => {
                self.segment.window = value.parse().map_err(|_| Reason::number(value))?;
                self.named.window = true;
            }
            "ecn" => {
                let known = CODEPOINTS.iter().find(|(name, _)| *name == value);
                let (_, codepoint) =
                    known.ok_or_else(|| Reason::unknown(value, "none, ect0, ect1, ce"))?;
                self.segment.ecn = *codepoint;
                self.named.ecn = true;
            }
            _ => return Err(Reason::unknown(word, "ack, win, ecn")),
        }
        Ok(())
    }

    fn read_option(&mut self, option: &str) -> Result<(), Reason> {
        let known = "mss, wscale, sackOK, sack, TS val, nop, or one of them behind `no`";
        let mut words = option.split_whitespace();
        let first = words.next().unwrap_or("nop");
        let (segment, named) = (&mut self.segment.options, &mut self.named);
        let mut value = || words.next().ok_or_else(|| Reason::no_value(first));
        match first {
            "nop" | "eol" => {}
            "no" => match value()? {
                "mss" => named.mss = true,
                "wscale" => named.window_scale = true,
                "sackOK" => named.sack_permitted = true,
                "TS" => named.timestamps = true,
                other => return Err(Reason::unknown(other, "mss, wscale, sackOK, TS")),
            },
            "mss" => {
                let text = value()?;
                segment.mss = Some(text.parse().map_err(|_| Reason::number(text))?);
                named.mss = true;
            }
            "wscale" => {
                let text = value()?;
                segment.window_scale = Some(text.parse().map_err(|_| Reason::number(text))?);
                named.window_scale = true;
            }
            "sackOK" => {
                segment.sack_permitted = true;
                named.sack_permitted = true;
            }
            "TS" => {
                let ("val", ours, "ecr", echo) = (value()?, value()?, value()?, value()?) else {
                    return Err(Reason::unknown(option, "TS val N ecr N"));
                };
                segment.timestamps = Some(Timestamps {
                    value: number(ours)?.get(),
                    echo: number(echo)?.get(),
                });
                named.timestamps = true;
            }
            "sack" => {
                for block in words.by_ref().take(4) {
                    let (left, right) =
                        block.split_once(':').ok_or_else(|| Reason::number(block))?;
                    segment.sack.push(number(left)?, number(right)?);
                }
            }
            other => return Err(Reason::unknown(other, known)),
        }
        match words.next() {
            Some(extra) => Err(Reason::unknown(extra, known)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (segment, named) = (&self.segment, &self.named);
        for (letter, flag) in LETTERS {
            if segment.flags.contains(flag) {
                write!(f, "{letter}")?;
            }
        }
        if LETTERS
            .iter()
            .all(|(_, flag)| !segment.flags.contains(*flag))
        {
            f.write_str("none")?;
        }
        let first = segment.seq;
        let end = first + segment.payload;
        write!(f, " {}:{}({})", first.get(), end.get(), segment.payload)?;
        if let Some(ack) = segment.ack {
            write!(f, " ack {}", ack.get())?;
        }
        if named.window {
            write!(f, " win {}", segment.window)?;
        }
        if named.ecn {
            let known = CODEPOINTS
                .iter()
                .find(|(_, codepoint)| *codepoint == segment.ecn);
            write!(f, " ecn {}", known.map_or("none", |(name, _)| name))?;
        }
        let options = self.options();
        if options.is_empty() {
            return Ok(());
        }
        write!(f, " <{options}>")
    }
}

impl Packet {
    fn options(&self) -> String {
        let (options, named) = (&self.segment.options, &self.named);
        let mut text = String::new();
        let mut push = |option: &str| {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(option);
        };
        match options.mss {
            Some(mss) if named.mss => push(&format!("mss {mss}")),
            None if named.mss => push("no mss"),
            _ => {}
        }
        match (named.sack_permitted, options.sack_permitted) {
            (true, true) => push("sackOK"),
            (true, false) => push("no sackOK"),
            (false, _) => {}
        }
        match options.timestamps {
            Some(Timestamps { value, echo }) if named.timestamps => {
                push(&format!("TS val {value} ecr {echo}"));
            }
            None if named.timestamps => push("no TS"),
            _ => {}
        }
        match options.window_scale {
            Some(shift) if named.window_scale => push(&format!("wscale {shift}")),
            None if named.window_scale => push("no wscale"),
            _ => {}
        }
        if !options.sack.is_empty() {
            let mut blocks = String::from("sack");
            for (left, right) in options.sack.iter() {
                // A string takes everything.
                let _ = write!(blocks, " {}:{}", left.get(), right.get());
            }
            push(&blocks);
        }
        text
    }
}

fn flags(text: &str) -> Result<TcpFlags, Reason> {
    if text == "none" {
        return Ok(TcpFlags::default());
    }
    let mut flags = TcpFlags::default();
    for letter in text.chars() {
        let known = LETTERS.iter().find(|(known, _)| *known == letter);
        let (_, flag) =
            known.ok_or_else(|| Reason::unknown(text, "flags F S R P U W E . or none"))?;
        flags = flags.union(*flag);
    }
    Ok(flags)
}

/// `first:end(length)`, of which the end must be right.
fn range(text: &str) -> Result<(SeqNum, u32), Reason> {
    let parts = || {
        let (first, rest) = text.split_once(':')?;
        let (end, length) = rest.split_once('(')?;
        Some((first, end, length.strip_suffix(')')?))
    };
    let (first, end, length) = parts().ok_or_else(|| Reason::unknown(text, "first:end(length)"))?;
    let (first, end, length) = (number(first)?, number(end)?, number(length)?.get());
    if first + length != end {
        return Err(Reason::Range);
    }
    Ok((first, length))
}

fn number(text: &str) -> Result<SeqNum, Reason> {
    let number = text.parse().map_err(|_| Reason::number(text))?;
    Ok(SeqNum::new(number))
}
