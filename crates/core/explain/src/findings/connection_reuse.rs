//! Connections made anew for every request.

use core::time::Duration;
use std::collections::BTreeMap;

use connections::{Connection, Endpoint, Side, Turn};
use limit::{Detail, LimitName};
use record::explain::{Confidence, Evidence, Prediction};
use tuning::remedies::Cause;
use units::{Bytes, Floor, PacketOverhead, Rate};

use super::{CatalogueEntry, Found, Judged, MAX_EVIDENCE, Need, frame, path, severity_of};
use crate::analysis::{Analysed, Complete};
use crate::text::{count, duration, median, rounded};
use crate::timeline::overhead;
use crate::transfers;

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "no-connection-reuse",
    meaning: "A client opens a new connection for each request or few, so that each pays a handshake and \
              slow start from the initial window.",
    source: "RFC 9112 §9.3 (persistence), RFC 6928 (initial window), RFC 5681 §3.1 (slow start)",
};

/// More requests than this on a connection is reuse.
const FEW_REQUESTS: usize = 2;
/// Below this per connection, as on a local network, set-up costs processors, not time.
const NEGLIGIBLE: Duration = Duration::from_millis(1);

/// A request on a fresh connection, and what it would have taken on a hot one.
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    id: u32,
    /// Requests on the connection.
    requests: usize,
    /// The request's line, where there is one.
    request: Option<String>,
    request_bytes: u64,
    /// The response's last segment.
    done: connections::Mark,
    syn: connections::Mark,
    rtt: Duration,
    waited: Duration,
    /// From the end of set-up to the request: the client's own time.
    pause: Duration,
    server: Duration,
    /// See [`Turn::continue_wait`].
    continue_wait: Option<Duration>,
    /// From the response's first byte to its last.
    response: Duration,
    /// What set-up and growth took of the time until the response, as far as the capture tells them
    /// from other limits: more than this no reuse saves.
    grew: Duration,
    overhead: PacketOverhead,
}

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    let mut groups: BTreeMap<(&str, &Endpoint), Vec<&Analysed>> = BTreeMap::new();
    for analysed in connections {
        let connection = &analysed.connection;
        groups
            .entry((&connection.client.host, &connection.server))
            .or_default()
            .push(analysed);
    }
    groups
        .into_values()
        .filter_map(|group| judge(&group))
        .map(|found| found.into_finding(&ENTRY))
        .collect()
}

fn judge(group: &[&Analysed]) -> Option<Found> {
    let fresh: Vec<Fresh> = group
        .iter()
        .filter_map(|analysed| {
            let fresh = analysed.shown.fresh.as_deref().cloned()?;
            Some(Fresh {
                id: analysed.id,
                ..fresh
            })
        })
        .collect();
    // A connection was avoidable if another one had done its work by then, and stood idle or was closed.
    // Its own work is done behind its SYN, so that it is never the other one.
    let first_done_at = fresh.iter().map(|one| one.done.at).min();
    let avoidable = fresh
        .iter()
        .filter(|one| first_done_at.is_some_and(|done| done <= one.syn.at && one.done.at > done))
        .count();
    if avoidable == 0 || avoidable * 2 < fresh.len() {
        return None;
    }
    let requests = fresh.iter().map(|one| one.requests).sum();
    let up = path::rate(group.iter().copied(), Side::Client);
    let hot = |one: &Fresh| predicted(one, up, Duration::ZERO).0;
    let lost: Duration = fresh
        .iter()
        .map(|one| one.waited.saturating_sub(one.pause + hot(one)))
        .sum();
    let waited: Duration = fresh.iter().map(|one| one.waited).sum();
    if lost * 100 < waited || lost < NEGLIGIBLE * u32::try_from(fresh.len()).unwrap_or(u32::MAX) {
        return None;
    }
    let rtt = median(fresh.iter().map(|one| one.rtt))?;
    let server = &group.first()?.connection.server;
    Some(Found {
        severity: severity_of(lost, waited),
        confidence: Confidence::High,
        summary: format!(
            "{} to {server}, one after the other, carry {}: {} of {} that the client waited went into \
             handshakes and slow start over {} of RTT",
            count(fresh.len(), "new connection"),
            count(requests, "request"),
            duration(lost),
            duration(waited),
            duration(rtt)
        ),
        connections: fresh.iter().map(|one| one.id).collect(),
        evidence: evidence(&fresh),
        lost: Some(lost),
        remedy: format!(
            "Reuse connections (one session or client object for all requests). The first upload on each \
             connection still pays; a hot pool does not: `longhaul relay http` keeps connections to \
             {server} open whose congestion window and whose peer's receive window have grown before the \
             first request comes."
        ),
        predicted: predictions(&fresh, up),
        needs: vec![Need::new(Cause::NewConnections, Side::Client)],
    })
}

