//! An event as a line for an operator.

use std::fmt::Write as _;
use std::time::Duration;

use profile::Side;
use relay::{AppliedOption, ConnectionDone, EndedBy, Event, Missing, Phase, Stage, TlsReport};

use super::trunk_line;

/// One line, without line break. What clients and origins chose is escaped, so that it cannot write to
/// the terminal; connections to the origin are `#N`.
pub(super) fn line(event: &Event) -> String {
    match event {
        Event::Listening { address, target } => {
            format!("listening on {address}, relaying to {target}")
        }
        Event::Applied {
            side,
            profile,
            stage,
            options,
        } => applied(*side, profile, *stage, options),
        Event::Connected { .. } => connected(event),
        Event::Primed { .. } => primed(event),
        Event::PrimingFailed {
            connection,
            requests,
            bytes,
            why,
        } => format!(
            "#{connection} not primed after {requests} requests and {}: {}",
            size(*bytes),
            why.escape_debug()
        ),
        Event::PoolReady {
            connections,
            hot,
            requests,
            bytes,
            seconds,
        } => format!(
            "pool ready after {}: {hot} of {connections} connections hot, made so by {requests} requests \
             and {}",
            span(*seconds),
            size(*bytes)
        ),
        Event::Cooled {
            connection,
            cwnd_bytes,
            target_bytes,
            why,
            ..
        } => format!(
            "#{connection} cooled: {}; cwnd {} of {}",
            why.escape_debug(),
            size(*cwnd_bytes),
            size(*target_bytes)
        ),
        Event::RequestDone { .. } => request(event),
        Event::ConnectionDone(done) => connection(done),
        Event::Closed {
            connection,
            requests,
            why,
        } => format!(
            "#{connection} closed after {requests} requests: {}",
            why.escape_debug()
        ),
        Event::Refused { peer, why } => format!("refused {peer}: {}", why.escape_debug()),
        Event::Warning { name, text } => format!("{text} [{name}]"),
        Event::Target {
            target,
            available,
            why,
        } => {
            let state = if *available {
                "is there"
            } else {
                "is not there"
            };
            format!("{target} {state}: {}", why.escape_debug())
        }
        Event::Admin { address } => format!("administration on {address}"),
        Event::Ready { listeners } => format!("ready: {listeners} listeners open"),
        Event::Reloaded { listeners } => {
            format!("reloaded: {listeners} listeners open, connections go on")
        }
        Event::ReloadFailed { why } => {
            format!(
                "not reloaded, all goes on as before: {}",
                why.escape_debug()
            )
        }
        Event::Draining { clients } => {
            format!("stopping: no new clients, {clients} still connected")
        }
        Event::Stopped { .. } => stopped(event),
        Event::Trunk(event) => trunk_line::line(event),
    }
}

fn connected(event: &Event) -> String {
    let Event::Connected {
        connection,
        peer,
        rtt_s,
        seconds,
        tls,
        ..
    } = event
    else {
        return String::new();
    };
    let (took, rtt) = (span(*seconds), span(*rtt_s));
    let mut text = format!("#{connection} connected to {peer} in {took}, RTT {rtt}");
    if let Some(tls) = tls {
        // Writing to a String cannot fail.
        let _ = write!(text, ", {}", agreed(tls));
    }
    text
}

fn applied(side: Side, profile: &str, stage: Stage, options: &[AppliedOption]) -> String {
    match stage {
        Stage::Listening => {
            let settings = settings(options);
            format!("{side} profile `{profile}` in effect on the listener: {settings}")
        }
        Stage::Connected => {
            let settings = settings(options);
            format!("{side} profile `{profile}` in effect on a connected socket: {settings}")
        }
        // The same settings, or a warning would have come instead.
        Stage::AfterData => {
            format!("{side} profile `{profile}` still in effect after data has flowed")
        }
    }
}

