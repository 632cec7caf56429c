use std::vec::Vec;

use super::*;

const LEAST: Duration = Duration::from_millis(60);
const NONE: Duration = Duration::ZERO;
const LINK: ConnectionId = ConnectionId(1);

/// Ten seconds at 50 Mbit/s with this much queueing and this share sent again, in thousandths; every change
/// of the manner with the second it came in.
fn play(watch: &mut Watch, from_s: u64, queueing: Duration, share: u64) -> Vec<(u64, Manner)> {
    let mut changes = Vec::new();
    for step in 0..1000_u64 {
        let now = Time::from_millis(from_s * 1000 + step * 10);
        let sent = (from_s * 100 + step) * 62_500;
        let sight = Sight {
            round_trip: Some(LEAST + queueing),
            least: Some(LEAST),
            sent,
            retransmitted: sent * share / 1000,
            settled: true,
        };
        if watch.look(LINK, &sight, now).is_some() {
            changes.push((now.as_nanos() / 1_000_000_000, watch.manner()));
        }
    }
    changes
}

#[test]
fn random_loss_alone_does_not_trip_it_however_much_it_is() {
    let mut watch = Watch::new(Guard::default());
    assert_eq!(play(&mut watch, 0, Duration::from_millis(2), 50), []);
    assert_eq!(watch.manner(), Manner::Eager);
}

#[test]
fn a_queue_that_stands_below_the_ceiling_does_not_trip_it() {
    let mut watch = Watch::new(Guard::default());
    assert_eq!(play(&mut watch, 0, LEAST / 3, 0), []);
}

#[test]
fn retransmissions_with_delay_trip_it_and_so_does_delay_alone() {
    for (queueing, share) in [(LEAST / 5, 30), (LEAST, 0)] {
        let mut watch = Watch::new(Guard::default());
        let changes = play(&mut watch, 0, queueing, share);
        assert_eq!(changes, [(2, Manner::Modest)], "{queueing:?} {share}");
    }
}

#[test]
fn it_tries_again_after_a_rest_and_rests_longer_each_time_that_it_is_still_too_much() {
    let mut watch = Watch::new(Guard::default());
    let changes: Vec<_> = (0..12)
        .flat_map(|tens| play(&mut watch, tens * 10, LEAST, 0))
        .collect();
    let tries: Vec<u64> = changes
        .iter()
        .filter(|(_, manner)| *manner == Manner::Eager)
        .map(|(second, _)| *second)
        .collect();
    assert_eq!(tries, [32, 93], "{changes:?}");
}

#[test]
fn what_was_set_holds_and_what_is_off_sees_nothing() {
    let strict = Guard {
        queueing: Some(Duration::from_millis(5)),
        ..Guard::default()
    };
    let off = Guard {
        enabled: false,
        ..strict
    };
    let delay = Duration::from_millis(6);
    assert_eq!(play(&mut Watch::new(strict), 0, delay, 0).len(), 1);
    assert_eq!(play(&mut Watch::new(off), 0, delay, 0), []);
}

#[test]
fn several_connections_become_one_before_it_is_made_modest() {
    let mut watch = Watch::new(Guard::default());
    let idle = Sight {
        round_trip: Some(LEAST),
        least: Some(LEAST),
        sent: 0,
        retransmitted: 0,
        settled: true,
    };
    assert_eq!(watch.look(ConnectionId(2), &idle, Time::ZERO), None);
    assert_eq!(
        play(&mut watch, 0, LEAST, 0),
        [(2, Manner::Narrow), (4, Manner::Modest)]
    );
}

#[test]
fn room_that_nobody_takes_is_taken_back_and_asks_for_more_signs_the_next_time() {
    let mut watch = Watch::new(Guard::default());
    assert_eq!(play(&mut watch, 0, LEAST, 0), [(2, Manner::Modest)]);
    let later = [
        play(&mut watch, 10, NONE, 50),
        play(&mut watch, 20, NONE, 50),
    ]
    .concat();
    assert!(
        matches!(later[..], [(24..=26, Manner::Eager)]),
        "after fifteen seconds without a queue: {later:?}"
    );
    assert_eq!(
        play(&mut watch, 30, LEAST, 0),
        [(34, Manner::Modest)],
        "four intervals in a row instead of two"
    );
}

