//! Applications whose bytes can be checked: what a stream carries follows from its number, direction and
//! offset.

use std::sync::OnceLock;

use bytes::Bytes;
use trunk::{Role, StreamId};
use units::Time;

/// A prime, so that no chunk size divides it.
const TABLE: usize = 1_000_003;

fn table() -> &'static Bytes {
    static BYTES: OnceLock<Bytes> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut state = 1_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            u8::try_from(state >> 56).unwrap()
        };
        (0..TABLE).map(|_| next()).collect::<Vec<_>>().into()
    })
}

/// What the writer at `from` puts at `offset` of a stream, at most `len` bytes of it.
pub(crate) fn bytes(stream: StreamId, from: Role, offset: u64, len: u64) -> Bytes {
    let shift = stream.number() * 7_919 + u64::from(from == Role::Acceptor) * 104_729;
    let start = usize::try_from((offset + shift) % TABLE as u64).unwrap();
    let end = (start + usize::try_from(len).unwrap()).min(TABLE);
    table().slice(start..end)
}

/// One end's application on one stream.
#[derive(Debug)]
pub(crate) struct App {
    /// Bytes that it writes in all.
    pub(crate) to_write: u64,
    pub(crate) written: u64,
    /// It writes nothing before it has read this much.
    pub(crate) after: u64,
    /// At most so many at a time; an interactive one writes little and often.
    pub(crate) piece: u64,
    pub(crate) finished: bool,
    /// It does not read.
    pub(crate) stuck: bool,
    pub(crate) read: u64,
    /// When its offset reached this many bytes: (bytes, time), for latencies.
    pub(crate) marks: Vec<(u64, Time)>,
    pub(crate) ended_at: Option<Time>,
}

impl App {
    pub(crate) fn new(to_write: u64) -> Self {
        Self {
            to_write,
            written: 0,
            after: 0,
            piece: 64 << 10,
            finished: false,
            stuck: false,
            read: 0,
            marks: Vec::new(),
            ended_at: None,
        }
    }
}
