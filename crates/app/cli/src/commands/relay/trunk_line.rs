//! A trunk's event as a line for an operator.

use std::fmt::Write as _;

use relay::trunk::{StreamDone, TrunkEvent, WanConnection, WanLost};

use super::line::{size, span};

/// One line, without line break. What the other end and clients chose is escaped.
pub(super) fn line(event: &TrunkEvent) -> String {
    match event {
        TrunkEvent::TrunkListening { trunk, address, to } => format!(
            "{}: clients at {address}, to {}",
            trunk.escape_debug(),
            to.escape_debug()
        ),
        TrunkEvent::FarListening {
            trunk,
            address,
            security,
        } => format!(
            "{}: near relays at {address}, security {security}",
            trunk.escape_debug()
        ),
        TrunkEvent::WanConnected(connection) => connected(connection),
        TrunkEvent::WanLost(lost) => gone(lost),
        TrunkEvent::WanUnreachable {
            trunk,
            via,
            why,
            attempts,
        } => format!(
            "{}: cannot reach {} after {attempts} attempts, next within a second: {}",
            trunk.escape_debug(),
            via.escape_debug(),
            why.escape_debug()
        ),
        TrunkEvent::SessionEnded {
            trunk,
            session,
            why,
        } => format!(
            "{}: session {session} is over: {}",
            trunk.escape_debug(),
            why.escape_debug()
        ),
        TrunkEvent::SessionLeft {
            trunk,
            session,
            streams,
        } => format!(
            "{}: session {session} takes no new streams and ends with the {streams} that are open",
            trunk.escape_debug()
        ),
        TrunkEvent::TrunkManner { trunk, manner, why } => {
            let why = why.as_deref().unwrap_or("after a rest");
            format!("{}: sends in {manner} manner: {why}", trunk.escape_debug())
        }
        TrunkEvent::WanHot { trunk, connection } => {
            format!(
                "{}: WAN connection {connection} is hot",
                trunk.escape_debug()
            )
        }
        TrunkEvent::TrunkHealth {
            trunk,
            healthy,
            why,
        } => match why.as_deref().filter(|_| !healthy) {
            None => format!("{}: probed, and well", trunk.escape_debug()),
            Some(why) => format!("{}: NOT well: {}", trunk.escape_debug(), why.escape_debug()),
        },
        TrunkEvent::StreamDone(done) => stream(done),
        TrunkEvent::IntegrityAlarm {
            trunk,
            stream,
            sent,
            received,
        } => format!(
            "{}: BYTES CHANGED on stream {stream}: sent {sent}, received {received}; the stream was reset",
            trunk.escape_debug()
        ),
    }
}

fn connected(connection: &WanConnection) -> String {
    let mut text = format!(
        "{}: WAN connection {} with {}, session {}",
        connection.trunk.escape_debug(),
        connection.connection,
        connection.peer,
        connection.session
    );
    // Writing to a String cannot fail, here and below.
    if let Some(rtt_s) = connection.rtt_s {
        let _ = write!(text, ", RTT {}", span(rtt_s));
    }
    match &connection.tls {
        Some(tls) => {
            let _ = write!(text, ", {} {}", tls.group, tls.cipher_suite);
        }
        None => text.push_str(", plain"),
    }
    text
}

fn gone(lost: &WanLost) -> String {
    let mut text = format!(
        "{}: WAN connection {} with {} gone after {}, {} in, {} out",
        lost.trunk.escape_debug(),
        lost.connection,
        lost.peer,
        span(lost.seconds),
        size(lost.bytes_in),
        size(lost.bytes_out)
    );
    if let Some(count) = lost.retransmitted.filter(|&count| count > 0) {
        let _ = write!(text, ", {count} segments sent again");
    }
    let _ = write!(text, ": {}", lost.why.escape_debug());
    text
}

/// The receipt of a stream.
fn stream(done: &StreamDone) -> String {
    let mut text = format!("{}: stream {}", done.trunk.escape_debug(), done.stream);
    if let Some(client) = done.client {
        let _ = write!(text, " of {client}");
    }
    let _ = write!(text, " to {}", done.target.escape_debug());
    if let Some(server) = done.server {
        let _ = write!(text, " at {server}");
    }
    let _ = write!(text, " in {}", span(done.seconds));
    for (name, half) in [("sent", &done.sent), ("received", &done.received)] {
        let _ = write!(text, ", {name} {}", size(half.bytes));
        if let Some(digest) = &half.digest {
            let kept = if half.confirmed {
                "confirmed"
            } else {
                "unconfirmed"
            };
            let _ = write!(text, " {kept} {digest}");
        }
    }
    match &done.error {
        None => text.push_str(", completed"),
        Some(error) => {
            let by = done.ended_by.replace('-', " ");
            let _ = write!(text, ", ended by {by}: {}", error.escape_debug());
        }
    }
    text
}
