//! What has happened on the trunks of a process, counted from their events: for metrics, and for the question why
//! last night's backup was slow.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use record::LimitSeconds;
use serde::Serialize;

use super::event::{StreamDone, TrunkEvent};
use crate::event::Event;

/// Receipts that are kept, the newest; at about 700 bytes each.
const RECEIPTS: usize = 1_000;

/// Of older ones, those that are kept of each hour: the longest streams, and as many of those that carried most. Thousands
/// of short streams since do not make anybody forget last night's backup.
const LONGEST: usize = 16;

/// For how many hours: as long as there are samples.
const HOURS: u64 = SAMPLES as u64 / 60;

/// Samples that are kept per trunk: two days of minutes, at about 250 bytes each.
const SAMPLES: usize = 2 * 24 * 60;

/// Trunks with a history: lines of near ends and far ends, whose names come from the configuration.
const TRUNKS: usize = 256;

/// What a process remembers of its trunks.
#[derive(Debug, Default)]
pub(super) struct Account {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    counts: BTreeMap<String, Counts>,
    history: BTreeMap<String, VecDeque<Sample>>,
    receipts: VecDeque<Receipt>,
    /// By the hour since 1970 in which their streams ended.
    remarkable: BTreeMap<u64, Vec<Receipt>>,
}

/// Counters of one trunk.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// By who ended them and why.
    pub(super) streams: BTreeMap<(&'static str, &'static str), u64>,
    pub(super) wan_connected: u64,
    pub(super) wan_lost: u64,
    pub(super) wan_unreachable: u64,
    pub(super) sessions_ended: u64,
    pub(super) integrity_alarms: u64,
    pub(super) modest: u64,
}

/// A trunk over one span of its history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// When the span ended, in seconds since 1970.
    pub at_unix_s: u64,
    /// How long it was.
    pub seconds: f64,
    /// Whether a connection had joined and was not stalled at its end.
    pub up: bool,
    /// Streams that were open at its end.
    pub streams: usize,
    /// WAN connections at its end.
    pub connections: usize,
    /// Payload from this end that the other acknowledged, per second.
    pub sent_bps: u64,
    /// Payload that came from the other end, per second.
    pub received_bps: u64,
    /// The longest smoothed round trip of a connection at its end.
    pub rtt_s: Option<f64>,
    /// Bytes on WAN connections that the kernel sent again.
    pub retransmitted_bytes: u64,
    /// Payload that went out again because a connection stalled or died.
    pub repeated_bytes: u64,
    /// Whether the trunk made room for others at its end.
    pub modest: bool,
    /// What held streams' sending back at this end; two streams' seconds in one second are two.
    pub limits_s: LimitSeconds,
}

/// A stream that is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Receipt {
    /// When it ended, in seconds since 1970.
    pub at_unix_s: u64,
    /// What it was.
    #[serde(flatten)]
    pub done: StreamDone,
}

/// All that is remembered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrunkHistory {
    /// By trunk, the oldest first: a sample a minute, and in the end one of the minute that is under way.
    pub trunks: BTreeMap<String, Vec<Sample>>,
    /// Streams that ended, the oldest first: all of the newest, and of each hour before the longest and the largest.
    pub receipts: Vec<Receipt>,
}

// === impl Account ===

impl Account {
    pub(super) fn note(&self, event: &Event) {
        let Event::Trunk(event) = event else {
            return;
        };
        let mut book = self.book();
        match &**event {
            TrunkEvent::StreamDone(done) => {
                let reason = done.reason.unwrap_or("");
                let counts = book.counts(&done.trunk);
                *counts.streams.entry((done.ended_by, reason)).or_insert(0) += 1;
                book.file(Receipt {
                    at_unix_s: unix_now(),
                    done: (**done).clone(),
                });
            }
            TrunkEvent::WanConnected(joined) => book.counts(&joined.trunk).wan_connected += 1,
            TrunkEvent::WanLost(lost) => book.counts(&lost.trunk).wan_lost += 1,
            TrunkEvent::WanUnreachable { trunk, .. } => book.counts(trunk).wan_unreachable += 1,
            TrunkEvent::SessionEnded { trunk, .. } => book.counts(trunk).sessions_ended += 1,
            TrunkEvent::IntegrityAlarm { trunk, .. } => book.counts(trunk).integrity_alarms += 1,
            TrunkEvent::TrunkManner { trunk, why, .. } => {
                book.counts(trunk).modest += u64::from(why.is_some());
            }
            TrunkEvent::TrunkListening { .. }
            | TrunkEvent::FarListening { .. }
            | TrunkEvent::WanHot { .. }
            | TrunkEvent::SessionLeft { .. }
            | TrunkEvent::TrunkHealth { .. } => {}
        }
    }

