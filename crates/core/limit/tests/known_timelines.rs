//! Timelines that real captures taught, reduced to the packets that matter.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use core::time::Duration;

use longhaul_limit::{
    Detail, Event, EventKind, LimitName, Repair, Timeline, WindowField, attribute,
};
use units::{PacketOverhead, Time};

const MSS: i64 = 1448;

fn sent(at_us: u64, from: i64, to: i64, repair: Option<Repair>) -> Event {
    Event {
        at: Time::from_micros(at_us),
        kind: EventKind::Sent { from, to, repair },
    }
}

fn ack(at_us: u64, to: i64, window: u64) -> Event {
    Event {
        at: Time::from_micros(at_us),
        kind: EventKind::Ack {
            to,
            window: Some(window),
            bare: true,
            holds_more: false,
            newest: None,
            passed_at: Time::from_micros(at_us),
        },
    }
}

fn timeline(base_rtt: Duration, events: Vec<Event>) -> Timeline {
    Timeline {
        from: events.first().unwrap().at,
        to: events.last().unwrap().at,
        handshake: None,
        tls: None,
        ending_at: None,
        base_rtt: Some(base_rtt),
        feedback_delay: Duration::ZERO,
        queues_show: true,
        peer_window: false,
        segment: PacketOverhead::IPV4_TIMESTAMPS,
        window: WindowField::Scaled,
        blind: None,
        events,
    }
}

/// Seconds of a limit in milliseconds, rounded down.
fn milliseconds(timeline: &Timeline, limit: LimitName) -> u128 {
    let limits = attribute(timeline).limits();
    limits.get(&limit).map_or(0, Duration::as_millis)
}

/// A relay that reads slowly, 10 us away: the window closes, a tail probe repeats what had arrived, and
/// 114 ms later the window opens.
fn slow_reader() -> Timeline {
    timeline(
        Duration::from_micros(10),
        vec![
            ack(0, 0, 30_720),
            sent(97, 0, 30_720, None),
            sent(20_000, 30_408, 30_720, Some(Repair::Spurious)),
            ack(44_000, 30_720, 0),
            ack(158_000, 30_720, 94_208),
            sent(158_028, 30_720, 95_880, None),
            ack(158_040, 95_880, 220_160),
        ],
    )
}

#[test]
fn a_closed_window_is_receive_window_however_short_the_path_is() {
    assert_eq!(
        milliseconds(&slow_reader(), LimitName::ReceiveWindow),
        157,
        "from the last byte that had room to the first that had it again"
    );
}

#[test]
fn bytes_sent_again_after_they_had_arrived_are_no_repair() {
    assert_eq!(milliseconds(&slow_reader(), LimitName::LossRecovery), 0);
}

/// Two segments per tick; every segment is acknowledged an RTT later.
fn paced(ticks_us: impl Iterator<Item = u64>) -> Timeline {
    const RTT_US: u64 = 100_000;
    let mut events = vec![ack(0, 0, 1 << 20)];
    for (index, at) in (0_i64..).zip(ticks_us) {
        let (from, to) = (index * 2 * MSS, (index + 1) * 2 * MSS);
        events.push(sent(at, from, to, None));
        events.push(ack(at + RTT_US, to, 1 << 20));
    }
    events.sort_by_key(|event| event.at);
    timeline(Duration::from_micros(RTT_US), events)
}

#[test]
fn pacing_whose_rate_doubles_per_round_trip_is_slow_start() {
    // 5, 10, 20 and 40 ticks per round trip.
    let ticks = (0..4_u64).flat_map(|round| {
        let count = 5 << round;
        (0..count).map(move |tick| round * 100_000 + tick * 100_000 / count + 50)
    });
    let timeline = paced(ticks);
    let slow_start = milliseconds(&timeline, LimitName::SlowStart);
    assert!(
        slow_start >= 200,
        "{slow_start} ms: {:?}",
        attribute(&timeline).limits()
    );
}

#[test]
fn a_steady_rate_below_the_path_is_not_slow_start() {
    let timeline = paced((0..60).map(|tick| tick * 10_000 + 50));
    // The first round trip looks like the beginning of anything.
    let slow_start = milliseconds(&timeline, LimitName::SlowStart);
    assert!(
        slow_start <= 100,
        "{slow_start} ms: {:?}",
        attribute(&timeline).limits()
    );
}

/// Chunks of 32 KiB, 1 MiB of them on their way; each is let go by a message of the peer, which TCP's own
/// acknowledgments had long allowed.
fn channel(peer_window: bool) -> Timeline {
    const RTT_US: u64 = 100_000;
    const CHUNK: i64 = 32 * 1024;
    const ON_THE_WAY: u64 = 32;
    let mut events = vec![ack(0, 0, 1 << 24)];
    for chunk in 0..ON_THE_WAY * 10 {
        let (round, place) = (chunk / ON_THE_WAY, chunk % ON_THE_WAY);
        let at = round * RTT_US + place * RTT_US / ON_THE_WAY + 50;
        let from = i64::try_from(chunk).unwrap() * CHUNK;
        events.push(sent(at, from, from + CHUNK, None));
        let mut told = ack(at + RTT_US - 40, from + CHUNK, 1 << 24);
        if let EventKind::Ack { bare, .. } = &mut told.kind {
            *bare = false;
        }
        events.push(told);
    }
    events.sort_by_key(|event| event.at);
    Timeline {
        peer_window,
        ..timeline(Duration::from_micros(RTT_US), events)
    }
}

#[test]
fn a_channel_that_waits_for_its_own_window_is_no_limit_of_tcp() {
    let told = |peer_window| {
        let details = attribute(&channel(peer_window)).details();
        let key = (LimitName::Application, Detail::PeerWindow);
        details.get(&key).map_or(0, Duration::as_millis)
    };
    // Ten round trips, the first and the last of which are start and end.
    assert!(told(true) >= 800, "{} ms", told(true));
    assert_eq!(told(false), 0, "only SSH has such windows");
}