fn primed(event: &Event) -> String {
    let Event::Primed {
        connection,
        again,
        requests,
        bytes,
        seconds,
        target_bytes,
        cwnd_bytes,
        peer_window_bytes,
        rtt_s,
        retransmitted,
        bottleneck_bps,
        statuses,
        missing,
    } = event
    else {
        return String::new();
    };
    let outcome = if missing.is_empty() { "hot" } else { "not hot" };
    let again = if *again { " again" } else { "" };
    let mut text = format!(
        "#{connection} {outcome}{again} after {requests} requests, {} in {}: cwnd {}",
        size(*bytes),
        span(*seconds),
        size(*cwnd_bytes)
    );
    // Writing to a String cannot fail, here and below.
    if let Some(window) = peer_window_bytes {
        let _ = write!(text, ", origin's window {}", size(*window));
    }
    let _ = write!(
        text,
        ", wanted {}, RTT {}",
        size(*target_bytes),
        span(*rtt_s)
    );
    for window in missing {
        text.push_str(match window {
            Missing::Cwnd => ", cwnd too small",
            Missing::PeerWindow => ", origin's window too small",
        });
    }
    if let Some(rate) = bottleneck_bps {
        let _ = write!(text, ", path delivers {}", bit_rate(*rate));
    }
    if *retransmitted > 0 {
        let _ = write!(text, ", {retransmitted} segments sent again");
    }
    for (class, count) in statuses {
        let _ = write!(text, ", {class} x {count}");
    }
    text
}

fn request(event: &Event) -> String {
    let Event::RequestDone {
        client,
        peer,
        connection,
        method,
        path,
        status,
        bytes_up,
        bytes_down,
        seconds,
        hot,
        ended_by,
        phase,
        error,
        client_tls,
        ..
    } = event
    else {
        return String::new();
    };
    let status = status.map_or_else(|| "-".to_owned(), |status| status.to_string());
    let mut text = format!(
        "{} {} {status} in {}, up {}, down {}, client {client} at {peer}",
        method.escape_debug(),
        path.escape_debug(),
        span(*seconds),
        size(*bytes_up),
        size(*bytes_down)
    );
    if let Some(tls) = client_tls {
        let _ = write!(text, ", {}", agreed(tls));
    }
    if let Some(connection) = connection {
        let heat = if *hot { "hot" } else { "not hot" };
        let _ = write!(text, ", #{connection} {heat}");
    }
    text.push_str(&ending(*ended_by, *phase, error.as_deref()));
    text
}

fn connection(done: &ConnectionDone) -> String {
    let mut text = format!("client {} at {}", done.client, done.peer);
    // Writing to a String cannot fail, here and below.
    if let Some(origin) = done.stands_for {
        let _ = write!(text, " for {origin}");
    }
    if let Some(target) = &done.asked_for {
        let _ = write!(text, " for {}", target.escape_debug());
    }
    if let Some(server) = done.server {
        let _ = write!(text, " to {server}");
    }
    let _ = write!(
        text,
        " in {}, up {}, down {}",
        span(done.seconds),
        size(done.bytes_up),
        size(done.bytes_down)
    );
    for (name, side) in [("client", &done.client_side), ("server", &done.server_side)] {
        if let Some(side) = side {
            let _ = write!(text, ", {name} RTT {}", span(side.rtt_s));
            if side.retransmitted > 0 {
                let _ = write!(text, " with {} segments sent again", side.retransmitted);
            }
        }
    }
    for (name, tls) in [("client", &done.client_tls), ("server", &done.server_tls)] {
        if let Some(tls) = tls {
            let _ = write!(text, ", {name} {}", agreed(tls));
        }
    }
    text.push_str(&match (done.ended_by, done.closed_first) {
        (EndedBy::Completed, Some(Side::Client)) => ", completed, the client first".into(),
        (EndedBy::Completed, Some(Side::Server)) => ", completed, the server first".into(),
        (by, _) => ending(by, done.phase, done.error.as_deref()),
    });
    text
}

/// What a TLS handshake agreed on.
fn agreed(tls: &TlsReport) -> String {
    let again = if tls.resumed { " resumed" } else { "" };
    let group = tls.group.as_deref().unwrap_or_default();
    let gap = if group.is_empty() { "" } else { " " };
    format!("TLS {}{again}{gap}{group}", tls.version)
}

/// `, completed`, or who ended it in which phase, and why.
fn ending(by: EndedBy, phase: Phase, error: Option<&str>) -> String {
    let by = match by {
        EndedBy::Completed => return ", completed".into(),
        EndedBy::Client => "the client",
        EndedBy::Server => "the origin",
        EndedBy::Timeout => "a timeout",
        EndedBy::Resource => "a limit",
        EndedBy::Relay => "the relay",
    };
    let during = match phase {
        Phase::RequestHead => "reading the request's head",
        Phase::Connecting => "connecting",
        Phase::RequestBody => "forwarding the request",
        Phase::ResponseHead => "waiting for the response",
        Phase::ResponseBody => "forwarding the response",
        Phase::Tunnel => "tunnelling",
        Phase::ClientHandshake => "shaking hands with the client",
        Phase::ServerHandshake => "shaking hands with the server",
        Phase::ProxyHeader => "reading the PROXY header",
        Phase::Asking => "hearing where the client wants to go",
        Phase::Data => "forwarding",
        Phase::Closing => "forwarding after one side's end",
    };
    let mut text = format!(", ended by {by} while {during}");
    if let Some(error) = error {
        let _ = write!(text, ": {}", error.escape_debug());
    }
    text
}

