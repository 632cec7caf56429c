use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use units::{SeqNum, Time};
use wire::{Segment, TcpFlags};

use crate::flow::{Flow, FlowState, PeerAck};
use crate::notice::Notice;
use crate::packet::{Endpoint, Mark, Packet, Repeat, Role, Side};
use crate::resolutions::Resolutions;
use crate::ssh::{SshBanners, SshFollower};
use crate::tls::{TlsFollower, TlsHandshake};
use crate::turns::{Turn, TurnFollower};

/// How it is known who opened a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClientEvidence {
    /// It sent the SYN.
    Syn,
    /// The other end sent a SYN-ACK.
    SynAck,
    /// A guess: the other end's port is the lower one.
    LowerPort,
    /// A guess: ports are equal, and it sent the first packet seen.
    FirstPacket,
}

/// Where the capture was made, by the two halves of the handshake: a SYN-ACK comes back late at the
/// client, and its ACK comes back late at the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Vantage {
    /// At or near the client.
    Client,
    /// At or near the server.
    Server,
    /// On the way.
    Between,
    /// The capture does not show it.
    Unknown,
}

impl Vantage {
    /// `client`, `server`, `between` or `unknown`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Between => "between",
            Self::Unknown => "unknown",
        }
    }
}

/// How a side's window field is to be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WindowScale {
    /// Shift left by this (RFC 7323 §2.2); zero where scaling was not agreed.
    Known(u8),
    /// The SYNs that would say so are missing: only a window of zero can be read.
    Unknown,
}

impl WindowScale {
    /// The window that `packet` of this side advertises, in bytes; `None` where the scale is not known.
    #[must_use]
    #[inline]
    pub fn window(self, packet: &Packet) -> Option<u64> {
        let field = u64::from(packet.window);
        //= https://www.rfc-editor.org/rfc/rfc7323#section-2.2
        //# The window field in a segment where the SYN bit is set (i.e., a <SYN>
        //# or <SYN,ACK>) MUST NOT be scaled.
        if packet.flags.contains(TcpFlags::SYN) || field == 0 {
            return Some(field);
        }
        match self {
            Self::Known(shift) => Some(field << shift),
            Self::Unknown => None,
        }
    }
}

/// The three steps of connection set-up.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Handshake {
    /// The first SYN.
    pub syn: Option<Mark>,
    /// The first SYN-ACK.
    pub syn_ack: Option<Mark>,
    /// The client's first packet after the SYN-ACK, and whether it was a bare ACK. In a filtered capture
    /// it is the first one that passed the filter.
    pub ack: Option<(Mark, bool)>,
    /// SYNs sent again.
    pub syn_repeats: u32,
    /// SYN-ACKs sent again.
    pub syn_ack_repeats: u32,
    /// The last SYN that a SYN-ACK answered to.
    pub last_syn: Option<Mark>,
    /// What of the time between the first SYN and the first SYN-ACK went into a question for a link-layer address
    /// (ARP): no time of the path.
    pub resolving: Duration,
    /// The server's answer to a SYN for an older connection between the same ports, which only it still holds.
    pub half_open: Option<Mark>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Close {
    /// The capture ends first.
    Open,
    /// By FIN.
    Fin(Closing),
    /// By RST from this side.
    Reset(Side, Mark),
}

/// An orderly end (RFC 9293 §3.6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Closing {
    /// Who sent the first FIN.
    pub first: Side,
    /// That FIN.
    pub first_fin: Mark,
    /// The other side's FIN or RST, which ends its `CLOSE_WAIT`.
    pub second: Option<Mark>,
}

/// What can and cannot be trusted in a connection's packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Quality {
    /// Packets whose time lay before that of the packet ahead of them.
    pub clock_steps: u64,
    /// Only one side's packets are in the capture.
    pub one_direction: Option<Side>,
    /// Bare ACKs are missing although data passed and was acknowledged: a capture filter, such as one
    /// for SYN, PSH and FIN, left them out.
    pub filtered: bool,
}

