//! Limits in the order in which people should read them, and in words.

use record::explain::{Connection, Document};
use record::{LimitName, LimitSeconds};

/// One limit's part of some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) name: LimitName,
    pub(crate) seconds: f64,
    /// Of all time.
    pub(crate) share: f64,
}

/// The parts that are there, largest first; equal ones by precedence.
pub(crate) fn by_size(limits: &LimitSeconds) -> Vec<Part> {
    let mut parts = in_order(limits);
    parts.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    parts
}

/// The parts that are there, by precedence: an order that stays the same from arm to arm.
pub(crate) fn in_order(limits: &LimitSeconds) -> Vec<Part> {
    let all: f64 = limits.values().sum();
    LimitName::ALL
        .into_iter()
        .filter_map(|name| Some((name, *limits.get(&name)?)))
        .filter(|(_, seconds)| *seconds > 0.0)
        .map(|(name, seconds)| Part {
            name,
            seconds,
            share: seconds / all,
        })
        .collect()
}

/// The limits of the direction that carries the data.
pub(crate) fn of(connection: &Connection) -> &LimitSeconds {
    let (up, down) = (
        &connection.directions.client_to_server,
        &connection.directions.server_to_client,
    );
    if down.bytes > up.bytes {
        &down.limits
    } else {
        &up.limits
    }
}

/// Seconds per limit over all connections, each in the direction that carries its data.
pub(crate) fn total(document: &Document) -> LimitSeconds {
    let mut total = LimitSeconds::new();
    for connection in &document.connections {
        for (name, seconds) in of(connection) {
            *total.entry(*name).or_insert(0.0) += seconds;
        }
    }
    total
}

/// What a limit means, in a few words for a legend.
pub(crate) const fn meaning(name: LimitName) -> &'static str {
    match name {
        LimitName::Handshake => "TCP connection set-up",
        LimitName::Closing => "the exchange of FIN or RST",
        LimitName::TlsHandshake => "TLS set-up",
        LimitName::LossRecovery => "lost segments are repaired",
        LimitName::ReceiveWindow => "the receiver's window is full",
        LimitName::Policer => "a policer drops what exceeds its rate",
        LimitName::Bottleneck => "the path's capacity is used",
        LimitName::SlowStart => "the congestion window still grows from its start",
        LimitName::LossLimited => "losses keep the congestion window small",
        LimitName::CongestionAvoidance => "the congestion window grows linearly",
        LimitName::SendBuffer => "the sender's socket buffer is full",
        LimitName::NagleDelayedAck => "a short segment waits for a delayed ACK",
        LimitName::Propagation => "all data is on its way",
        LimitName::Application => "the application has nothing to send",
        LimitName::Unknown => "the capture does not tell",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_part_comes_first_and_zero_is_left_out() {
        let limits = LimitSeconds::from([
            (LimitName::Handshake, 0.2),
            (LimitName::SlowStart, 0.6),
            (LimitName::Application, 0.0),
            (LimitName::Propagation, 0.2),
        ]);
        let names: Vec<LimitName> = by_size(&limits).iter().map(|part| part.name).collect();
        assert_eq!(
            names,
            [
                LimitName::SlowStart,
                LimitName::Handshake,
                LimitName::Propagation
            ]
        );
        assert!((by_size(&limits)[0].share - 0.6).abs() < 1e-12);
    }
}