fn stopped(event: &Event) -> String {
    let Event::Stopped {
        aborted,
        connections,
        requests,
        hot_ratio,
    } = event
    else {
        return String::new();
    };
    let served = match (requests, hot_ratio) {
        (Some(requests), Some(ratio)) => {
            format!(
                "{requests} requests, {} on hot connections",
                percent(*ratio)
            )
        }
        _ => format!("{connections} connections"),
    };
    format!("stopped after {served}; {aborted} clients cut off")
}

/// `TCP_CONGESTION bbr (of bbr or cubic), TCP_NODELAY true`: what is in effect, and what was asked for
/// where that says more.
fn settings(options: &[AppliedOption]) -> String {
    let mut text = String::new();
    for option in options {
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{separator}{} {}", option.option, option.effective);
        if option.requested != option.effective {
            let _ = write!(text, " (of {})", option.requested);
        }
    }
    text
}

/// At most three digits, cut, and a decimal unit, for reading: `102 kB`, `2.51 MB`.
pub(crate) fn size(bytes: u64) -> String {
    scaled(bytes, &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// The same for a rate.
pub(crate) fn bit_rate(bits_per_s: u64) -> String {
    scaled(
        bits_per_s,
        &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "Pbit/s"],
    )
}

fn scaled(count: u64, units: &[&str]) -> String {
    let mut unit: u64 = 1;
    let mut index = 0;
    while index + 1 < units.len() && count / unit >= 1000 {
        unit *= 1000;
        index += 1;
    }
    let (whole, part) = (count / unit, count % unit);
    let name = units[index];
    match whole {
        _ if unit == 1 => format!("{count} {name}"),
        0..10 => format!("{whole}.{:02} {name}", part / (unit / 100)),
        10..100 => format!("{whole}.{} {name}", part / (unit / 10)),
        _ => format!("{whole} {name}"),
    }
}

/// Three significant digits: microseconds say nothing about a request of a second.
pub(super) fn span(seconds: f64) -> String {
    let span = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let grain = match span.as_nanos() {
        0..1_000_000 => 1_000,
        1_000_000..1_000_000_000 => 100_000,
        _ => 10_000_000,
    };
    let rounded = (span.as_nanos() + grain / 2) / grain * grain;
    units::format_span(Duration::from_nanos(
        u64::try_from(rounded).unwrap_or(u64::MAX),
    ))
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(path: &str, ended_by: EndedBy, error: Option<&str>) -> Event {
        Event::RequestDone {
            client: 3,
            peer: "10.0.0.9:4711".parse().unwrap(),
            connection: Some(1),
            method: "PUT".into(),
            path: path.into(),
            status: Some(200),
            bytes_up: 102_400,
            bytes_down: 0,
            seconds: 0.217_345_6,
            hot: true,
            hot_ratio: 1.0,
            ended_by,
            phase: Phase::ResponseHead,
            error: error.map(str::to_owned),
            client_tls: None,
            parent: None,
        }
    }

    #[test]
    fn a_request_is_one_line_with_units() {
        assert_eq!(
            line(&done("/b/k", EndedBy::Completed, None)),
            "PUT /b/k 200 in 217.3 ms, up 102 kB, down 0 B, client 3 at 10.0.0.9:4711, #1 hot, completed"
        );
        assert_eq!(
            line(&done("/b/k", EndedBy::Server, Some("reset"))),
            "PUT /b/k 200 in 217.3 ms, up 102 kB, down 0 B, client 3 at 10.0.0.9:4711, #1 hot, \
             ended by the origin while waiting for the response: reset"
        );
    }

    #[test]
    fn a_path_cannot_write_to_the_terminal() {
        let text = line(&done("/\u{1b}[2J\u{9b}\n", EndedBy::Completed, None));
        assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
    }

    #[test]
    fn sizes_keep_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (102_400, "102 kB"),
            (999_400, "999 kB"),
            (2_505_000, "2.50 MB"),
            (u64::MAX, "18446 PB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
