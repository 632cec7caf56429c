//! What a direction's packets were, counted.

use core::time::Duration;

use connections::{Connection, Packet, Repeat, Role, Side, WindowScale};
use record::explain::Counters;
use units::Time;
use wire::TcpFlags;

/// Counts of what `side` sent, and of what its peer answered.
pub(crate) fn counters(connection: &Connection, side: Side) -> Counters {
    let flow = connection.flow(side);
    let mut counters = Counters {
        duplicate_sacks: connection.flow(side.peer()).duplicate_sacks,
        unseen_bytes: flow.unseen_bytes(),
        strays: flow.strays,
        ..Counters::default()
    };
    let mut receiver = Receiver::default();
    let scale = connection.window_scale(side.peer());
    for packet in &connection.packets {
        if matches!(packet.role, Role::Copy | Role::Stray) {
            continue;
        }
        if packet.side == side {
            sent(&mut counters, packet, &mut receiver);
        } else {
            answered(&mut counters, scale, packet, &mut receiver);
        }
    }
    if let Some(since) = receiver.closed_since {
        receiver.closed_for += connection.last_at.since(since);
    }
    counters.zero_window_s = receiver.closed_for.as_secs_f64();
    counters
}

/// What the sender knows of its receiver so far.
#[derive(Debug, Default)]
struct Receiver {
    /// Position after the highest byte sent.
    sent_to: i64,
    acked: Option<i64>,
    window: Option<u16>,
    /// Right edge of the window, where its scale is known.
    edge: Option<i64>,
    closed_since: Option<Time>,
    closed_for: Duration,
}

fn sent(counters: &mut Counters, packet: &Packet, receiver: &mut Receiver) {
    let count = match packet.role {
        Role::Repeated(Repeat::Fast) => Some(&mut counters.fast_retransmissions),
        Role::Repeated(Repeat::Timeout) => Some(&mut counters.timeout_retransmissions),
        Role::Repeated(Repeat::TailProbe) => Some(&mut counters.tail_loss_probes),
        Role::Repeated(Repeat::Spurious) => Some(&mut counters.spurious_retransmissions),
        Role::Repeated(Repeat::Unknown) => Some(&mut counters.other_retransmissions),
        Role::WindowProbe => Some(&mut counters.zero_window_probes),
        Role::KeepAlive => Some(&mut counters.keep_alives),
        Role::Syn
        | Role::New
        | Role::OutOfOrder
        | Role::Ack
        | Role::Copy
        | Role::End
        | Role::Stray => None,
    };
    if let Some(count) = count {
        *count += 1;
    }
    if packet.len > 0 {
        receiver.sent_to = receiver.sent_to.max(packet.to());
        counters.window_full += u64::from(receiver.edge == Some(packet.to()));
    }
}

fn answered(counters: &mut Counters, scale: WindowScale, packet: &Packet, receiver: &mut Receiver) {
    let has = |flag| packet.flags.contains(flag);
    let Some(ack) = packet.ack else { return };
    //= https://www.rfc-editor.org/rfc/rfc5681#section-2
    //# An acknowledgment is considered a "duplicate" in the following algorithms when (a) the receiver of the
    //# ACK has outstanding data, (b) the incoming acknowledgment carries no data, (c) the SYN and FIN bits are
    //# both off, (d) the acknowledgment number is equal to the greatest acknowledgment received on the given
    //# connection (TCP.UNA from [RFC793]) and (e) the advertised window in the incoming acknowledgment equals
    //# the advertised window in the last incoming acknowledgment.
    let duplicate = packet.is_pure_ack()
        && receiver.sent_to > ack
        && receiver.acked == Some(ack)
        && receiver.window == Some(packet.window);
    counters.duplicate_acks += u64::from(duplicate);
    counters.sacks += u64::from(packet.sack);
    receiver.acked = receiver.acked.max(Some(ack));
    receiver.window = Some(packet.window);
    receiver.edge = scale
        .window(packet)
        .filter(|window| *window > 0)
        .map(|window| ack.saturating_add_unsigned(window));
    if has(TcpFlags::SYN) || has(TcpFlags::RST) {
        return;
    }
    if packet.window == 0 {
        counters.zero_windows += u64::from(!has(TcpFlags::FIN));
        receiver.closed_since.get_or_insert(packet.at);
    } else if let Some(since) = receiver.closed_since.take() {
        receiver.closed_for += packet.at.since(since);
    }
}
