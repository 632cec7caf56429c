//! One printed line. What is read here are the numbers as they stand, relative or not.

use core::net::{Ipv4Addr, Ipv6Addr};

use units::Time;
use wire::{Endpoint, Host, IcmpEcho, Resolution, TcpFlags, Timestamps};

use super::services;
use super::stamp::{self, Stamp};

/// What a line is.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// A packet; without a body where what follows the stamp could not be read.
    Packet {
        stamp: Stamp,
        ip: IpHeader,
        body: Option<Body<'a>>,
    },
    /// The IP header alone, as `-v` prints it before a second line.
    Header { stamp: Stamp, ip: IpHeader },
    /// A packet without a time.
    Untimed,
    /// Anything else.
    Prose,
}

/// What `-v` tells of the IP header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IpHeader {
    pub(super) id: Option<u16>,
    pub(super) ttl: Option<u8>,
    pub(super) ecn: Option<u8>,
}

/// What follows `IP` or `IP6`.
#[derive(Debug)]
pub(super) enum Body<'a> {
    Tcp(PrintedSegment<'a>),
    /// Time and frame are filled in by the caller.
    Echo(IcmpEcho<'a>),
    /// So are they here.
    Resolution(Resolution),
    Other(&'static str),
}

/// A segment as printed.
#[derive(Debug)]
pub(super) struct PrintedSegment<'a> {
    pub(super) source: Endpoint<'a>,
    pub(super) destination: Endpoint<'a>,
    pub(super) flags: TcpFlags,
    /// Printed only where the segment takes sequence space.
    pub(super) seq: Option<u32>,
    pub(super) ack: Option<u32>,
    pub(super) window: u16,
    pub(super) payload_len: u32,
    /// What tcpdump decoded of an HTTP head.
    pub(super) payload: &'a str,
    pub(super) options: PrintedOptions<'a>,
}

/// The options as printed; SACK blocks stay text until the numbers they refer to are known.
#[derive(Debug, Default)]
pub(super) struct PrintedOptions<'a> {
    pub(super) mss: Option<u16>,
    pub(super) window_scale: Option<u8>,
    pub(super) sack_permitted: bool,
    pub(super) timestamps: Option<Timestamps>,
    sack: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let numbered = || stamp::take(behind_number(text)?);
        let Some((stamp, rest)) = stamp::take(text).or_else(numbered) else {
            let text = text.trim_start();
            let packet = ["IP ", "IP6 "].iter().any(|start| text.starts_with(start));
            let untimed = packet && text.contains(" > ");
            return if untimed { Self::Untimed } else { Self::Prose };
        };
        let Some(network) = Network::find(rest) else {
            return Self::Prose;
        };
        let rest = match network {
            Network::Arp(rest) => {
                return Self::Packet {
                    stamp,
                    ip: IpHeader::default(),
                    body: Some(resolution(rest).map_or(Body::Other("ARP"), Body::Resolution)),
                };
            }
            Network::Other(name) => {
                return Self::Packet {
                    stamp,
                    ip: IpHeader::default(),
                    body: Some(Body::Other(name)),
                };
            }
            Network::Ip(rest) => without_notice(rest.trim_start()),
        };
        let Some((verbose, rest)) = rest.strip_prefix('(').and_then(split_parenthesis) else {
            return Self::Packet {
                stamp,
                ip: IpHeader::default(),
                body: Body::read(rest),
            };
        };
        let ip = IpHeader::read(verbose);
        match rest.trim_start() {
            "" => Self::Header { stamp, ip },
            rest => Self::Packet {
                stamp,
                ip,
                body: Body::read(rest),
            },
        }
    }
}

/// What follows the packet's number, which `-#` prints ahead of the time.
fn behind_number(text: &str) -> Option<&str> {
    let (number, rest) = text.trim_start().split_once("  ")?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then_some(rest)
}

/// Drops `truncated-ip - 1386 bytes missing! `, which says that the capture file cut the packet.
fn without_notice(text: &str) -> &str {
    if !text.starts_with("truncated-ip") {
        return text;
    }
    text.split_once("! ").map_or(text, |(_, rest)| rest)
}

