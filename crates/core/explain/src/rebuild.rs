//! From a verdict to an experiment: a scenario file that rebuilds the path and the transfers that a
//! capture shows, so that remedies can be tried on it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use record::LimitName;
use record::explain::{Connection, Direction, Document};
use units::Bytes;

/// A capture does not show enough to rebuild its path.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoScenario {
    /// Nothing was transferred.
    #[error("the capture holds no connection with payload: there is nothing to repeat")]
    NoTransfer,
    /// No round trip was seen.
    #[error(
        "the capture shows no round-trip time: it needs both directions of one connection, \
         or its handshake"
    )]
    NoRoundTrip,
}

/// Sizes that are told apart; more would make an experiment nobody waits for.
const MOST_WORKLOADS: usize = 3;
/// Round trips after which slow start has long filled most paths.
const LONG_IN_ROUND_TRIPS: f64 = 20.0;
/// Times of the capture that are laid beside the experiment's, per size.
const MOST_REPORTED: usize = 20;

/// One group of like transfers.
#[derive(Debug, Default)]
struct Transfers {
    bytes: u64,
    seconds: Vec<f64>,
}

/// What a transfer is, as a scenario names it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    Upload,
    Download,
    StreamUp,
    StreamDown,
}

/// The path to the server that moved most bytes, as far as a capture shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeenPath {
    /// The smallest round-trip time of all samples, in seconds.
    pub rtt_s: f64,
    /// Its rate in bits per second.
    pub rate_bps: f64,
    /// What the rate was taken from.
    pub rate_from: RateFrom,
    /// Retransmissions per data segment, an upper bound of random loss; `None` where nothing was repeated.
    pub loss: Option<f64>,
}

/// What a rebuilt path's rate was taken from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RateFrom {
    /// The dispersion of ACKs shows the rate itself.
    Dispersion,
    /// The goodput of the fastest long transfer: a lower bound.
    Goodput,
    /// Nothing: a common rate is assumed.
    Assumption,
}

/// The path to the server that moved most bytes.
pub fn path(document: &Document) -> Result<SeenPath, NoScenario> {
    seen_path(&busiest_server(document).ok_or(NoScenario::NoTransfer)?)
}

fn seen_path(connections: &[&Connection]) -> Result<SeenPath, NoScenario> {
    let rtt_s = connections
        .iter()
        .filter_map(|connection| connection.rtt.min_s)
        .filter(|rtt| *rtt > 0.0)
        .min_by(f64::total_cmp)
        .ok_or(NoScenario::NoRoundTrip)?;
    let (rate_bps, rate_from) = rate(connections, rtt_s);
    Ok(SeenPath {
        rtt_s,
        rate_bps,
        rate_from,
        loss: loss(connections),
    })
}

/// The scenario, in TOML, of the server that moved most bytes. What a capture can't show is assumed, and
/// every assumption stands beside its figure.
pub fn scenario(document: &Document) -> Result<String, NoScenario> {
    let connections = busiest_server(document).ok_or(NoScenario::NoTransfer)?;
    let first = connections.first().ok_or(NoScenario::NoTransfer)?;
    let SeenPath {
        rtt_s,
        rate_bps: rate,
        rate_from,
        loss,
    } = seen_path(&connections)?;
    let workloads = workloads(&connections);

    let file = document
        .captures
        .first()
        .map_or("", |capture| capture.file.as_str());
    let product = rate / 8.0 * rtt_s;
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "# Rebuilt by `longhaul explain --emit-scenario` from {}: {} connections to {}:{}.\n\
         # What the capture can't show is assumed, and said so. Check it, then:\n\
         #   longhaul simulate THIS.toml    what each arm would bring\n\
         #   longhaul lab run THIS.toml     the same on real kernels\n\n\
         name = \"rebuilt\"\n\
         seed = 1\n\n\
         [path]\n\
         # The smallest of all samples.\n\
         rtt = \"{} ms\"\n\
         # {}\n\
         rate = \"{} kbit/s\"\n\
         # Assumed: one bandwidth-delay product.\n\
         queue = \"{} B\"\n",
        comment(file),
        connections.len(),
        comment(&first.server.host),
        first.server.port,
        three_places(rtt_s * 1e3),
        rate_from.says(),
        whole((rate / 1e3).max(10.0)),
        whole(product.max(15_000.0)),
    );
    if let Some(share) = loss {
        let _ = write!(
            text,
            "# Retransmissions per data segment: an upper bound of the path's random loss.\n\
             loss = \"{} %\"\n",
            three_places(share * 100.0)
        );
    }
    let held = held_by_window(&connections);
    if let Some((host, window)) = held {
        let _ = write!(
            text,
            "\n# The receiver's window held the transfer back and did not grow beyond this.\n\
             [hosts.{host}]\n\
             tcp = {{ receive-window = \"{window} B\" }}\n"
        );
    }
    write_sender(&mut text, &connections, held.map(|(host, _)| host));
    for ((kind, _), transfers) in &workloads {
        write_workload(&mut text, *kind, transfers);
    }
    write_arms(
        &mut text,
        workloads.keys().any(|(kind, _)| kind.is_object()),
    );
    Ok(text)
}

