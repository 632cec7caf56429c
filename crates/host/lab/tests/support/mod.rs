//! Two hosts in namespaces with the emulator between them, for the tests and the benchmark of the link.
//!
//! The emulator is a process of its own, as in the lab: this binary, started again as `emulator`.

#![allow(
    dead_code,
    reason = "the tests and the benchmark each use a part of it"
)]

pub(crate) mod flow;

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use link::{LossSpec, PathSpec};
use longhaul_lab::emulator::{self, Counters, Event, Interval, Realtime, Sample};
use longhaul_lab::probe::{self, Depth, End, PathReading};
use sys::namespace::NetworkNamespace;
use sys::realtime::{self, Priority};
use sys::tun::Tun;
use units::{Bytes, Rate};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 1);
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 2);

pub(crate) struct Bench {
    pub(crate) path: PathSpec,
    pub(crate) near: NetworkNamespace,
    pub(crate) far: NetworkNamespace,
    pub(crate) realtime: Realtime,
    emulator: Child,
    reports: BufReader<ChildStdout>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

/// The same both ways, with a queue of 1 MB, so that TCP fills the path without a loss.
pub(crate) fn symmetric(rtt: Duration, mbit: u64, loss: LossSpec) -> PathSpec {
    let rate = Some(Rate::mbit_per_s(mbit));
    PathSpec::symmetric(rtt, rate, Bytes::new(1_000_000), loss, 42)
}

pub(crate) fn ensure(holds: bool, otherwise: impl Into<String>) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(otherwise.into().into())
    }
}

/// Does `work` on a thread that waits behind no ordinary one; without the privilege, as any other. Threads that it
/// starts are ordinary.
pub(crate) fn punctually<T: Send>(work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    thread::scope(|scope| {
        let working = scope.spawn(|| {
            realtime::request(Priority::Low, false);
            // An error of any kind may be tied to its thread; its words are not.
            work().map_err(|error| error.to_string())
        });
        let worked = working.join().map_err(|_| "a measuring thread panicked")?;
        worked.map_err(Into::into)
    })
}

// === impl Family ===

impl Family {
    pub(crate) fn near(self) -> IpAddr {
        match self {
            Self::V4 => NEAR.into(),
            Self::V6 => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]),
        }
    }

    pub(crate) fn far(self) -> IpAddr {
        match self {
            Self::V4 => FAR.into(),
            Self::V6 => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 2]),
        }
    }
}

// === impl Bench ===

impl Bench {
    pub(crate) fn new(path: &PathSpec) -> Outcome<Self> {
        Self::with_congestion_control(path, "cubic")
    }

    pub(crate) fn with_congestion_control(path: &PathSpec, name: &str) -> Outcome<Self> {
        let (near, far) = (
            NetworkNamespace::create("near")?,
            NetworkNamespace::create("far")?,
        );
        let near_tun = Tun::create_in(&near, "wan0")?;
        let far_tun = Tun::create_in(&far, "wan0")?;
        for (namespace, local, remote) in [(&near, 1, 2), (&far, 2, 1)] {
            // Large buffers, for TCP to be limited by the path alone: at 6 Gbit/s and 70 ms 52 MB are on
            // the way, and a receiver counts what a packet takes in memory against its buffer.
            namespace.set_sysctl("net.ipv4.tcp_rmem", "4096 131072 1073741824")?;
            namespace.set_sysctl("net.ipv4.tcp_wmem", "4096 131072 536870912")?;
            namespace.ip(&format!(
                "link set wan0 up\n\
                 addr add 10.200.0.{local} peer 10.200.0.{remote} dev wan0\n\
                 addr add fd00::{local} peer fd00::{remote} dev wan0 nodad\n\
                 route change 10.200.0.{remote} dev wan0 congctl {name}\n\
                 route add fd00::{remote} dev wan0 metric 1 congctl {name}"
            ))?;
        }
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("emulator")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let setup = emulator::hand_over(&mut command, path.clone(), near_tun, far_tun);
        let mut emulator = command.spawn()?;
        let input = emulator.stdin.as_mut().ok_or("no input")?;
        writeln!(input, "{}", serde_json::to_string(&setup)?)?;
        let mut reports = BufReader::new(emulator.stdout.take().ok_or("no output")?);
        let Event::Ready { realtime } = next_event(&mut reports)? else {
            return Err("the emulator did not start with its readiness".into());
        };
        Ok(Self {
            path: path.clone(),
            near,
            far,
            realtime,
            emulator,
            reports,
        })
    }

