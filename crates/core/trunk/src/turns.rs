use alloc::collections::VecDeque;

use crate::StreamId;

/// Whose turn it is to send.
///
/// As in FQ-CoDel (RFC 8290, section 4.2): a stream that had nothing to send goes before those that always
/// have, until it has sent one quantum. So a keystroke waits for the chunk that is being written, not for
/// the transfers beside it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    fresh: VecDeque<StreamId>,
    bulk: VecDeque<StreamId>,
}

/// Which of the two a stream stood in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Queue {
    Fresh,
    Bulk,
}

impl Turns {
    /// A stream that had nothing to send has something.
    pub(crate) fn add(&mut self, stream: StreamId) {
        self.fresh.push_back(stream);
    }

    /// The stream whose turn it is.
    pub(crate) fn take(&mut self) -> Option<(StreamId, Queue)> {
        let fresh = self.fresh.pop_front().map(|stream| (stream, Queue::Fresh));
        fresh.or_else(|| self.bulk.pop_front().map(|stream| (stream, Queue::Bulk)))
    }

    /// It keeps its turn.
    pub(crate) fn keep(&mut self, stream: StreamId, queue: Queue) {
        match queue {
            Queue::Fresh => self.fresh.push_front(stream),
            Queue::Bulk => self.bulk.push_front(stream),
        }
    }

    /// It has had its turn.
    pub(crate) fn rotate(&mut self, stream: StreamId) {
        self.bulk.push_back(stream);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.bulk.is_empty()
    }
}
