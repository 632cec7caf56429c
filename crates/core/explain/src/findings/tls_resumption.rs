//! Full TLS handshakes with a server that this client had spoken to before.

use core::time::Duration;
use std::collections::BTreeMap;

use connections::{Endpoint, Side};
use record::explain::Confidence;
use tuning::remedies::Cause;

use super::{CatalogueEntry, Found, Judged, Need, frame, severity_of};
use crate::analysis::Analysed;
use crate::text::{count, duration};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "tls-no-resumption",
    meaning: "A client goes through full TLS handshakes with a server again and again: certificates, \
              signatures, and before TLS 1.3 a round trip more than a resumed session takes.",
    source: "RFC 8446 §2.2 (resumption), RFC 5077 (tickets before TLS 1.3)",
};

/// A client and what it calls the server: tickets are kept by name.
type Peers<'a> = (&'a str, &'a Endpoint, Option<&'a str>);

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    let mut groups: BTreeMap<Peers<'_>, Vec<&Analysed>> = BTreeMap::new();
    for analysed in connections {
        let connection = &analysed.connection;
        if let Some(tls) = &connection.tls {
            let peers = (
                connection.client.host.as_str(),
                &connection.server,
                tls.server_name.as_deref(),
            );
            groups.entry(peers).or_default().push(analysed);
        }
    }
    groups
        .into_values()
        .filter_map(|group| judge(&group))
        .map(|found| found.into_finding(&ENTRY))
        .collect()
}

fn judge(group: &[&Analysed]) -> Option<Found> {
    let (mut ids, mut evidence) = (Vec::new(), Vec::new());
    let (mut lost, mut total) = (Duration::ZERO, Duration::ZERO);
    for analysed in group {
        let tls = analysed.connection.tls.as_ref()?;
        let (Some(false), Some(done)) = (tls.resumed, tls.done) else {
            continue;
        };
        // Tickets come behind the handshake: one that was over by then could have been resumed.
        let known = group.iter().any(|other| {
            let before = other.connection.tls.as_ref().and_then(|tls| tls.first_data);
            before.is_some_and(|mark| mark.at < tls.client_hello.at)
        });
        if !known {
            continue;
        }
        let took = done.at.since(tls.client_hello.at);
        let rtt = analysed.connection.base_rtt().unwrap_or_default();
        ids.push(analysed.id);
        // Resumed, either version takes a round trip.
        lost += took.saturating_sub(rtt);
        total += analysed.connection.duration();
        evidence.push(frame(
            tls.client_hello,
            format!(
                "connection {}: a full handshake of {} begins, although a session was known",
                analysed.id,
                duration(took)
            ),
        ));
    }
    if ids.is_empty() {
        return None;
    }
    let server = &group.first()?.connection.server;
    Some(Found {
        severity: severity_of(lost, total),
        confidence: Confidence::Medium,
        summary: format!(
            "{} of {} to {server} repeat the full TLS handshake, {} beyond a round trip each",
            ids.len(),
            count(group.len(), "TLS connection"),
            duration(lost)
        ),
        connections: ids,
        evidence,
        lost: Some(lost),
        remedy: "Let the client keep its session cache (one TLS context for all connections), and the server \
                 its tickets: switched on, with the same keys on every instance behind one name. Connections \
                 that stay open need neither."
            .into(),
        predicted: Vec::new(),
        needs: vec![Need::new(Cause::TlsResumption, Side::Server)],
    })
}