    pub(super) fn remember(&self, trunk: &str, sample: Sample) {
        let mut book = self.book();
        if !book.history.contains_key(trunk) && book.history.len() >= TRUNKS {
            return;
        }
        let history = book.history.entry(trunk.to_owned()).or_default();
        if history.len() >= SAMPLES {
            history.pop_front();
        }
        history.push_back(sample);
    }

    pub(super) fn counts(&self) -> BTreeMap<String, Counts> {
        self.book().counts.clone()
    }

    pub(super) fn history(&self) -> TrunkHistory {
        let book = self.book();
        let samples = |queue: &VecDeque<Sample>| queue.iter().cloned().collect();
        TrunkHistory {
            trunks: book
                .history
                .iter()
                .map(|(trunk, queue)| (trunk.clone(), samples(queue)))
                .collect(),
            receipts: book
                .remarkable
                .values()
                .flatten()
                .chain(&book.receipts)
                .cloned()
                .collect(),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Counters are valid whatever their holder was doing when it panicked.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn counts(&mut self, trunk: &str) -> &mut Counts {
        self.counts.entry(trunk.to_owned()).or_default()
    }

    /// Keeps a receipt among the newest; the oldest of these gives way, and stays where it is remarkable.
    fn file(&mut self, receipt: Receipt) {
        let hour = receipt.at_unix_s / 3_600;
        self.receipts.push_back(receipt);
        if self.receipts.len() > RECEIPTS
            && let Some(oldest) = self.receipts.pop_front()
        {
            let kept = self.remarkable.entry(oldest.at_unix_s / 3_600).or_default();
            kept.push(oldest);
            if kept.len() > 2 * LONGEST {
                kept.remove(least_remarkable(kept));
            }
        }
        self.remarkable.retain(|kept, _| kept + HOURS >= hour);
    }
}

/// The place of the receipt that ranks lowest both by time and by bytes.
fn least_remarkable(receipts: &[Receipt]) -> usize {
    let bytes = |receipt: &Receipt| {
        let done = &receipt.done;
        done.sent.bytes.saturating_add(done.received.bytes)
    };
    let mut ranks = vec![usize::MAX; receipts.len()];
    let mut order: Vec<usize> = (0..receipts.len()).collect();
    // The newer of equals first: it may be what somebody looks for.
    order.sort_by(|one, other| {
        let seconds = |place: &usize| receipts[*place].done.seconds;
        seconds(other).total_cmp(&seconds(one)).then(other.cmp(one))
    });
    for (rank, place) in order.iter().enumerate() {
        ranks[*place] = rank;
    }
    order.sort_by_key(|place| Reverse((bytes(&receipts[*place]), *place)));
    for (rank, place) in order.iter().enumerate() {
        ranks[*place] = ranks[*place].min(rank);
    }
    let lowest = ranks.iter().enumerate().max_by_key(|(_, rank)| **rank);
    lowest.map_or(0, |(place, _)| place)
}

pub(super) fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trunk::StreamHalf;

    fn done(stream: u64) -> Event {
        let half = StreamHalf {
            bytes: 1,
            digest: None,
            confirmed: true,
        };
        TrunkEvent::StreamDone(Box::new(StreamDone {
            trunk: "b".into(),
            stream,
            client: None,
            server: None,
            target: "db:1".into(),
            seconds: 0.1,
            limits_s: LimitSeconds::new(),
            sent: half.clone(),
            received: half,
            ended_by: "completed",
            reason: None,
            error: None,
        }))
        .into()
    }

    #[test]
    fn the_newest_receipts_are_kept_and_all_are_counted() {
        let account = Account::default();
        let (all, newest) = (3 * RECEIPTS as u64, RECEIPTS as u64);
        (0..all).for_each(|stream| account.note(&done(stream)));
        let receipts = account.history().receipts;
        let streams = receipts.iter().rev().map(|receipt| receipt.done.stream);
        assert!(streams.take(RECEIPTS).eq((all - newest..all).rev()));
        // The hour may have changed meanwhile.
        assert!(receipts.len() <= RECEIPTS + 4 * LONGEST);
        assert_eq!(account.counts()["b"].streams[&("completed", "")], all);
    }

    fn receipt(at_unix_s: u64, target: &str, seconds: f64, bytes: u64) -> Receipt {
        let half = StreamHalf {
            bytes,
            digest: None,
            confirmed: true,
        };
        let done = StreamDone {
            trunk: "b".into(),
            stream: 0,
            client: None,
            server: None,
            target: target.into(),
            seconds,
            limits_s: LimitSeconds::new(),
            sent: half.clone(),
            received: StreamHalf { bytes: 0, ..half },
            ended_by: "completed",
            reason: None,
            error: None,
        };
        Receipt { at_unix_s, done }
    }

    #[test]
    fn last_nights_backup_is_remembered_whatever_came_since() {
        const NIGHT: u64 = 1_000_000;
        let mut book = Book::default();
        book.file(receipt(NIGHT, "slow:22", 7_200.0, 10_000_000));
        book.file(receipt(NIGHT, "large:22", 90.0, 80_000_000_000));
        // Half a day of sessions that idle, each longer than the large one, and of short requests.
        for second in 0..12 * 3_600 {
            book.file(receipt(NIGHT + second, "shell:22", 900.0, 5_000));
            book.file(receipt(NIGHT + second, "db:5432", 0.2, 90_000));
        }
        let account = Account {
            book: Mutex::new(book),
        };
        let receipts = account.history().receipts;
        for target in ["slow:22", "large:22"] {
            let found = receipts.iter().find(|one| one.done.target == target);
            assert!(found.is_some(), "{target} is forgotten");
        }
        assert!(receipts.is_sorted_by_key(|one| one.at_unix_s / 3_600));
        let most = RECEIPTS + (12 + 1) * 2 * LONGEST;
        assert!(receipts.len() <= most, "{}", receipts.len());
    }

    #[test]
    fn receipts_older_than_the_samples_are_let_go() {
        let mut book = Book::default();
        book.file(receipt(0, "old:22", 7_200.0, 10_000_000));
        for second in 0..2 * RECEIPTS as u64 {
            let at = (HOURS + 2) * 3_600 + second;
            book.file(receipt(at, "db:5432", 0.2, 90_000));
        }
        let all = book.remarkable.values().flatten().chain(&book.receipts);
        assert_eq!(all.filter(|one| one.done.target == "old:22").count(), 0);
    }

    #[test]
    fn history_is_bounded_in_length_and_in_trunks() {
        let account = Account::default();
        let sample = |at_unix_s| Sample {
            at_unix_s,
            seconds: 60.0,
            up: true,
            streams: 0,
            connections: 1,
            sent_bps: 0,
            received_bps: 0,
            rtt_s: None,
            retransmitted_bytes: 0,
            repeated_bytes: 0,
            modest: false,
            limits_s: LimitSeconds::new(),
        };
        for minute in 0..SAMPLES as u64 + 2 {
            account.remember("a", sample(minute));
        }
        (0..2 * TRUNKS).for_each(|number| account.remember(&number.to_string(), sample(0)));
        let trunks = account.history().trunks;
        assert_eq!((trunks["a"].len(), trunks["a"][0].at_unix_s), (SAMPLES, 2));
        assert_eq!(trunks.len(), TRUNKS);
    }
}
