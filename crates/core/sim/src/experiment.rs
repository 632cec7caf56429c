use std::time::Duration;

use congestion::ParseAlgorithmError;
use link::{InvalidPath, LossSpec, PathSpec};
use record::lab::{Document, Priming};
use record::{LimitSeconds, Manifest, VERSION};
use scenario::{Arm, HostName, Problem, Relay, Scenario};
use tcp::{Config, Pacing};
use units::{Bytes, PacketOverhead, Rate};

use crate::hosts::{SimulatedHost, host};
use crate::http::{Primed, Programs};
use crate::results::{self, Measured};
use crate::statistics::mix;
use crate::world::{ConnectionId, PathId, World};

/// A scenario cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The scenario contradicts itself.
    #[error("the scenario is not sound: {}", list(problems))]
    Scenario {
        /// Everything that is wrong.
        problems: Vec<Problem>,
    },
    /// A host asks for an algorithm that is not simulated.
    #[error("the {host} asks for a congestion control that is not simulated")]
    CongestionControl {
        /// Which host.
        host: &'static str,
        /// What was read, and what is known.
        #[source]
        source: ParseAlgorithmError,
    },
    /// A sysctl has a value that cannot be read.
    #[error("`{value}` is no value for {key} on the {host}")]
    Sysctl {
        /// Which host.
        host: &'static str,
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
    /// The path cannot be built.
    #[error("the path cannot be simulated")]
    Path {
        /// What is wrong with it.
        #[source]
        source: InvalidPath,
    },
}

/// The LAN between client and relay: 0.1 ms and no limit of rate. The lab joins them by a veth pair,
/// over which a round trip takes some 50 us with both ends' wake-ups.
const LAN_RTT: Duration = Duration::from_micros(100);

/// The hosts of a scenario, and the seed of a run.
struct Stage<'a> {
    scenario: &'a Scenario,
    seed: u64,
    client: Config,
    relay: Config,
    origin: Config,
}

/// One block's world and its relay's pool.
struct Block {
    programs: Programs,
    wan: PathId,
    lan: PathId,
    pool: Vec<ConnectionId>,
    primed: Vec<Primed>,
}

/// Runs every arm and workload of `scenario` in virtual time.
///
/// The answer has the lab's shape. Its manifest holds facts about the simulated hosts; the caller adds
/// what it knows of program, command and machine. Assertions on predictions are left out: here the
/// simulation is the prediction.
pub fn run(scenario: &Scenario, seed: u64) -> Result<Document, SimulateError> {
    let problems = scenario.problems();
    if !problems.is_empty() {
        return Err(SimulateError::Scenario { problems });
    }
    let hosts = [HostName::Client, HostName::Relay, HostName::Origin];
    let mut manifest = Manifest::default();
    let mut configs = Vec::new();
    for name in hosts {
        let SimulatedHost { config, ignored } = host(scenario, name)?;
        manifest.facts.insert(
            format!("{}: congestion control", name.as_str()),
            config.algorithm.to_string(),
        );
        for key in ignored {
            let fact = format!("{}: {key}", name.as_str());
            manifest.facts.insert(fact, "not simulated".to_owned());
        }
        configs.push(config);
    }
    let [client, relay, origin] = <[Config; 3]>::try_from(configs).unwrap_or_else(|_| {
        // Three names above, one configuration each.
        [Config::linux(), Config::linux(), Config::linux()]
    });
    let stage = Stage {
        scenario,
        seed,
        client,
        relay,
        origin,
    };

    let mut order = Vec::new();
    let mut measured = Vec::new();
    let mut priming = Vec::new();
    for arm in &scenario.arms {
        let mut primed = Vec::new();
        let mut of_arm = Vec::new();
        for workload in &scenario.workloads {
            let (cell, made) = stage.measure(arm, workload.bytes, &mut || {
                order.push(format!("{} {}", arm.name, workload.name));
            })?;
            primed.extend(made);
            of_arm.push(cell);
        }
        priming.extend(summary(arm, &primed));
        measured.push(of_arm);
    }
    let cells = results::cells(scenario, seed, &measured);
    let assertions = results::assertions(scenario, &cells);
    Ok(Document {
        schema: "longhaul.lab".to_owned(),
        version: VERSION,
        manifest,
        scenario: scenario.name.clone(),
        seed,
        interrupted: false,
        order,
        cells,
        priming,
        assertions,
    })
}