/// What the line says before the addresses.
enum Network<'a> {
    /// IP; what follows.
    Ip(&'a str),
    /// ARP; what follows.
    Arp(&'a str),
    Other(&'static str),
}

impl<'a> Network<'a> {
    /// The protocol name stands first, or behind interface and direction (`-i any`), or in the
    /// link-layer header that `-e` prints.
    fn find(text: &'a str) -> Option<Self> {
        let mut rest = text;
        for _ in 0..4 {
            let (word, next) = rest.trim_start().split_once(' ')?;
            match word {
                // In lower case behind `-e`, where there is no link layer.
                "IP" | "IP6" | "ip:" | "ip6:" => return Some(Self::Ip(next)),
                "ARP," => return Some(Self::Arp(next)),
                "LLDP," => return Some(Self::Other("LLDP")),
                "STP" => return Some(Self::Other("STP")),
                _ => rest = next,
            }
        }
        let (_, last) = text.rsplit_once("ethertype ")?;
        let (name, rest) = last.split_once(", ")?;
        match name.split(' ').next()? {
            "IPv4" | "IPv6" => {
                let rest = match rest.strip_prefix("length ") {
                    Some(length) => length.split_once(": ")?.1,
                    None => rest,
                };
                Some(Self::Ip(rest))
            }
            "ARP" => Some(Self::Arp(rest)),
            _ => Some(Self::Other("other ethertype")),
        }
    }
}

// === impl IpHeader ===

impl IpHeader {
    /// `tos 0x2,ECT(0), ttl 64, id 1, offset 0, flags [DF], proto TCP (6), length 60`, or for IPv6
    /// `class 0x02, flowlabel 0x1, hlim 64, next-header TCP (6) payload length: 40`.
    fn read(text: &str) -> Self {
        let mut header = Self::default();
        for part in text.split([',', ')']) {
            match part.trim().split_once(' ') {
                Some(("tos" | "class", value)) => {
                    let value = value.strip_prefix("0x").unwrap_or(value);
                    header.ecn = u8::from_str_radix(value, 16).ok().map(|tos| tos & 3);
                }
                Some(("ttl", value)) => header.ttl = value.parse().ok(),
                Some(("hlim", value)) => {
                    header.ttl = value.parse().ok();
                    // A traffic class of zero is not printed, any other stands before the hop limit.
                    header.ecn = header.ecn.or(Some(0));
                }
                Some(("id", value)) => header.id = value.parse().ok(),
                _ => {}
            }
        }
        header
    }
}

/// `Request who-has 10.0.0.2 tell 10.0.0.1, length 28` or `Reply 10.0.0.2 is-at 02:…`, which does not say to whom.
/// Behind `-e` a length stands before either.
fn resolution(text: &str) -> Option<Resolution> {
    let (asker, asked) = match text.split_once("Request who-has ") {
        Some((_, asked)) => {
            let (asked, asker) = asked.split_once(" tell ")?;
            let asker = asker.split([',', ' ']).next()?;
            (Some(asker.parse().ok()?), asked)
        }
        None => (None, text.split_once("Reply ")?.1),
    };
    Some(Resolution {
        at: Time::ZERO,
        frame: 0,
        asker,
        // `who-has 10.0.0.2 (02:…) tell 10.0.0.1` where it was known before.
        asked: asked.split(' ').next()?.parse().ok()?,
        answer: asker.is_none(),
    })
}

/// `tos 0x0, proto TCP (6), length 60) rest` at the parenthesis that matches the one before it.
fn split_parenthesis(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1_u32;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

// === impl Body ===

impl<'a> Body<'a> {
    /// `a.1 > b.2: Flags [S], …` and everything else that has a sender and a receiver; of a tunnel's packet what is inside.
    pub(super) fn read(mut text: &'a str) -> Option<Self> {
        /// As deep as packets are looked into.
        const MAX_DEPTH: usize = 4;
        for _ in 0..=MAX_DEPTH {
            let (source, rest) = text.split_once(" > ")?;
            let (destination, rest) = rest.split_once(": ")?;
            if source.contains(' ') || destination.contains(' ') {
                return None;
            }
            match inner(rest) {
                Some(inner) => text = inner,
                None => return Self::between(source, destination, rest),
            }
        }
        Some(Self::Other("tunnels in tunnels"))
    }

    fn between(source: &'a str, destination: &'a str, rest: &'a str) -> Option<Self> {
        // `[icmp6 sum ok] `, `[udp sum ok] `: what `-v` says of checksums.
        let rest = match rest
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("] "))
        {
            Some((_, rest)) => rest,
            None => rest,
        };
        if let Some(rest) = rest.strip_prefix("Flags [") {
            let segment = PrintedSegment::read(endpoint(source)?, endpoint(destination)?, rest)?;
            return Some(Self::Tcp(segment));
        }
        if let Some(rest) = rest.strip_prefix("ICMP") {
            return Some(icmp(host(source), host(destination), rest));
        }
        Some(Self::Other(other(source, destination, rest)))
    }
}

/// `GREv0, key=0x5, length 70: IP a.1 > b.2: …`, and of IP in IP the inner packet at once; what follows `IP`.
fn inner(text: &str) -> Option<&str> {
    let inner = match text.strip_prefix("GREv0") {
        Some(options) => options.split_once(": ")?.1,
        None => text,
    };
    ["IP ", "IP6 "]
        .iter()
        .find_map(|network| inner.strip_prefix(network))
}

/// ` echo request, id 32590, seq 1, length 64`, behind `ICMP` or `ICMP6,`.
fn icmp<'a>(source: Host<'a>, destination: Host<'a>, text: &str) -> Body<'a> {
    let (name, text) = match text.strip_prefix("6,") {
        Some(text) => ("ICMPv6", text),
        None => ("ICMP", text),
    };
    let mut parts = text.trim_start().split(", ");
    let reply = match parts.next() {
        Some("echo request") => false,
        Some("echo reply") => true,
        _ => return Body::Other(name),
    };
    let mut echo = IcmpEcho {
        at: Time::ZERO,
        frame: 0,
        source,
        destination,
        reply,
        id: 0,
        seq: 0,
    };
    for part in parts {
        match part.split_once(' ') {
            Some(("id", value)) => echo.id = value.parse().unwrap_or(0),
            Some(("seq", value)) => echo.seq = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    Body::Echo(echo)
}

fn other(source: &str, destination: &str, text: &str) -> &'static str {
    let is_dns = |side: &str| matches!(side.rsplit_once('.'), Some((_, "domain" | "53")));
    match text.split([' ', ',', '(', 'v']).next() {
        Some("GRE") => "GRE",
        Some("ESP") => "ESP",
        Some("AH") => "AH",
        Some("igmp") => "IGMP",
        Some("VRRP" | "OSPF") => "routing",
        // All that `-q` prints: neither flags nor numbers.
        Some("tcp") => "TCP without numbers (tcpdump -q)",
        _ if is_dns(source) || is_dns(destination) => "DNS",
        _ => "UDP",
    }
}

/// `10.0.0.1.443`, `2001:db8::1.443`, `x.x.x.x1.http`: the last dot parts host and port.
fn endpoint(text: &str) -> Option<Endpoint<'_>> {
    let (name, port) = text.rsplit_once('.')?;
    if name.is_empty() {
        return None;
    }
    Some(Endpoint {
        host: host(name),
        port: services::port(port)?,
    })
}

fn host(text: &str) -> Host<'_> {
    // Only these can begin an address, and names are the common case where there are names at all.
    let address = text
        .as_bytes()
        .first()
        .is_some_and(|first| first.is_ascii_hexdigit() || *first == b':');
    if address {
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Host::Ip(address.into());
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Host::Ip(address.into());
        }
    }
    Host::Name(text)
}

