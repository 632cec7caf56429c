//! The link emulator: the path model of [`link`] between two TUN devices, in real time.
//!
//! One thread does everything: it takes packets from both devices, offers them to the model, and writes
//! them to the other device when the model says so. A second thread would cost a wake-up per packet and
//! gain nothing, because the work per superpacket is two system calls.
//!
//! It runs as a process of its own ([`worker`]) at real-time priority where the system permits, because its
//! punctuality is the RTT's accuracy. It sleeps whenever nothing is due.

mod config;
mod driver;
mod lateness;
mod packet;
mod report;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use link::{InvalidPath, PathSpec};
use serde::{Deserialize, Serialize};
use sys::isolation::pass_descriptor;
use sys::realtime;
use sys::tun::{Tun, TunError};

use crate::emulator::driver::Driver;

pub use report::{Count, Counters, DirectionCounters, Event, Lateness, Realtime};

/// What the emulator's process is told on standard input, as one line of JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Setup {
    /// The path to play.
    #[serde(with = "config::PathSpecFields")]
    pub path: PathSpec,
    /// Descriptor of the near end's TUN device.
    near: i32,
    /// Descriptor of the far end's TUN device.
    far: i32,
}

/// The emulator could not start, or broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// Standard input does not hold a line of set-up.
    #[error("cannot read the link emulator's set-up")]
    ReadSetup {
        /// What is wrong.
        #[source]
        source: io::Error,
    },
    /// The path contradicts itself.
    #[error("the path cannot be emulated")]
    Path {
        /// What is wrong.
        #[source]
        source: InvalidPath,
    },
    /// A descriptor is no TUN device.
    #[error("cannot take over a TUN device")]
    Device {
        /// What is wrong.
        #[source]
        source: TunError,
    },
    /// Reading from a device failed; it is gone or down.
    #[error("cannot read from TUN device `{device}`")]
    ReadDevice {
        /// The device.
        device: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The stream of commands broke.
    #[error("cannot read a command")]
    ReadCommand {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Waiting failed.
    #[error("cannot wait for packets")]
    Wait {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Whoever asked for reports is gone.
    #[error("cannot write the link emulator's report")]
    Report {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Segments of one superpacket that the bottleneck serialises within this time travel together. Measured:
/// longer bursts make a receiver's RTT samples and a sender's pacing coarse, shorter ones cost throughput
/// from 1 Gbit/s on.
const RESOLUTION: Duration = Duration::from_micros(50);

/// Prepares `command`, which must call [`worker`], to inherit both devices, and returns what to write to
/// its standard input. The devices are gone when the process has ended and `command` is dropped.
pub fn hand_over(command: &mut Command, path: PathSpec, near: Tun, far: Tun) -> Setup {
    Setup {
        path,
        near: pass_descriptor(command, OwnedFd::from(near)),
        far: pass_descriptor(command, OwnedFd::from(far)),
    }
}

/// The emulator's process: reads a [`Setup`] from standard input, then obeys it as [`run`] does.
pub fn worker() -> Result<(), EmulatorError> {
    let commands = standard_input()?;
    let setup = read_setup(&commands)?;
    let device = |source| EmulatorError::Device { source };
    let near = Tun::inherited(setup.near).map_err(device)?;
    let far = Tun::inherited(setup.far).map_err(device)?;
    run(&setup.path, &near, &far, &commands, &mut io::stdout())
}

/// Plays `path` between `near` and `far` on the calling thread until `commands` ends.
///
/// Every line read from `commands`, a pipe or the like, is answered by one [`Event::Counters`] in
/// `reports`; the first event is [`Event::Ready`], the last [`Event::Stopped`]. Events are lines of JSON.
pub fn run(
    path: &PathSpec,
    near: &Tun,
    far: &Tun,
    commands: &File,
    reports: &mut impl Write,
) -> Result<(), EmulatorError> {
    let granted = realtime::request(false);
    let mut driver = Driver::new(path, RESOLUTION, [near, far], granted.is_realtime())
        .map_err(|source| EmulatorError::Path { source })?;
    let realtime = granted.into();
    report::write(reports, &Event::Ready { realtime })?;
    loop {
        driver.run_until_command(commands.as_fd())?;
        let Some(asked) = count_commands(commands)? else {
            return report::write(reports, &Event::Stopped(driver.counters()));
        };
        for _ in 0..asked {
            report::write(reports, &Event::Counters(driver.counters()))?;
        }
    }
}

/// Standard input without the buffer that `std` puts around it: a line in a buffer wakes no `poll`.
fn standard_input() -> Result<File, EmulatorError> {
    let descriptor = io::stdin().as_fd().try_clone_to_owned();
    descriptor
        .map(File::from)
        .map_err(|source| EmulatorError::ReadSetup { source })
}

#[expect(
    clippy::unbuffered_bytes,
    reason = "one line of set-up; what follows it must stay in the pipe, for `run` to poll"
)]
fn read_setup(input: impl Read) -> Result<Setup, EmulatorError> {
    let read = |source| EmulatorError::ReadSetup { source };
    let mut line = Vec::new();
    for byte in input.bytes() {
        match byte.map_err(read)? {
            b'\n' => break,
            byte => line.push(byte),
        }
    }
    serde_json::from_slice(&line).map_err(|error| read(error.into()))
}

/// Lines that have arrived; `None` at the end.
fn count_commands(mut commands: &File) -> Result<Option<usize>, EmulatorError> {
    let mut bytes = [0; 256];
    let length = commands
        .read(&mut bytes)
        .map_err(|source| EmulatorError::ReadCommand { source })?;
    let lines = bytes[..length].iter().filter(|&&byte| byte == b'\n');
    Ok((length > 0).then(|| lines.count()))
}
