use core::time::Duration;

use units::Time;

use super::is_emptied;
use crate::replay::Replay;
use crate::{Event, EventKind, Repair};

const MSS: i64 = 1_000;
const RTT: Duration = Duration::from_millis(40);
/// 1 MB/s: a packet per millisecond.
const BYTES_PER_MS: i64 = 1_000;

/// What decides over a packet.
enum Fate {
    /// A bucket of this many bytes, filled at [`BYTES_PER_MS`], and what it lacks.
    Bucket { size: i64, lacks: i64 },
    /// A queue of this many bytes, emptied at [`BYTES_PER_MS`], and what it holds.
    Queue { size: i64, lacks: i64 },
    /// One of so many, by a sequence of pseudo-random numbers.
    Chance { one_of: u64, state: u64 },
}

impl Fate {
    /// How long what was let in last waits.
    fn delays(&self) -> u64 {
        match self {
            Self::Queue { lacks, .. } => u64::try_from(lacks * 1_000 / BYTES_PER_MS).unwrap(),
            Self::Bucket { .. } | Self::Chance { .. } => 0,
        }
    }

    fn drops(&mut self, passed: Duration) -> bool {
        match self {
            Self::Bucket { size, lacks } | Self::Queue { size, lacks } => {
                let filled = i64::try_from(passed.as_micros()).unwrap() * BYTES_PER_MS / 1_000;
                *lacks = (*lacks - filled).max(0);
                let empty = *lacks + MSS > *size;
                if !empty {
                    *lacks += MSS;
                }
                empty
            }
            Self::Chance { one_of, state } => {
                // Numerical Recipes' generator; its upper bits are random enough.
                *state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (*state >> 33) % *one_of == 0
            }
        }
    }
}

/// Twenty seconds of a sender that begins at more than twice the path's rate, then paces a quarter above and
/// below it in turns of a few round trips, and repeats what is lost a round trip later. From behind the loss, `seen` leaves lost packets
/// out.
fn paced(fate: Fate, seen_behind: bool) -> Replay {
    in_lumps(fate, seen_behind, 1)
}

/// The same, where the host hands down so many packets as one (segmentation offload), which leave at one stroke.
fn in_lumps(mut fate: Fate, seen_behind: bool, lump: u64) -> Replay {
    let mut events: Vec<Event> = Vec::new();
    let mut repairs: Vec<(u64, i64)> = Vec::new();
    let (mut at, mut position, mut turn) = (0_u64, 0_i64, 0_u64);
    let mut number = 0;
    while at < 20_000_000 {
        turn = at / 160_000;
        let gap = match turn % 4 {
            0 if turn == 0 => 400,
            0 => 800,
            1 => 1_250,
            _ => 1_000,
        };
        let gap = if number % lump == 0 { gap * lump } else { 0 };
        let begins = gap > 0;
        number += 1;
        at += gap;
        let due = repairs.first().is_some_and(|(due, _)| *due <= at);
        let (from, repair) = if due {
            (repairs.remove(0).1, Some(Repair::Fast))
        } else {
            position += MSS;
            (position - MSS, None)
        };
        let lost = fate.drops(Duration::from_micros(gap));
        if lost {
            repairs.push((at + 40_000, from));
        }
        let joined = events
            .last_mut()
            .filter(|_| lump > 1 && !begins && repair.is_none());
        if let Some(Event {
            kind: EventKind::Sent {
                to, repair: None, ..
            },
            ..
        }) = joined
            && *to == from
        {
            *to += MSS;
        } else if !(lost && seen_behind) {
            events.push(Event {
                at: Time::from_nanos((at + if seen_behind { fate.delays() } else { 0 }) * 1_000),
                kind: EventKind::Sent {
                    from,
                    to: from + MSS,
                    repair,
                },
            });
        }
    }
    assert!(turn > 100, "many turns");
    Replay::new(&events)
}

fn bucket() -> Fate {
    Fate::Bucket {
        size: 20 * MSS,
        lacks: 0,
    }
}

#[test]
fn what_an_empty_bucket_drops_is_told_from_chance_on_either_side_of_it() {
    for behind in [false, true] {
        assert!(is_emptied(&paced(bucket(), behind), RTT, MSS), "{behind}");
    }
}

#[test]
fn chance_is_no_bucket_however_often_it_strikes() {
    for behind in [false, true] {
        for one_of in [30, 100, 300, 1_000] {
            for state in 1..=6 {
                let replay = paced(Fate::Chance { one_of, state }, behind);
                assert!(
                    !is_emptied(&replay, RTT, MSS),
                    "one of {one_of}, seed {state}, behind {behind}"
                );
            }
        }
    }
}

/// Of what was handed down as one, all that came through counted as what had found the bucket fullest, and a loss in its
/// middle as one that had not.
#[test]
fn chance_is_no_bucket_in_what_a_host_hands_down_as_one() {
    for lump in [4, 12, 40] {
        for one_of in [30, 100, 300] {
            for state in 1..=6 {
                let replay = in_lumps(Fate::Chance { one_of, state }, false, lump);
                assert!(
                    !is_emptied(&replay, RTT, MSS),
                    "one of {one_of}, seed {state}, lumps of {lump}"
                );
            }
        }
    }
    for lump in [4, 12] {
        assert!(
            is_emptied(&in_lumps(bucket(), false, lump), RTT, MSS),
            "{lump}"
        );
    }
}

#[test]
fn behind_a_short_queue_nothing_comes_faster_than_its_line() {
    let queue = Fate::Queue {
        size: 20 * MSS,
        lacks: 0,
    };
    assert!(!is_emptied(&paced(queue, true), RTT, MSS));
}

#[test]
fn without_losses_there_is_nothing_to_tell() {
    let never = Fate::Bucket {
        size: i64::MAX,
        lacks: 0,
    };
    assert!(!is_emptied(&paced(never, false), RTT, MSS));
}