/// One TCP connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Who opened it.
    pub client: Endpoint,
    /// The other end.
    pub server: Endpoint,
    /// How that is known.
    pub evidence: ClientEvidence,
    /// Its first packet.
    pub first_at: Time,
    /// Its last packet.
    pub last_at: Time,
    /// The number of its first packet, counted on through all captures.
    pub first_frame: u64,
    /// Which part of a connection this is, from 0: one that was silent for long, or is very long, is handed
    /// over in parts by a tracker with a [`crate::Room`]. Later parts know what the SYNs said.
    pub part: u32,
    /// Its packets, in order of time.
    pub packets: Vec<Packet>,
    /// Connection set-up.
    pub handshake: Handshake,
    /// TLS set-up, where payload shows it.
    pub tls: Option<Box<TlsHandshake>>,
    /// Who both ends are, where they speak SSH.
    pub ssh: Option<SshBanners>,
    /// What the client sent.
    pub to_server: Flow,
    /// What the server sent.
    pub to_client: Flow,
    /// Requests and responses.
    pub turns: Vec<Turn>,
    /// How it ended.
    pub close: Close,
    /// Where the capture was made.
    pub vantage: Vantage,
    /// What routers and hosts said about its packets, as far as [`Self::MOST_NOTICES`].
    pub notices: Vec<Notice>,
    /// What can be trusted.
    pub quality: Quality,
}

impl Connection {
    /// More notices tell nothing new.
    pub const MOST_NOTICES: usize = 16;

    /// The largest IP packet that the path from `side` carries, in bytes, as routers said.
    #[must_use]
    pub fn path_mtu(&self, side: Side) -> Option<u32> {
        let about = self.notices.iter().filter(|notice| notice.side == side);
        about.filter_map(Notice::mtu).min()
    }

    /// The direction that starts at `side`.
    #[must_use]
    pub const fn flow(&self, side: Side) -> &Flow {
        match side {
            Side::Client => &self.to_server,
            Side::Server => &self.to_client,
        }
    }

