//! Flows over one bottleneck, for measuring the simulator's speed from outside:
//!
//! ```text
//! time cargo run --release -p longhaul-sim --example dumbbell -- rate=10000 rtt=1 algorithm=cubic seconds=10
//! ```
//!
//! Settings, all but the first four with a default: `rate` in Mbit/s, `rtt` in ms, `algorithm`, `seconds`
//! to simulate, `flows` (1), `loss` in packets per 10^9 (0) or `drop` with the numbers of the packets that
//! are lost on their way out, from 0 and ascending (`drop=700,2000`), `ssthresh` in bytes (infinite),
//! `queue` in bytes (the product of rate and RTT), `acks` (`linux`, or `each` for one per segment), `bytes`
//! per flow (no end), `trace` in ms (none), `pcap` for a file that gets what the first flow's sender sees
//! (none). Prints one JSON object; `bench/simulator.py` reads it.

#![expect(clippy::print_stdout, reason = "a program to be run by hand")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use congestion::Choice;
use link::{LossSpec, PathSpec};
use longhaul_sim::{ConnectionId, Ends, Side, World, pcapng};
use tcp::{AckPolicy, Config, Event, ReceiveBuffer};
use units::{Bytes, LossRate, Rate, Time};

fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::read()?;
    let dumbbell = Dumbbell::of(&settings)?;
    println!("{}", dumbbell.run()?);
    Ok(())
}

/// What stands on the command line.
struct Settings(BTreeMap<String, String>);

struct Dumbbell {
    world: World,
    flows: Vec<ConnectionId>,
    until: Time,
    /// Bytes that each flow has yet to write, and has received.
    left: Vec<u64>,
    received: Vec<u64>,
    finished: Vec<Option<Time>>,
    wanted: u64,
    trace: Option<Duration>,
    pcap: Option<PathBuf>,
}

// === impl Settings ===

impl Settings {
    fn read() -> Result<Self, Box<dyn Error>> {
        let mut settings = BTreeMap::new();
        for argument in std::env::args().skip(1) {
            let (name, value) = argument
                .split_once('=')
                .ok_or_else(|| format!("`{argument}` is not NAME=VALUE"))?;
            settings.insert(name.to_owned(), value.to_owned());
        }
        Ok(Self(settings))
    }

    fn optional<T: FromStr>(&self, name: &str) -> Result<Option<T>, Box<dyn Error>> {
        let Some(value) = self.0.get(name) else {
            return Ok(None);
        };
        let parsed = value.parse();
        Ok(Some(
            parsed.map_err(|_| format!("`{name}={value}` can't be read"))?,
        ))
    }

    fn wanted<T: FromStr>(&self, name: &str) -> Result<T, Box<dyn Error>> {
        Ok(self
            .optional(name)?
            .ok_or_else(|| format!("`{name}=...` is missing"))?)
    }
}

// === impl Dumbbell ===

