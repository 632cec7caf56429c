//! A window above TCP, where TCP acknowledges at once: beside a relay whose other end is far away.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use core::time::Duration;
use std::collections::VecDeque;

use longhaul_limit::{
    Attribution, ChannelWindow, Detail, Event, EventKind, LimitName, Timeline, WindowField,
    attribute,
};
use units::{PacketOverhead, Time};

const KIB: i64 = 1024;
const MIB: i64 = 1024 * KIB;

/// To the relay and back, in microseconds.
const TCP_RTT: u64 = 20;

/// To the other end of the protocol and back.
const ROUND_TRIP: u64 = 65_000;

/// What the sender writes at a time, and how long that takes it.
const CHUNK: i64 = 32 * KIB;
const CHUNK_TIME: u64 = 25;

/// A sender beside a relay, and when the far end's messages come.
struct Sender {
    now: u64,
    sent: i64,
    events: Vec<Event>,
    /// When each comes, and up to where it lets the sender go.
    messages: VecDeque<(u64, i64)>,
    granted: i64,
}

impl Sender {
    fn new(granted: i64) -> Self {
        let mut sender = Self {
            now: 0,
            sent: 0,
            events: Vec::new(),
            messages: VecDeque::new(),
            granted,
        };
        sender.acknowledged(0, true);
        sender
    }

    fn acknowledged(&mut self, at: u64, bare: bool) {
        let at = Time::from_micros(at);
        let kind = EventKind::Ack {
            to: self.sent,
            window: Some(1 << 24),
            bare,
            holds_more: false,
            newest: None,
            passed_at: at,
        };
        self.events.push(Event { at, kind });
    }

    fn send(&mut self, bytes: i64) {
        let kind = EventKind::Sent {
            from: self.sent,
            to: self.sent + bytes,
            repair: None,
        };
        self.events.push(Event {
            at: Time::from_micros(self.now),
            kind,
        });
        self.sent += bytes;
        self.acknowledged(self.now + TCP_RTT, true);
        self.now += CHUNK_TIME;
        self.hear();
    }

    /// Takes the messages that have come.
    fn hear(&mut self) {
        while let Some((at, to)) = self.messages.pop_front_if(|(at, _)| *at <= self.now) {
            self.acknowledged(at, false);
            self.granted = self.granted.max(to);
        }
    }

    /// Waits for the next message and goes on when the process has been woken.
    fn wait(&mut self) {
        let (at, _) = *self.messages.front().unwrap();
        self.now = self.now.max(at);
        self.hear();
        self.now += 150;
    }

    fn attribution(mut self, ssh: bool) -> Attribution {
        self.events.sort_by_key(|event| event.at);
        attribute(&Timeline {
            from: self.events.first().unwrap().at,
            to: self.events.last().unwrap().at,
            handshake: None,
            tls: None,
            ending_at: None,
            base_rtt: Some(Duration::from_micros(TCP_RTT)),
            feedback_delay: Duration::ZERO,
            queues_show: true,
            peer_window: ssh,
            segment: PacketOverhead::IPV4_TIMESTAMPS,
            window: WindowField::Scaled,
            blind: None,
            events: self.events,
        })
    }
}

/// An upload through a channel of 2 MiB: the other end takes a chunk each `every` microseconds at most and
/// tops the window up by 96 KiB.
fn channel(every: u64, ssh: bool) -> Attribution {
    let mut sender = Sender::new(2 * MIB);
    let (mut taken_at, mut topped_up) = (0, 0);
    while sender.sent < 96 * MIB {
        if sender.sent + CHUNK > sender.granted {
            sender.wait();
            continue;
        }
        taken_at = (taken_at + every).max(sender.now + ROUND_TRIP / 2);
        sender.send(CHUNK);
        if sender.sent - topped_up >= 96 * KIB {
            topped_up = sender.sent;
            let told_at = taken_at + ROUND_TRIP / 2;
            sender.messages.push_back((told_at, topped_up + 2 * MIB));
        }
    }
    sender.attribution(ssh)
}

fn held(attribution: &Attribution) -> Duration {
    let key = (LimitName::Application, Detail::PeerWindow);
    attribution.details().get(&key).copied().unwrap_or_default()
}

fn whole(attribution: &Attribution) -> Duration {
    attribution.limits().values().sum()
}

#[track_caller]
fn assert_is_the_channel(found: &ChannelWindow) {
    let window = found.window.get();
    assert!((1_800_000..=2_200_000).contains(&window), "{found:?}");
    let round_trip = found.round_trip.as_micros();
    assert!((65_000..=68_000).contains(&round_trip), "{found:?}");
    assert!(found.told_percent >= 90, "{found:?}");
    assert_eq!(found.stroke.get(), 2 << 20);
}

