//! What is answered to the page.

use std::cmp::Reverse;

use dash::Question;
use record::page::{Connections, History, Overview, Sort, VERSION};

use super::connection::Connection;
use super::{State, Watch};

impl Watch {
    /// The part of an overview that is known here: times, traffic, alerts.
    pub(crate) fn overview(&self) -> Overview {
        let at_s = self.now().as_secs_f64();
        let state = self.state();
        Overview {
            schema: "longhaul.page".into(),
            version: VERSION,
            longhaul: concat!("longhaul ", env!("CARGO_PKG_VERSION")).into(),
            host: crate::host::name(),
            started_unix_s: self.started_unix_s,
            at_s,
            interval_s: state.interval.map(|interval| interval.as_secs_f64()),
            traffic: state.traffic.moments(),
            alerts: state.alerts.list(),
            ..Overview::default()
        }
    }

    pub(crate) fn connections(&self, question: &Question) -> Connections {
        let at_s = self.now().as_secs_f64();
        let state = self.state();
        let mut matching: Vec<(u64, &Connection)> = state.candidates(question.ended);
        matching.retain(|(_, connection)| is_asked_for(connection, question));
        sort(&mut matching, question);
        let shown = matching.iter().skip(question.from).take(question.count);
        Connections {
            at_s,
            open: count(state.open.len()),
            ended: count(state.ended.len()),
            matching: count(matching.len()),
            limits: state.census(),
            sort: question.sort,
            shown: shown.map(|(id, connection)| connection.row(*id)).collect(),
        }
    }

    pub(crate) fn history(&self, id: u64) -> Option<History> {
        let now = self.now();
        let state = self.state();
        let over = || state.ended.iter().find(|(ended, _)| *ended == id);
        let connection = state
            .open
            .get(&id)
            .or_else(|| over().map(|(_, connection)| connection))?;
        Some(connection.history(id, now))
    }
}

impl State {
    fn candidates(&self, ended: bool) -> Vec<(u64, &Connection)> {
        if ended {
            // Whatever it is sorted by, of equal ones the newest comes first.
            let newest_first = self.ended.iter().rev();
            newest_first
                .map(|(id, connection)| (*id, connection))
                .collect()
        } else {
            self.open
                .iter()
                .map(|(id, connection)| (*id, connection))
                .collect()
        }
    }
}

fn is_asked_for(connection: &Connection, question: &Question) -> bool {
    let found = question
        .find
        .as_ref()
        .is_none_or(|part| connection.is_found_by(part));
    let held = question
        .limit
        .is_none_or(|limit| connection.limits().any(|now| now == limit));
    found && held
}

/// The most remarkable first; of equal ones, which there are many, the order stays.
fn sort(connections: &mut [(u64, &Connection)], question: &Question) {
    // Of numbers that are not negative, larger ones have larger bits.
    connections.sort_by_cached_key(|(_, one)| {
        Reverse(match question.sort {
            Sort::Goodput => one.goodput_bps().to_bits(),
            Sort::Held => one.held().to_bits(),
            Sort::Bytes => one.bytes(),
            Sort::Rtt => one.rtt().as_secs_f64().to_bits(),
            Sort::Retransmissions => one.retransmissions(),
            // Those that were opened first are the oldest.
            Sort::Age => u64::MAX - one.opened().as_secs_f64().to_bits(),
        })
    });
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
