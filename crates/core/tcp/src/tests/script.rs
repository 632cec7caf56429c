//! Packet scripts in tcpdump's notation, against one endpoint.
//!
//! ```text
//! +0.1  < S 0:0(0) win 65535 <mss 1460,sackOK,wscale 7>      a segment comes, 0.1 s after the line before
//! +0    > S. 0:0(0) ack 1 <mss 1460>                         the endpoint sends exactly this, then
//! +0    ! write 1000                                         the application: write, read, close, abort
//! +0    ? ESTABLISHED                                        the state must be
//! +0    = cwnd 5                                             so must cwnd or ssthresh, in segments
//! ```
//! Numbers count from each side's SYN. What a `>` line does not mention is not compared; an unmentioned
//! segment is an error. Times are exact to the millisecond.

use core::time::Duration;

use std::collections::VecDeque;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;
use units::{SeqNum, Time};
use wire::{TcpFlags, TcpOptions, Timestamps};

use crate::{Config, Connection, EcnCodepoint, Output, Segment};

const OURS: SeqNum = SeqNum::new(3_000_000_000);
const THEIRS: SeqNum = SeqNum::new(4_294_960_000);

struct Player {
    config: Config,
    now: Time,
    connection: Option<Connection>,
    sent: VecDeque<(Time, Segment)>,
}

/// Plays `script`; panics with the line that does not hold.
#[track_caller]
pub(super) fn play(config: Config, script: &str) {
    let start = Time::from_millis(10_000);
    let mut player = Player {
        config,
        now: start,
        connection: None,
        sent: VecDeque::new(),
    };
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Err(why) = player.line(line) {
            panic!("`{line}`: {why}");
        }
    }
    assert!(player.sent.is_empty(), "left over: {}", player.describe());
}

impl Player {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.splitn(3, ' ').map(str::trim);
        let wait: f64 = words
            .next()
            .and_then(|word| word.trim_start_matches('+').parse().ok())
            .ok_or("no time")?;
        let rest = words.collect::<Vec<_>>().join(" ");
        let (kind, rest) = rest.trim_start().split_once(' ').ok_or("nothing to do")?;
        let at = self.now + Duration::from_secs_f64(wait);
        self.advance(at);
        match kind {
            "<" => self.inject(&parse(rest.trim(), THEIRS, OURS)?.1),
            ">" => self.expect(rest.trim()),
            "!" => self.act(rest.trim()),
            "?" => {
                let state = self
                    .connection
                    .as_ref()
                    .ok_or("no connection")?
                    .state()
                    .to_string();
                if state == rest.trim() {
                    Ok(())
                } else {
                    Err(format!("the state is {state}"))
                }
            }
            "=" => self.compare(rest.trim()),
            other => Err(format!("`{other}` is none of < > ! ? =")),
        }
    }

    fn advance(&mut self, until: Time) {
        while let Some(connection) = &mut self.connection {
            match connection.poll_output(self.now) {
                Output::Transmit { segment, .. } => self.sent.push_back((self.now, segment)),
                Output::Event(_) => {}
                Output::Timeout(Some(at)) if at <= until => {
                    self.now = self.now.max(at);
                    connection.handle_timeout(self.now);
                }
                Output::Timeout(_) => break,
            }
        }
        self.now = until;
    }

    fn inject(&mut self, segment: &Segment) -> Result<(), String> {
        if !self.sent.is_empty() {
            return Err(format!("before it the endpoint sent {}", self.describe()));
        }
        if let Some(connection) = &mut self.connection {
            connection.handle_segment(self.now, segment);
        } else {
            let accepted = Connection::accept(&self.config, self.now, segment, OURS);
            self.connection = Some(accepted.ok_or("not accepted")?);
        }
        self.advance(self.now);
        Ok(())
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        let (named, wanted) = parse(text, OURS, THEIRS)?;
        let (at, sent) = self.sent.pop_front().ok_or("nothing was sent")?;
        let late = self.now.since(at).as_millis();
        if late > 0 {
            return Err(format!("it was sent {late} ms earlier"));
        }
        let same = |what: &str, holds: bool| {
            if holds {
                Ok(())
            } else {
                Err(format!("{what} differs: {}", show(&sent)))
            }
        };
        same("a flag", sent.flags == wanted.flags)?;
        same("the first byte", sent.seq == wanted.seq)?;
        same("the length", sent.payload == wanted.payload)?;
        same(
            "the acknowledgement",
            !named.contains(&"ack") || sent.ack == wanted.ack,
        )?;
        same(
            "the window",
            !named.contains(&"win") || sent.window == wanted.window,
        )?;
        same(
            "the ECN field",
            !named.contains(&"ecn") || sent.ecn == wanted.ecn,
        )?;
        same(
            "SACK",
            !named.contains(&"sack") || sent.options.sack == wanted.options.sack,
        )?;
        same(
            "SACK",
            named.contains(&"sack") || sent.options.sack.is_empty(),
        )?;
        same(
            "the MSS",
            !named.contains(&"mss") || sent.options.mss == wanted.options.mss,
        )?;
        same(
            "the scale",
            !named.contains(&"wscale") || sent.options.window_scale == wanted.options.window_scale,
        )
    }

    fn compare(&self, text: &str) -> Result<(), String> {
        let (name, wanted) = text.split_once(' ').ok_or("no value")?;
        let view = self.connection.as_ref().ok_or("no connection")?.sender();
        let found = match name {
            "cwnd" => view.cwnd,
            "ssthresh" => view.ssthresh,
            _ => return Err(format!("`{name}` is unknown")),
        };
        if found.to_string() == wanted {
            Ok(())
        } else {
            Err(format!("it is {found}"))
        }
    }

    fn act(&mut self, text: &str) -> Result<(), String> {
        let (verb, number) = text.split_once(' ').unwrap_or((text, "0"));
        let number: u64 = number.parse().map_err(|_| "no number")?;
        let now = self.now;
        match (verb, &mut self.connection) {
            ("connect", None) => {
                self.connection = Some(Connection::connect(&self.config, now, OURS));
            }
            ("write", Some(connection)) => {
                connection.write(now, number);
            }
            ("read", Some(connection)) => {
                connection.read(now, number);
            }
            ("mtu", Some(connection)) => {
                let mtu = u16::try_from(number).map_err(|_| "too large")?;
                connection.set_path_mtu(now, mtu, 20);
            }
            ("close", Some(connection)) => connection.close(),
            ("abort", Some(connection)) => connection.abort(),
            _ => return Err("no such action here".to_string()),
        }
        self.advance(now);
        Ok(())
    }

    fn describe(&self) -> String {
        self.sent
            .iter()
            .map(|(at, segment)| format!("{at} {}", show(segment)))
            .collect::<Vec<_>>()
            .join("; ")
    }
}

