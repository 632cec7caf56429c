//! TLS set-up that takes more than one round trip.

use core::time::Duration;

use connections::Side;
use record::explain::{Confidence, Evidence};
use tuning::remedies::Cause;
use wire::tls::Version;

use super::{CatalogueEntry, Found, Judged, Need, frame, severity_of};
use crate::analysis::Analysed;
use crate::text::{count, duration};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "tls-extra-round-trips",
    meaning: "TLS set-up takes more than one round trip: an older version, or a server that asks for another \
              key share.",
    source: "RFC 8446 §2 (one round trip), §4.1.4 (Hello Retry Request); RFC 5246 §7.3 (two)",
};

/// Below this nobody waits for a round trip.
const NEGLIGIBLE: Duration = Duration::from_millis(1);

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    let (mut ids, mut evidence): (Vec<u32>, Vec<Evidence>) = (Vec::new(), Vec::new());
    let (mut lost, mut total) = (Duration::ZERO, Duration::ZERO);
    let (mut older, mut asked_again) = (0_usize, 0_usize);
    for analysed in connections {
        let connection = &analysed.connection;
        let Some(tls) = &connection.tls else { continue };
        let (Some(done), Some(rtt)) = (tls.done, connection.base_rtt()) else {
            continue;
        };
        if tls.round_trips < 2 || rtt < NEGLIGIBLE {
            continue;
        }
        ids.push(analysed.id);
        let took = done.at.since(tls.client_hello.at);
        lost += (rtt * (tls.round_trips - 1)).min(took);
        total += connection.duration();
        asked_again += usize::from(tls.retry);
        older += usize::from(
            tls.version
                .is_some_and(|version| version < Version::TLS_1_3),
        );
        let version = tls
            .version
            .map_or_else(|| "TLS".to_owned(), |version| version.to_string());
        evidence.push(frame(
            tls.client_hello,
            format!("connection {}: Client Hello", analysed.id),
        ));
        evidence.push(frame(
            done,
            format!(
                "{version} is set up {} later, after {} of {}",
                duration(took),
                count(
                    usize::try_from(tls.round_trips).unwrap_or(usize::MAX),
                    "round trip"
                ),
                duration(rtt)
            ),
        ));
    }
    if ids.is_empty() {
        return Vec::new();
    }
    let mut remedies = Vec::new();
    if older > 0 {
        remedies.push("Let both ends agree on TLS 1.3, which takes one round trip.");
    }
    if asked_again > 0 {
        remedies.push(
            "Let the server accept a group for which clients send a key in their first hello (X25519, \
             X25519MLKEM768), or let the client offer the server's group first.",
        );
    }
    remedies.push(
        "Connections that stay open pay none of this; `longhaul relay tls` keeps them to the far end.",
    );
    let found = Found {
        severity: severity_of(lost, total),
        confidence: Confidence::High,
        summary: format!(
            "{} took more than one round trip to set up TLS ({older} with a version before 1.3, \
             {asked_again} with a second hello), {} more than one each",
            count(ids.len(), "connection"),
            duration(lost)
        ),
        connections: ids,
        evidence,
        lost: Some(lost),
        remedy: remedies.join(" "),
        predicted: Vec::new(),
        needs: vec![Need::new(Cause::TlsRoundTrips, Side::Server)],
    };
    vec![found.into_finding(&ENTRY)]
}