#[test]
fn a_channels_window_shows_although_tcp_acknowledges_at_once() {
    // A far end at 500 Mbit/s whose messages come in clumps, and one that is only just fast enough.
    for every in [525, 950] {
        let attribution = channel(every, true);
        assert_is_the_channel(attribution.channel.as_ref().unwrap());
        let (held, whole) = (held(&attribution), whole(&attribution));
        assert!(held * 10 >= whole * 8, "{held:?} of {whole:?}");
    }
}

#[test]
fn only_a_protocol_that_has_such_a_window_waits_for_it() {
    let attribution = channel(525, false);
    assert_eq!(attribution.channel, None);
    assert_eq!(held(&attribution), Duration::ZERO);
}

/// Requests of `bytes` through a channel that has room for them, each after the answer to the one before; `behind`
/// more are under way than one. The channel is topped up meanwhile.
fn turns(bytes: i64, behind: i64) -> Attribution {
    let ahead = bytes * (1 + behind);
    let mut sender = Sender::new(ahead);
    let mut topped_up = 0;
    while sender.sent < 60 * bytes {
        if sender.sent == sender.granted {
            sender.wait();
            continue;
        }
        sender.send(CHUNK.min(bytes - sender.sent % bytes));
        let answered = sender.sent % bytes == 0;
        if answered || sender.sent - topped_up >= 96 * KIB {
            topped_up = sender.sent;
            let to = if answered { sender.sent + ahead } else { 0 };
            sender.messages.push_back((sender.now + ROUND_TRIP, to));
        }
    }
    sender.attribution(true)
}

#[test]
fn requests_and_answers_inside_a_channel_are_no_window() {
    // Uploads of the size of a window as well, where the program waits for each one's answer.
    for bytes in [100_000, 512 * KIB, 2 * MIB] {
        for behind in [0, 1] {
            let attribution = turns(bytes, behind);
            assert_eq!(attribution.channel, None, "{bytes} B, {behind} behind");
            assert_eq!(held(&attribution), Duration::ZERO, "{bytes} B");
        }
    }
}

/// A program that writes `bytes` every so many microseconds, whatever the peer says.
fn writer(bytes: i64, every: u64) -> Attribution {
    let mut sender = Sender::new(0);
    let mut topped_up = 0;
    for number in 0..2_000 {
        sender.now = sender.now.max(number * every);
        sender.hear();
        sender.send(bytes);
        if sender.sent - topped_up >= 96 * KIB {
            topped_up = sender.sent;
            let told_at = sender.now + ROUND_TRIP;
            sender.messages.push_back((told_at, 0));
        }
    }
    sender.attribution(true)
}

#[test]
fn a_slow_writer_is_no_window_even_where_messages_and_writes_keep_step() {
    for (bytes, every) in [
        (32 * KIB, 3_000),
        (32 * KIB, 1_100),
        (96 * KIB, 5_000),
        // Each message comes right before a write.
        (96 * KIB, 6_505),
        (200_000, 30_000),
    ] {
        let attribution = writer(bytes, every);
        assert_eq!(attribution.channel, None, "{bytes} B every {every} us");
        assert_eq!(
            held(&attribution),
            Duration::ZERO,
            "{bytes} B every {every} us"
        );
    }
}

/// A program that first writes 2 MiB at one stroke, and then as much as it likes when it likes.
#[test]
fn a_writer_of_bursts_is_no_window() {
    for seed in 0..20_u64 {
        let mut random = seed;
        let mut draw = |from: u64, to: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            from + (random >> 33) % (to - from)
        };
        let mut sender = Sender::new(0);
        let (mut topped_up, mut burst) = (0, 2 * MIB);
        for _ in 0..300 {
            let end = sender.sent + burst;
            while sender.sent < end {
                sender.send(CHUNK.min(end - sender.sent));
                if sender.sent - topped_up >= 96 * KIB {
                    topped_up = sender.sent;
                    let told_at = sender.now + ROUND_TRIP;
                    sender.messages.push_back((told_at, 0));
                }
            }
            sender.now += draw(2_000, 60_000);
            sender.hear();
            burst = i64::try_from(draw(20_000, 600_000)).unwrap();
        }
        let attribution = sender.attribution(true);
        assert_eq!(attribution.channel, None, "seed {seed}");
    }
}

#[test]
fn keystrokes_are_no_window() {
    let mut sender = Sender::new(0);
    for number in 0..500 {
        sender.now = sender.now.max(number * 120_000);
        sender.send(36);
        let echoed_at = sender.now + ROUND_TRIP;
        sender.messages.push_back((echoed_at, 0));
        sender.wait();
    }
    let attribution = sender.attribution(true);
    assert_eq!(attribution.channel, None);
    assert_eq!(held(&attribution), Duration::ZERO);
}
