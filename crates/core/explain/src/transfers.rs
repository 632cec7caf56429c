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

/// The requests of a connection, whose start is set in the end. A turn counts as a request when its line was read.
pub(crate) fn of(connection: &Connection) -> Vec<Transfer> {
    requests(connection)
        .map(|turn| transfer(connection, turn))
        .collect()
}

/// When they began.
pub(crate) fn starts(connection: &Connection) -> Box<[Time]> {
    requests(connection)
        .map(|turn| turn.first_sent.at)
        .collect()
}

fn requests(connection: &Connection) -> impl Iterator<Item = &Turn> {
    let turns = connection.turns.iter();
    turns.filter(|turn| turn.request.is_some())
}

fn transfer(connection: &Connection, turn: &Turn) -> Transfer {
    let started = turn.first_sent.at;
    let after = |at: Time| at.since(started).as_secs_f64();
    Transfer {
        request: turn.request.clone().unwrap_or_default(),
        operation: turn.operation.map(str::to_owned),
        status: turn.status,
        start_s: 0.0,
        sent_s: after(turn.last_sent.at),
        first_byte_s: turn.first_response.map(|mark| after(mark.at)),
        complete_s: turn.completed_at().map(after),
        with_handshake_s: with_handshake(connection, turn).map(|span| span.as_secs_f64()),
        server_s: server_time(connection, turn).map(|span| span.as_secs_f64()),
        continue_wait_s: turn.continue_wait().map(|wait| wait.as_secs_f64()),
        response_s: turn
            .first_response
            .zip(turn.completed_at())
            .map(|(first, done)| done.since(first.at).as_secs_f64()),
        request_bytes: turn.request_bytes(),
        response_bytes: turn.response_bytes(),
    }
}
