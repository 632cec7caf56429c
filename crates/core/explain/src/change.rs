//! Two verdicts of the same transfer, before and after a remedy: what changed, limit by limit.

use std::collections::BTreeSet;

use record::change::{Document as Change, Limit, Side, VERSION};
use record::explain::{Connection, Document};
use record::{LimitName, LimitSeconds};

/// Payload per transfer may differ by this factor before the comparison is called unlike.
const LIKE_SIZES: f64 = 1.25;

/// What changed from `before` to `after`.
///
/// Everything is counted per transfer, so that captures of different length compare; a transfer is a request,
/// or a connection with payload where a capture shows no requests.
#[must_use]
pub fn change(before: &Document, after: &Document) -> Change {
    let (was, is) = (Sums::of(before), Sums::of(after));
    let mut limits: Vec<Limit> = LimitName::ALL
        .into_iter()
        .map(|name| {
            let (before_s, after_s) = (was.per_transfer(name), is.per_transfer(name));
            Limit {
                name,
                before_s,
                after_s,
                change_s: after_s - before_s,
            }
        })
        .filter(|limit| limit.before_s > 0.0 || limit.after_s > 0.0)
        .collect();
    limits.sort_by(|one, other| other.change_s.abs().total_cmp(&one.change_s.abs()));

    let (had, has) = (names(before), names(after));
    let only = |some: &BTreeSet<String>, others: &BTreeSet<String>| -> Vec<String> {
        some.difference(others).cloned().collect()
    };
    Change {
        schema: "longhaul.change".to_owned(),
        version: VERSION,
        gone: only(&had, &has),
        remaining: had.intersection(&has).cloned().collect(),
        new: only(&has, &had),
        caveats: caveats(&was, &is),
        limits,
        before: was.side,
        after: is.side,
    }
}

/// A document summed up.
struct Sums {
    side: Side,
    limits: LimitSeconds,
    /// Whether transfers are requests.
    requests: bool,
}