/// The connections with payload to the server, address and port, that moved most of it: those that
/// [`scenario`] rebuilds.
#[must_use]
pub fn busiest_server(document: &Document) -> Option<Vec<&Connection>> {
    let mut servers: BTreeMap<(&str, u16), (u64, Vec<&Connection>)> = BTreeMap::new();
    for connection in &document.connections {
        let bytes = payload(connection);
        if bytes > 0 {
            let key = (connection.server.host.as_str(), connection.server.port);
            let entry = servers.entry(key).or_default();
            entry.0 = entry.0.saturating_add(bytes);
            entry.1.push(connection);
        }
    }
    let busiest = servers.into_values().max_by_key(|(bytes, _)| *bytes)?;
    Some(busiest.1)
}

impl RateFrom {
    /// That, as a sentence.
    const fn says(self) -> &'static str {
        match self {
            Self::Dispersion => "As the dispersion of ACKs shows it (median).",
            Self::Goodput => {
                "Not shown by the capture: the goodput of its fastest transfer, a lower bound."
            }
            Self::Assumption => {
                "Assumed: no transfer in the capture lasts long enough to show the path's rate."
            }
        }
    }
}

const fn payload(connection: &Connection) -> u64 {
    let directions = &connection.directions;
    directions
        .client_to_server
        .bytes
        .saturating_add(directions.server_to_client.bytes)
}

/// The direction with more payload.
const fn main_direction(connection: &Connection) -> &Direction {
    let directions = &connection.directions;
    if directions.client_to_server.bytes >= directions.server_to_client.bytes {
        &directions.client_to_server
    } else {
        &directions.server_to_client
    }
}

/// The rate in bits per second, and where it comes from.
fn rate(connections: &[&Connection], rtt_s: f64) -> (f64, RateFrom) {
    let mut seen: Vec<f64> = connections
        .iter()
        .filter_map(|one| main_direction(one).path_rate_bps)
        .collect();
    seen.sort_by(f64::total_cmp);
    if let Some(median) = seen.get(seen.len() / 2) {
        return (*median, RateFrom::Dispersion);
    }
    // Shorter transfers are over before they fill a path: their goodput says nothing about its rate.
    let fastest = connections
        .iter()
        .filter(|one| one.duration_s >= LONG_IN_ROUND_TRIPS * rtt_s)
        .filter_map(|one| main_direction(one).goodput_bps)
        .max_by(f64::total_cmp);
    match fastest {
        Some(goodput) => (goodput, RateFrom::Goodput),
        None => (100e6, RateFrom::Assumption),
    }
}

/// Repeated segments per data segment over all connections; `None` where nothing was repeated.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of segments, far below 2^52"
)]
fn loss(connections: &[&Connection]) -> Option<f64> {
    let directions = || connections.iter().map(|one| main_direction(one));
    let repeated: u64 = directions().map(|one| one.retransmissions).sum();
    let segments: u64 = directions().map(|one| one.segments).sum();
    (repeated > 0 && segments > 0).then(|| repeated as f64 / segments as f64)
}

