//! Captures of any size, judged on every core.
//!
//! A [`Survey`] reads pcap and pcapng one piece at a time. Whoever reads only frames packets and tells which
//! connection each belongs to; threads decode, follow and judge. All packets of a connection go to one of
//! [`SHARDS`] trackers, and each tracker to one thread, so that what comes out depends on the capture alone and not on
//! the number of threads.
//!
//! ```text
//!  file ─> piece ─> frames ─┬─> thread 0: decode ─> trackers 0, 2, 4, … ─> judged connections ─┐
//!                           └─> thread 1: decode ─> trackers 1, 3, 5, … ─> judged connections ─┴─> document
//! ```
//!
//! Memory holds a few pieces, the packets of connections that are open, at most [`ROOM`] for each tracker, and what
//! was judged, some kilobytes for each connection.

mod piece;
mod worker;

use std::io::{self, Read};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use capture::{Framer, Packet, ReadError, Summary};
use connections::{Fragments, Room, Tracked};
use explain::Judged;
use units::Time;
use wire::{FlowHash, Observation};

use piece::{Framed, Piece, Pieces};
use worker::Part;

/// Trackers, whatever the number of threads.
pub const SHARDS: u32 = 16;

/// What each tracker may hold. Over all of them, connections that are over take some 4 MB before they go, and silent
/// ones stay while there are no more than 11 MB. The upper bound, 120 MB for each, cuts a transfer of 3 GB in two.
pub const ROOM: Room = Room {
    over: 4_000,
    packets: 12_500,
    most: 2 << 20,
};

/// Pieces that wait for a thread. More would hide no longer stalls, and leave the processor's caches.
const WAITING: usize = 2;

/// Captures being read, as one timeline.
#[derive(Debug)]
pub struct Survey {
    threads: Vec<Thread>,
    pieces: Pieces,
    /// Where fragments belong whose ports went ahead.
    fragments: Fragments,
    /// Frames of the captures before this one.
    before: u64,
    boundaries: Vec<u64>,
    captures: usize,
    span: Option<(Time, Time)>,
}

#[derive(Debug)]
struct Thread {
    pieces: SyncSender<Arc<Piece>>,
    handle: JoinHandle<Part>,
}

/// What was read of one capture.
#[derive(Debug)]
pub struct Reading {
    /// Its format, what it held, what could not be read of it.
    pub summary: Summary,
    /// Its first and last packet that is TCP or an ICMP message.
    pub span: Option<(Time, Time)>,
    /// Why it was not read to its end.
    pub stopped: Option<Stopped>,
}

/// Why a capture was not read to its end. What was read before stands.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// Its bytes cannot be had.
    #[error("cannot read on")]
    Read(#[source] io::Error),
    /// Its bytes cannot be understood.
    #[error(transparent)]
    Frame(ReadError),
}

/// What all captures came to.
#[derive(Debug)]
pub struct Surveyed {
    /// Every connection.
    pub judged: Judged,
    /// Everything else that was seen.
    pub tracked: Tracked,
}

// === impl Survey ===

impl Survey {
    /// Starts as many threads as the machine has cores. With `series`, connections carry the points of plots.
    #[must_use]
    pub fn new(series: bool) -> Self {
        Self::on(
            thread::available_parallelism().map_or(1, usize::from),
            series,
        )
    }

    /// The same on `threads` threads.
    #[must_use]
    pub fn on(threads: usize, series: bool) -> Self {
        let most = usize::try_from(SHARDS).unwrap_or(usize::MAX);
        let number = threads.clamp(1, most);
        let threads = (0..number)
            .map(|index| {
                let (pieces, coming) = sync_channel(WAITING);
                let handle = thread::spawn(move || worker::run(index, &coming, series));
                Thread { pieces, handle }
            })
            .collect();
        Self {
            threads,
            pieces: Pieces::new(number),
            fragments: Fragments::default(),
            before: 0,
            boundaries: Vec::new(),
            captures: 0,
            span: None,
        }
    }

