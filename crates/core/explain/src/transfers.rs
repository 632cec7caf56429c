use core::time::Duration;

use connections::{Connection, Side, Turn};
use record::explain::Transfer;
use units::Time;

/// What the user waited: from the SYN to the last byte of the response. For a connection's first turn
/// only, and where both are in the capture.
pub(crate) fn with_handshake(connection: &Connection, turn: &Turn) -> Option<Duration> {
    let first = connection.turns.first()?.first_sent.frame == turn.first_sent.frame;
    let syn = connection.handshake.syn.filter(|_| first)?;
    turn.completed_at()?.checked_since(syn.at)
}

/// Time in the server: from the arrival of the request's last byte to the response's first. By the bare
/// ACK of that byte where the capture has one, else by the path's RTT behind its sending.
pub(crate) fn server_time(connection: &Connection, turn: &Turn) -> Option<Duration> {
    let response = turn.first_response?.at;
    let arrived = match turn.acked {
        Some(acked) => acked.at,
        None => turn.last_sent.at + connection.half_rtt(Side::Server)?,
    };
    Some(response.since(arrived))
}

/// The requests of a connection. A turn counts as a request when its line was read, or when the turns are
/// so few that they are no conversation.
pub(crate) fn of(connection: &Connection, first_at: Time) -> Vec<Transfer> {
    connection
        .turns
        .iter()
        .filter(|turn| turn.request.is_some())
        .map(|turn| transfer(connection, turn, first_at))
        .collect()
}

fn transfer(connection: &Connection, turn: &Turn, first_at: Time) -> Transfer {
    let started = turn.first_sent.at;
    let after = |at: Time| at.since(started).as_secs_f64();
    Transfer {
        request: turn.request.clone().unwrap_or_default(),
        operation: turn.operation.map(str::to_owned),
        status: turn.status,
        start_s: started.since(first_at).as_secs_f64(),
        sent_s: after(turn.last_sent.at),
        first_byte_s: turn.first_response.map(|mark| after(mark.at)),
        complete_s: turn.completed_at().map(after),
        with_handshake_s: with_handshake(connection, turn).map(|span| span.as_secs_f64()),
        server_s: server_time(connection, turn).map(|span| span.as_secs_f64()),
        continue_wait_s: turn
            .interim
            .filter(|_| turn.expects_continue)
            .map(|mark| after(mark.at)),
        response_s: turn
            .first_response
            .zip(turn.completed_at())
            .map(|(first, done)| done.since(first.at).as_secs_f64()),
        request_bytes: turn.request_bytes(),
        response_bytes: turn.response_bytes(),
    }
}