/// The receiving host and its largest window, where that window was what held most transfers back.
fn held_by_window(connections: &[&Connection]) -> Option<(&'static str, u64)> {
    let held = |one: &&&Connection| main_direction(one).dominant == Some(LimitName::ReceiveWindow);
    let count = connections.iter().filter(held).count();
    if count * 2 <= connections.len() {
        return None;
    }
    let connection = connections.iter().find(held)?;
    let uploads = connection.directions.client_to_server.bytes
        >= connection.directions.server_to_client.bytes;
    let window = main_direction(connection).receive_window_max?;
    Some((if uploads { "origin" } else { "client" }, window))
}

/// The sender's congestion control, as far as its losses tell; the simulator and the lab's kernel take CUBIC.
/// `taken` is a host that has its table already.
fn write_sender(text: &mut String, connections: &[&Connection], taken: Option<&str>) {
    /// `CUBIC` keeps 0.7 (RFC 9438 §4.6), its successors in kernels at most 0.8.
    const YIELDS_NOTHING: f64 = 0.9;
    /// Segments per round trip: what takes losses for congestion grows by one, or half of one with delayed ACKs.
    const GROWS: f64 = 0.4;
    let responses = connections
        .iter()
        .filter_map(|one| Some((one, main_direction(one).loss_response.as_ref()?)));
    let Some((connection, response)) = responses.max_by_key(|(_, response)| response.losses) else {
        text.push_str(
            "\n# The sender's congestion control: not known, since too few losses show what it does behind one.\n",
        );
        return;
    };
    let losses = response.losses;
    let kept = whole(response.kept * 100.0);
    let directions = &connection.directions;
    let uploads = directions.client_to_server.bytes >= directions.server_to_client.bytes;
    let host = if uploads { "client" } else { "origin" };
    let growth = response.growth_segments;
    let grows = match growth {
        Some(growth) => format!(
            "in between it grew by {} segments per round trip",
            three_places(growth)
        ),
        None => "how it grows in between does not show".to_owned(),
    };
    let is_bbr = growth.is_none_or(|growth| growth < GROWS);
    let seen = format!(
        "\n# The sender's congestion control: behind {losses} losses it kept {kept} % of what flew (NewReno: 50 %, CUBIC: \
         70 %);\n# {grows}."
    );
    text.push_str(&seen);
    if response.kept < YIELDS_NOTHING {
        text.push('\n');
    } else if is_bbr && taken != Some(host) {
        let _ = write!(
            text,
            " That is BBR's; of controllers that take losses for congestion only\n# Westwood+ comes near, and grows by one.\n\
             [hosts.{host}]\n\
             congestion-control = \"bbr\"\n"
        );
    } else if is_bbr {
        text.push_str(" That is BBR's.\n");
    } else {
        text.push_str(
            " BBR keeps that much and does not grow so; Westwood+ may, over losses\n# that no queue precedes.\n",
        );
    }
}

/// The most frequent transfers by kind and size, sizes within 2 % taken as one.
fn workloads(connections: &[&Connection]) -> BTreeMap<(Kind, u64), Transfers> {
    let mut groups: BTreeMap<(Kind, u64), Transfers> = BTreeMap::new();
    let mut add = |kind: Kind, bytes: u64, seconds: Option<f64>| {
        let group = groups.entry((kind, about(bytes))).or_default();
        group.bytes = group.bytes.max(bytes);
        group.seconds.extend(seconds);
    };
    for connection in connections {
        for transfer in &connection.transfers {
            let seconds = transfer.with_handshake_s.or(transfer.complete_s);
            if transfer.request_bytes >= transfer.response_bytes {
                add(Kind::Upload, transfer.request_bytes, seconds);
            } else {
                add(Kind::Download, transfer.response_bytes, seconds);
            }
        }
        if connection.transfers.is_empty() {
            let directions = &connection.directions;
            let (up, down) = (
                directions.client_to_server.bytes,
                directions.server_to_client.bytes,
            );
            let kind = if up >= down {
                Kind::StreamUp
            } else {
                Kind::StreamDown
            };
            add(kind, up.max(down), Some(connection.duration_s));
        }
    }
    let mut by_weight: Vec<_> = groups.into_iter().collect();
    by_weight.sort_by_key(|(_, group)| {
        let times = u64::try_from(group.seconds.len()).unwrap_or(u64::MAX);
        std::cmp::Reverse(group.bytes.saturating_mul(times.max(1)))
    });
    by_weight.truncate(MOST_WORKLOADS);
    by_weight.into_iter().collect()
}

