//! The loop between two devices and the model.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use link::{Direction, InvalidPath, Item, Path, PathSpec};
use sys::realtime::wait_readable;
use sys::tun::{Tun, VirtioHeader};
use units::Time;

use crate::emulator::EmulatorError;
use crate::emulator::lateness::LatenessHistogram;
use crate::emulator::packet::Packet;
use crate::emulator::report::Counters;

pub(super) struct Driver<'a> {
    path: Path<Rc<Packet>>,
    near: &'a Tun,
    far: &'a Tun,
    started: Instant,
    /// The longest spin, see [`SPIN`].
    spin: Duration,
    /// The arrival whose wait has been slept through up to its spin.
    awake_for: Option<Time>,
    buffers: Buffers,
    lateness: LatenessHistogram,
    unreadable: u64,
    undeliverable: u64,
}

/// The last part of a wait is spent awake, because a timer wakes up to this late even at real-time priority.
/// At ordinary priority spinning would only take the processor from the endpoints.
const SPIN: Duration = Duration::from_micros(60);
/// But no more than this part of the wait: packets in a row would keep a whole processor awake for
/// microseconds that nobody can see behind a queue, and the endpoints need it.
const SPIN_SHARE: u32 = 4;

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
            spin: if realtime { SPIN } else { Duration::ZERO },
            awake_for: None,
            buffers: Buffers::default(),
            lateness: LatenessHistogram::new(),
            unreadable: 0,
            undeliverable: 0,
        })
    }

    /// Carries packets until `commands` can be read (or has ended).
    pub(super) fn run_until_command(
        &mut self,
        commands: BorrowedFd<'_>,
    ) -> Result<(), EmulatorError> {
        let mut looked_at = Instant::now();
        loop {
            self.deliver_due();
            let taken = self.take(Direction::Forward)? + self.take(Direction::Backward)?;
            let timeout = if taken > 0 {
                Some(Duration::ZERO)
            } else {
                self.idle_time()
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
                return Ok(());
            }
            // A wait that was cut short by a packet, or was none, may have its longest part before it.
            let slept = taken == 0 && !ready.contains(&true);
            self.awake_for = self.path.next_at().filter(|_| slept);
        }
    }

    pub(super) fn counters(&self) -> Counters {
        Counters::new(
            &self.path.counters(),
            &self.lateness,
            self.unreadable,
            self.undeliverable,
        )
    }

    fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    /// How long to sleep; zero while the next packet is so near that the driver stays awake for it.
    fn idle_time(&self) -> Option<Duration> {
        let next_at = self.path.next_at()?;
        if self.awake_for == Some(next_at) {
            return Some(Duration::ZERO);
        }
        let wait = next_at.since(self.now());
        Some(wait.saturating_sub(self.spin.min(wait / SPIN_SHARE)))
    }

    fn deliver_due(&mut self) {
        let mut now = self.now();
        while let Some(delivery) = self.path.poll(now) {
            let tun = match delivery.direction {
                Direction::Forward => self.far,
                Direction::Backward => self.near,
            };
            // Writing runs the receiver's whole network stack: the clock moves on.
            now = self.now();
            self.lateness.record(now.since(delivery.due_at));
            if delivery.payload.write(tun, &delivery.segments).is_err() {
                self.undeliverable += 1;
            }
            if let Some(packet) = Rc::into_inner(delivery.payload) {
                self.buffers.give_back(packet.into_buffer());
            }
        }
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
                Some(item) => self.path.offer(self.now(), direction, item),
                None => self.unreadable += 1,
            }
        }
        Ok(BATCH)
    }
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
