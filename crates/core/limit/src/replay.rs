//! The events of a timeline, replayed into waits.

use std::collections::VecDeque;

use core::time::Duration;

use units::Time;

use crate::{Event, EventKind, Repair};

/// New data leaving the sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    pub(crate) at: Time,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// An acknowledgment, with the sender's state around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) at: Time,
    /// Acknowledged before and after it.
    pub(crate) acked_before: i64,
    pub(crate) acked: i64,
    /// Right edge of the window before it; `None` while no window is known.
    pub(crate) edge_before: Option<i64>,
    /// The window as it was before, and as it is after.
    pub(crate) window_before: Option<u64>,
    pub(crate) window: Option<u64>,
    /// Bytes in flight before it.
    pub(crate) flight_before: i64,
    pub(crate) bare: bool,
    pub(crate) holds_more: bool,
    /// When the tap saw it.
    pub(crate) passed_at: Time,
    /// From the sending of its last byte, by Karn's rule.
    pub(crate) rtt: Option<Duration>,
    /// From the sending of the byte that its SACK blocks report first, unless that was sent again.
    pub(crate) reported_rtt: Option<Duration>,
}

/// Data sent again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeat {
    pub(crate) at: Time,
    pub(crate) from: i64,
    pub(crate) cause: Repair,
    /// Everything sent so far: repair ends when this is acknowledged.
    pub(crate) sent_to: i64,
    /// When those bytes were sent first, where the capture shows it.
    pub(crate) first_sent_at: Option<Time>,
}

/// Sends, ACKs and repeats, each in order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replay {
    pub(crate) sends: Vec<Send>,
    pub(crate) acks: Vec<Ack>,
    pub(crate) repeats: Vec<Repeat>,
    /// For each send, how many ACKs came before it.
    pub(crate) acks_before_send: Vec<usize>,
}

impl Replay {
    pub(crate) fn new(events: &[Event]) -> Self {
        let sends = events.iter().filter(|event| event.is_new_data()).count();
        let mut replay = Self {
            sends: Vec::with_capacity(sends),
            acks: Vec::with_capacity(events.len() - sends),
            repeats: Vec::new(),
            acks_before_send: Vec::with_capacity(sends),
        };
        let mut outstanding: VecDeque<Outstanding> = VecDeque::new();
        let mut state = State::default();
        for event in events {
            match event.kind {
                EventKind::Sent {
                    from,
                    to,
                    repair: None,
                } => {
                    let send = Send {
                        at: event.at,
                        from,
                        to,
                    };
                    replay.sends.push(send);
                    replay.acks_before_send.push(replay.acks.len());
                    outstanding.push_back(Outstanding {
                        send,
                        repeated: false,
                        again: false,
                    });
                    state.acked.get_or_insert(from);
                    state.sent_to = Some(state.sent_to.map_or(to, |sent| sent.max(to)));
                }
                EventKind::Sent {
                    from,
                    to,
                    repair: Some(cause),
                } => {
                    let mut first_sent_at = None;
                    for one in &mut outstanding {
                        if one.send.to > from {
                            one.repeated = true;
                            one.again |= one.send.from < to;
                            if one.send.from <= from {
                                first_sent_at = Some(one.send.at);
                            }
                        }
                    }
                    let sent_to = state.sent_to.map_or(to, |sent| sent.max(to));
                    state.sent_to = Some(sent_to);
                    replay.repeats.push(Repeat {
                        at: event.at,
                        from,
                        cause,
                        sent_to,
                        first_sent_at,
                    });
                }
                EventKind::Ack {
                    to,
                    window,
                    bare,
                    holds_more,
                    newest,
                    passed_at,
                } => {
                    let reported_rtt = newest.and_then(|newest| {
                        let index = outstanding.partition_point(|one| one.send.to < newest);
                        let one = outstanding.get(index)?;
                        let known = !one.again && one.send.from < newest;
                        event.at.checked_since(known.then_some(one.send.at)?)
                    });
                    let ack =
                        state.on_ack(event.at, to, window, (bare, holds_more), &mut outstanding);
                    replay.acks.push(Ack {
                        passed_at,
                        reported_rtt,
                        ..ack
                    });
                }
            }
        }
        replay
    }

    /// When a byte beyond `position` was sent first: about when that one was, where the capture lacks it.
    pub(crate) fn passed_at(&self, position: i64) -> Option<Time> {
        let index = self.sends.partition_point(|send| send.to <= position);
        self.sends.get(index).map(|send| send.at)
    }

    /// Everything sent at `at`.
    pub(crate) fn sent_to(&self, at: Time) -> Option<i64> {
        let count = self.sends.partition_point(|send| send.at <= at);
        self.sends.get(count.checked_sub(1)?).map(|send| send.to)
    }

