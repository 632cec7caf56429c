use std::time::Duration;

use comparison::{Evidence, Measured, SplitMix64, Transfer};
use congestion::ParseAlgorithmError;
use link::{InvalidPath, LossSpec, PathSpec};
use record::lab::{Document, PathCheck, Priming, VERSION};
use record::{LimitSeconds, Manifest};
use scenario::{Arm, Assertion, HostName, Problem, Relay, Scenario, Statistic};
use tcp::{Config, Pacing};
use units::{Bytes, PacketOverhead, Rate};

use crate::hosts::{SimulatedHost, host};
use crate::http::{Primed, Programs};
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
    let problems = scenario.beyond_plain_uploads("the simulator");
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
    let mut evidence = Evidence {
        path: as_asked(scenario),
        ..Evidence::default()
    };
    let mut priming = Vec::new();
    for (arm_index, arm) in scenario.arms.iter().enumerate() {
        let mut primed = Vec::new();
        for (index, workload) in scenario.workloads.iter().enumerate() {
            let (measured, made) = stage.measure(arm, workload.bytes.unwrap_or(Bytes::ZERO), &mut || {
                order.push(format!("{}, {}", arm.name, workload.name));
            })?;
            primed.extend(made);
            evidence.measured.insert((arm_index, index), measured);
        }
        priming.extend(summary(arm, &primed));
    }
    let cells = comparison::cells(scenario, seed, &evidence);
    let assertions = comparison::assertions(&without_predictions(scenario), &cells);
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
            .first()
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
            let first = alone.transfers.first();
            measured.first_unprimed_s = first
                .filter(|transfer| transfer.failure.is_none())
                .map(|transfer| transfer.seconds);
        }
        // Summed up to here; the document wants the mean.
        let good = measured
            .transfers
            .iter()
            .filter(|transfer| transfer.failure.is_none());
        let good = f64::from(u32::try_from(good.count()).unwrap_or(u32::MAX).max(1));
        for seconds in measured.limits.values_mut() {
            *seconds /= good;
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
        for position in 0..count as usize {
            let started = block.programs.world.now();
            let connection = kept.take().unwrap_or_else(|| self.open(block));
            match block.programs.upload(connection, bytes, started) {
                Ok(transfer) => {
                    measured.transfers.push(Transfer {
                        position,
                        seconds: transfer.took.as_secs_f64(),
                        bytes: bytes.get(),
                        ..Transfer::default()
                    });
                    add_limits(&mut measured.limits, &transfer.limits);
                    if arm.reuse {
                        kept = Some(connection);
                    } else {
                        block.programs.close(connection);
                    }
                }
                Err(why) => measured.transfers.push(Transfer {
                    position,
                    seconds: f64::NAN,
                    failure: Some(why),
                    ..Transfer::default()
                }),
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

/// A simulated path is what was asked for; nothing has to be checked.
#[expect(clippy::cast_precision_loss, reason = "bits per second far below 2^52")]
fn as_asked(scenario: &Scenario) -> PathCheck {
    let rtt = scenario.path.rtt.get().as_secs_f64();
    let rate = scenario.path.rate.bits_per_s() as f64;
    PathCheck {
        rtt_asked_s: rtt,
        rtt_achieved_s: Some(rtt),
        rate_asked_bps: rate,
        rate_achieved_bps: Some(rate),
        ..PathCheck::default()
    }
}

/// The scenario less its assertions on predictions, which have nothing to be checked against.
fn without_predictions(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    for workload in &mut scenario.workloads {
        let speaks_of_times =
            |assertion: &Assertion| assertion.left.0 != Statistic::PredictionError;
        workload.assertions.retain(speaks_of_times);
    }
    scenario
}

/// Mixes a seed from what distinguishes one block from another.
const fn mix(seed: u64) -> u64 {
    SplitMix64::new(seed).bits()
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
fn add_limits(sum: &mut LimitSeconds, more: &LimitSeconds) {
    for (limit, seconds) in more {
        *sum.entry(*limit).or_default() += seconds;
    }
}