/// A size rounded to two significant digits: what counts as the same.
const fn about(bytes: u64) -> u64 {
    let mut unit = 1;
    while bytes / unit >= 100 {
        unit *= 10;
    }
    bytes / unit * unit
}

fn write_workload(text: &mut String, kind: Kind, transfers: &Transfers) {
    let bytes = Bytes::new(transfers.bytes.clamp(1, 1 << 30));
    let (name, fields) = match kind {
        Kind::Upload => ("upload", "kind = \"upload\"\n"),
        Kind::Download => ("download", "kind = \"download\"\n"),
        Kind::StreamUp => ("stream up", "kind = \"stream\"\ndirection = \"up\"\n"),
        Kind::StreamDown => ("stream down", "kind = \"stream\"\ndirection = \"down\"\n"),
    };
    let _ = write!(
        text,
        "\n[[workloads]]\nname = \"{name}, {bytes}\"\n{fields}bytes = \"{bytes}\"\n"
    );
    let seconds: Vec<String> = transfers
        .seconds
        .iter()
        .take(MOST_REPORTED)
        .map(|seconds| format!("\"{} ms\"", three_places(seconds * 1e3)))
        .collect();
    if !seconds.is_empty() {
        let _ = write!(
            text,
            "# As captured.\n[workloads.reported]\ndirect = [{}]\n",
            seconds.join(", ")
        );
    }
}

/// Directly, and what helps transfers of this kind.
fn write_arms(text: &mut String, objects: bool) {
    text.push_str(if objects {
        "\n[relays.hot]\npool-min-idle = 2\n\n\
         [[arms]]\nname = \"direct\"\n\n\
         [[arms]]\nname = \"direct-reuse\"\nreuse = true\n\n\
         [[arms]]\nname = \"relay\"\nrelay = \"hot\"\n"
    } else {
        "\n[relays.near]\nmode = \"tcp\"\nclient-profile = \"lan\"\nserver-profile = \"wan\"\n\n\
         [relays.far]\nmode = \"tcp\"\nat = \"far\"\nclient-profile = \"wan\"\nserver-profile = \"lan\"\n\n\
         [[arms]]\nname = \"direct\"\n\n\
         [[arms]]\nname = \"pair\"\nrelay = [\"near\", \"far\"]\n"
    });
    text.push_str("\n[experiment]\nruns = 10\nblock = 5\n");
}

/// What a comment line can hold: file and host names come from elsewhere.
fn comment(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn three_places(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn whole(number: f64) -> String {
    format!("{number:.0}")
}

// === impl Kind ===

impl Kind {
    /// Whether it is one request for one object.
    const fn is_object(self) -> bool {
        matches!(self, Self::Upload | Self::Download)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_sizes_are_one() {
        assert_eq!(about(102_731), about(102_400));
        assert_eq!(about(7), 7);
        assert_eq!(about(1_048_576), 1_000_000);
        assert_ne!(about(102_400), about(122_400));
    }

    #[test]
    fn numbers_are_written_without_noise() {
        assert_eq!(three_places(200.4), "200.4");
        assert_eq!(three_places(190.0), "190");
        assert_eq!(three_places(0.05), "0.05");
        assert_eq!(whole(99_999.6), "100000");
    }

    #[test]
    fn an_empty_document_says_what_is_missing() {
        let document = crate::explain(
            &connections::Tracker::new().finish(),
            crate::Options::default(),
        );
        assert_eq!(scenario(&document), Err(NoScenario::NoTransfer));
    }
}