impl Dumbbell {
    fn of(settings: &Settings) -> Result<Self, Box<dyn Error>> {
        let rate = Rate::mbit_per_s(settings.wanted("rate")?);
        let rtt = Duration::from_secs_f64(settings.wanted::<f64>("rtt")? / 1e3);
        let product = rate.checked_mul(rtt).ok_or("too large a product")?;
        let queue = settings.optional("queue")?.map(Bytes::new);
        let loss = LossRate::per_billion(settings.optional("loss")?.unwrap_or(0));
        let mut path = PathSpec::symmetric(
            rtt,
            Some(rate),
            queue.unwrap_or_else(|| product.max(Bytes::new(150_000))),
            LossSpec::None,
            1,
        );
        if let Some(loss) = loss.filter(|loss| *loss != LossRate::ZERO) {
            path.forward.loss = LossSpec::Bernoulli(loss);
        }
        if let Some(numbers) = settings.optional::<String>("drop")? {
            let numbers: Result<_, _> = numbers.split(',').map(str::parse).collect();
            path.forward.loss = LossSpec::Listed(numbers?);
        }
        let choice: Choice = settings.wanted::<String>("algorithm")?.parse()?;
        let near = Config {
            algorithm: choice.algorithm,
            tuning: choice.tuning,
            send_buffer: Bytes::mib(512),
            initial_ssthresh: settings.optional("ssthresh")?.map(Bytes::new),
            ..Config::linux()
        };
        let acks: Option<String> = settings.optional("acks")?;
        let far = Config {
            ack_policy: match acks.as_deref() {
                None | Some("linux") => AckPolicy::Linux,
                Some("each") => AckPolicy::Immediate,
                Some(other) => {
                    return Err(format!("`acks={other}` is neither `linux` nor `each`").into());
                }
            },
            receive_buffer: ReceiveBuffer::Autotuned {
                initial: Bytes::kib(64),
                max: Bytes::mib(512),
            },
            ..Config::linux()
        };
        let mut world = World::new();
        let road = world.add_path(&path)?;
        let count = settings.optional("flows")?.unwrap_or(1);
        let wanted = settings.optional("bytes")?.unwrap_or(u64::MAX);
        Ok(Self {
            flows: (0..count)
                .map(|_| world.connect(road, &near, &far))
                .collect(),
            world,
            until: Time::ZERO + Duration::from_secs_f64(settings.wanted("seconds")?),
            left: vec![wanted; count],
            received: vec![0; count],
            finished: vec![None; count],
            wanted,
            trace: settings.optional("trace")?.map(Duration::from_millis),
            pcap: settings.optional("pcap")?,
        })
    }

    /// Runs it; the result as JSON.
    fn run(mut self) -> Result<String, Box<dyn Error>> {
        if let Some(interval) = self.trace {
            let watched = self.flows.first().copied().ok_or("no flow")?;
            self.world.watch(&[(watched, Side::Near)], interval);
        }
        if self.pcap.is_some() {
            self.world.record();
        }
        while let Some(notice) = self.world.next(self.until) {
            let number = notice.connection.number();
            let flow = self.flows[number];
            match (notice.side, notice.event) {
                (Side::Near, Event::Established | Event::Writable) => {
                    let taken = self.world.write(flow, Side::Near, self.left[number]);
                    self.left[number] -= taken;
                }
                (Side::Far, Event::Readable) => {
                    self.received[number] += self.world.read(flow, Side::Far, u64::MAX);
                    if self.received[number] >= self.wanted {
                        self.finished[number].get_or_insert_with(|| self.world.now());
                    }
                }
                (Side::Near | Side::Far, _) => {}
            }
        }
        if let Some(file) = &self.pcap {
            fs::write(file, self.capture())
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let series = self.trace.and_then(|_| self.world.watched());
        let trace: Vec<String> = series
            .iter()
            .flat_map(|series| &series.points)
            .map(|point| format!("[{}, {}]", point.at_s, point.cwnd.unwrap_or(0)))
            .collect();
        let senders = || {
            let ends = self.flows.iter();
            ends.filter_map(|flow| Some(self.world.end(*flow, Side::Near)?.sender()))
        };
        let finished = self.finished.iter().map(|at| match at {
            Some(at) => at.since(Time::ZERO).as_secs_f64().to_string(),
            None => "null".to_owned(),
        });
        Ok(format!(
            "{{\"received\": {}, \"segments\": {}, \"retransmissions\": {}, \"timeouts\": {}, \
             \"packets\": {}, \"finished_s\": [{}], \"cwnd\": [{}]}}",
            self.received.iter().sum::<u64>(),
            senders().map(|sender| sender.segments).sum::<u64>(),
            senders().map(|sender| sender.retransmissions).sum::<u64>(),
            senders().map(|sender| sender.timeouts).sum::<u64>(),
            self.world.packets(),
            finished.collect::<Vec<String>>().join(", "),
            trace.join(", ")
        ))
    }

    /// What the first flow's sender sees.
    fn capture(&self) -> Vec<u8> {
        let first = self.flows.first().copied();
        pcapng(self.world.log(), |flow| {
            (Some(flow) == first).then_some(Ends {
                near: SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 40_000)),
                far: SocketAddr::from((Ipv4Addr::new(203, 0, 113, 1), 5001)),
                at: Side::Near,
            })
        })
    }
}
