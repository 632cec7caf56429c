//! The loop between two devices and the model.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use link::{Direction, InvalidPath, Item, Path, PathCounters, PathSpec};
use sys::realtime::wait_readable;
use sys::tun::{Tun, VirtioHeader};
use units::Time;

use crate::emulator::EmulatorError;
use crate::emulator::meter::Meter;
use crate::emulator::packet::Packet;
use crate::emulator::report::{Counters, Interval, Sample};
use crate::emulator::vigil::Vigil;

pub(super) struct Driver<'a> {
    path: Path<Rc<Packet>>,
    near: &'a Tun,
    far: &'a Tun,
    started: Instant,
    vigil: Vigil,
    buffers: Buffers,
    meter: Meter,
    /// When a packet last came from a device or went to one.
    moved_at: Time,
}

/// Why the driver stopped carrying packets for a moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pause {
    /// Commands can be read, or have ended.
    Command,
    /// The moment that it was to stop at has come.
    Due,
}

/// Packets taken from a device before the other one and what is due get their turn.
const BATCH: u32 = 32;

/// Between two looks at the commands while packets flow without a pause.
const COMMAND_INTERVAL: Duration = Duration::from_millis(50);

// === impl Driver ===

impl<'a> Driver<'a> {
    pub(super) fn new(
        spec: &PathSpec,
        resolution: Duration,
        [near, far]: [&'a Tun; 2],
        realtime: bool,
    ) -> Result<Self, InvalidPath> {
        Ok(Self {
            path: Path::new(spec, resolution)?,
            near,
            far,
            started: Instant::now(),
            vigil: Vigil::new(realtime),
            buffers: Buffers::default(),
            meter: Meter::new(),
            moved_at: Time::ZERO,
        })
    }

    /// Carries packets until `commands` can be read (or has ended), or until `pause_at`.
    pub(super) fn run(
        &mut self,
        commands: BorrowedFd<'_>,
        pause_at: Option<Time>,
    ) -> Result<Pause, EmulatorError> {
        let mut looked_at = Instant::now();
        loop {
            let now = self.deliver_due();
            if pause_at.is_some_and(|at| at <= now) {
                return Ok(Pause::Due);
            }
            let taken = self.take(Direction::Forward)? + self.take(Direction::Backward)?;
            if taken > 0 {
                self.moved_at = now;
            }
            let timeout = if taken > 0 {
                Some(Duration::ZERO)
            } else {
                self.idle_time(pause_at)
            };
            // Asking the kernel costs as much as a small packet, so it isn't asked at every turn.
            if timeout == Some(Duration::ZERO) && looked_at.elapsed() < COMMAND_INTERVAL {
                continue;
            }
            looked_at = Instant::now();
            let descriptors = [commands, self.near.as_fd(), self.far.as_fd()];
            let ready = wait_readable(descriptors, timeout)
                .map_err(|source| EmulatorError::Wait { source })?;
            if ready[0] {
                return Ok(Pause::Command);
            }
            if taken > 0 || ready.contains(&true) {
                self.vigil.break_off();
                continue;
            }
            if let Some(asked) = timeout.filter(|asked| !asked.is_zero()) {
                self.vigil
                    .note_timer(looked_at.elapsed().saturating_sub(asked));
            }
            self.vigil.begin(self.now(), self.path.next_at());
        }
    }

    pub(super) fn start_schedule(&mut self) {
        self.path.start_schedule(self.now());
    }

    pub(super) fn counters(&self) -> Result<Counters, EmulatorError> {
        let counters = self.path.counters();
        conserved(&counters)?;
        Ok(self.meter.totals(&counters))
    }

    /// What happened since this was last asked.
    pub(super) fn interval(&mut self) -> Result<Interval, EmulatorError> {
        let counters = self.path.counters();
        conserved(&counters)?;
        Ok(self.meter.interval(&counters))
    }

    pub(super) fn sample(&mut self) -> Sample {
        self.meter.sample(&self.path.counters())
    }

    /// When a packet last came from a device or went to one.
    pub(super) const fn moved_at(&self) -> Time {
        self.moved_at
    }

    /// Whether no packet waits or is on its way.
    pub(super) fn is_empty(&self) -> bool {
        let counters = self.path.counters();
        Direction::BOTH.into_iter().all(|direction| {
            let lane = counters.direction(direction);
            lane.queued.packets == 0 && lane.in_flight.packets == 0
        })
    }

    pub(super) fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    /// How long to sleep; zero while the next packet is so near that the driver stays awake for it.
    fn idle_time(&self, pause_at: Option<Time>) -> Option<Duration> {
        let now = self.now();
        let until_pause = pause_at.map(|at| at.since(now));
        let until_arrival = self.path.next_at().map(|at| self.vigil.sleep(now, at));
        match (until_arrival, until_pause) {
            (Some(arrival), Some(pause)) => Some(arrival.min(pause)),
            (one, other) => one.or(other),
        }
    }

    /// Returns the time at which nothing more was due.
    fn deliver_due(&mut self) -> Time {
        let mut now = self.now();
        while let Some(delivery) = self.path.poll(now) {
            let tun = match delivery.direction {
                Direction::Forward => self.far,
                Direction::Backward => self.near,
            };
            // Writing runs the receiver's whole network stack: the clock moves on.
            now = self.now();
            self.moved_at = now;
            self.meter.note_delivery(now.since(delivery.due_at));
            if delivery.payload.write(tun, &delivery).is_err() {
                self.meter.note_undeliverable();
            }
            if let Some(packet) = Rc::into_inner(delivery.payload) {
                self.buffers.give_back(packet.into_buffer());
            }
        }
        now
    }

    /// Takes what the kernel has sent in this direction, up to [`BATCH`] packets; says how many.
    fn take(&mut self, direction: Direction) -> Result<u32, EmulatorError> {
        let tun = match direction {
            Direction::Forward => self.near,
            Direction::Backward => self.far,
        };
        for taken in 0..BATCH {
            let read = self
                .buffers
                .read(tun)
                .map_err(|source| EmulatorError::ReadDevice {
                    device: tun.name().to_owned(),
                    source,
                })?;
            let Some((header, buffer, length)) = read else {
                return Ok(taken);
            };
            let packet = Packet::new(header, buffer, length);
            let item = packet.and_then(|packet| {
                let segments = packet.segments()?;
                Some(Item {
                    payload: Rc::new(packet),
                    segments,
                })
            });
            match item {
                Some(item) => {
                    self.path.offer(self.now(), direction, item);
                    self.meter
                        .note_queue(direction, self.path.queued_bytes(direction));
                }
                None => self.meter.note_unreadable(),
            }
        }
        Ok(BATCH)
    }
}

/// Every packet must be accounted for: what a link loses or invents measures nothing.
fn conserved(counters: &PathCounters) -> Result<(), EmulatorError> {
    let checked = counters.check();
    checked.map_err(|(direction, source)| EmulatorError::NotConserved { direction, source })
}

/// Buffers for the largest packets, used again and again; smaller packets get memory of their own size, so
/// that a long path full of them does not hold a large buffer for each.
#[derive(Debug, Default)]
struct Buffers {
    free: Vec<Vec<u8>>,
}

/// The largest IP packet.
const LARGEST: usize = 65_536;
/// Up to here a packet is copied: at worst a large buffer holds four times what it must.
const SMALL: usize = 16_384;
/// Free buffers kept: 16 MiB, a burst at the highest rates.
const KEPT: usize = 256;

// === impl Buffers ===

impl Buffers {
    fn read(&mut self, tun: &Tun) -> io::Result<Option<(VirtioHeader, Vec<u8>, usize)>> {
        let mut buffer = self.free.pop().unwrap_or_else(|| vec![0; LARGEST]);
        let read = tun.read(&mut buffer);
        match read {
            Ok(Some((header, length))) if length > SMALL => Ok(Some((header, buffer, length))),
            Ok(Some((header, length))) => {
                let small = buffer[..length].to_vec();
                self.free.push(buffer);
                Ok(Some((header, small, length)))
            }
            nothing => {
                self.free.push(buffer);
                nothing.map(|_| None)
            }
        }
    }

    fn give_back(&mut self, buffer: Vec<u8>) {
        if buffer.len() == LARGEST && self.free.len() < KEPT {
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn books_that_do_not_balance_end_the_link_and_say_which() {
        assert!(conserved(&PathCounters::default()).is_ok());
        let mut counters = PathCounters::default();
        counters.backward.delivered.packets = 1;
        let error = conserved(&counters).unwrap_err();
        assert!(error.to_string().contains("backward"), "{error}");
        let source = error.source().unwrap().to_string();
        assert!(source.starts_with("packets are not conserved"), "{source}");
    }
}
