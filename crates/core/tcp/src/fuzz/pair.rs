//! Two endpoints and a wire between them that delays, loses, repeats and reorders as it is told.

use core::time::Duration;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use units::{SeqNum, Time};

use crate::{Config, Connection, EcnCodepoint, Event, Output, Placement, Segment};

/// What the wire does to a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    Deliver,
    Lose,
    Repeat,
    /// A router marks it, if it may.
    Mark,
    Delay(Duration),
    /// Not before this moment, then in order.
    #[cfg(test)]
    Hold(Time),
}

/// One end with its application's view: what was written, read, and where received bytes went.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) connection: Option<Connection>,
    config: Config,
    pub(crate) events: Vec<Event>,
    to_write: u64,
    written: u64,
    close_after: bool,
    pub(crate) read: u64,
    /// Whether the application reads at once.
    pub(crate) reads: bool,
    /// Received ranges by offset, to see that nothing is invented.
    placed: BTreeMap<u64, u64>,
    pub(crate) sent_segments: Vec<(Time, Segment)>,
    /// Right edge that was promised.
    edge: Option<SeqNum>,
    iss: SeqNum,
}

/// Side, index of the packet among that side's, and the packet itself decide what becomes of it.
pub(crate) type Fates = Box<dyn FnMut(usize, u64, &Segment) -> Fate>;

pub(crate) struct Pair {
    pub(crate) now: Time,
    pub(crate) ends: [End; 2],
    delay: Duration,
    wire: BTreeMap<(Time, u64), (usize, Segment, u64)>,
    sequence: u64,
    pub(crate) fate: Fates,
    counts: [u64; 2],
}

impl Pair {
    #[cfg(test)]
    pub(crate) fn new(client: Config, server: Config, rtt: Duration) -> Self {
        Self::with_iss(
            client,
            server,
            rtt,
            SeqNum::new(1_000),
            SeqNum::new(2_000_000_000),
        )
    }

    pub(crate) fn with_iss(
        client: Config,
        server: Config,
        rtt: Duration,
        one: SeqNum,
        other: SeqNum,
    ) -> Self {
        let now = Time::from_millis(1);
        let end = |config: Config, connection, iss| End {
            connection,
            config,
            events: Vec::new(),
            to_write: 0,
            written: 0,
            close_after: false,
            read: 0,
            reads: true,
            placed: BTreeMap::new(),
            sent_segments: Vec::new(),
            edge: None,
            iss,
        };
        let connection = Connection::connect(&client, now, one);
        Self {
            now,
            ends: [end(client, Some(connection), one), end(server, None, other)],
            delay: rtt / 2,
            wire: BTreeMap::new(),
            sequence: 0,
            fate: Box::new(|_, _, _| Fate::Deliver),
            counts: [0, 0],
        }
    }

    /// `bytes` are to be written by `side` as soon as there is room, then a FIN.
    pub(crate) fn send(&mut self, side: usize, bytes: u64, close: bool) {
        self.ends[side].to_write += bytes;
        self.ends[side].close_after = close;
        self.serve(side);
    }

    /// Runs until nothing is left to do or `until` has come.
    pub(crate) fn run(&mut self, until: Time) {
        self.serve(0);
        self.serve(1);
        let mut steps = 0;
        while let Some(next) = self.next_at().filter(|&at| at <= until) {
            steps += 1;
            assert!(steps < 60_000, "it does not come to an end at {}", self.now);
            self.now = self.now.max(next);
            self.step();
        }
    }

    fn next_at(&mut self) -> Option<Time> {
        let wire = self.wire.first_key_value().map(|((at, _), _)| *at);
        let timers = [0, 1].map(|side| self.timeout(side));
        [wire, timers[0], timers[1]].into_iter().flatten().min()
    }

