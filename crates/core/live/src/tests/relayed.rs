use record::LimitName;
use record::top::{RelaySide, Relayed, Role};

use super::{at, seen};
use crate::{Board, Divided, Filter, Key, Order, Seen, Told, join};

const HELD: LimitName = LimitName::ReceiveWindow;

/// A socket as a relay tells it, which its kernel was asked about at `read` milliseconds of the relay's clock.
fn told(cookie: u64, side: RelaySide, read: u64, bytes: u64, held_s: f64) -> Seen {
    let of = Relayed {
        admin: "192.0.2.1:9901".to_owned(),
        connection: 5,
        listener: "0.0.0.0:9000".to_owned(),
        side,
        other: Some("198.51.100.4:5000".to_owned()),
        elsewhere: true,
    };
    let divided = Divided {
        at: at(read),
        limits: [(HELD, held_s), (LimitName::Application, 1.0)].into(),
    };
    Seen {
        key: Key {
            namespace: u16::MAX,
            cookie,
        },
        relayed: Some(Box::new(Told { of, divided })),
        ..seen(cookie, 0, bytes)
    }
}

fn only(board: &Board) -> record::top::Connection {
    let (listed, all) = board.top(&Filter::All, Order::Goodput, 10);
    assert_eq!(all, 1);
    board.row(listed[0])
}

#[test]
fn a_relay_s_own_clock_divides_what_it_tells() {
    let mut board = Board::new(vec!["here".to_owned()]);
    let side = RelaySide::Server;
    board.take(at(0), vec![told(1, side, 500, 0, 3.0)], false);
    // Asked again before the relay asked its kernel: nothing is known to have moved.
    board.take(at(1000), vec![told(1, side, 500, 0, 3.0)], false);
    assert!(only(&board).out_bps.abs() < 1e-9);
    // Two seconds of the relay's clock, of which 1.5 s were held.
    board.take(at(1100), vec![told(1, side, 2500, 250_000, 4.5)], false);
    let row = only(&board);
    assert!((row.out_bps - 1e6).abs() < 1e-3, "{row:?}");
    assert_eq!(row.limit, HELD);
    assert!((row.limits[&HELD] - 1.5).abs() < 1e-9, "{row:?}");
    assert!(
        !row.limits.contains_key(&LimitName::Application),
        "it did not run: {row:?}"
    );
    assert_eq!(row.namespace.as_deref(), Some("relay 192.0.2.1:9901"));
    assert_eq!(row.role, Role::Client);
    // And the same is told again.
    board.take(at(1200), vec![told(1, side, 2500, 250_000, 4.5)], false);
    assert!((only(&board).out_bps - 1e6).abs() < 1e-3, "it still holds");
    let reading = board.reading(&Filter::All, Order::Goodput, false);
    assert!(reading.connections.is_empty(), "{reading:?}");
}

#[test]
fn a_socket_that_both_know_is_one_and_its_kernel_s() {
    let mut here = vec![seen(1, 100, 10), seen(2, 0, 0)];
    let side = RelaySide::Client;
    join(
        &mut here,
        vec![told(1, side, 500, 99, 3.0), told(7, side, 500, 99, 3.0)],
    );
    assert_eq!(here.len(), 3);
    assert_eq!(here[0].bytes_acked, Some(10));
    assert!(!here[0].relayed.as_ref().unwrap().of.elsewhere);
    assert!(here[1].relayed.is_none());
    assert!(here[2].relayed.as_ref().unwrap().of.elsewhere);

    let mut board = Board::new(vec!["here".to_owned()]);
    board.take(at(0), here, false);
    for (text, count) in [
        ("relay 192.0.2.1", 2),
        ("relay 198.51.100.4", 2),
        ("relay :9000", 2),
        ("relay 203.0.113.7", 0),
        ("not relay 192", 1),
    ] {
        let filter: Filter = text.parse().unwrap();
        assert_eq!(board.top(&filter, Order::Goodput, 10).1, count, "{text}");
    }
    let (listed, _) = board.top(&Filter::All, Order::Goodput, 10);
    let roles: Vec<Role> = listed.iter().map(|watched| watched.role).collect();
    assert_eq!(
        roles.iter().filter(|role| **role == Role::Server).count(),
        2
    );
}

#[test]
fn what_elsewhere_has_ended_is_gone() {
    let mut board = Board::new(vec!["here".to_owned()]);
    let side = RelaySide::Client;
    board.take(at(0), vec![told(1, side, 500, 0, 0.0)], false);
    board.take(at(1000), Vec::new(), false);
    let reading = board.reading(&Filter::All, Order::Goodput, true);
    assert_eq!(reading.gone, [1]);
    assert!(reading.connections.is_empty());
}
