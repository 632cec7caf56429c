//! The link emulator: the path model of [`link`] between two TUN devices, in real time.
//!
//! One thread does everything: it takes packets from both devices, offers them to the model, and writes
//! them to the other device when the model says so. A second thread would cost a wake-up per packet and
//! gain nothing, because the work per superpacket is two system calls.
//!
//! It runs as a process of its own ([`worker`]) at real-time priority where the system permits, because its
//! punctuality is the RTT's accuracy. It sleeps whenever nothing is due.
//!
//! # Talking to the process
//! Its standard input takes one line of JSON, the [`Setup`], and then commands, one per line. Its standard
//! output is [`Event`]s, one line of JSON each: first [`ready`](Event::Ready), last
//! [`stopped`](Event::Stopped) (after the end of its input).
//!
//! | command | answer |
//! |---|---|
//! | `counters`, or an empty line | [`Event::Counters`], everything since the start |
//! | `read` | [`Event::Interval`], everything since the last `read`; [`Interval::problems`] judges it |
//! | `start` | none; the schedules and traces of the path count from now on instead of from the start |
//! | `sample SECONDS` (0.001 or more) | none at once; from then on an [`Event::Sample`] every so often |
//! | `sample off` | none; the samples end |
//! | `quiet SECONDS` (0.001 or more) | [`Event::Quiet`] as soon as the path is empty and nothing has come or gone for so long; a later one replaces it |
//! | anything else | [`Event::Refused`] |
//!
//! ```json
//! {"event":"interval","from_unix_s":1763769600.1,"to_unix_s":1763769609.3,
//!  "forward":{"offered":{"packets":7,"bytes":9000},"policed":{..},"dropped":{..},"managed":{..},
//!             "outage":{..},"duplicated":{..},"lost":{..},"delivered":{..},"marked":{..},
//!             "corrupted":{..},"reordered":{..},"queued":{..},"in_flight":{..},"queue_peak":4500},
//!  "backward":{..},"lateness":{"writes":14,"p50_s":9e-6,"p99_s":6.6e-5,"max_s":8.1e-5},
//!  "unreadable":0,"undeliverable":0}
//! {"event":"sample","at_unix_s":1763769600.11,
//!  "forward":{"queue_packets":3,"queue_bytes":4500,"queue_peak_bytes":6000,"dropped_packets":0,
//!             "delivered_bytes":15000},"backward":{..}}
//! ```
//! (Without the line breaks.) Somebody must read what it writes: an emulator whose reader sleeps while
//! it samples comes to a halt when the pipe is full.

mod alteration;
mod command;
mod driver;
mod lateness;
mod meter;
mod packet;
mod report;
mod vigil;
mod wakefulness;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use link::{Direction, InvalidPath, NotConserved, PathSpec};
use serde::{Deserialize, Serialize};
use sys::isolation::pass_descriptor;
use sys::realtime::{self, Priority};
use sys::tun::{Tun, TunError};
use units::Time;

use crate::emulator::command::{Command as Order, Commands};
use crate::emulator::driver::{Driver, Pause};

pub use report::{
    Count, Counters, DirectionCounters, DirectionSample, Event, Interval, Lateness, Realtime,
    Sample,
};

