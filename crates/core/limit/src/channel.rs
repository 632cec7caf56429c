//! A window above TCP's, told by what lets a sender go on.
//!
//! Beside a relay TCP acknowledges at once, so that neither its round trip nor its flight says what a protocol above
//! it allows. Such a window shows in what is sent: the sender sends all of it at one stroke and stands still,
//! although everything is acknowledged and there is room. From then on it goes on only when the peer has spoken, a
//! little each time, and whenever it pauses it has sent as much within the last round trip to the protocol's other
//! end. A program that waits for answers sends all of its next request when it has one; a slow one pauses
//! whether or not the peer speaks.

use core::cmp::Reverse;
use core::time::Duration;

use units::{Bytes, Time};

use crate::attribution::Span;
use crate::replay::{Ack, Replay, Send};
use crate::{Detail, LimitName, Timeline};

/// What a protocol above TCP lets be on its way.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChannelWindow {
    /// What the sender had sent within a round trip when it paused: the median over the time of its pauses. A little
    /// less than the protocol's own number where answers take longer than that round trip, a little more with its framing.
    pub window: Bytes,
    /// To the other end of the protocol and back: from the first byte of a window that was sent at one stroke to the
    /// peer's first message.
    pub round_trip: Duration,
    /// When that stroke began, at the tap.
    pub began_at: Time,
    /// What it sent.
    pub stroke: Bytes,
    /// The stroke's pause, and the first ones behind it with as much on its way as `window`.
    pub pauses: Vec<Pause>,
    /// How much of all time in pauses ended with a message of the peer, in percent.
    pub told_percent: u8,
}

/// A pause that ended when the peer had spoken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pause {
    /// When the last bytes ahead of it were sent, at the tap.
    pub sent_at: Time,
    /// When the peer's last message in it passed the tap.
    pub told_at: Time,
    /// When the next bytes were sent, at the tap.
    pub resumed_at: Time,
    /// What was sent within the last round trip before it.
    pub on_its_way: Bytes,
}

/// Less than this is conversation: an SSH channel's window is 2 MiB in OpenSSH, libssh2 and Paramiko.
const MUCH: i64 = 64 * 1024;

/// The window that `direction` shows, and the pauses that it made.
pub(crate) fn find(timeline: &Timeline, replay: &Replay) -> Option<(ChannelWindow, Vec<Span>)> {
    /// A stroke may be cut by a message about something else; one of the largest is whole.
    const TRIED: usize = 8;
    if !timeline.peer_window || timeline.blind.is_some() {
        return None;
    }
    let mss = u64::from(timeline.segment.payload.max(1));
    let mut strokes = strokes(replay, mss);
    strokes.sort_by_key(|stroke| Reverse(stroke.bytes));
    let mut largest = strokes.iter().take(TRIED);
    largest.find_map(|stroke| judge(replay, stroke))
}

/// Much that was sent while the peer said nothing, and a standstill until it did.
#[derive(Clone, Copy, Debug)]
struct Stroke {
    /// Index of its last send.
    last: usize,
    began_at: Time,
    bytes: i64,
    round_trip: Duration,
}

/// How soon after a message the sender goes on, if that is what it waited for: a process has to be woken, and its data
/// encrypted.
fn patience(round_trip: Duration) -> Duration {
    (round_trip / 32).max(Duration::from_millis(1))
}

/// The latest message among `acks`, if the sender went on with `next` right behind it.
fn told<'a>(acks: &'a [Ack], next: &Send, patience: Duration) -> Option<&'a Ack> {
    let message = acks.iter().rev().find(|ack| !ack.bare)?;
    (next.at.since(message.at) <= patience).then_some(message)
}

fn strokes(replay: &Replay, mss: u64) -> Vec<Stroke> {
    let mut strokes = Vec::new();
    let mut began = None;
    for (last, pair) in replay.sends.windows(2).enumerate() {
        let [send, next] = pair else { continue };
        let first: &Send = began.get_or_insert(send);
        let acks = replay.acks_after(last);
        let Some(answer) = acks.iter().find(|ack| !ack.bare) else {
            continue;
        };
        let (bytes, round_trip) = (send.to - first.from, answer.at.since(first.at));
        let stood = answer.at.since(send.at);
        // What TCP still has to carry, or has no room for, is TCP's to explain.
        let carried = acks.iter().any(|ack| {
            let soon = ack.at.since(send.at) * 2 <= stood;
            let room = ack.window.is_none_or(|window| window >= mss);
            soon && room && ack.acked >= send.to
        });
        let stroke = Stroke {
            last,
            began_at: first.at,
            bytes,
            round_trip,
        };
        let resumed = told(acks, next, patience(round_trip)).is_some();
        if bytes >= MUCH && stood * 2 >= round_trip && carried && resumed {
            strokes.push(stroke);
        }
        began = None;
    }
    strokes
}

