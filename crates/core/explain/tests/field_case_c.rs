//! Field case C: uploads over 200.4 ms, as `tcpdump` printed them. The report is read as it stands.

#[path = "support/field.rs"]
mod field;

use longhaul_explain::{Options, explain};
use record::LimitName;
use record::explain::{Capture, Connection, Document};

const PING: usize = 0;
const ONE_KIB: usize = 1;
const UNSHARED: usize = 2;
const SHARED: usize = 3;

fn document(nth: usize) -> Option<Document> {
    let report = field::report()?;
    let tracked = field::track(&field::trace(&report, nth));
    let captures = vec![Capture {
        file: "trace".into(),
        ..Capture::default()
    }];
    let document = explain(
        &tracked,
        Options {
            captures,
            ..Options::default()
        },
    );
    for connection in &document.connections {
        assert_sums(connection);
    }
    Some(document)
}

fn assert_sums(connection: &Connection) {
    for direction in [
        &connection.directions.client_to_server,
        &connection.directions.server_to_client,
    ] {
        let sum: f64 = direction.limits.values().sum();
        assert!(
            (sum - connection.duration_s).abs() < 1e-9,
            "{sum} is not {}",
            connection.duration_s
        );
    }
}

fn finding<'a>(document: &'a Document, name: &str) -> Option<&'a record::explain::Finding> {
    document
        .findings
        .iter()
        .find(|finding| finding.name == name)
}

#[track_caller]
fn assert_ms(seconds: Option<f64>, expected_ms: f64, within_ms: f64) {
    let ms = seconds.expect("a value") * 1e3;
    assert!(
        (ms - expected_ms).abs() <= within_ms,
        "{ms} ms is not {expected_ms} +- {within_ms} ms"
    );
}

#[test]
fn pings_give_an_rtt_without_tcp_and_dns_is_tolerated() {
    let Some(document) = document(PING) else {
        return;
    };
    let [echo] = document.echoes.as_slice() else {
        panic!("{:?}", document.echoes)
    };
    assert_eq!(
        (echo.from.as_str(), echo.to.as_str()),
        ("domain1", "x.x.x.x1")
    );
    assert_eq!((echo.requests, echo.replies), (4, 4));
    assert_ms(echo.rtt.median_s, 200.4, 0.05);
    assert!(document.connections.is_empty());
}

#[test]
fn the_complete_upload_of_one_kib_is_explained_to_the_millisecond() {
    let Some(document) = document(ONE_KIB) else {
        return;
    };
    let [connection] = document.connections.as_slice() else {
        panic!("{} connections", document.connections.len())
    };
    assert_ms(connection.rtt.handshake_s, 200.4, 0.05);
    assert_eq!(connection.vantage, "client");
    let up = &connection.directions.client_to_server;
    assert_eq!(up.bytes, 1745);
    assert_eq!(up.retransmissions, 0);
    assert_ms(up.limits.get(&LimitName::Handshake).copied(), 200.4, 0.1);
    // From the last byte to its ACK.
    assert_ms(up.limits.get(&LimitName::Propagation).copied(), 200.3, 0.2);
    // The server took three milliseconds, the client two until its FIN.
    assert_ms(up.limits.get(&LimitName::Application).copied(), 4.8, 0.3);
    assert_ms(up.limits.get(&LimitName::Closing).copied(), 200.4, 0.2);
    assert_eq!(up.limits.get(&LimitName::Unknown), None);
    let [transfer] = connection.transfers.as_slice() else {
        panic!("{:?}", connection.transfers)
    };
    assert_eq!(transfer.request, "POST /upload/files");
    assert_eq!(transfer.status, Some(200));
    assert_eq!(
        (transfer.request_bytes, transfer.response_bytes),
        (1745, 214)
    );
    assert_ms(transfer.server_s, 3.0, 0.1);
    assert_ms(transfer.with_handshake_s, 403.9, 0.1);
    assert_eq!(connection.close.how, "fin");
    assert_eq!(connection.close.first.as_deref(), Some("client"));
    assert_eq!(connection.close.close_wait.as_deref(), Some("server"));
    // One segment of 1454 bytes was cut in two by the network card; nothing else is amiss.
    let artefact = finding(&document, "capture-artefact").expect("an offload-sized segment");
    assert!(
        artefact.summary.contains("segmentation offload"),
        "{}",
        artefact.summary
    );
    assert_eq!(document.findings.len(), 1, "{:?}", document.findings);
    assert!(
        finding(&document, "no-connection-reuse").is_none(),
        "one connection is no habit"
    );
}