    pub(crate) fn measure(&self, depth: Depth) -> Outcome<PathReading> {
        self.measure_against(&self.path, Family::V4, depth)
    }

    pub(crate) fn measure_against(
        &self,
        asked: &PathSpec,
        family: Family,
        depth: Depth,
    ) -> Outcome<PathReading> {
        let near = End {
            namespace: &self.near,
            address: family.near(),
        };
        let far = End {
            namespace: &self.far,
            address: family.far(),
        };
        Ok(probe::measure(asked, near, far, depth)?)
    }

    /// User and system time of the emulator, in ticks of 10 ms.
    pub(crate) fn processor_time(&self) -> Outcome<u64> {
        processor_time(&self.emulator.id().to_string())
    }

    /// A counter of the far kernel: the column `name` of the two lines that begin with `line`, or, without
    /// a name, what stands in the only one (`proc_net(5)`).
    pub(crate) fn far_counter(&self, file: &str, line: &str, name: &str) -> Outcome<u64> {
        let path = format!("/proc/thread-self/net/{file}");
        let text = self.far.enter(|| std::fs::read_to_string(path))??;
        let mut rows = text
            .lines()
            .map(|row| row.split_whitespace().collect::<Vec<_>>())
            .filter(|row| row.first() == Some(&line));
        let first = rows.next().ok_or("no such line")?;
        let (column, values) = match rows.next() {
            Some(values) => (first.iter().position(|&title| title == name), values),
            None => (Some(1), first),
        };
        let value = column.and_then(|column| values.get(column));
        Ok(value.ok_or("no such counter")?.parse()?)
    }

    pub(crate) fn tell(&mut self, command: &str) -> Outcome {
        let input = self.emulator.stdin.as_mut().ok_or("no input")?;
        Ok(writeln!(input, "{command}")?)
    }

    pub(crate) fn event(&mut self) -> Outcome<Event> {
        next_event(&mut self.reports)
    }

    /// What happened since this was last asked, and the samples that came meanwhile.
    pub(crate) fn read(&mut self) -> Outcome<(Interval, Vec<Sample>)> {
        self.tell("read")?;
        let mut samples = Vec::new();
        loop {
            match self.event()? {
                Event::Sample(sample) => samples.push(sample),
                Event::Interval(interval) => return Ok((interval, samples)),
                other @ (Event::Ready { .. }
                | Event::Counters(_)
                | Event::Quiet
                | Event::Refused { .. }
                | Event::Stopped(_)) => {
                    return Err(format!("{other:?} instead of an interval").into());
                }
            }
        }
    }

    /// Everything since the start.
    pub(crate) fn counters(&mut self) -> Outcome<Counters> {
        self.tell("counters")?;
        let Event::Counters(counters) = self.event()? else {
            return Err("a command was not answered by counters".into());
        };
        Ok(counters)
    }

    pub(crate) fn stop(mut self) -> Outcome<Counters> {
        self.counters()?;
        drop(self.emulator.stdin.take());
        let Event::Stopped(counters) = self.event()? else {
            return Err("the emulator did not say that it stopped".into());
        };
        ensure(self.emulator.wait()?.success(), "the emulator failed")?;
        Ok(counters)
    }
}

/// User and system time of a process, in ticks of 10 ms (`proc_pid_stat(5)`).
pub(crate) fn processor_time(process: &str) -> Outcome<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .ok_or("stat")?
        .split_whitespace()
        .collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

fn next_event(reports: &mut impl BufRead) -> Outcome<Event> {
    let mut line = String::new();
    if reports.read_line(&mut line)? == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(serde_json::from_str(&line)?)
}
