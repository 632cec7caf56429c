//! What the SYNs did not agree on.

use core::time::Duration;

use connections::{Connection, Side};
use limit::{Detail, LimitName};
use record::explain::{Confidence, Evidence};
use tuning::remedies::Cause;

use super::{CatalogueEntry, Found, Judged, Need, frame, severity_of};
use crate::analysis::Analysed;
use crate::text::count;

pub(super) const NO_WINDOW_SCALING: CatalogueEntry = CatalogueEntry {
    name: "no-window-scaling",
    meaning: "Window scaling was not agreed: no more than 65,535 bytes can be in flight.",
    source: "RFC 7323 §2",
};

pub(super) const NO_SACK: CatalogueEntry = CatalogueEntry {
    name: "no-sack",
    meaning: "Selective acknowledgment was not agreed: one lost segment per round trip can be repaired.",
    source: "RFC 2018, RFC 6582 §3.2",
};

pub(super) const NO_TIMESTAMPS: CatalogueEntry = CatalogueEntry {
    name: "no-timestamps",
    meaning: "Timestamps were not agreed: no RTT from repeated segments, no protection against wrapped \
              sequence numbers.",
    source: "RFC 7323 §3, §5",
};

pub(super) const SMALL_MSS: CatalogueEntry = CatalogueEntry {
    name: "small-mss",
    meaning: "Segments are smaller than a plain Internet path would carry: more packets, more header \
              bytes, slower growth of the window.",
    source: "RFC 9293 §3.7.1, RFC 6691",
};

/// The least MSS that an IPv6 path must carry (RFC 8200 §5: 1280 bytes less 60 of headers).
const SMALL: u16 = 1220;

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    let missing = |offered: fn(&connections::SynOptions) -> bool| {
        move |connection: &Connection| {
            connection
                .to_server
                .syn
                .zip(connection.to_client.syn)
                .is_some_and(|(client, server)| !(offered(&client) && offered(&server)))
        }
    };
    let scaling = missing(|syn| syn.window_scale.is_some());
    let sack = missing(|syn| syn.sack_permitted);
    let timestamps = missing(|syn| syn.timestamps);
    [
        judge(
            connections,
            &NO_WINDOW_SCALING,
            &scaling,
            "no window above 65,535 bytes",
            "Let both ends offer window scaling (Linux: net.ipv4.tcp_window_scaling = 1; AIX: no -o \
             rfc1323=1), and look for a middlebox that strips the option.",
        ),
        judge(
            connections,
            &NO_SACK,
            &sack,
            "no selective acknowledgment",
            "Let both ends offer SACK (Linux: net.ipv4.tcp_sack = 1; AIX: no -o sack=1).",
        ),
        judge(
            connections,
            &NO_TIMESTAMPS,
            &timestamps,
            "no timestamps",
            "Let both ends offer timestamps (Linux: net.ipv4.tcp_timestamps = 1; Windows: Set-NetTCPSetting \
             -Timestamps Enabled) where windows are large.",
        ),
        judge(
            connections,
            &SMALL_MSS,
            &|connection| offered_mss(connection).is_some_and(|mss| mss < SMALL),
            "an MSS below 1220 bytes",
            "Look for a tunnel or an MSS clamp on the way, and raise the interface's MTU if the path \
             carries more.",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn offered_mss(connection: &Connection) -> Option<u16> {
    let syns = [connection.to_server.syn, connection.to_client.syn];
    syns.into_iter().flatten().filter_map(|syn| syn.mss).min()
}

fn judge(
    connections: &[Analysed],
    entry: &CatalogueEntry,
    holds: &dyn Fn(&Connection) -> bool,
    what: &str,
    remedy: &str,
) -> Option<Judged> {
    let concerned: Vec<&Analysed> = connections
        .iter()
        .filter(|analysed| holds(&analysed.connection))
        .collect();
    if concerned.is_empty() {
        return None;
    }
    let held = |limit, detail| -> Duration {
        concerned
            .iter()
            .flat_map(|analysed| analysed.directions())
            .map(|(_, direction)| direction.attribution.held_by(limit, detail))
            .sum()
    };
    let lost = match entry.name {
        name if name == NO_WINDOW_SCALING.name => held(LimitName::ReceiveWindow, Detail::NoScaling),
        _ => Duration::ZERO,
    };
    let whole = concerned.iter().map(|one| one.connection.duration()).sum();
    let evidence: Vec<Evidence> = concerned
        .iter()
        .flat_map(|analysed| {
            let handshake = &analysed.connection.handshake;
            let side =
                |mark: connections::Mark, who: &str, syn: Option<connections::SynOptions>| {
                    frame(
                        mark,
                        format!("connection {}: {who} offers {}", analysed.id, offer(syn)),
                    )
                };
            [
                handshake
                    .syn
                    .map(|mark| side(mark, "the client", analysed.connection.to_server.syn)),
                handshake
                    .syn_ack
                    .map(|mark| side(mark, "the server", analysed.connection.to_client.syn)),
            ]
        })
        .flatten()
        .collect();
    let found = Found {
        severity: severity_of(lost, whole),
        confidence: Confidence::High,
        summary: format!("{} with {what}", count(concerned.len(), "connection")),
        connections: concerned.iter().map(|analysed| analysed.id).collect(),
        evidence,
        lost: (!lost.is_zero()).then_some(lost),
        remedy: remedy.into(),
        predicted: Vec::new(),
        needs: needs(entry, &concerned),
    };
    Some(found.into_finding(entry))
}

/// Which side has to offer what: each that did not.
fn needs(entry: &CatalogueEntry, concerned: &[&Analysed]) -> Vec<Need> {
    type Offers = fn(&connections::SynOptions) -> bool;
    let (cause, offers): (Cause, Offers) = match entry.name {
        name if name == NO_WINDOW_SCALING.name => {
            (Cause::NoWindowScaling, |syn| syn.window_scale.is_some())
        }
        name if name == NO_SACK.name => (Cause::NoSack, |syn| syn.sack_permitted),
        name if name == NO_TIMESTAMPS.name => (Cause::NoTimestamps, |syn| syn.timestamps),
        _ => return Vec::new(),
    };
    // A server answers with what it was offered: where the client offers nothing, nobody knows.
    let silent = |side: Side| {
        concerned.iter().any(|analysed| {
            let syn = analysed.connection.flow(side).syn;
            let asked = side == Side::Client
                || analysed
                    .connection
                    .to_server
                    .syn
                    .is_some_and(|syn| offers(&syn));
            asked && syn.is_some_and(|syn| !offers(&syn))
        })
    };
    [Side::Client, Side::Server]
        .into_iter()
        .filter(|side| silent(*side))
        .map(|side| Need::new(cause, side))
        .collect()
}

fn offer(syn: Option<connections::SynOptions>) -> String {
    let Some(syn) = syn else {
        return "nothing that the capture shows".into();
    };
    let mut parts = Vec::new();
    parts.extend(syn.mss.map(|mss| format!("MSS {mss}")));
    parts.extend(
        syn.window_scale
            .map(|shift| format!("window scale {shift}")),
    );
    parts.extend(syn.sack_permitted.then(|| "SACK".to_owned()));
    parts.extend(syn.timestamps.then(|| "timestamps".to_owned()));
    if parts.is_empty() {
        "no options".into()
    } else {
        parts.join(", ")
    }
}
