use std::collections::BTreeMap;

use limit::kernel::{Clocks, Reading};
use proptest::prelude::*;
use record::LimitName;
use record::top::{Process, Role, State};

use super::{at, in_state, ms, seen};
use crate::{Board, Filter, Key, Order, Seen};

fn board() -> Board {
    Board::new(vec!["here".to_owned()])
}

fn one(board: &Board) -> record::top::Connection {
    let (connections, all) = board.top(&Filter::All, Order::Goodput, 1);
    assert_eq!(all, 1);
    board.row(connections[0])
}

#[test]
fn goodput_is_what_was_acknowledged_between_two_readings() {
    let mut board = board();
    board.take(at(0), vec![seen(1, 0, 1_000_000)], false);
    assert!(
        one(&board).out_bps.abs() < 1e-9,
        "nothing is known of the past"
    );
    board.take(at(500), vec![seen(1, 500, 1_125_000)], false);
    let row = one(&board);
    assert!((row.out_bps - 2e6).abs() < 1e-3, "{row:?}");
    assert_eq!(row.cwnd_bytes, 14_480);
    assert_eq!(row.limit, LimitName::SlowStart);
    assert!((row.limits[&LimitName::SlowStart] - 0.5).abs() < 1e-9);
}

#[test]
fn a_limit_is_timed_from_the_reading_after_which_it_held() {
    let mut board = board();
    let held = |busy: u64, rwnd: u64| Seen {
        sender: Reading {
            clocks: Some(Clocks {
                busy: ms(busy),
                rwnd_limited: ms(rwnd),
                sndbuf_limited: ms(0),
            }),
            ..seen(1, 0, 0).sender
        },
        ..seen(1, 0, 0)
    };
    board.take(at(0), vec![held(0, 0)], false);
    board.take(at(1000), vec![held(1000, 0)], false);
    board.take(at(2000), vec![held(2000, 900)], false);
    board.take(at(3000), vec![held(3000, 1900)], false);
    let row = one(&board);
    assert_eq!(row.limit, LimitName::ReceiveWindow);
    assert!((row.limit_s - 2.0).abs() < 1e-9, "{row:?}");
    assert!((row.limits[&LimitName::ReceiveWindow] - 1.9).abs() < 1e-9);
    assert!((row.limits[&LimitName::SlowStart] - 1.1).abs() < 1e-9);
}

#[test]
fn close_wait_piles_bear_the_name_of_who_should_close() {
    let mut board = board();
    let socket = |cookie: u64, inode: u32, state: State| Seen {
        inode,
        ..in_state(state, seen(cookie, 0, 0))
    };
    let open = (0..5).map(|number| socket(number, 70, State::Established));
    board.take(at(0), open.collect(), false);
    let mut closed: Vec<_> = (0..4).map(|n| socket(n, 70, State::CloseWait)).collect();
    closed.push(socket(4, 70, State::Established));
    closed.push(socket(9, 71, State::CloseWait));
    board.take(at(1000), closed.clone(), false);
    board.take(at(4000), closed, false);
    let leaky = Process {
        pid: 4711,
        name: "leaky".to_owned(),
    };
    board.set_processes(BTreeMap::from([(70, leaky.clone())]));
    let piles = board.close_wait(&Filter::All);
    assert_eq!(piles.len(), 2);
    assert_eq!(piles[0].process.as_ref(), Some(&leaky));
    assert_eq!(piles[0].connections, 4);
    assert!((piles[0].oldest_s - 3.0).abs() < 1e-9);
    assert_eq!((piles[1].connections, &piles[1].process), (1, &None));
    assert!(board.has_unknown_processes());
}

#[test]
fn listeners_tell_who_opened_a_connection_and_are_not_connections() {
    let mut board = board();
    let listener = in_state(
        State::Listening,
        Seen {
            local: "0.0.0.0:40000".parse().unwrap(),
            ..seen(1, 0, 0)
        },
    );
    board.take(at(0), vec![seen(2, 0, 0), listener.clone()], false);
    assert_eq!(one(&board).role, Role::Server);
    board.take(at(1), vec![seen(2, 0, 0), listener], true);
    assert_eq!(board.summary(&Filter::All).connections, 2);
}

