//! What a capture cannot tell of a connection, in sentences.

use connections::{ClientEvidence, Connection, Side, WindowScale};
use limit::Reason;

use crate::clock;
use crate::text::{count, duration};

/// One sentence each; the same words for the same thing, so that connections can be counted by them.
pub(crate) fn of_connection(connection: &Connection) -> Vec<String> {
    let mut caveats = Vec::new();
    if connection.part > 0 {
        caveats.push(
            "a later part of a connection that was silent for long, or is very long: each part is judged by \
             itself"
                .to_owned(),
        );
    }
    match connection.evidence {
        ClientEvidence::Syn | ClientEvidence::SynAck => {}
        ClientEvidence::LowerPort => caveats.push(
            "no SYN in the capture: who is the client is a guess, by the lower port of the other end"
                .to_owned(),
        ),
        ClientEvidence::FirstPacket => caveats.push(
            "no SYN in the capture: who is the client is a guess, by the first packet".to_owned(),
        ),
    }
    if let Some(side) = connection.quality.one_direction {
        caveats.push(format!("only the {side}'s packets are in the capture"));
    }
    if connection.quality.filtered {
        caveats.push(format!(
            "a filter left out every bare ACK ({}): {}",
            filter_guess(connection),
            Reason::Filtered
        ));
    }
    for side in [Side::Client, Side::Server] {
        let flow = connection.flow(side);
        let told = connection.quality.one_direction.is_some() || connection.quality.filtered;
        if flow.unseen_bytes() > 0 && !told {
            caveats.push(format!(
                "{} of {} bytes from the {side} are not in the capture although the peer has them or \
                 later ones: the capture misses them, not the network",
                flow.unseen_bytes(),
                flow.bytes()
            ));
        }
        if flow.largest_segment > connection.segment_payload(side) && flow.segments > 0 {
            caveats.push(format!(
                "segments from the {side} are larger than packets on the wire (offload): bytes and times \
                 hold, counts of packets do not"
            ));
        }
        if flow.copies > 0 {
            caveats.push(format!(
                "{} from the {side} are copies made by the capture, not sent again",
                count(usize::try_from(flow.copies).unwrap_or(usize::MAX), "packet")
            ));
        }
        if connection.window_scale(side) == WindowScale::Unknown && flow.packets > 0 {
            caveats.push(format!(
                "the {side}'s window scale is unknown without both SYNs: its windows are not judged"
            ));
        }
    }
    if !connection.handshake.resolving.is_zero() {
        caveats.push(format!(
            "a link-layer address was asked for (ARP, neighbour discovery) between SYN and SYN-ACK: the {} \
             that it took are not in the handshake's RTT",
            duration(connection.handshake.resolving)
        ));
    }
    if let Some((coarse, _)) = clock::coarse(connection) {
        caveats.push(coarse.says());
    }
    if connection.quality.clock_steps > 0 {
        caveats.push(format!(
            "the capture's clock stepped back {} within the connection",
            count(
                usize::try_from(connection.quality.clock_steps).unwrap_or(usize::MAX),
                "time"
            )
        ));
    }
    caveats
}

/// What passed the filter, by the flags that are there.
fn filter_guess(connection: &Connection) -> &'static str {
    use wire::TcpFlags;
    let every = connection.packets.iter().all(|packet| {
        [TcpFlags::SYN, TcpFlags::PSH, TcpFlags::FIN, TcpFlags::RST]
            .iter()
            .any(|flag| packet.flags.contains(*flag))
    });
    if every {
        "what is left has SYN, PSH, FIN or RST set"
    } else {
        "which one is not clear"
    }
}
