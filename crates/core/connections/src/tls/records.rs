//! One side's records, out of segments that may be cut, and may start anywhere.

use alloc::vec::Vec;

use wire::tls::{ContentType, RecordHeader};

use crate::packet::Mark;

/// New bytes of one side's stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload<'a> {
    pub(super) mark: Mark,
    /// Position of the first byte.
    pub(super) from: i64,
    /// Position after the last byte on the wire.
    pub(super) to: i64,
    /// What was captured, from the first byte on.
    pub(super) captured: &'a [u8],
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) content: ContentType,
    /// The segment that holds its header.
    pub(super) mark: Mark,
    /// Position after its last byte.
    pub(super) ends: i64,
    /// What is known of its body; whole for handshake records whose segments are whole.
    pub(super) body: &'a [u8],
}

/// Where one side's stream of records stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    /// Position at which the next record begins; unknown at the start, and behind a hole.
    next: Option<i64>,
    /// Bytes from `next` on, of a record whose header or body is not all there.
    held: Vec<u8>,
    /// The segment in which they begin.
    held_since: Option<Mark>,
}

/// The largest record that is waited for (RFC 8446 §5.2), its header included.
const LARGEST: usize = (1 << 14) + 2048 + RecordHeader::LEN;

impl Records {
    /// Hands over the records that begin in `payload`, and the one that it completes.
    pub(super) fn take(&mut self, payload: Payload<'_>, on_record: impl FnMut(Record<'_>)) {
        let held_to = self.next.map(|next| plus(next, self.held.len()));
        match held_to {
            // In the middle of a record that was handed over, or sent again.
            Some(held_to) if payload.to <= held_to => return,
            Some(held_to) if payload.from <= held_to => {}
            // A hole: what is held cannot be completed. Segments often begin with a record.
            Some(_) | None => self.begin_at(payload.from),
        }
        let wanted = plus(self.next.unwrap_or(payload.from), self.held.len());
        let skipped = usize::try_from(wanted.saturating_sub(payload.from)).unwrap_or(usize::MAX);
        let Some(fresh) = payload.captured.get(skipped..) else {
            // The next record begins in a part that was cut off.
            self.begin_at(payload.to);
            return;
        };
        self.held.extend_from_slice(fresh);
        self.hand_over(&payload, on_record);
    }

    /// Hands over what is held, but for the start of a record that the next segment may complete.
    fn hand_over(&mut self, payload: &Payload<'_>, mut on_record: impl FnMut(Record<'_>)) {
        let is_whole = plus(payload.from, payload.captured.len()) >= payload.to;
        let mut mark = *self.held_since.get_or_insert(payload.mark);
        let mut begins = self.next.unwrap_or(payload.from);
        let held = core::mem::take(&mut self.held);
        let mut rest = held.as_slice();
        while let Some(header) = RecordHeader::read(rest) {
            let len = RecordHeader::LEN + usize::from(header.len);
            let wanted = header.content == ContentType::Handshake && rest.len() < LARGEST;
            if len > rest.len() && wanted && is_whole {
                break;
            }
            let body = &rest[RecordHeader::LEN..len.min(rest.len())];
            on_record(Record {
                content: header.content,
                mark,
                ends: plus(begins, len),
                body,
            });
            begins = plus(begins, len);
            mark = payload.mark;
            rest = rest.get(len..).unwrap_or_default();
        }
        let may_begin = rest.len() < RecordHeader::LEN || RecordHeader::read(rest).is_some();
        if is_whole && may_begin && !rest.is_empty() {
            self.held.extend_from_slice(rest);
            self.held_since = Some(mark);
            self.next = Some(begins);
        } else {
            // All taken, cut off, or no record: the next segment may begin with one.
            self.begin_at(begins.max(payload.to));
        }
    }

    /// The next record is looked for at this position.
    fn begin_at(&mut self, position: i64) {
        self.next = Some(position);
        self.held.clear();
        self.held_since = None;
    }
}

fn plus(position: i64, len: usize) -> i64 {
    position.saturating_add(i64::try_from(len).unwrap_or(i64::MAX))
}