#[test]
fn lines_list_what_changed_and_what_is_gone() {
    let mut board = board();
    let all = |board: &Board, whole| board.reading(&Filter::All, Order::Goodput, whole);
    board.take(at(0), vec![seen(1, 0, 0), seen(2, 0, 0)], false);
    assert_eq!(all(&board, false).connections.len(), 2, "all are new");
    // The second reading is the first that knows a limit.
    board.take(at(500), vec![seen(1, 0, 0), seen(2, 0, 0)], false);
    assert_eq!(all(&board, false).connections.len(), 2);
    board.take(at(1000), vec![seen(1, 0, 0), seen(2, 10, 5)], false);
    let reading = all(&board, false);
    assert_eq!(reading.connections.len(), 1);
    assert_eq!(reading.connections[0].id, 2);
    assert_eq!(all(&board, true).connections.len(), 2);
    board.take(at(2000), vec![seen(2, 10, 5)], false);
    assert_eq!(all(&board, false).gone, [1]);
    // The kernel's number is another one, so it is another connection.
    board.take(at(3000), vec![seen(3, 0, 0)], false);
    let reading = all(&board, false);
    assert_eq!(reading.gone, [2]);
    assert_eq!(reading.connections[0].id, 3);
    assert!(reading.connections[0].state_seen);
}

#[test]
fn silence_is_remembered_as_two_points() {
    let mut board = board();
    for second in 0..100 {
        board.take(at(second * 1000), vec![seen(1, 0, 0)], false);
    }
    let watched = board.find(1).unwrap();
    let points: Vec<_> = watched.history.points().map(|point| point.at_s).collect();
    assert_eq!(points, [1.0, 99.0]);
}

proptest! {
    /// Bytes are a thousand times the cookie, so a socket that was taken for another one would show.
    #[test]
    fn in_whatever_order_sockets_come_and_go_each_keeps_its_number_and_its_process(
        readings in proptest::collection::vec(
            proptest::sample::subsequence((1_u64..12).collect::<Vec<_>>(), 0..11).prop_shuffle(), 1..12,
        ),
    ) {
        let mut board = board();
        let owner = |cookie: u64| Process { pid: u32::try_from(cookie).unwrap(), name: cookie.to_string() };
        board.set_processes((1..12).map(|cookie| (owner(cookie).pid, owner(cookie))).collect());
        let mut before: BTreeMap<u64, u64> = BTreeMap::new();
        for (number, cookies) in (0_u64..).zip(&readings) {
            let listed = cookies.iter().map(|&cookie| Seen {
                inode: owner(cookie).pid,
                ..seen(cookie, 0, cookie * 1000)
            });
            board.take(at(number * 1000), listed.collect(), false);
            let (all, count) = board.top(&Filter::All, Order::Peer, usize::MAX);
            let ids: BTreeMap<u64, u64> = all.iter().map(|one| (one.seen.key.cookie, one.id)).collect();
            prop_assert_eq!(count, cookies.len());
            prop_assert!(ids.keys().eq(&cookies.iter().copied().collect::<std::collections::BTreeSet<_>>()));
            for one in &all {
                let cookie = one.seen.key.cookie;
                prop_assert_eq!(one.seen.bytes_acked, Some(cookie * 1000));
                prop_assert_eq!(one.process.as_ref(), Some(&owner(cookie)));
                prop_assert!(before.get(&cookie).is_none_or(|id| *id == one.id));
                prop_assert!(board.find(one.id).is_some());
            }
            let gone: Vec<u64> = before.iter().filter(|(cookie, _)| !ids.contains_key(cookie))
                .map(|(_, id)| *id).collect();
            let mut told = board.reading(&Filter::All, Order::Peer, true).gone;
            told.sort_unstable();
            let mut gone = gone;
            gone.sort_unstable();
            prop_assert_eq!(told, gone);
            before = ids;
        }
    }

    #[test]
    fn the_first_of_an_order_are_the_same_however_many_are_asked_for(
        counts in proptest::collection::vec(0_u64..50, 1..60), wanted in 1_usize..70,
    ) {
        let mut board = board();
        let sockets = |scale: u64| -> Vec<Seen> {
            (0_u64..).zip(&counts).map(|(cookie, bytes)| Seen {
                key: Key { namespace: 0, cookie },
                ..seen(cookie, 0, bytes * scale)
            }).collect()
        };
        board.take(at(0), sockets(0), false);
        board.take(at(1000), sockets(100), false);
        for order in Order::ALL {
            let (all, count) = board.top(&Filter::All, order, usize::MAX);
            let (some, same) = board.top(&Filter::All, order, wanted);
            prop_assert_eq!(count, same);
            let ids = |list: &[&crate::Watched]| list.iter().map(|one| one.id).collect::<Vec<_>>();
            prop_assert_eq!(&ids(&all)[..wanted.min(count)], &ids(&some)[..]);
        }
        let (all, _) = board.top(&Filter::All, Order::Out, usize::MAX);
        prop_assert!(all.windows(2).all(|pair| pair[0].out_bps >= pair[1].out_bps));
    }
}