impl Sums {
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of connections and bytes, far below 2^52"
    )]
    fn of(document: &Document) -> Self {
        let mut limits = LimitSeconds::new();
        let mut bytes = 0_u64;
        let mut times = Vec::new();
        let carrying = || document.connections.iter().filter(|one| payload(one) > 0);
        for connection in carrying() {
            bytes = bytes.saturating_add(payload(connection));
            for (name, seconds) in limits_of(connection) {
                *limits.entry(*name).or_default() += seconds;
            }
            let transfers = connection.transfers.iter();
            times.extend(transfers.filter_map(|one| one.with_handshake_s.or(one.complete_s)));
        }
        let seen: usize = carrying().map(|one| one.transfers.len()).sum();
        let requests = seen > 0;
        if !requests {
            times.extend(carrying().map(|one| one.duration_s));
        }
        let transfers = if requests { seen } else { carrying().count() };
        let each = transfers.max(1) as f64;
        times.sort_by(f64::total_cmp);
        Self {
            side: Side {
                files: document
                    .captures
                    .iter()
                    .map(|capture| capture.file.clone())
                    .collect(),
                connections: document.connections.len() as u64,
                transfers: transfers as u64,
                bytes: bytes as f64 / each,
                median_s: middle(&times),
                seconds: limits.values().sum::<f64>() / each,
            },
            limits,
            requests,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
    fn per_transfer(&self, name: LimitName) -> f64 {
        let seconds = self.limits.get(&name).copied().unwrap_or_default();
        seconds / self.side.transfers.max(1) as f64
    }
}

fn caveats(before: &Sums, after: &Sums) -> Vec<String> {
    let mut caveats = Vec::new();
    for (which, sums) in [("before", before), ("after", after)] {
        if sums.side.transfers == 0 {
            caveats.push(format!("the capture {which} holds no transfer"));
        }
    }
    if before.requests != after.requests {
        let text = "one capture shows requests, the other only connections: times per transfer are not alike";
        caveats.push(text.to_owned());
    }
    let (low, high) = (
        before.side.bytes.min(after.side.bytes),
        before.side.bytes.max(after.side.bytes),
    );
    if low > 0.0 && high > LIKE_SIZES * low {
        caveats.push(format!(
            "the transfers differ in size: {:.0} B each before, {:.0} B after",
            before.side.bytes, after.side.bytes
        ));
    }
    caveats
}

fn names(document: &Document) -> BTreeSet<String> {
    let findings = document.findings.iter();
    findings.map(|finding| finding.name.clone()).collect()
}

const fn payload(connection: &Connection) -> u64 {
    let directions = &connection.directions;
    directions
        .client_to_server
        .bytes
        .saturating_add(directions.server_to_client.bytes)
}

/// The limits of the direction that carries the data.
const fn limits_of(connection: &Connection) -> &LimitSeconds {
    let directions = &connection.directions;
    if directions.server_to_client.bytes > directions.client_to_server.bytes {
        &directions.server_to_client.limits
    } else {
        &directions.client_to_server.limits
    }
}

/// The median of sorted values.
fn middle(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::explain::{Close, Direction, Directions, Endpoint, Negotiated, Rtt, Transfer};

    fn connection(slow_start_s: f64, bytes: u64, transfers: usize) -> Connection {
        let limits = LimitSeconds::from([
            (LimitName::SlowStart, slow_start_s),
            (LimitName::Propagation, 0.2),
        ]);
        let transfer = Transfer {
            complete_s: Some(slow_start_s + 0.2),
            ..Transfer::default()
        };
        Connection {
            id: 1,
            client: Endpoint::default(),
            server: Endpoint::default(),
            start_s: 0.0,
            duration_s: slow_start_s + 0.2,
            rtt: Rtt::default(),
            negotiated: Negotiated::default(),
            vantage: "client".to_owned(),
            vantage_confidence: None,
            directions: Directions {
                client_to_server: Direction {
                    bytes,
                    limits,
                    ..Direction::default()
                },
                server_to_client: Direction::default(),
            },
            tls: None,
            ssh: None,
            transfers: vec![transfer; transfers],
            close: Close::default(),
            icmp: Vec::new(),
            caveats: Vec::new(),
            series: None,
        }
    }

    fn document(connections: Vec<Connection>) -> Document {
        Document {
            schema: "longhaul.explain".to_owned(),
            version: record::VERSION,
            manifest: record::Manifest::default(),
            captures: Vec::new(),
            connections,
            census: record::explain::Census::default(),
            echoes: Vec::new(),
            findings: Vec::new(),
            explained: None,
            servers: Vec::new(),
            pairs: Vec::new(),
        }
    }

    #[test]
    fn changes_are_counted_per_transfer_and_the_largest_comes_first() {
        let before = document(vec![
            connection(0.8, 100_000, 1),
            connection(0.8, 100_000, 1),
        ]);
        let after = document(vec![connection(0.1, 100_000, 1)]);
        let change = change(&before, &after);
        assert_eq!(change.limits[0].name, LimitName::SlowStart);
        assert!((change.limits[0].change_s + 0.7).abs() < 1e-12);
        assert_eq!(change.before.transfers, 2);
        assert!((change.before.median_s.unwrap() - 1.0).abs() < 1e-12);
        assert!(change.caveats.is_empty(), "{:?}", change.caveats);
        // Propagation has not changed, but it is there.
        assert!(change.limits[1].change_s.abs() < 1e-12);
    }

    #[test]
    fn unlike_transfers_are_said_to_be_unlike() {
        let before = document(vec![connection(0.8, 100_000, 1)]);
        let after = document(vec![connection(0.1, 1_000_000, 0)]);
        let caveats = change(&before, &after).caveats;
        assert_eq!(caveats.len(), 2, "{caveats:?}");
        let empty = change(&before, &document(Vec::new())).caveats;
        assert!(empty[0].contains("after holds no transfer"), "{empty:?}");
    }
}