/// The first request of a connection on which few are sent.
pub(super) fn fresh(connection: &Connection, to_server: &Complete) -> Option<Fresh> {
    // On TLS the first turn is no request; and what a lost SYN cost is not the price of set-up.
    let handshake = &connection.handshake;
    let set_up_again = handshake.syn_repeats + handshake.syn_ack_repeats > 0;
    if connection.turns.len() > FEW_REQUESTS || connection.tls.is_some() || set_up_again {
        return None;
    }
    let turn = connection.turns.first()?;
    let waited = transfers::with_handshake(connection, turn)?;
    let server = transfers::server_time(connection, turn)?;
    let response = turn.last_response?.at.since(turn.first_response?.at);
    Some(Fresh {
        id: 0,
        requests: connection.turns.len(),
        request: turn.request.clone(),
        request_bytes: turn.request_bytes(),
        done: turn.last_response?,
        syn: connection.handshake.syn?,
        rtt: connection
            .base_rtt()
            .or_else(|| connection.handshake_rtt())?,
        waited,
        pause: turn.first_sent.at.since(connection.handshake_span()?.1),
        server,
        continue_wait: turn.continue_wait(),
        response,
        grew: grew(connection, to_server, turn),
        overhead: overhead(connection, Side::Client),
    })
}

/// Time from the SYN to the end of `turn` that a connection which is open and has grown does not need.
fn grew(connection: &Connection, to_server: &Complete, turn: &Turn) -> Duration {
    let until = turn.completed_at().unwrap_or(connection.last_at);
    let spans = &to_server.attribution.spans;
    spans
        .iter()
        .filter(|span| match span.limit {
            LimitName::Handshake
            | LimitName::SlowStart
            | LimitName::CongestionAvoidance
            | LimitName::Unknown => true,
            LimitName::ReceiveWindow => span.detail == Some(Detail::Growing),
            LimitName::TlsHandshake
            | LimitName::LossRecovery
            | LimitName::Policer
            | LimitName::Bottleneck
            | LimitName::LossLimited
            | LimitName::SendBuffer
            | LimitName::NagleDelayedAck
            | LimitName::Closing
            | LimitName::Application
            | LimitName::Propagation => false,
        })
        .map(|span| span.to.min(until).since(span.from))
        .sum()
}

/// Time on a connection that is open, idle and large enough: one round trip, the request's serialisation,
/// the server's time and that of the response's bytes; and whatever else than set-up and growth held the
/// request but `spared`, which no pool takes away. With the derivation.
fn predicted(one: &Fresh, rate: Option<Rate>, spared: Duration) -> (Duration, String) {
    let ip_bytes = one.overhead.ip_bytes(Bytes::new(one.request_bytes));
    let floor = rate.and_then(|rate| Floor::new(1, one.rtt, ip_bytes, rounded(rate)));
    let rest = one.server + one.response;
    let (total, derivation) = match floor {
        Some(floor) => (
            floor.total() + rest,
            format!(
                "{floor}; + {} in the server and for its response",
                duration(rest)
            ),
        ),
        None => (
            one.rtt + rest,
            format!(
                "1 x {} + {} in the server and for its response; the time to serialise {} B is not \
                 in it, because the capture does not show the path's rate",
                duration(one.rtt),
                duration(rest),
                ip_bytes.get()
            ),
        ),
    };
    let stays = one.waited.saturating_sub(one.pause + one.grew + spared);
    match stays.checked_sub(total) {
        Some(more) if !more.is_zero() => (
            stays,
            format!(
                "{derivation}; + {} under other limits, which stay",
                duration(more)
            ),
        ),
        Some(_) | None => (total, derivation),
    }
}

