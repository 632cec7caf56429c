//! Whether the receiver's window held the sender.

use units::Time;

use super::{Judge, Verdict};
use crate::growth;
use crate::replay::{Ack, Send};
use crate::{Detail, LimitName, WindowField};

impl<'a> Judge<'a> {
    /// A short segment that ends exactly at the window's edge, long after the ACK that put it there: the
    /// sender waited for room for a full one, until its patience was over.
    pub(super) fn filled_the_rest(&self, index: usize, next: &Send) -> bool {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.2.1
        //# (3) or if at least a fraction Fs of the maximum window can be sent,
        let before = self.replay.acks_after(index).last();
        let Some(ack) = before.filter(|ack| next.at.since(ack.at) > self.reaction) else {
            return false;
        };
        let edge = ack
            .window
            .map(|window| ack.acked.saturating_add_unsigned(window));
        next.to - next.from < self.mss && edge == Some(next.to)
    }

    /// The ACK that made room for `next`, if there was none behind `send`, and `next` followed soon
    /// compared with the stall: on a short path a tenth of a stall is many round trips.
    pub(super) fn made_room(&self, index: usize, send: &Send, next: &Send) -> Option<&'a Ack> {
        let wanted = (next.to - next.from).min(self.mss);
        let opened = self.replay.acks_after(index).iter().find(|ack| {
            let had_room = ack
                .edge_before
                .is_none_or(|edge| edge.saturating_sub(send.to) >= wanted);
            let has_room = ack
                .window
                .map(|window| ack.acked.saturating_add_unsigned(window))
                .is_some_and(|edge| edge.saturating_sub(send.to) >= wanted);
            !had_room && has_room
        })?;
        let patience = self.reaction.max(opened.at.since(send.at) / 10);
        (next.at.since(opened.at) <= patience).then_some(opened)
    }

    pub(super) fn window_had_no_room(
        &self,
        ack: &Ack,
        next: &Send,
        send: &Send,
    ) -> Option<Verdict> {
        let room = ack.edge_before?.saturating_sub(send.to);
        // Case B of the field: a window of 4096 bytes holds two segments of 1448; the third has no room,
        // although the window is never "full".
        let wanted = (next.to - next.from).min(self.mss);
        if room >= wanted {
            return None;
        }
        // No queue closes a window: its reader does.
        if ack.window_before != Some(0) && self.path_is_full(ack) {
            // The window is full only because the queue holds it: without the queue it would carry more
            // than the path.
            return Some(Verdict::Held(LimitName::Bottleneck, None));
        }
        let window = ack.window_before?;
        let detail = if window == 0 {
            Detail::ZeroWindow
        } else if self.timeline.window == WindowField::Unscaled && window > 50_000 {
            Detail::NoScaling
        } else if self.window_grew(ack) {
            Detail::Growing
        } else {
            Detail::Static
        };
        Some(Verdict::Held(LimitName::ReceiveWindow, Some(detail)))
    }

    /// Whether the window is more than a twentieth larger a round trip later.
    fn window_grew(&self, ack: &Ack) -> bool {
        let (Some(before), Some(mut after)) = (ack.window_before, ack.window) else {
            return false;
        };
        let until = ack.at + self.rtt;
        let from = self.replay.acks.partition_point(|other| other.at < ack.at);
        for later in self
            .replay
            .acks
            .iter()
            .skip(from)
            .take_while(|later| later.at <= until)
        {
            after = after.max(later.window.unwrap_or(0));
        }
        after > before.saturating_add(before / 20)
    }

    /// At some moment of the last round trip the receiver's window had no room for two more segments.
    pub(super) fn pressed_the_window(&self, at: Time) -> bool {
        let from = at.saturating_sub(self.rtt);
        growth::meets_the_edge(self.replay, from, at, self.mss * 2)
    }
}