// === impl PrintedSegment ===

impl<'a> PrintedSegment<'a> {
    /// `P.], cksum 0x1 (correct), seq 1:292, ack 1, win 502, options [nop,…], length 291: HTTP: …`
    fn read(source: Endpoint<'a>, destination: Endpoint<'a>, text: &'a str) -> Option<Self> {
        let (letters, mut rest) = text.split_once(']')?;
        let mut segment = Self {
            source,
            destination,
            flags: flags(letters)?,
            seq: None,
            ack: None,
            window: 0,
            payload_len: 0,
            payload: "",
            options: PrintedOptions::default(),
        };
        while let Some(field) = rest.strip_prefix(", ") {
            let (name, value) = field.split_once(' ')?;
            rest = match name {
                "options" => {
                    let value = value.strip_prefix('[')?;
                    // Some options print brackets of their own; the length always follows the list.
                    let end = value.find("], length ").or_else(|| value.find(']'))?;
                    segment.options = PrintedOptions::read(&value[..end]);
                    &value[end + 1..]
                }
                "length" => {
                    let (length, after) = split_number(value)?;
                    segment.payload_len = length;
                    segment.payload = http(after);
                    return Some(segment);
                }
                _ => {
                    let end = value.find(", ").unwrap_or(value.len());
                    segment.field(name, &value[..end])?;
                    &value[end..]
                }
            };
        }
        // Behind options that it cannot read tcpdump stops (`…,[bad opt]]`). On a SYN, which carries no
        // data but the numbers that all later lines count from, the rest does not matter.
        let stopped = rest == "]" && segment.flags.contains(TcpFlags::SYN);
        // Otherwise cut off before its length (a narrow terminal, a masked report): not to be trusted.
        stopped.then_some(segment)
    }

