//! What the wire shows of an external command: its own clock includes starting the program.

use record::explain::{Connection, Document, Transfer as OnWire};

use comparison::Transfer;

/// `transfer` with the seconds from the first SYN (or, on a connection whose SYN is not in the capture,
/// the first request) to the last byte of the last response. Everything that a command asks of the origin
/// counts: parts of a multipart upload, and a question before it.
///
/// `document` explains a capture of this command alone.
pub(super) fn timed(transfer: Transfer, document: &Document) -> Transfer {
    if transfer.failure.is_some() {
        return transfer;
    }
    let answered = || {
        document.connections.iter().flat_map(|connection| {
            let of_connection = connection.transfers.iter();
            of_connection.filter_map(move |on_wire| span(connection, on_wire))
        })
    };
    let from = answered().map(|(from, _)| from).min_by(f64::total_cmp);
    let to = answered().map(|(_, to)| to).max_by(f64::total_cmp);
    match (from, to) {
        (Some(from), Some(to)) => Transfer {
            seconds: to - from,
            ..transfer
        },
        _ => Transfer {
            failure: Some("its capture shows no request that was answered".to_owned()),
            ..transfer
        },
    }
}

/// From where to where on the capture's clock a request and its response reach.
fn span(connection: &Connection, on_wire: &OnWire) -> Option<(f64, f64)> {
    let to = on_wire.start_s + on_wire.complete_s?;
    let from = match on_wire.with_handshake_s {
        Some(seconds) => to - seconds,
        None => connection.start_s.max(on_wire.start_s),
    };
    Some((from, to))
}

#[cfg(test)]
mod tests {
    use record::Manifest;
    use record::explain::{Close, Direction, Directions, Endpoint, Negotiated, Rtt};

    use super::*;

    fn measured() -> Transfer {
        Transfer {
            position: 3,
            seconds: 2.5,
            ..Transfer::default()
        }
    }

    fn connection(transfers: Vec<OnWire>) -> Connection {
        Connection {
            id: 1,
            client: Endpoint::default(),
            server: Endpoint::default(),
            start_s: 0.25,
            duration_s: 3.0,
            rtt: Rtt::default(),
            negotiated: Negotiated::default(),
            vantage: "client".to_owned(),
            vantage_confidence: None,
            directions: Directions {
                client_to_server: Direction::default(),
                server_to_client: Direction::default(),
            },
            tls: None,
            ssh: None,
            transfers,
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
            manifest: Manifest::default(),
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

    fn on_wire(start_s: f64, complete_s: Option<f64>, with_handshake_s: Option<f64>) -> OnWire {
        OnWire {
            start_s,
            complete_s,
            with_handshake_s,
            ..OnWire::default()
        }
    }

    #[test]
    fn the_wire_s_seconds_replace_the_program_s() {
        let transfers = vec![on_wire(1.0, Some(0.5), Some(0.7))];
        let timed = timed(measured(), &document(vec![connection(transfers)]));
        assert!((timed.seconds - 0.7).abs() < 1e-9, "{timed:?}");
        assert_eq!((timed.position, timed.failure), (3, None));
    }

    #[test]
    fn parts_on_several_connections_are_one_upload() {
        let first = vec![
            on_wire(1.0, Some(0.2), Some(0.3)),
            on_wire(1.3, Some(0.2), None),
        ];
        let second = vec![on_wire(1.4, Some(0.6), Some(0.8))];
        let document = document(vec![connection(first), connection(second)]);
        // From the first SYN at 0.9 s to the last response at 2.0 s.
        assert!((timed(measured(), &document).seconds - 1.1).abs() < 1e-9);
    }

    #[test]
    fn silence_on_the_wire_is_a_failure_and_not_the_program_s_time() {
        let unanswered = vec![on_wire(1.0, None, None)];
        for document in [document(Vec::new()), document(vec![connection(unanswered)])] {
            let timed = timed(measured(), &document);
            assert!(timed.failure.is_some(), "{timed:?}");
        }
    }
}