fn predictions(fresh: &[Fresh], rate: Option<Rate>) -> Vec<Prediction> {
    /// The initial window (RFC 6928): what fits into it needs no slow start even on a reused connection
    /// that has not grown.
    const INITIAL_WINDOW_SEGMENTS: u64 = 10;
    let mut predictions = Vec::new();
    for class in size_classes(fresh) {
        let Some(typical) = typical(&class) else {
            continue;
        };
        let bytes = typical.request_bytes;
        let transfers = u64::try_from(class.len()).unwrap_or(u64::MAX);
        let now = typical.waited.as_secs_f64();
        if bytes <= INITIAL_WINDOW_SEGMENTS * u64::from(typical.overhead.payload) {
            let (reused, derivation) = predicted(&typical, rate, Duration::ZERO);
            predictions.push(Prediction {
                bytes,
                transfers,
                remedy: "connection-reuse".into(),
                now_s: now,
                predicted_s: reused.as_secs_f64(),
                derivation: format!("{derivation}; from the second request on"),
            });
        }
        let mut hot = |remedy: &str, spared, more: &str| {
            let (hot, derivation) = predicted(&typical, rate, spared);
            predictions.push(Prediction {
                bytes,
                transfers,
                remedy: remedy.into(),
                now_s: now,
                predicted_s: hot.as_secs_f64(),
                derivation: derivation + more,
            });
        };
        hot("hot-pool", Duration::ZERO, "");
        if let Some(wait) = typical.continue_wait {
            let more = format!(
                "; the relay answers `Expect: 100-continue` (`expect = \"answer\"`), which spares {}",
                duration(wait)
            );
            hot("hot-pool-answering", wait, &more);
        }
    }
    predictions
}

/// Requests of about the same size: within a twentieth and the length of a header's variable parts.
fn size_classes(fresh: &[Fresh]) -> Vec<Vec<&Fresh>> {
    const VARIABLE_HEADERS: u64 = 128;
    let mut sorted: Vec<&Fresh> = fresh.iter().collect();
    sorted.sort_by_key(|one| (one.request_bytes, one.id));
    let mut classes: Vec<Vec<&Fresh>> = Vec::new();
    for one in sorted {
        let bytes = one.request_bytes;
        match classes.last_mut() {
            Some(class)
                if class.first().is_some_and(|least| {
                    let least = least.request_bytes;
                    bytes <= least + least / 20 + VARIABLE_HEADERS
                }) =>
            {
                class.push(one);
            }
            Some(_) | None => classes.push(vec![one]),
        }
    }
    classes
}

/// The medians of a class, each by itself: one slow server answer should not stand for all.
fn typical(class: &[&Fresh]) -> Option<Fresh> {
    let middle = class.get(class.len().checked_sub(1)? / 2)?;
    Some(Fresh {
        id: middle.id,
        requests: middle.requests,
        request: None,
        request_bytes: middle.request_bytes,
        done: middle.done,
        syn: middle.syn,
        rtt: median(class.iter().map(|one| one.rtt))?,
        waited: median(class.iter().map(|one| one.waited))?,
        pause: median(class.iter().map(|one| one.pause))?,
        server: median(class.iter().map(|one| one.server))?,
        continue_wait: median(class.iter().filter_map(|one| one.continue_wait)),
        response: median(class.iter().map(|one| one.response))?,
        grew: median(class.iter().map(|one| one.grew))?,
        overhead: middle.overhead,
    })
}

fn evidence(fresh: &[Fresh]) -> Vec<Evidence> {
    fresh
        .iter()
        .take(MAX_EVIDENCE)
        .flat_map(|one| {
            let request = one.request.as_deref().unwrap_or("a request");
            [
                frame(
                    one.syn,
                    format!("connection {}: SYN of a new connection", one.id),
                ),
                frame(
                    one.done,
                    format!(
                        "connection {}: response to {request} ({} B) complete {} after the SYN",
                        one.id,
                        one.request_bytes,
                        duration(one.waited)
                    ),
                ),
            ]
        })
        .collect()
}
