//! Frames off a stream.

use std::time::Instant;

use crate::engine::Stream;
use crate::failure::FlowError;
use crate::protocol::{Decoder, Frame};

/// Bytes of one read: what a fast sender has ready, and still half of a small second-level cache.
const READ: usize = 256 * 1024;

/// Whether to go on reading.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    More,
    Enough,
}

/// Reads frames and gives them to `take` with the time at which they came, until that has enough. The
/// answer is whether it had: `false` is the peer's end.
pub(crate) struct Reading<'a> {
    stream: &'a dyn Stream,
    decoder: Decoder,
    buffer: Vec<u8>,
    /// What was read and not decoded.
    fresh: std::ops::Range<usize>,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(stream: &'a dyn Stream) -> Self {
        Self {
            stream,
            decoder: Decoder::default(),
            buffer: vec![0; READ],
            fresh: 0..0,
        }
    }

    pub(crate) fn frames(
        &mut self,
        mut take: impl FnMut(Frame<'_>, Instant) -> Result<Next, FlowError>,
    ) -> Result<bool, FlowError> {
        let mut now = Instant::now();
        loop {
            let mut input = &self.buffer[self.fresh.clone()];
            while let Some(frame) = self
                .decoder
                .decode(&mut input)
                .map_err(FlowError::Protocol)?
            {
                let next = take(frame, now)?;
                self.fresh.start = self.fresh.end - input.len();
                if next == Next::Enough {
                    return Ok(true);
                }
            }
            let length = self
                .stream
                .read(&mut self.buffer)
                .map_err(FlowError::Receive)?;
            now = Instant::now();
            self.fresh = 0..length;
            if length == 0 {
                return Ok(false);
            }
        }
    }
}
