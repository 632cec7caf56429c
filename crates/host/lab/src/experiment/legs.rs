//! What held each hop of the payload back, from captures at its sender.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use capture::Capture;
use record::LimitSeconds;
use record::explain::{Connection, Direction, Document};
use record::lab;

use crate::bench::{Lasts, Leg, LegCapture};

/// All captures of a leg in one cell.
#[derive(Clone, Debug)]
pub(super) struct LegCaptures {
    pub(super) leg: Leg,
    pub(super) lasts: Lasts,
    /// In the order in which they were made.
    pub(super) files: Vec<PathBuf>,
}

// === impl LegCaptures ===

impl LegCaptures {
    /// Adds a capture to the others of its leg.
    pub(super) fn add(all: &mut Vec<Self>, capture: LegCapture) {
        let LegCapture { leg, file, lasts } = capture;
        match all.iter_mut().find(|one| one.leg == leg) {
            Some(known) if known.files.contains(&file) => {}
            Some(known) => known.files.push(file),
            None => all.push(Self {
                leg,
                lasts,
                files: vec![file],
            }),
        }
    }

    /// Mean seconds per limit and transfer; `document` explains the captures. Of blocks' captures all counts,
    /// `transfers` in number; of one that lasts the whole run only what lies within `moments`, in seconds since
    /// 1970, of one transfer each.
    pub(super) fn limits(
        &self,
        document: &Document,
        transfers: usize,
        moments: &[(f64, f64)],
    ) -> lab::Leg {
        let mut limits = LimitSeconds::new();
        let began_s = match self.lasts {
            Lasts::Block => None,
            Lasts::Run => self.files.first().and_then(|file| first_packet_s(file)),
        };
        for connection in self.leg.connections(document) {
            let direction = self.leg.direction(connection);
            match (self.lasts, began_s) {
                (Lasts::Block, _) => {
                    for (name, seconds) in &direction.limits {
                        *limits.entry(*name).or_default() += seconds;
                    }
                }
                (Lasts::Run, None) => {}
                (Lasts::Run, Some(began_s)) => {
                    let opened_s = began_s + connection.start_s;
                    within(direction, opened_s, moments, &mut limits);
                }
            }
        }
        let transfers = match self.lasts {
            Lasts::Block => transfers,
            Lasts::Run => moments.len(),
        };
        #[expect(clippy::cast_precision_loss, reason = "a count of transfers")]
        let count = transfers.max(1) as f64;
        for seconds in limits.values_mut() {
            *seconds /= count;
        }
        lab::Leg {
            from: self.leg.from.clone(),
            to: self.leg.to.clone(),
            crosses_wan: self.leg.crosses_wan,
            limits,
        }
    }
}

/// Adds what of a connection's time, opened at `opened_s`, lies within `moments`.
fn within(direction: &Direction, opened_s: f64, moments: &[(f64, f64)], limits: &mut LimitSeconds) {
    for (from_s, to_s, name) in &direction.limit_spans {
        let (from_s, to_s) = (opened_s + from_s, opened_s + to_s);
        let common = moments.iter().map(|(begin_s, end_s)| {
            let common = to_s.min(*end_s) - from_s.max(*begin_s);
            common.max(0.0)
        });
        let seconds: f64 = common.sum();
        if seconds > 0.0 {
            *limits.entry(*name).or_default() += seconds;
        }
    }
}

/// From when on `explain` counts the seconds of a capture, in seconds since 1970: its first packet of a
/// connection, whatever neighbours asked one another before. `None` where there is none.
fn first_packet_s(file: &Path) -> Option<f64> {
    const CHUNK: usize = 64 * 1024;
    let mut file = File::open(file).ok()?;
    let mut capture = Capture::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = file.read(&mut chunk).ok().filter(|length| *length > 0)?;
        capture.feed(&chunk[..length]);
        while let Some(observation) = capture.next_observation().ok()? {
            if let Some(at) = observation.at() {
                return Some(at.as_secs_f64());
            }
        }
    }
}

// === impl Leg ===

impl Leg {
    /// Its connections, of all that a capture holds.
    pub(super) fn connections<'a>(
        &'a self,
        document: &'a Document,
    ) -> impl Iterator<Item = &'a Connection> {
        let connections = document.connections.iter();
        connections.filter(|connection| self.has(connection))
    }

    /// Whether a connection is between its hosts.
    pub(super) fn has(&self, connection: &Connection) -> bool {
        connection.client.host.parse() == Ok(self.client)
            && connection.server.host.parse() == Ok(self.server)
    }

    fn direction<'a>(&self, connection: &'a Connection) -> &'a Direction {
        if self.upwards {
            &connection.directions.client_to_server
        } else {
            &connection.directions.server_to_client
        }
    }
}

#[cfg(test)]
mod tests {
    use record::LimitName;

    use super::*;

    #[test]
    fn only_what_lies_within_a_transfer_counts() {
        let direction = Direction {
            limit_spans: vec![
                (0.0, 1.0, LimitName::SlowStart),
                (1.0, 9.0, LimitName::Application),
                (9.0, 10.0, LimitName::Bottleneck),
            ],
            ..Direction::default()
        };
        let mut limits = LimitSeconds::new();
        // Opened at 100: half of slow start, a second of waiting, nothing at the bottleneck.
        let moments = [(100.5, 101.5), (103.0, 103.5), (120.0, 130.0)];
        within(&direction, 100.0, &moments, &mut limits);
        let expected = [(LimitName::SlowStart, 0.5), (LimitName::Application, 1.0)];
        assert_eq!(limits, expected.into());
    }

    #[test]
    fn captures_of_a_leg_are_kept_together_and_once() {
        let leg = |upwards| Leg {
            from: "client".to_owned(),
            to: "origin".to_owned(),
            crosses_wan: true,
            upwards,
            client: [10, 10, 0, 10].into(),
            server: [192, 0, 2, 10].into(),
        };
        let mut all = Vec::new();
        for (upwards, file) in [(true, "a"), (true, "a"), (false, "a"), (true, "b")] {
            let capture = LegCapture {
                leg: leg(upwards),
                file: file.into(),
                lasts: Lasts::Block,
            };
            LegCaptures::add(&mut all, capture);
        }
        let files: Vec<usize> = all.iter().map(|leg| leg.files.len()).collect();
        assert_eq!(files, [2, 1]);
    }
}