#[test]
fn five_unshared_uploads_are_connections_without_reuse() {
    let Some(document) = document(UNSHARED) else {
        return;
    };
    assert_eq!(document.connections.len(), 5);
    for connection in &document.connections {
        assert_ms(connection.rtt.handshake_s, 201.1, 0.15);
        // One server FIN echoes another connection's timestamp; nothing may take 1.2 s from it.
        assert_ms(connection.rtt.max_s, 201.1, 0.3);
        let up = &connection.directions.client_to_server;
        assert_eq!(up.bytes, 103_123);
        let [transfer] = connection.transfers.as_slice() else {
            panic!("one request each")
        };
        assert_eq!(transfer.request_bytes, 103_123);
        assert_ms(transfer.with_handshake_s, 1012.5, 6.0);
        assert_ms(transfer.server_s, 6.0, 4.0);
        assert_eq!(connection.close.first.as_deref(), Some("client"));
        assert_eq!(connection.close.close_wait.as_deref(), Some("server"));
        // What the filter took away cannot be known, and only that.
        let unknown = up.limits[&LimitName::Unknown];
        assert!((0.58..0.65).contains(&unknown), "{unknown}");
        assert!(
            up.unknown_because
                .as_deref()
                .is_some_and(|why| why.contains("bare ACKs"))
        );
        assert_eq!(up.initial_window_segments, None);
        assert_eq!(
            up.retransmissions, 0,
            "a jump over filtered segments is no loss"
        );
        assert!(
            connection
                .caveats
                .iter()
                .any(|caveat| caveat.contains("SYN, PSH, FIN or RST"))
        );
    }
    let artefacts = document.findings.iter();
    assert!(
        artefacts
            .filter(|finding| finding.name == "capture-artefact")
            .any(|finding| finding.summary.contains("the capture was filtered"))
    );
    let reuse = finding(&document, "no-connection-reuse").expect("the field's finding");
    assert_eq!(reuse.connections, [1, 2, 3, 4, 5]);
    // Five times about 1013 - (201 + 6) ms.
    assert!(
        (3.9..4.1).contains(&reuse.lost_s.unwrap()),
        "{:?}",
        reuse.lost_s
    );
    assert!(reuse.remedy.contains("longhaul relay http"));
    assert!(!reuse.evidence.is_empty());
    let [hot] = reuse.predicted.as_slice() else {
        panic!("{:?}", reuse.predicted)
    };
    assert_eq!(
        (hot.remedy.as_str(), hot.bytes, hot.transfers),
        ("hot-pool", 103_123, 5)
    );
    assert_ms(Some(hot.predicted_s), 207.0, 6.0);
    assert!(
        hot.derivation.contains("does not show the path's rate"),
        "{}",
        hot.derivation
    );
}

#[test]
fn five_shared_uploads_are_one_connection_with_growing_windows() {
    let Some(document) = document(SHARED) else {
        return;
    };
    let [connection] = document.connections.as_slice() else {
        panic!("{} connections", document.connections.len())
    };
    assert_ms(connection.rtt.handshake_s, 201.2, 0.05);
    assert_ms(connection.rtt.max_s, 201.2, 0.3);
    assert!(
        finding(&document, "no-connection-reuse").is_none(),
        "it is reused"
    );
    let up = &connection.directions.client_to_server;
    assert_eq!(up.bytes, 515_615);
    assert_eq!(
        (up.receive_window_min, up.receive_window_max),
        (Some(442 * 128), Some(5197 * 128))
    );
    let transfers = &connection.transfers;
    assert_eq!(transfers.len(), 5);
    assert!(
        transfers
            .iter()
            .all(|transfer| transfer.request_bytes == 103_123)
    );
    assert_ms(transfers[0].with_handshake_s, 1011.8, 0.1);
    for (transfer, expected_ms) in transfers[1..].iter().zip([434.5, 265.3, 249.7, 249.6]) {
        assert_ms(transfer.complete_s, expected_ms, 0.1);
        assert_eq!(transfer.with_handshake_s, None);
    }
    assert_eq!(connection.close.close_wait.as_deref(), Some("server"));
    assert!(up.unknown_because.is_some());
}