/// What the emulator's process is told on standard input, as one line of JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Setup {
    /// The path to play.
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
    /// Packets appeared or vanished inside of the link: a bug of ours, and nothing counts that it carried.
    #[error("the link's books of the {direction} direction do not balance; please report this")]
    NotConserved {
        /// Which direction.
        direction: Direction,
        /// What does not add up.
        #[source]
        source: NotConserved,
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
/// `commands`, a pipe or the like, and `reports` speak as the module's documentation says.
pub fn run(
    path: &PathSpec,
    near: &Tun,
    far: &Tun,
    commands: &File,
    reports: &mut impl Write,
) -> Result<(), EmulatorError> {
    let granted = realtime::request(Priority::High, false);
    // Where ordinary threads come first, wakefulness would not be seen.
    let awake = granted.is_realtime().then(wakefulness::keep_awake);
    let mut driver = Driver::new(path, RESOLUTION, [near, far], granted.is_realtime())
        .map_err(|source| EmulatorError::Path { source })?;
    let realtime = Realtime::new(&granted, awake.as_ref());
    report::write(reports, &Event::Ready { realtime })?;
    let mut commands = Commands::new(commands);
    let mut sampling: Option<Sampling> = None;
    let mut silence: Option<Silence> = None;
    loop {
        let sample_at = sampling.as_ref().map(|sampling| sampling.next_at);
        let quiet_at = silence.as_ref().map(|silence| silence.look_at);
        let pause_at = sample_at.into_iter().chain(quiet_at).min();
        if driver.run(commands.input().as_fd(), pause_at)? == Pause::Due {
            let now = driver.now();
            if let Some(sampling) = sampling.as_mut().filter(|sampling| sampling.next_at <= now) {
                report::write(reports, &Event::Sample(driver.sample()))?;
                sampling.move_on(driver.now());
            }
            if silence
                .as_mut()
                .is_some_and(|silence| silence.holds(&driver))
            {
                silence = None;
                report::write(reports, &Event::Quiet)?;
            }
            continue;
        }
        let Some(orders) = commands.read()? else {
            return report::write(reports, &Event::Stopped(driver.counters()?));
        };
        for order in orders {
            let answer = match order {
                Order::Counters => Event::Counters(driver.counters()?),
                Order::Read => Event::Interval(driver.interval()?),
                Order::Unknown(command) => Event::Refused { command },
                Order::Quiet(lasting) => {
                    silence = Some(Silence::awaited(&driver, lasting));
                    continue;
                }
                Order::Start => {
                    driver.start_schedule();
                    continue;
                }
                Order::Sample(every) => {
                    // What waited before somebody looked belongs to no sample.
                    driver.sample();
                    sampling = every.map(|every| Sampling::from(driver.now(), every));
                    continue;
                }
            };
            report::write(reports, &answer)?;
        }
    }
}

/// When samples are due.
struct Sampling {
    every: Duration,
    next_at: Time,
}

// === impl Sampling ===

impl Sampling {
    fn from(now: Time, every: Duration) -> Self {
        Self {
            every,
            next_at: now + every,
        }
    }

    /// To the next moment of the grid that is not past: a late sample brings no burst of samples.
    fn move_on(&mut self, now: Time) {
        while self.next_at <= now {
            self.next_at += self.every;
        }
    }
}

/// When it may be told that nothing moves any more.
struct Silence {
    /// How long nothing must have moved.
    lasting: Duration,
    look_at: Time,
}

// === impl Silence ===

impl Silence {
    fn awaited(driver: &Driver<'_>, lasting: Duration) -> Self {
        Self {
            lasting,
            look_at: driver.moved_at() + lasting,
        }
    }

    /// Whether the path has been empty for long enough; if not, when to look again.
    fn holds(&mut self, driver: &Driver<'_>) -> bool {
        let now = driver.now();
        let quiet_at = driver.moved_at() + self.lasting;
        if quiet_at <= now && driver.is_empty() {
            return true;
        }
        // What is still on the path moves at its own time, and an outage may hold it for long.
        self.look_at = quiet_at.max(now + self.lasting);
        false
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

#[cfg(test)]
mod tests {
    use link::{
        Change, CoDel, Discipline, Distribution, GilbertElliott, Jitter, LossSpec, Outage, Policer,
        Reorder, Shift, Trace,
    };
    use units::{Bytes, LossRate, Rate};

    use super::*;

    #[test]
    fn a_path_survives_its_journey_to_the_worker() {
        let share = |billionths| LossRate::per_billion(billionths).unwrap();
        let rate = Some(Rate::mbit_per_s(100));
        let rtt = Duration::from_micros(200_400);
        let loss = LossSpec::Bernoulli(share(5_000_000));
        let mut path = PathSpec::symmetric(rtt, rate, Bytes::kib(256), loss, u64::MAX);
        path.forward.policer = Some(Policer {
            rate: Rate::mbit_per_s(50),
            burst: Bytes::kib(128),
        });
        path.forward.discipline = Discipline::CoDel(CoDel::default());
        path.forward.jitter = Some(Jitter {
            distribution: Distribution::Pareto {
                mean: Duration::from_millis(2),
            },
            correlation: share(250_000_000),
        });
        path.forward.reorder = Some(Reorder {
            share: share(1_000_000),
            shift: Shift::Late(Duration::from_millis(5)),
        });
        path.forward.schedule = vec![Change {
            at: Duration::from_secs(5),
            lasts: Some(Duration::from_millis(300)),
            every: Some(Duration::from_secs(15)),
            outage: Some(Outage::Hold),
            loss: GilbertElliott::from_means(share(10_000_000), 5).map(LossSpec::GilbertElliott),
            ..Change::default()
        }];
        path.backward.loss = LossSpec::Listed(vec![0, 7]);
        path.backward.rate = None;
        path.backward.trace = Some(Trace::parse("0\n3\n3\n10\n").unwrap());
        let setup = Setup {
            path,
            near: 5,
            far: 6,
        };
        let text = serde_json::to_string(&setup).unwrap();
        let read: Setup = serde_json::from_str(&text).unwrap();
        assert_eq!(read.path, setup.path);
        assert_eq!((read.near, read.far), (5, 6));
    }

    #[test]
    fn a_trace_that_cannot_be_played_is_refused() {
        let trace = serde_json::from_str::<Trace>("[[3,1],[2,1]]");
        assert!(trace.unwrap_err().to_string().contains("earlier"));
        assert!(serde_json::from_str::<Trace>("[[3,0]]").is_err());
    }
}