    /// First to last packet.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        self.last_at.since(self.first_at)
    }

    /// Forgets what takes memory for each packet: packets, samples, turns. What was counted stays, and with it
    /// every round trip and window.
    pub fn forget_packets(&mut self) {
        self.packets = Vec::new();
        self.turns = Vec::new();
        for flow in [&mut self.to_server, &mut self.to_client] {
            flow.repeats = Vec::new();
            flow.rtt = Vec::new();
            flow.stamped_us = Vec::new();
            flow.sacked = Vec::new();
        }
    }

    /// Its first packet.
    #[must_use]
    pub const fn first(&self) -> Mark {
        Mark {
            at: self.first_at,
            frame: self.first_frame,
        }
    }

    /// How the windows that `side` advertises are to be read.
    #[must_use]
    pub fn window_scale(&self, side: Side) -> WindowScale {
        let (own, peer) = (self.flow(side).syn, self.flow(side.peer()).syn);
        // Both SYNs must offer it, and it never changes afterwards (RFC 7323 §2.1, §2.2).
        match (own, peer) {
            (Some(own), Some(peer)) => {
                let agreed = own.window_scale.is_some() && peer.window_scale.is_some();
                WindowScale::Known(own.window_scale.filter(|_| agreed).unwrap_or(0))
            }
            // A SYN-ACK carries the option only where the SYN did.
            (Some(own), None) if side == Side::Server => {
                WindowScale::Known(own.window_scale.unwrap_or(0))
            }
            (Some(only), None) | (None, Some(only)) if only.window_scale.is_none() => {
                WindowScale::Known(0)
            }
            (Some(_), None) | (None, Some(_) | None) => WindowScale::Unknown,
        }
    }

    /// The window that `packet` advertises, in bytes; `None` where its scale is not known.
    #[must_use]
    pub fn window(&self, packet: &Packet) -> Option<u64> {
        self.window_scale(packet.side).window(packet)
    }

    /// Smallest and largest window that `side` advertised after its SYN.
    #[must_use]
    pub fn window_range(&self, side: Side) -> Option<(u64, u64)> {
        let (least, most) = self.flow(side).window_fields?;
        match self.window_scale(side) {
            WindowScale::Known(shift) => {
                Some((u64::from(least) << shift, u64::from(most) << shift))
            }
            // Only a closed window can be read.
            WindowScale::Unknown => (least == 0).then_some((0, 0)),
        }
    }

    /// Whether SACK is in use; `None` where a SYN is missing.
    #[must_use]
    pub fn sack(&self) -> Option<bool> {
        Some(self.to_server.syn?.sack_permitted && self.to_client.syn?.sack_permitted)
    }

    /// Whether timestamps are in use; `None` where a SYN is missing.
    #[must_use]
    pub fn timestamps(&self) -> Option<bool> {
        Some(self.to_server.syn?.timestamps && self.to_client.syn?.timestamps)
    }

    /// Payload bytes of a full segment from `side`: the smaller MSS of both SYNs (the larger one is
    /// above what the path to the other end carries) less the timestamps that every segment carries;
    /// or less, where the sender fills smaller segments all the time (path MTU, old stacks). Without
    /// SYNs, the largest payload that still fits an Ethernet frame, or 1448.
    #[must_use]
    pub fn segment_payload(&self, side: Side) -> u32 {
        const ETHERNET: u32 = 1460;
        const WITH_TIMESTAMPS: u32 = 1448;
        const TIMESTAMPS: u32 = 12;
        /// The least MSS that every IPv4 host takes (RFC 9293 §3.7.1); below it are messages, not segments.
        const LEAST: u32 = 536 - TIMESTAMPS;
        let offered = [self.to_server.syn, self.to_client.syn]
            .into_iter()
            .flatten()
            .filter_map(|syn| syn.mss)
            .min();
        let flow = self.flow(side);
        let agreed = match offered {
            Some(mss) => {
                let options = if self.timestamps() == Some(false) {
                    0
                } else {
                    TIMESTAMPS
                };
                u32::from(mss).saturating_sub(options).max(1)
            }
            None if (1..=ETHERNET).contains(&flow.largest_segment) => flow.largest_segment,
            None => WITH_TIMESTAMPS,
        };
        let fills_smaller = (LEAST..agreed).contains(&flow.largest_segment)
            && flow.largest_segments >= 10
            && flow.largest_segments * 2 >= flow.segments
            && flow.largest_in_row * 2 >= flow.largest_segments;
        if fills_smaller {
            flow.largest_segment
        } else {
            agreed
        }
    }

    /// From SYN to SYN-ACK: the path from the tap to the server and back. `None` where the SYN was sent
    /// again, since nobody knows which one was answered (Karn's rule).
    #[must_use]
    pub fn server_half(&self) -> Option<Duration> {
        let handshake = &self.handshake;
        if handshake.syn_repeats > 0 || handshake.syn_ack_repeats > 0 {
            return None;
        }
        let span = handshake.syn_ack?.at.checked_since(handshake.syn?.at)?;
        Some(span.saturating_sub(handshake.resolving))
    }

    /// From SYN-ACK to the client's next packet: the path from the tap to the client and back.
    #[must_use]
    pub fn client_half(&self) -> Option<Duration> {
        let handshake = &self.handshake;
        if handshake.syn_ack_repeats > 0 {
            return None;
        }
        handshake.ack?.0.at.checked_since(handshake.syn_ack?.at)
    }

    /// Smallest span from the tap to `side` and back: by the handshake and by the samples of what the
    /// other side sent.
    #[must_use]
    pub fn half_rtt(&self, side: Side) -> Option<Duration> {
        let handshake = match side {
            Side::Server => self.server_half(),
            Side::Client => self.client_half(),
        };
        let samples = self.flow(side.peer()).least_rtt;
        samples.into_iter().chain(handshake).min()
    }

    /// The path's RTT without queues: both halves, each at its smallest; with one half alone only where
    /// the capture was made at the other end of it.
    #[must_use]
    pub fn base_rtt(&self) -> Option<Duration> {
        match (self.half_rtt(Side::Client), self.half_rtt(Side::Server)) {
            (Some(client), Some(server)) => Some(client + server),
            (Some(half), None) if self.vantage == Vantage::Server => Some(half),
            (None, Some(half)) if self.vantage == Vantage::Client => Some(half),
            (Some(_) | None, None) | (None, Some(_)) => None,
        }
    }

    /// RTT of the handshake: the half that crosses the path at the ends, both halves in between.
    #[must_use]
    pub fn handshake_rtt(&self) -> Option<Duration> {
        match self.vantage {
            Vantage::Client | Vantage::Unknown => self.server_half(),
            Vantage::Server => self.client_half(),
            Vantage::Between => Some(self.server_half()? + self.client_half()?),
        }
    }

    /// From the first packet of set-up to its end; `None` where set-up is not in the capture.
    #[must_use]
    pub fn handshake_span(&self) -> Option<(Time, Time)> {
        let handshake = &self.handshake;
        let from = handshake.syn.or(handshake.syn_ack)?.at;
        let to = handshake.ack.map(|(mark, _)| mark).or(handshake.syn_ack);
        Some((from, to.map_or(self.last_at, |mark| mark.at)))
    }
}