    fn field(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "seq" => {
                // The number behind the colon repeats the length.
                let first = value.split_once(':').map_or(value, |(first, _)| first);
                self.seq = Some(first.parse().ok()?);
            }
            "ack" => self.ack = Some(value.parse().ok()?),
            "win" => self.window = value.parse().ok()?,
            // `cksum`, `urg`, and whatever newer releases add.
            _ => {}
        }
        Some(())
    }
}

fn flags(letters: &str) -> Option<TcpFlags> {
    if letters == "none" {
        return Some(TcpFlags::default());
    }
    letters
        .bytes()
        .try_fold(TcpFlags::default(), |flags, letter| {
            Some(flags.union(match letter {
                b'F' => TcpFlags::FIN,
                b'S' => TcpFlags::SYN,
                b'R' => TcpFlags::RST,
                b'P' => TcpFlags::PSH,
                b'.' => TcpFlags::ACK,
                b'U' => TcpFlags::URG,
                b'E' => TcpFlags::ECE,
                b'W' => TcpFlags::CWR,
                // Accurate ECN (RFC 9768), bit 8, as tcpdump 5 prints it.
                b'e' => TcpFlags::from_bits(0x100),
                _ => return None,
            }))
        })
}

/// The decoded head behind `length 291`: `: HTTP: POST /upload/files HTTP/1.1`.
fn http(text: &str) -> &str {
    let text = text.strip_prefix(": HTTP").unwrap_or_default();
    // `-v` repeats the length in between.
    let text = text
        .strip_prefix(", length: ")
        .and_then(|text| split_number(text).map(|(_, rest)| rest))
        .unwrap_or(text);
    text.strip_prefix(": ").unwrap_or_default()
}

fn split_number(text: &str) -> Option<(u32, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

// === impl PrintedOptions ===

impl<'a> PrintedOptions<'a> {
    /// `mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7`, `nop,nop,sack 2 {1:2}{3:4}`.
    fn read(text: &'a str) -> Self {
        let mut options = Self::default();
        for option in text.split(',') {
            let (name, value) = option.split_once(' ').unwrap_or((option, ""));
            match name {
                "mss" => options.mss = value.parse().ok(),
                "wscale" => options.window_scale = value.parse().ok(),
                "sackOK" => options.sack_permitted = true,
                "sack" => options.sack = value,
                "TS" => options.timestamps = timestamps(value),
                _ => {}
            }
        }
        options
    }

    /// The edges of the SACK blocks as printed.
    pub(super) fn sack(&self) -> impl Iterator<Item = (u32, u32)> + 'a {
        self.sack.split(['{', '}']).filter_map(|block| {
            let (left, right) = block.split_once(':')?;
            Some((left.parse().ok()?, right.parse().ok()?))
        })
    }
}

/// `val 2595135963 ecr 0`.
fn timestamps(text: &str) -> Option<Timestamps> {
    let (value, echo) = text.strip_prefix("val ")?.split_once(" ecr ")?;
    Some(Timestamps {
        value: value.parse().ok()?,
        echo: echo.parse().ok()?,
    })
}
