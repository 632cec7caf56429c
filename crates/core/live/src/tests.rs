mod board;
mod explained;
mod filter;
mod relayed;

use std::time::Duration;

use limit::kernel::{Clocks, Reading};
use record::top::State;
use units::Time;

use crate::{Key, Seen};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// A socket that has been busy for `busy` milliseconds and had `bytes` acknowledged.
fn seen(cookie: u64, busy: u64, bytes: u64) -> Seen {
    Seen {
        key: Key {
            namespace: 0,
            cookie,
        },
        local: "10.0.0.1:40000".parse().unwrap(),
        peer: "203.0.113.7:443".parse().unwrap(),
        state: State::Established,
        inode: 0,
        uid: 1000,
        receive_queue: 0,
        send_queue: 0,
        congestion_control: Some("cubic".to_owned()),
        sender: Reading {
            clocks: Some(Clocks {
                busy: ms(busy),
                ..Clocks::default()
            }),
            rtt: ms(100),
            min_rtt: Some(ms(100)),
            cwnd: 10,
            ..Reading::default()
        },
        mss: 1448,
        in_flight: 0,
        bytes_acked: Some(bytes),
        bytes_received: Some(0),
        peer_window: Some(65_535),
        delivery_bps: None,
        relayed: None,
    }
}

/// The same in another state.
fn in_state(state: State, seen: Seen) -> Seen {
    Seen { state, ..seen }
}