/// A connection while packets still come.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionState {
    client: Endpoint,
    server: Endpoint,
    evidence: ClientEvidence,
    first_at: Time,
    last_at: Time,
    first_frame: u64,
    part: u32,
    /// Where the capture was made, as the part with the handshake told.
    vantage: Option<Vantage>,
    packets: Vec<Packet>,
    handshake: Handshake,
    syn_seq: Option<SeqNum>,
    to_server: FlowState,
    to_client: FlowState,
    last_window: [Option<u16>; 2],
    turns: TurnFollower,
    tls: TlsFollower,
    ssh: SshFollower,
    notices: Vec<Notice>,
    clock_steps: u64,
}

impl ConnectionState {
    pub(crate) fn new(
        client: Endpoint,
        server: Endpoint,
        evidence: ClientEvidence,
        Mark { at, frame }: Mark,
    ) -> Self {
        Self {
            client,
            server,
            evidence,
            first_at: at,
            last_at: at,
            first_frame: frame,
            part: 0,
            vantage: None,
            packets: Vec::new(),
            handshake: Handshake::default(),
            syn_seq: None,
            to_server: FlowState::default(),
            to_client: FlowState::default(),
            last_window: [None; 2],
            turns: TurnFollower::default(),
            tls: TlsFollower::default(),
            ssh: SshFollower::default(),
            notices: Vec::new(),
            clock_steps: 0,
        }
    }

    /// Whether a SYN with `seq` opens another connection between the same ports, rather than being this
    /// connection's SYN again.
    pub(crate) fn is_over_for(&self, seq: SeqNum) -> bool {
        self.syn_seq != Some(seq)
    }

    pub(crate) fn observe(&mut self, segment: &Segment<'_>, side: Side) {
        if segment.at < self.last_at {
            self.clock_steps += 1;
        }
        self.last_at = self.last_at.max(segment.at);
        if self.packets.is_empty() {
            // Another part begins with its first packet, and not where the one before ended.
            self.first_at = self.last_at;
            self.first_frame = segment.frame;
        }
        let mark = Mark {
            at: self.last_at,
            frame: segment.frame,
        };
        let copy = self.state(side).is_copy(segment);
        let older = self.is_of_an_older_connection(segment, side);
        if older && side == Side::Server {
            self.handshake.half_open.get_or_insert(mark);
        }
        if !copy && segment.flags.contains(TcpFlags::SYN) {
            self.on_syn(segment, side, mark);
        }
        let payload_at = segment.seq + u32::from(segment.flags.contains(TcpFlags::SYN));
        let position = if older {
            None
        } else {
            self.state(side).position(payload_at)
        };
        let ack = segment
            .ack
            .filter(|_| !older)
            .and_then(|ack| self.state(side.peer()).position(ack));
        let mut packet = Packet {
            at: mark.at,
            frame: segment.frame,
            from: position.unwrap_or_default(),
            ack,
            len: segment.payload_len,
            window: segment.window,
            flags: segment.flags,
            side,
            role: Role::Ack,
            sack: !segment.options.sack.is_empty(),
            loop_us: None,
        };
        if !copy && let Some(stamps) = segment.options.timestamps {
            self.state(side).on_stamp(stamps.value, mark.at);
            if packet.len > 0 {
                packet.loop_us = self.state(side.peer()).age_of(stamps.echo, mark.at);
            }
        }
        let index = self.packets.len();
        self.state(side).flow.packets += 1;
        let syn = segment.flags.contains(TcpFlags::SYN);
        packet.role = match position {
            None => {
                self.state(side).flow.strays += 1;
                packet.len = 0;
                packet.ack = None;
                Role::Stray
            }
            Some(_) if copy => Role::Copy,
            Some(from) if packet.len > 0 => self.on_data(segment, side, index, mark, from),
            Some(_) if syn => Role::Syn,
            Some(_) if is_end(segment.flags) => Role::End,
            Some(from) if self.state(side).is_keep_alive(from) => Role::KeepAlive,
            Some(_) => Role::Ack,
        };
        if packet.role != Role::Copy && packet.role != Role::Stray {
            self.on_ack(segment, &packet);
            self.on_end(&packet);
            self.turns.on_packet(&packet, segment.payload);
            if packet.role == Role::New && !segment.payload.is_empty() {
                self.tls
                    .on_data(side, mark, packet.from, packet.len, segment.payload);
                self.ssh.on_data(side, segment.payload);
            }
        }
        if packet.is_pure_ack() {
            self.state(side).flow.pure_acks += 1;
        }
        if !syn && packet.role != Role::Stray && !packet.flags.contains(TcpFlags::RST) {
            self.state(side).on_window(packet.window);
        }
        self.packets.push(packet);
    }