    fn timeout(&mut self, side: usize) -> Option<Time> {
        let now = self.now;
        match self.ends[side].connection.as_mut()?.poll_output(now) {
            Output::Timeout(at) => at,
            other @ (Output::Transmit { .. } | Output::Event(_)) => {
                panic!("{side} was not drained: {other:?}")
            }
        }
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= now) {
            let (side, segment, offset) = entry.remove();
            self.receive(side, &segment, offset);
        }
        for side in [0, 1] {
            if let Some(connection) = &mut self.ends[side].connection {
                connection.handle_timeout(now);
            }
            self.serve(side);
        }
    }

    fn receive(&mut self, side: usize, segment: &Segment, offset: u64) {
        let now = self.now;
        let end = &mut self.ends[side];
        if let Some(connection) = &mut end.connection {
            let placement = connection.handle_segment(now, segment);
            if let Some(placement) = placement {
                end.place(&placement, segment, offset);
            }
        } else {
            end.connection = Connection::accept(&end.config, now, segment, end.iss);
        }
        self.serve(side);
    }

    fn serve(&mut self, side: usize) {
        for outputs in 0.. {
            assert!(outputs < 100_000, "it never comes to rest at {}", self.now);
            let now = self.now;
            let end = &mut self.ends[side];
            let Some(connection) = &mut end.connection else {
                return;
            };
            if end.reads {
                end.read += connection.read(now, u64::MAX);
            }
            if end.to_write > 0 {
                let written = connection.write(now, end.to_write);
                end.to_write -= written;
                end.written += written;
            }
            if end.to_write == 0 && end.close_after {
                connection.close();
            }
            match connection.poll_output(now) {
                Output::Transmit { segment, offset } => self.transmit(side, segment, offset),
                Output::Event(event) => end.events.push(event),
                Output::Timeout(_) => return,
            }
        }
    }

    fn transmit(&mut self, side: usize, mut segment: Segment, offset: u64) {
        let scaled = self.ends.iter().all(|end| end.config.window_scaling);
        self.ends[side].check_edge(&segment, scaled);
        let most = u32::from(self.ends[1 - side].config.mss);
        let length = segment.payload + segment.options_len();
        assert!(
            segment.payload == 0 || length <= most,
            "{length} bytes of options and payload for a peer that takes {most}: {segment:?}"
        );
        self.ends[side].sent_segments.push((self.now, segment));
        let index = self.counts[side];
        self.counts[side] += 1;
        let arrival = self.now + self.delay;
        let fate = (self.fate)(side, index, &segment);
        if fate == Fate::Mark && segment.ecn.is_capable() {
            segment.ecn = EcnCodepoint::Ce;
        }
        let (copies, at) = match fate {
            Fate::Deliver | Fate::Mark => (1, arrival),
            Fate::Lose => (0, arrival),
            Fate::Repeat => (2, arrival),
            Fate::Delay(extra) => (1, arrival + extra),
            #[cfg(test)]
            Fate::Hold(until) => (1, arrival.max(until)),
        };
        for _ in 0..copies {
            self.sequence += 1;
            let key = (at, self.sequence);
            self.wire.insert(key, (1 - side, segment, offset));
        }
    }
}

impl End {
    pub(crate) fn state(&self) -> crate::State {
        self.connection
            .as_ref()
            .map_or(crate::State::Closed, Connection::state)
    }

    /// Bytes received in one piece from the beginning.
    pub(crate) fn received(&self) -> u64 {
        let mut end = 0;
        for (&start, &len) in &self.placed {
            assert!(start <= end, "a hole at {end} before {start}");
            end = end.max(start + len);
        }
        end
    }

    fn place(&mut self, placement: &Placement, segment: &Segment, offset: u64) {
        assert!(placement.skip + placement.len <= segment.payload);
        // The sender says which bytes it sent; they must land where the receiver believes they belong.
        assert_eq!(
            placement.offset,
            offset + u64::from(placement.skip),
            "bytes moved"
        );
        let known = self.placed.entry(placement.offset).or_default();
        *known = (*known).max(placement.len.into());
    }

    /// The right edge of the window never moves left, whatever the scale.
    fn check_edge(&mut self, segment: &Segment, scaled: bool) {
        let Some(ack) = segment
            .ack
            .filter(|_| !segment.flags.contains(wire::TcpFlags::SYN))
        else {
            return;
        };
        let shift = self
            .sent_segments
            .first()
            .and_then(|(_, syn)| syn.options.window_scale.filter(|_| scaled))
            .unwrap_or(0);
        let edge = ack + (u32::from(segment.window) << shift);
        if let Some(before) = self.edge.replace(edge) {
            let moved = edge.distance_from(before);
            assert!(
                moved >= 0,
                "the right edge moved back by {}",
                -i64::from(moved)
            );
        }
    }
}
