//! A thread's share of the work.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use connections::{Echo, Tracker};
use explain::Judged;

use crate::piece::Piece;
use crate::{ROOM, SHARDS};

/// What a thread found.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) judged: Judged,
    pub(crate) echoes: Vec<Echo>,
    pub(crate) late: u64,
}

/// Follows and judges the packets of thread `index` in every piece.
pub(crate) fn run(index: usize, pieces: &Receiver<Arc<Piece>>, series: bool) -> Part {
    let mut trackers: Vec<Tracker> = (0..SHARDS).map(|_| Tracker::with_room(ROOM)).collect();
    let mut part = Part::default();
    for piece in pieces {
        let Some(list) = piece.lists.get(index) else {
            continue;
        };
        for framed in list {
            let captured = framed.captured(piece.data());
            let decoded = wire::decode(
                framed.link,
                framed.at,
                framed.frame,
                captured,
                framed.original_len,
            );
            let Some(tracker) = trackers.get_mut(usize::from(framed.shard)) else {
                continue;
            };
            if let Ok(observation) = &decoded {
                tracker.observe(observation);
                while let Some(done) = tracker.next_done() {
                    part.judged.push(done, series);
                }
            }
        }
    }
    for tracker in trackers {
        let rest = tracker.finish();
        for connection in rest.connections {
            part.judged.push(connection, series);
        }
        part.echoes.extend(rest.echoes);
        part.late += rest.late;
    }
    part
}