    /// Everything acknowledged at `at`.
    pub(crate) fn acked_to(&self, at: Time) -> Option<i64> {
        let count = self.acks.partition_point(|ack| ack.at <= at);
        self.acks.get(count.checked_sub(1)?).map(|ack| ack.acked)
    }

    /// The ACKs between send `index` and the one after it.
    pub(crate) fn acks_after(&self, index: usize) -> &[Ack] {
        let from = self
            .acks_before_send
            .get(index)
            .copied()
            .unwrap_or_default();
        let to = self
            .acks_before_send
            .get(index + 1)
            .copied()
            .unwrap_or(self.acks.len());
        self.acks.get(from..to).unwrap_or_default()
    }

    /// The latest round-trip sample before `at`.
    pub(crate) fn rtt_before(&self, at: Time) -> Option<Duration> {
        let count = self.acks.partition_point(|ack| ack.at <= at);
        self.acks
            .get(..count)?
            .iter()
            .rev()
            .take(64)
            .find_map(|ack| ack.rtt)
    }
}

/// What was sent and is not acknowledged by number.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    send: Send,
    /// It, or something ahead of it, was sent again: its ACK may have waited for that.
    repeated: bool,
    /// It was itself: nobody knows which time SACK reports.
    again: bool,
}

#[derive(Debug, Default)]
struct State {
    acked: Option<i64>,
    sent_to: Option<i64>,
    edge: Option<i64>,
    window: Option<u64>,
}

impl State {
    fn on_ack(
        &mut self,
        at: Time,
        to: i64,
        window: Option<u64>,
        (bare, holds_more): (bool, bool),
        outstanding: &mut VecDeque<Outstanding>,
    ) -> Ack {
        let before = self.acked.unwrap_or(to);
        let acked = before.max(to);
        let sent_to = self.sent_to.unwrap_or(acked);
        let mut rtt = None;
        let mut repaired = false;
        while let Some(&Outstanding { send, repeated, .. }) = outstanding.front() {
            if send.to > acked {
                // GRO and GSO: an ACK may end inside a segment that the sender handed down as one.
                if send.from < acked && !repeated && !repaired {
                    rtt = at.checked_since(send.at);
                }
                break;
            }
            outstanding.pop_front();
            repaired |= repeated;
            rtt = if repaired {
                None
            } else {
                at.checked_since(send.at)
            };
        }
        let (edge_before, window_before) = (self.edge, self.window);
        if let Some(bytes) = window
            && to >= before
        {
            // A window may shrink, against RFC 9293 §3.8.6; its latest edge counts.
            self.edge = Some(to.saturating_add_unsigned(bytes));
            self.window = Some(bytes);
        }
        self.acked = Some(acked);
        self.sent_to = Some(sent_to.max(acked));
        Ack {
            at,
            acked_before: before,
            acked,
            edge_before,
            window_before,
            window: self.window,
            flight_before: sent_to - before,
            bare,
            holds_more,
            passed_at: at,
            rtt: rtt.filter(|_| acked > before),
            reported_rtt: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(at_ms: u64, from: i64, repair: Option<Repair>) -> Event {
        Event {
            at: Time::from_millis(at_ms),
            kind: EventKind::Sent {
                from,
                to: from + 1_000,
                repair,
            },
        }
    }

    fn ack(at_ms: u64, to: i64, newest: Option<i64>) -> Event {
        let at = Time::from_millis(at_ms);
        Event {
            at,
            kind: EventKind::Ack {
                to,
                window: None,
                bare: true,
                holds_more: newest.is_some(),
                newest,
                passed_at: at,
            },
        }
    }

    /// Behind a hole no acknowledgment by number gives a round trip.
    #[test]
    fn what_sack_reports_first_gives_round_trips_while_losses_are_repaired() {
        let replay = Replay::new(&[
            sent(0, 0, None),
            sent(1, 1_000, None),
            sent(2, 2_000, None),
            sent(3, 3_000, None),
            ack(41, 0, Some(2_000)),
            ack(42, 0, Some(3_000)),
            sent(43, 0, Some(Repair::Fast)),
            ack(44, 0, Some(4_000)),
            ack(83, 4_000, None),
        ]);
        let reported: Vec<Option<u128>> = replay
            .acks
            .iter()
            .map(|ack| ack.reported_rtt.map(|rtt| rtt.as_millis()))
            .collect();
        assert_eq!(reported, [Some(40), Some(40), Some(41), None]);
        assert!(replay.acks.iter().all(|ack| ack.rtt.is_none()));
    }
}
