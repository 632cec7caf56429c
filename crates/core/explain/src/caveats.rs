//! What a capture cannot tell, in sentences.

use connections::{ClientEvidence, Connection, Side, Tracked, WindowScale};
use limit::Reason;

use crate::text::count;

/// Of one connection.
pub(crate) fn of_connection(connection: &Connection) -> Vec<String> {
    let mut caveats = Vec::new();
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
            "no bare ACK is in the capture: a filter left them out ({}), so {}",
            filter_guess(connection),
            "the ACK clock, the growth of the windows and the details of slow start are unknown"
        ));
    }
    for side in [Side::Client, Side::Server] {
        let flow = connection.flow(side);
        if flow.unseen_bytes() > 0 && connection.quality.one_direction.is_none() {
            caveats.push(format!(
                "{} of {} bytes from the {side} are not in the capture although the peer has them or \
                 later ones: the capture misses them, not the network",
                flow.unseen_bytes(),
                flow.bytes()
            ));
        }
        if flow.largest_segment > connection.segment_payload(side) && flow.segments > 0 {
            caveats.push(format!(
                "segments from the {side} of up to {} bytes are larger than any packet on the wire: \
                 segmentation offload; packets are counted as the capture shows them",
                flow.largest_segment
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

/// Of a capture as a whole.
pub(crate) fn of_capture(tracked: &Tracked) -> Vec<String> {
    let connections = &tracked.connections;
    let mut caveats = Vec::new();
    let mut note = |holds: &dyn Fn(&Connection) -> bool, sentence: &dyn Fn(String) -> String| {
        let number = connections
            .iter()
            .filter(|connection| holds(connection))
            .count();
        if number > 0 {
            caveats.push(sentence(count(number, "connection")));
        }
    };
    note(&|c| c.quality.filtered, &|n| {
        format!(
            "{n} without a single bare ACK: the capture was filtered, so {}",
            Reason::Filtered
        )
    });
    note(&|c| c.quality.one_direction.is_some(), &|n| {
        format!("{n} with packets of one direction only")
    });
    note(
        &|c| c.handshake.syn.is_none() && c.handshake.syn_ack.is_none(),
        &|n| {
            format!(
                "{n} without a handshake: options, window scale and who is the client are not known"
            )
        },
    );
    note(
        &|c| {
            [Side::Client, Side::Server]
                .iter()
                .any(|side| c.flow(*side).largest_segment > c.segment_payload(*side))
        },
        &|n| format!("{n} with offload-sized segments: fewer, larger segments than on the wire"),
    );
    note(&|c| c.to_server.copies + c.to_client.copies > 0, &|n| {
        format!("{n} with packets that the capture holds twice")
    });
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
