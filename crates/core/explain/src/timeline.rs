use connections::{Close, Connection, Flow, Packet, Repeat, Role, SackedRange, Side, WindowScale};
use limit::{Event, EventKind, Reason, Repair, Timeline, WindowField};
use units::{PacketOverhead, Time};
use wire::TcpFlags;

use crate::feedback::Feedback;

/// One direction as its sender lived it: its own segments, and the ACKs that reached it.
pub(crate) fn timeline(connection: &Connection, side: Side) -> Timeline {
    let feedback = Feedback::of(connection, side);
    let events = events(connection, side, &feedback);
    Timeline {
        from: connection.first_at,
        to: connection.last_at,
        handshake: connection.handshake_span(),
        tls: connection
            .tls
            .as_ref()
            .map(|tls| tls.span(connection.last_at)),
        ending_at: match connection.close {
            Close::Open => None,
            Close::Fin(closing) => Some(closing.first_fin.at),
            Close::Reset(_, mark) => Some(mark.at),
        },
        base_rtt: connection.base_rtt().or_else(|| connection.handshake_rtt()),
        feedback_delay: feedback.delay,
        queues_show: feedback.shows_queues(),
        segment: overhead(connection, side),
        window: match connection.window_scale(side.peer()) {
            WindowScale::Known(_) if is_scaled(connection) => WindowField::Scaled,
            WindowScale::Known(_) => WindowField::Unscaled,
            WindowScale::Unknown => WindowField::Unknown,
        },
        peer_window: connection.ssh.is_some(),
        blind: blind(connection, side),
        events,
    }
}

/// Payload and headers of a full packet. Headers as captured, else those of IPv4 with the options that
/// were agreed.
pub(crate) fn overhead(connection: &Connection, side: Side) -> PacketOverhead {
    const IPV4_AND_TCP: u16 = 40;
    const WITH_TIMESTAMPS: u16 = 52;
    let headers = match connection.flow(side).header_len {
        0 if connection.timestamps() == Some(false) => IPV4_AND_TCP,
        0 => WITH_TIMESTAMPS,
        seen => seen,
    };
    PacketOverhead {
        payload: connection.segment_payload(side),
        headers: u32::from(headers),
    }
}

fn is_scaled(connection: &Connection) -> bool {
    [Side::Client, Side::Server]
        .into_iter()
        .any(|side| matches!(connection.window_scale(side), WindowScale::Known(1..)))
}

/// Why waits cannot be judged. A direction that carried nothing needs no ACKs to be understood.
fn blind(connection: &Connection, side: Side) -> Option<Reason> {
    let flow = connection.flow(side);
    if connection.quality.one_direction.is_some() {
        return Some(Reason::OneDirection);
    }
    if connection.quality.filtered && flow.bytes() > 0 {
        return Some(Reason::Filtered);
    }
    None
}

/// What the sender did and learned.
fn events(connection: &Connection, side: Side, feedback: &Feedback) -> Vec<Event> {
    let scale = connection.window_scale(side.peer());
    let mut effective_from = connection.first_at;
    let mut reports = Reports::of(connection.flow(side));
    let mut events: Vec<Event> = Vec::with_capacity(connection.packets.len());
    events.extend(
        connection
            .packets
            .iter()
            .filter(|packet| packet.at >= connection.first_at)
            .filter_map(|packet| {
                let newest = (packet.side != side)
                    .then(|| reports.newest_at(packet.at))
                    .flatten();
                event(scale, packet, side, feedback, &mut effective_from, newest)
            }),
    );
    // Stable: what the capture shows at one moment keeps its order.
    events.sort_by_key(|event| event.at);
    events
}

/// What the receiver's SACK blocks report, in order of time.
struct Reports<'a> {
    ranges: core::iter::Peekable<core::slice::Iter<'a, SackedRange>>,
    highest: i64,
}

impl<'a> Reports<'a> {
    fn of(flow: &'a Flow) -> Self {
        Self {
            ranges: flow.sacked.iter().peekable(),
            highest: i64::MIN,
        }
    }

    /// The end of what is reported up to `at`, if nothing before reported as much.
    fn newest_at(&mut self, at: Time) -> Option<i64> {
        let before = self.highest;
        while let Some(range) = self.ranges.next_if(|range| range.at <= at) {
            self.highest = self.highest.max(range.to);
        }
        (self.highest > before).then_some(self.highest)
    }
}

fn event(
    scale: WindowScale,
    packet: &Packet,
    side: Side,
    feedback: &Feedback,
    effective_from: &mut Time,
    newest: Option<i64>,
) -> Option<Event> {
    if packet.side == side {
        let repair = match packet.role {
            Role::New | Role::OutOfOrder => None,
            Role::Repeated(repeat) => Some(repair(repeat)),
            Role::Syn
            | Role::Ack
            | Role::Copy
            | Role::KeepAlive
            | Role::WindowProbe
            | Role::End
            | Role::Stray => return None,
        };
        let kind = EventKind::Sent {
            from: packet.from,
            to: packet.to(),
            repair,
        };
        return Some(Event {
            at: packet.at,
            kind,
        });
    }
    if matches!(packet.role, Role::Copy | Role::Stray) || packet.flags.contains(TcpFlags::RST) {
        return None;
    }
    let kind = EventKind::Ack {
        to: packet.ack?,
        window: scale.window(packet),
        bare: packet.is_pure_ack(),
        holds_more: packet.sack,
        newest,
        passed_at: packet.at,
    };
    // A queue that empties must not let an ACK overtake the one before it.
    *effective_from = (packet.at + feedback.at(packet.at)).max(*effective_from);
    Some(Event {
        at: *effective_from,
        kind,
    })
}

const fn repair(repeat: Repeat) -> Repair {
    match repeat {
        Repeat::Fast => Repair::Fast,
        Repeat::Timeout => Repair::Timeout,
        Repeat::TailProbe => Repair::TailProbe,
        Repeat::Spurious => Repair::Spurious,
        Repeat::Unknown => Repair::Unknown,
    }
}