impl Stage<'_> {
    /// All blocks of one arm and one size.
    fn measure(
        &self,
        arm: &Arm,
        bytes: Bytes,
        begin: &mut dyn FnMut(),
    ) -> Result<(Measured, Vec<Primed>), SimulateError> {
        let experiment = &self.scenario.experiment;
        let blocks = experiment.runs / experiment.block.max(1);
        let mut measured = Measured::default();
        let mut primed = Vec::new();
        let relay = arm
            .relay
            .as_ref()
            .and_then(|name| self.scenario.relays.get(name));
        for number in 0..blocks {
            begin();
            let mut block = self.block(arm, bytes, u64::from(number), relay)?;
            primed.append(&mut block.primed);
            self.transfers(arm, bytes, &mut block, experiment.block, &mut measured);
        }
        if let Some(unprimed) = &arm.unprimed
            && let Some(relay) = self.scenario.relays.get(unprimed)
        {
            let mut alone = Measured::default();
            let mut block = self.block(arm, bytes, u64::MAX, Some(relay))?;
            self.transfers(arm, bytes, &mut block, 1, &mut alone);
            measured.first_unprimed_s = alone.seconds.first().copied();
        }
        Ok((measured, primed))
    }

    /// A fresh world with its path, and with the relay's pool ready.
    fn block(
        &self,
        arm: &Arm,
        bytes: Bytes,
        number: u64,
        relay: Option<&Relay>,
    ) -> Result<Block, SimulateError> {
        let path = &self.scenario.path;
        let loss = if path.loss == units::LossRate::ZERO {
            LossSpec::None
        } else {
            LossSpec::Bernoulli(path.loss)
        };
        let name = arm
            .name
            .bytes()
            .fold(0, |sum, byte| mix(sum ^ u64::from(byte)));
        let seed = mix(self.seed ^ mix(number ^ mix(bytes.get() ^ name)));
        let fail = |source| SimulateError::Path { source };
        let mut world = World::new();
        let wan = PathSpec::symmetric(path.rtt.get(), Some(path.rate), path.queue, loss, seed);
        let wan = world.add_path(&wan).map_err(fail)?;
        let lan = PathSpec::symmetric(LAN_RTT, None, Bytes::mib(1), LossSpec::None, seed);
        let lan = world.add_path(&lan).map_err(fail)?;
        let mut block = Block {
            programs: Programs::new(world),
            wan,
            lan,
            pool: Vec::new(),
            primed: Vec::new(),
        };
        if let Some(relay) = relay {
            self.fill_pool(relay, &mut block);
        }
        Ok(block)
    }

    fn fill_pool(&self, relay: &Relay, block: &mut Block) {
        let path = &self.scenario.path;
        let mut config = self.relay.clone();
        if relay.knows_path_rate {
            config.pacing = Pacing::AtMost(payload_rate(path.rate));
        }
        for _ in 0..relay.pool_min_idle.max(1) {
            let connection = block.programs.connect(block.wan, &config, &self.origin);
            // What fails here fails the transfers that need the connection, and is told there.
            let ready = block.programs.establish(connection).is_ok();
            if ready && relay.prime {
                let target = relay.hot_window.unwrap_or_else(|| hot_window(relay, path));
                block
                    .primed
                    .extend(block.programs.prime(connection, target));
            }
            block.pool.push(connection);
        }
    }

    fn transfers(
        &self,
        arm: &Arm,
        bytes: Bytes,
        block: &mut Block,
        count: u32,
        measured: &mut Measured,
    ) {
        let mut kept = None;
        for position in 0..count {
            let started = block.programs.world.now();
            let connection = kept.take().unwrap_or_else(|| self.open(block));
            match block.programs.upload(connection, bytes, started) {
                Ok(transfer) => {
                    measured.push(position, transfer.took, &transfer.limits);
                    if arm.reuse {
                        kept = Some(connection);
                    } else {
                        block.programs.close(connection);
                    }
                }
                Err(why) => measured.fail(why),
            }
            // A client takes a moment between two transfers; the lab's takes some milliseconds.
            let pause = block.programs.world.now() + Duration::from_millis(2);
            block.programs.pass(pause);
        }
    }

    fn open(&self, block: &mut Block) -> ConnectionId {
        if block.pool.is_empty() {
            return block
                .programs
                .connect(block.wan, &self.client, &self.origin);
        }
        // The connection that has waited longest serves next.
        let upstream = block.pool.remove(0);
        block.pool.push(upstream);
        block
            .programs
            .connect_through(block.lan, &self.client, &self.relay, upstream)
    }
}

/// Payload at a path's rate: a pacer counts no headers.
fn payload_rate(rate: Rate) -> Rate {
    let overhead = PacketOverhead::IPV4_TIMESTAMPS;
    let whole = u128::from(overhead.payload + overhead.headers);
    let bits = u128::from(rate.bits_per_s()) * u128::from(overhead.payload) / whole;
    Rate::bit_per_s(u64::try_from(bits).unwrap_or(u64::MAX))
}

/// What a hot connection holds, as the relay decides it: the path's product where its rate is known,
/// within 64 KiB and 3 MiB, and 2 MiB elsewhere.
fn hot_window(relay: &Relay, path: &scenario::Path) -> Bytes {
    if !relay.knows_path_rate {
        return Bytes::mib(2);
    }
    let product = path.rate.checked_mul(path.rtt.get());
    product.map_or(Bytes::mib(2), |product| {
        product.clamp(Bytes::kib(64), Bytes::mib(3))
    })
}

fn summary(arm: &Arm, primed: &[Primed]) -> Option<Priming> {
    let slowest = primed.iter().map(|one| one.took).max()?;
    Some(Priming {
        arm: arm.name.clone(),
        connections: primed.len() as u64,
        requests: primed.iter().map(|one| one.requests).sum(),
        bytes: primed.iter().map(|one| one.bytes).sum(),
        seconds: slowest.as_secs_f64(),
        cwnd: primed.iter().map(|one| one.cwnd).min(),
        peer_window: primed.iter().map(|one| one.peer_window).min(),
    })
}

fn list(problems: &[Problem]) -> String {
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// Adds `more` to `sum`, limit by limit.
pub(crate) fn add_limits(sum: &mut LimitSeconds, more: &LimitSeconds) {
    for (limit, seconds) in more {
        *sum.entry(*limit).or_default() += seconds;
    }
}