    /// Whether it speaks of a connection before this one: between SYN and SYN-ACK a server that still holds the old one
    /// answers with that one's numbers, and the client resets them (RFC 9293 §3.5.1).
    fn is_of_an_older_connection(&self, segment: &Segment<'_>, side: Side) -> bool {
        /// More than anyone sends before the first answer; where the capture lacks the SYN-ACK, some of that is missing.
        const PLAUSIBLE: i32 = 1 << 20;
        let Some(syn) = self.syn_seq.filter(|_| self.handshake.syn_ack.is_none()) else {
            return false;
        };
        let resets = segment.flags.contains(TcpFlags::RST);
        let number = match side {
            _ if segment.flags.contains(TcpFlags::SYN) => None,
            Side::Server => segment.ack.filter(|_| !resets),
            Side::Client => Some(segment.seq).filter(|_| resets),
        };
        let distance = number.map(|number| number.distance_from(syn));
        self.part == 0 && distance.is_some_and(|distance| !(0..=PLAUSIBLE).contains(&distance))
    }

    /// Takes what was said about one of its packets.
    pub(crate) fn on_notice(&mut self, notice: Notice) {
        if self.notices.len() < Connection::MOST_NOTICES {
            self.notices.push(notice);
        }
    }

    /// Takes off the handshake what `syn_ack` waited for an address.
    pub(crate) fn discount(&mut self, resolutions: &Resolutions, syn_ack: &Segment<'_>) {
        let handshake = &mut self.handshake;
        if let (Some(syn), Some(answer)) = (handshake.syn, handshake.syn_ack) {
            let hosts = [syn_ack.source.host, syn_ack.destination.host];
            handshake.resolving = resolutions.within(syn.at, answer.at, hosts);
        }
    }

    pub(crate) fn finish(self) -> Connection {
        let (to_server, to_client) = (self.to_server.finish(), self.to_client.finish());
        let quality = Quality {
            clock_steps: self.clock_steps,
            one_direction: match (to_server.packets, to_client.packets) {
                (_, 0) => Some(Side::Client),
                (0, _) => Some(Side::Server),
                (_, _) => None,
            },
            filtered: is_filtered(&to_server, &to_client),
        };
        let close = close(&to_server, &to_client);
        let mut connection = Connection {
            client: self.client,
            server: self.server,
            evidence: self.evidence,
            first_at: self.first_at,
            last_at: self.last_at,
            first_frame: self.first_frame,
            part: self.part,
            packets: self.packets,
            handshake: self.handshake,
            tls: self.tls.finish(),
            ssh: self.ssh.finish(),
            to_server,
            to_client,
            turns: self.turns.finish(),
            close,
            vantage: Vantage::Unknown,
            notices: self.notices,
            quality,
        };
        connection.vantage = self.vantage.unwrap_or_else(|| vantage(&connection));
        connection
    }

    /// Packets that it holds.
    pub(crate) const fn held(&self) -> usize {
        self.packets.len()
    }

    /// Its latest packet.
    pub(crate) const fn last_at(&self) -> Time {
        self.last_at
    }

    /// Whether both sides have closed it, or one has torn it down.
    pub(crate) const fn is_over(&self) -> bool {
        let (up, down) = (&self.to_server.flow, &self.to_client.flow);
        up.reset.is_some() || down.reset.is_some() || (up.fin.is_some() && down.fin.is_some())
    }

    /// What was seen up to now, and a state in which it goes on.
    pub(crate) fn part(mut self) -> (Connection, Self) {
        let packets = core::mem::take(&mut self.packets);
        let turns = core::mem::take(&mut self.turns);
        let notices = core::mem::take(&mut self.notices);
        let mut rest = self.clone();
        self.packets = packets;
        self.turns = turns;
        self.notices = notices;
        let done = self.finish();
        rest.part = rest.part.saturating_add(1);
        rest.vantage = Some(done.vantage);
        rest.to_server = rest.to_server.continued(done.server_half());
        rest.to_client = rest.to_client.continued(done.client_half());
        rest.handshake = Handshake::default();
        rest.tls.end();
        rest.clock_steps = 0;
        (done, rest)
    }