    /// Reads a capture to its end. `progress` hears of every number of bytes read.
    pub fn read(&mut self, from: &mut dyn Read, mut progress: impl FnMut(usize)) -> Reading {
        if self.captures > 0 {
            self.boundaries.push(self.before);
        }
        self.captures += 1;
        let mut framer = Framer::new();
        let mut counts = framer.summary(&[]);
        let mut span = None;
        let mut rest: Vec<u8> = Vec::new();
        let stopped = loop {
            let mut piece = self.pieces.next();
            let (count, failed) = piece.fill(&rest, from);
            progress(count);
            framer.begin(piece.data());
            let framed = self.frame(&mut framer, &mut piece, &mut counts, &mut span);
            rest.clear();
            rest.extend_from_slice(framer.rest(piece.data()));
            self.send(piece);
            match (framed, failed) {
                (Err(error), _) => break Some(Stopped::Frame(error)),
                (Ok(()), Some(error)) => break Some(Stopped::Read(error)),
                (Ok(()), None) if count == 0 => break None,
                (Ok(()), None) => {}
            }
        };
        let whole = framer.summary(&rest);
        self.before = self.before.saturating_add(whole.frames);
        self.span = join(self.span, span);
        Reading {
            summary: Summary {
                segments: counts.segments,
                echoes: counts.echoes,
                others: counts.others,
                cut: counts.cut,
                malformed: counts.malformed,
                ..whole
            },
            span,
            stopped,
        }
    }

    /// Waits for the threads and puts together what they found.
    #[must_use]
    pub fn finish(self) -> Surveyed {
        let mut judged = Judged::default();
        let mut tracked = Tracked {
            packets: self.before,
            first_at: self.span.map(|(first, _)| first),
            last_at: self.span.map(|(_, last)| last),
            boundaries: self.boundaries,
            ..Tracked::default()
        };
        for Thread { pieces, handle } in self.threads {
            drop(pieces);
            match handle.join() {
                Ok(part) => {
                    judged.append(part.judged);
                    tracked.echoes.extend(part.echoes);
                    tracked.late += part.late;
                }
                Err(panic) => resume_unwind(panic),
            }
        }
        Surveyed { judged, tracked }
    }

    /// Hands the packets of a piece to the threads that they belong to.
    fn frame(
        &mut self,
        framer: &mut Framer,
        piece: &mut Piece,
        counts: &mut Summary,
        span: &mut Option<(Time, Time)>,
    ) -> Result<(), ReadError> {
        let (data, lists) = piece.parts();
        while let Some(packet) = framer.next_packet(data)? {
            let shard = match FlowHash::of_plain(packet.link, packet.captured) {
                Some(hash) => {
                    counts.segments += 1;
                    hash.part(SHARDS)
                }
                None => match route(&packet, counts, &mut self.fragments) {
                    Route::Shard(shard) => shard,
                    Route::All => {
                        for shard in 0..SHARDS {
                            let framed = Framed::of(&packet, data, shard, self.before);
                            deal(lists, shard, framed);
                        }
                        continue;
                    }
                    Route::Nobody => continue,
                },
            };
            *span = join(*span, Some((packet.at, packet.at)));
            deal(lists, shard, Framed::of(&packet, data, shard, self.before));
        }
        Ok(())
    }

    fn send(&mut self, piece: Piece) {
        let piece = self.pieces.share(piece);
        for thread in &self.threads {
            // A thread that has gone has panicked: `finish` says so.
            let _ = thread.pieces.send(Arc::clone(&piece));
        }
    }
}

/// Whom a packet concerns that is not plain.
enum Route {
    /// One tracker.
    Shard(u32),
    /// Every tracker.
    All,
    /// Nobody.
    Nobody,
}

fn route(packet: &Packet<'_>, counts: &mut Summary, fragments: &mut Fragments) -> Route {
    let decoded = packet.decode();
    counts.note(&decoded);
    let Ok(observation) = decoded else {
        return Route::Nobody;
    };
    match &observation {
        Observation::Tcp(_) | Observation::FirstFragment(_) | Observation::Fragment(_) => fragments
            .join(&observation)
            .map_or(Route::Nobody, |segment| {
                Route::Shard(FlowHash::of(&segment).part(SHARDS))
            }),
        Observation::IcmpError(error) => {
            Route::Shard(FlowHash::between(error.source, error.destination).part(SHARDS))
        }
        // Requests and answers meet in one place.
        Observation::IcmpEcho(_) => Route::Shard(0),
        // Any connection may have waited for it.
        Observation::Resolution(_) => Route::All,
        Observation::Other(_) => Route::Nobody,
    }
}

/// Puts a packet on the list of the thread that has its tracker.
fn deal(lists: &mut [Vec<Framed>], shard: u32, framed: Framed) {
    let threads = lists.len().max(1);
    let thread = usize::try_from(shard).unwrap_or(0) % threads;
    if let Some(list) = lists.get_mut(thread) {
        list.push(framed);
    }
}

fn join(one: Option<(Time, Time)>, other: Option<(Time, Time)>) -> Option<(Time, Time)> {
    match (one, other) {
        (Some((first, last)), Some((from, to))) => Some((first.min(from), last.max(to))),
        (one, other) => one.or(other),
    }
}