/// Whether the sender's pauses from `stroke` on are those of a window that is as large.
fn judge(replay: &Replay, stroke: &Stroke) -> Option<(ChannelWindow, Vec<Span>)> {
    /// With fewer, a constant may be chance.
    const LEAST: usize = 8;
    let patience = patience(stroke.round_trip);
    let sends = replay.sends.get(stroke.last..)?;
    let first = replay.sends.first()?.from;
    let mut pauses = Vec::new();
    // All waiting, and that which the peer ended.
    let (mut waited, mut obeyed) = (Duration::ZERO, Duration::ZERO);
    // What was sent by the last pause that the peer ended.
    let mut sent_before = sends.first()?.to - stroke.bytes;
    // What each of them let go.
    let mut released = Vec::new();
    for (index, pair) in (stroke.last..).zip(sends.windows(2)) {
        let [send, next] = pair else { continue };
        let message = told(replay.acks_after(index), next, patience);
        let gap = next.at.since(send.at);
        if message.is_none() && gap <= patience * 2 {
            continue;
        }
        let earlier = replay.sent_to(send.at.saturating_sub(stroke.round_trip));
        let on_its_way = send.to - earlier.unwrap_or(first);
        if on_its_way >= MUCH && gap > patience * 2 {
            // A session that idles after its transfer says nothing of it.
            let counted = gap.min(stroke.round_trip * 2);
            waited += counted;
            obeyed += message.map_or(Duration::ZERO, |_| counted);
        }
        let Some(message) = message else { continue };
        released.push((on_its_way, send.to - sent_before));
        sent_before = send.to;
        pauses.push(Pause {
            sent_at: send.at,
            told_at: message.passed_at,
            resumed_at: next.at,
            on_its_way: Bytes::new(u64::try_from(on_its_way).unwrap_or(0)),
        });
    }
    // By their time: a message may come while the sender has more to send, and its pause is short then.
    let full: Vec<(u64, Duration)> = pauses
        .iter()
        .map(|pause| {
            (
                pause.on_its_way.get(),
                pause.resumed_at.since(pause.sent_at),
            )
        })
        .filter(|(bytes, _)| *bytes >= MUCH.unsigned_abs())
        .collect();
    let window = median(full.clone())?;
    let all: Duration = full.iter().map(|(_, gap)| *gap).sum();
    let constant = full
        .iter()
        .filter(|(bytes, _)| bytes.abs_diff(window) * 4 <= window);
    let constant: Duration = constant.map(|(_, gap)| *gap).sum();
    let stroke_bytes = stroke.bytes.unsigned_abs();
    let in_turn = released
        .iter()
        .filter(|(on_its_way, _)| on_its_way.unsigned_abs() * 2 >= window)
        .map(|(_, bytes)| (bytes.unsigned_abs(), Duration::from_nanos(1)));
    let is_one = full.len() >= LEAST
        && obeyed * 4 >= waited * 3
        && constant * 4 >= all * 3
        && (window / 2..=window + window / 4).contains(&stroke_bytes)
        && median(in_turn.collect())? * 4 <= window;
    if !is_one {
        return None;
    }
    let spans = pauses
        .iter()
        .filter(|pause| pause.on_its_way.get() * 2 >= window)
        .map(|pause| Span {
            from: pause.sent_at,
            to: pause.resumed_at,
            limit: LimitName::Application,
            detail: Some(Detail::PeerWindow),
            reason: None,
        })
        .collect();
    let percent = obeyed.as_nanos() * 100 / waited.as_nanos().max(1);
    let mut number = 0;
    pauses.retain(|pause| {
        let long = pause.resumed_at.since(pause.sent_at) > patience;
        let typical = pause.on_its_way.get().abs_diff(window) * 4 <= window;
        number += 1;
        number == 1 || (long && typical)
    });
    pauses.truncate(SHOWN);
    let found = ChannelWindow {
        window: Bytes::new(window),
        round_trip: stroke.round_trip,
        began_at: stroke.began_at,
        stroke: Bytes::new(stroke_bytes),
        pauses,
        told_percent: u8::try_from(percent).unwrap_or(100),
    };
    Some((found, spans))
}

/// Pauses that a finding shows.
const SHOWN: usize = 6;

/// The number at which half of all time is reached.
fn median(mut numbers: Vec<(u64, Duration)>) -> Option<u64> {
    numbers.sort_unstable();
    let all: Duration = numbers.iter().map(|(_, time)| *time).sum();
    let mut reached = Duration::ZERO;
    numbers.iter().find_map(|(number, time)| {
        reached += *time;
        (reached * 2 >= all).then_some(*number)
    })
}