    const fn state(&mut self, side: Side) -> &mut FlowState {
        match side {
            Side::Client => &mut self.to_server,
            Side::Server => &mut self.to_client,
        }
    }

    fn on_syn(&mut self, segment: &Segment<'_>, side: Side, mark: Mark) {
        self.state(side).on_syn(segment);
        let handshake = &mut self.handshake;
        match side {
            Side::Client => {
                self.syn_seq = Some(segment.seq);
                handshake.syn_repeats += u32::from(handshake.syn.is_some());
                handshake.syn.get_or_insert(mark);
                if handshake.syn_ack.is_none() {
                    handshake.last_syn = Some(mark);
                }
            }
            Side::Server => {
                handshake.syn_ack_repeats += u32::from(handshake.syn_ack.is_some());
                handshake.syn_ack.get_or_insert(mark);
            }
        }
    }

    fn on_data(
        &mut self,
        segment: &Segment<'_>,
        side: Side,
        index: usize,
        mark: Mark,
        from: i64,
    ) -> Role {
        let loop_time = self.loop_time();
        let state = self.state(side);
        let role = state.on_data(index, mark, from, segment.payload_len, loop_time);
        let flow = &mut state.flow;
        flow.segments += 1;
        flow.payload_bytes = flow
            .payload_bytes
            .saturating_add(u64::from(segment.payload_len));
        if segment.payload_len > flow.largest_segment {
            flow.largest_segment = segment.payload_len;
            flow.largest_segments = 0;
            flow.largest_in_row = 0;
        }
        let largest = segment.payload_len == flow.largest_segment;
        flow.largest_segments += u64::from(largest);
        flow.largest_in_row += u64::from(largest && state.cut_len == Some(segment.payload_len));
        // What is pushed is a message's end, or a whole one; a stream that is cut goes on.
        let pushed = segment.flags.contains(TcpFlags::PSH);
        state.cut_len = (!pushed).then_some(segment.payload_len);
        if segment.header_len > 0 {
            flow.header_len = segment.header_len;
        }
        role
    }

    fn on_ack(&mut self, segment: &Segment<'_>, packet: &Packet) {
        let side = packet.side;
        if side == Side::Client
            && (self.handshake.syn_ack.is_some() || self.handshake.syn.is_some())
            && self.handshake.ack.is_none()
            && packet.ack.is_some()
        {
            self.handshake.ack = Some((packet.mark(), packet.is_pure_ack()));
        }
        let Some(to) = packet.ack else { return };
        let number = segment.ack.unwrap_or(segment.seq);
        let blocks = segment.options.sack;
        let holds_more = blocks
            .iter()
            .any(|(left, _)| left.distance_from(number) > 0);
        // A first block at or below the acknowledged edge reports bytes received twice (RFC 2883 §4).
        let duplicate = blocks
            .iter()
            .next()
            .is_some_and(|(_, right)| right.distance_from(number) <= 0);
        let slot = usize::from(side == Side::Server);
        let window_changed = self.last_window[slot] != Some(packet.window);
        self.last_window[slot] = Some(packet.window);
        let ack = PeerAck {
            bare: packet.is_pure_ack(),
            window_changed,
            zero_window: packet.window == 0 && !packet.flags.contains(TcpFlags::RST),
            holds_more,
        };
        if let Some((left, right)) = blocks.iter().next().filter(|_| holds_more && !duplicate) {
            self.state(side.peer()).on_sack(packet.at, left, right);
        }
        let peer = self.state(side.peer());
        let before = peer.flow.acked;
        peer.on_ack(packet.at, to, ack);
        // Between two holes the timestamp of before them is echoed, until the edge moves (RFC 7323 §4.3).
        if ack.bare
            && before.is_some_and(|before| to > before)
            && let Some(stamps) = segment.options.timestamps
            && let Some(age) = peer.age_of(stamps.echo, packet.at)
        {
            peer.flow.stamped_us.push(age.get());
        }
        if duplicate {
            self.state(side).flow.duplicate_sacks += 1;
            self.on_duplicate_sack(side.peer(), blocks.iter().next());
        }
    }