fn show(segment: &Segment) -> String {
    let start = segment.seq.distance_from(OURS);
    let end = i64::from(start) + i64::from(segment.payload);
    let ack = segment.ack.map_or(0, |ack| ack.distance_from(THEIRS));
    format!(
        "{} {start}:{end}({}) ack {ack} win {}",
        segment.flags, segment.payload, segment.window
    )
}

/// Reads a segment; also tells which of its parts the text names.
fn parse(text: &str, from: SeqNum, to: SeqNum) -> Result<(Vec<&'static str>, Segment), String> {
    let (head, options) = text.split_once('<').unwrap_or((text, ""));
    let mut words = head.split_whitespace();
    let letters = words.next().ok_or("no flags")?;
    let mut flags = TcpFlags::default();
    for letter in letters.chars() {
        flags = flags.union(match letter {
            'S' => TcpFlags::SYN,
            'F' => TcpFlags::FIN,
            'R' => TcpFlags::RST,
            'P' => TcpFlags::PSH,
            '.' => TcpFlags::ACK,
            'E' => TcpFlags::ECE,
            'W' => TcpFlags::CWR,
            _ => return Err(format!("`{letter}` is no flag")),
        });
    }
    let range = words.next().ok_or("no numbers")?;
    let (first, rest) = range.split_once(':').ok_or("no range")?;
    let length = rest
        .split_once('(')
        .and_then(|(_, length)| length.strip_suffix(')'))
        .ok_or("no length")?;
    let number = |text: &str| {
        text.parse::<u32>()
            .map_err(|_| format!("`{text}` is no number"))
    };
    let mut named = Vec::new();
    let mut segment = Segment {
        seq: from + number(first)?,
        ack: None,
        flags,
        window: 65_535,
        payload: number(length)?,
        options: TcpOptions::default(),
        ecn: EcnCodepoint::NotEct,
    };
    while let (Some(word), Some(value)) = (words.next(), words.next()) {
        match word {
            "ack" => {
                segment.ack = Some(to + number(value)?);
                named.push("ack");
            }
            "win" => {
                segment.window = value.parse().map_err(|_| "no window")?;
                named.push("win");
            }
            "ecn" => {
                segment.ecn = EcnCodepoint::from_bits(value.parse().map_err(|_| "no codepoint")?);
                named.push("ecn");
            }
            other => return Err(format!("`{other}` is unknown")),
        }
    }
    for option in options
        .trim_end_matches('>')
        .split(',')
        .filter(|option| !option.is_empty())
    {
        let words: Vec<&str> = option.split_whitespace().collect();
        match words.as_slice() {
            ["mss", value] => {
                segment.options.mss = value.parse().ok();
                named.push("mss");
            }
            ["wscale", value] => {
                segment.options.window_scale = value.parse().ok();
                named.push("wscale");
            }
            ["sackOK"] => segment.options.sack_permitted = true,
            ["TS", "val", value, "ecr", echo] => {
                let (value, echo) = (number(value)?, number(echo)?);
                segment.options.timestamps = Some(Timestamps { value, echo });
            }
            ["sack", blocks @ ..] => {
                for block in blocks {
                    let (left, right) = block.split_once(':').ok_or("no block")?;
                    segment
                        .options
                        .sack
                        .push(to + number(left)?, to + number(right)?);
                }
                named.push("sack");
            }
            _ => return Err(format!("`{option}` is unknown")),
        }
    }
    Ok((named, segment))
}