/// As [`play`], at a rate of 500 kbit/s.
fn starve(watch: &mut Watch, from_s: u64, queueing: Duration) -> Vec<(u64, Manner)> {
    let mut changes = Vec::new();
    let begin = from_s * 100 * 62_500;
    for step in 0..1000_u64 {
        let now = Time::from_millis(from_s * 1000 + step * 10);
        let sight = Sight {
            round_trip: Some(LEAST + queueing),
            least: Some(LEAST),
            sent: begin + step * 625,
            retransmitted: 0,
            settled: true,
        };
        if watch.look(LINK, &sight, now).is_some() {
            changes.push((now.as_nanos() / 1_000_000_000, watch.manner()));
        }
    }
    changes
}

#[test]
fn a_trunk_that_starves_on_an_empty_path_is_eager_again_within_seconds() {
    let mut watch = Watch::new(Guard::default());
    assert_eq!(play(&mut watch, 0, LEAST, 0), [(2, Manner::Modest)]);
    let changes = starve(&mut watch, 10, NONE);
    assert!(
        matches!(changes[..], [(11..=13, Manner::Eager)]),
        "{changes:?}"
    );
}

#[test]
fn a_trunk_that_starves_beside_a_queue_leaves_the_room_to_whoever_fills_it() {
    let mut watch = Watch::new(Guard::default());
    assert_eq!(play(&mut watch, 0, LEAST, 0), [(2, Manner::Modest)]);
    assert_eq!(starve(&mut watch, 10, LEAST / 4), []);
}

#[test]
fn room_that_somebody_takes_now_and_then_is_left_to_them_until_the_rest_is_over() {
    let mut watch = Watch::new(Guard::default());
    let mut changes = play(&mut watch, 0, LEAST, 0);
    changes.extend(play(&mut watch, 10, NONE, 0));
    changes.extend(play(&mut watch, 20, LEAST / 3, 0));
    changes.extend(play(&mut watch, 30, NONE, 0));
    assert_eq!(changes, [(2, Manner::Modest), (32, Manner::Eager)]);
}

#[test]
fn the_queue_that_too_many_connections_leave_behind_is_not_held_against_the_one_that_is_left() {
    let mut watch = Watch::new(Guard::default());
    let other = Sight {
        round_trip: Some(LEAST),
        least: Some(LEAST),
        sent: 0,
        retransmitted: 0,
        settled: true,
    };
    assert_eq!(watch.look(ConnectionId(2), &other, Time::ZERO), None);
    let mut changes = Vec::new();
    for step in 0..1000_u64 {
        let now = Time::from_millis(step * 10);
        // It stands until the others have been gone for a second.
        let queueing = if step < 330 { LEAST } else { NONE };
        let sight = Sight {
            round_trip: Some(LEAST + queueing),
            sent: step * 62_500,
            ..other
        };
        if watch.look(LINK, &sight, now).is_some() {
            changes.push((now.as_nanos() / 1_000_000_000, watch.manner()));
        }
    }
    assert_eq!(changes, [(2, Manner::Narrow)]);
}

/// Ten seconds at 50 Mbit/s in which a queue stands for a tenth of the time; so much is sent again while it does, and
/// while it does not, in thousandths.
fn probe(watch: &mut Watch, with: u64, without: u64) -> Vec<(u64, Manner)> {
    let mut changes = Vec::new();
    let (mut sent, mut retransmitted) = (0, 0);
    for step in 0..1000_u64 {
        let queued = step % 40 < 4;
        sent += 62_500;
        retransmitted += 62_500 * if queued { with } else { without } / 1000;
        let sight = Sight {
            round_trip: Some(LEAST + if queued { LEAST / 4 } else { NONE }),
            least: Some(LEAST),
            sent,
            retransmitted,
            settled: true,
        };
        if watch
            .look(LINK, &sight, Time::from_millis(step * 10))
            .is_some()
        {
            changes.push((step / 100, watch.manner()));
        }
    }
    changes
}

#[test]
fn losses_in_a_queue_that_is_full_for_moments_trip_it_and_those_at_any_time_do_not() {
    let changes = probe(&mut Watch::new(Guard::default()), 40, 0);
    assert_eq!(changes, [(2, Manner::Modest)], "four in a thousand in all");
    assert_eq!(probe(&mut Watch::new(Guard::default()), 40, 40), []);
    assert_eq!(probe(&mut Watch::new(Guard::default()), 0, 40), []);
}