    /// The least time from a hole at the tap to its repair there: news of it must reach the receiver, go
    /// back to the sender, and come as a repeat, once round the path wherever the tap sits.
    fn loop_time(&self) -> Option<Duration> {
        let handshake = &self.handshake;
        let (ack, bare) = handshake.ack?;
        let again = handshake.syn_repeats + handshake.syn_ack_repeats > 0;
        let set_up = ack.at.checked_since(handshake.syn?.at)?;
        let set_up = set_up.saturating_sub(handshake.resolving);
        let halves = self
            .to_server
            .flow
            .least_rtt
            .zip(self.to_client.flow.least_rtt);
        let shortest = halves.map_or(set_up, |(client, server)| set_up.min(client + server));
        (bare && !again).then_some(shortest)
    }

    /// The peer of `side` received a block twice: the latest repeat of it was not needed.
    fn on_duplicate_sack(&mut self, side: Side, block: Option<(SeqNum, SeqNum)>) {
        let state = self.state(side);
        let Some((left, right)) = block else { return };
        let (Some(left), Some(right)) = (state.position(left), state.position(right)) else {
            return;
        };
        let candidates: Vec<usize> = state.flow.repeats.iter().rev().take(16).copied().collect();
        for index in candidates {
            if let Some(packet) = self.packets.get_mut(index)
                && packet.from < right
                && packet.to() > left
            {
                packet.role = Role::Repeated(Repeat::Spurious);
                return;
            }
        }
    }

    fn on_end(&mut self, packet: &Packet) {
        let (flow, mark) = (&mut self.state(packet.side).flow, packet.mark());
        if packet.flags.contains(TcpFlags::RST) {
            flow.reset.get_or_insert(mark);
        } else if packet.flags.contains(TcpFlags::FIN) {
            flow.fin.get_or_insert(mark);
            flow.end = flow.end.max(packet.to());
        }
    }
}

fn is_end(flags: TcpFlags) -> bool {
    flags.contains(TcpFlags::FIN) || flags.contains(TcpFlags::RST)
}

/// Data was acknowledged on packets with other business, and not one bare ACK is there: on a real
/// connection the third step of the handshake alone is one.
fn is_filtered(to_server: &Flow, to_client: &Flow) -> bool {
    let bare = to_server.pure_acks + to_client.pure_acks;
    let both = to_server.packets > 0 && to_client.packets > 0;
    both && bare == 0 && to_server.segments + to_client.segments >= 2
}

fn close(to_server: &Flow, to_client: &Flow) -> Close {
    let end = |flow: &Flow| match (flow.fin, flow.reset) {
        (Some(fin), Some(reset)) => Some(if reset.at < fin.at { reset } else { fin }),
        (fin, reset) => fin.or(reset),
    };
    let (Some(side), first) = (match (end(to_server), end(to_client)) {
        (Some(client), Some(server)) if (server.at, server.frame) < (client.at, client.frame) => {
            (Some(Side::Server), Some(server))
        }
        (Some(client), _) => (Some(Side::Client), Some(client)),
        (None, Some(server)) => (Some(Side::Server), Some(server)),
        (None, None) => (None, None),
    }) else {
        return Close::Open;
    };
    let Some(first) = first else {
        return Close::Open;
    };
    let (own, peer) = match side {
        Side::Client => (to_server, to_client),
        Side::Server => (to_client, to_server),
    };
    if own.fin == Some(first) {
        Close::Fin(Closing {
            first: side,
            first_fin: first,
            second: end(peer),
        })
    } else {
        Close::Reset(side, first)
    }
}

fn vantage(connection: &Connection) -> Vantage {
    /// Below this, both halves are local and their order is noise.
    const LOCAL: Duration = Duration::from_millis(1);
    let handshake = &connection.handshake;
    // A data segment in place of the ACK may have waited for the application: it can show that the
    // client is near, not that it is far.
    let bare = handshake.ack.is_some_and(|(_, bare)| bare);
    let halves = match (connection.client_half(), connection.server_half()) {
        (Some(client), Some(server)) => Some((client, server)),
        (_, _) => connection
            .half_rtt(Side::Client)
            .zip(connection.half_rtt(Side::Server)),
    };
    match halves {
        Some((client, server)) if client + server < LOCAL => Vantage::Unknown,
        Some((client, server)) if client * 10 < server => Vantage::Client,
        Some((client, server)) if server * 10 < client && bare => Vantage::Server,
        Some(_) if bare => Vantage::Between,
        Some(_) | None => Vantage::Unknown,
    }
}
