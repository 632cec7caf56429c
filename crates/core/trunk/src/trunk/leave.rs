//! Leaving a session: no new streams, and an end with the last of those that are open.

use units::Time;

use super::Trunk;
use crate::flight::MAX_FLIGHTS;
use crate::frame::Message;
use crate::{Capabilities, Event, Reason, Violation};

/// Who has left.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// This end opens no more streams.
    ours: bool,
    /// The peer is told, or will be: the message is queued.
    told: bool,
    /// How many streams the peer has opened in all, once it has left.
    theirs: Option<u64>,
    /// Whether the peer knows what leaving is; `None` before its preface.
    known: Option<bool>,
}

impl Leaving {
    /// Whether this end opens no more streams.
    pub(super) const fn is_ours(&self) -> bool {
        self.ours
    }

    /// Whether the peer can have opened the stream with this index.
    pub(super) fn may_open(&self, index: u64) -> bool {
        self.theirs.is_none_or(|opened| index < opened)
    }
}

impl Trunk {
    /// Takes no new streams in this session, and ends it with the last of those that are open or on their way from the
    /// peer: [`Event::Ended`] tells of that. Connections are made again until then.
    ///
    /// A peer that does not know what leaving is goes on opening streams; with one, the session ends once there is
    /// no stream.
    pub fn leave(&mut self, now: Time) {
        if self.ended.is_some() {
            return;
        }
        self.leaving.ours = true;
        self.tell_leave();
        self.end_if_left(now);
    }

    /// Whether one of the ends has left, so that new streams belong into another session.
    pub const fn is_left(&self) -> bool {
        self.leaving.ours
    }

    /// The peer's preface says what it can do.
    pub(super) fn meet(&mut self, peer: Capabilities) {
        self.leaving.known = Some(peer.include(Capabilities::LEAVE));
        self.tell_leave();
    }

    fn tell_leave(&mut self) {
        let Leaving {
            ours, told, known, ..
        } = self.leaving;
        if ours && !told && known == Some(true) {
            self.leaving.told = true;
            self.sending.control.push_back(Message::Leave {
                opened: self.openings.ours,
            });
        }
    }

    /// The peer has left, and this end with it. Frames overtake each other, so the number says which of the peer's
    /// streams are still to come.
    pub(super) fn handle_leave(&mut self, opened: u64, now: Time) -> Result<(), Violation> {
        let theirs = &self.openings.theirs;
        let possible = theirs.end() <= opened && opened <= theirs.floor() + MAX_FLIGHTS;
        if !possible || self.leaving.theirs.is_some() {
            return Err(Violation::Leave);
        }
        self.leaving.theirs = Some(opened);
        self.events.push_back(Event::PeerLeaves);
        self.leave(now);
        Ok(())
    }

    /// Ends the session where both ends have left it, no stream is open or to come, and the peer has all that it needs
    /// to know that, too.
    pub(super) fn end_if_left(&mut self, now: Time) {
        if !self.leaving.ours || self.ended.is_some() || !self.streams.is_empty() {
            return;
        }
        let Leaving { theirs, known, .. } = self.leaving;
        let sending = &self.sending;
        let nothing_owed = sending.control.is_empty() && sending.flights.count() == 0;
        let over = match known {
            // It has never been heard of.
            None => true,
            Some(false) => nothing_owed,
            Some(true) => nothing_owed && theirs == Some(self.openings.theirs.floor()),
        };
        if over {
            let why = Reason::Shutdown.into();
            self.shutdown(&why, now);
            self.events.push_back(Event::Ended { why });
        }
    }
}
