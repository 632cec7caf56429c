mod beyond;
mod block;
mod plan;
#[cfg(test)]
mod tests;
mod transfer;

use std::collections::BTreeMap;
use std::time::Duration;

use comparison::{Evidence, Measured, Rivals, SplitMix64};
use congestion::ParseAlgorithmError;
use link::InvalidPath;
use record::Manifest;
use record::lab::{Conduct, Document, PathCheck, Priming, VERSION};
use scenario::{
    Arm, Flow, HostName, IpVersion, Problem, Relay, RelayMode, Scenario, Tls, Workload,
};
use tcp::Config;
use units::{Bytes, Rate};

use crate::captures::{self, HostCapture};
use crate::hosts::{SimulatedHost, host};
use crate::http::Primed;
pub(crate) use beyond::reason;
use block::Block;

/// A scenario cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The scenario contradicts itself.
    #[error("the scenario is not sound: {}", list(problems))]
    Scenario {
        /// Everything that is wrong.
        problems: Vec<Problem>,
    },
    /// There is no such arm.
    #[error("the scenario has no such arm; it has `{}`", known.join("`, `"))]
    UnknownArm {
        /// The arms that it has.
        known: Vec<String>,
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

/// The scenario and the seed of a run.
struct Stage<'a> {
    /// Where the wire is to be captured.
    captured: &'a [HostName],
    scenario: &'a Scenario,
    seed: u64,
}

/// Runs every arm and workload of `scenario` in virtual time.
///
/// The answer has the lab's shape. Its manifest holds facts about the simulated hosts, and why arms are
/// left out where they are; the caller adds what it knows of program, command and machine. Assertions on
/// predictions and on arms that are left out are left out too.
///
/// What is a model and not a play: TLS is its round trips and about its bytes; a relay's accept and its
/// connection behind it begin together; hosts compute in no time.
pub fn run(scenario: &Scenario, seed: u64) -> Result<Document, SimulateError> {
    run_captured(scenario, seed, &[], &mut |_| {})
}

/// The same, and for every block what each of `captured` sees on its interfaces.
pub fn run_captured(
    scenario: &Scenario,
    seed: u64,
    captured: &[HostName],
    keep: &mut dyn FnMut(HostCapture),
) -> Result<Document, SimulateError> {
    let problems = scenario.problems();
    if !problems.is_empty() {
        return Err(SimulateError::Scenario { problems });
    }
    play(scenario, seed, captured, keep)
}

/// The same for a scenario that is known to be sound but for settings that no kernel has.
pub(crate) fn play(
    scenario: &Scenario,
    seed: u64,
    captured: &[HostName],
    keep: &mut dyn FnMut(HostCapture),
) -> Result<Document, SimulateError> {
    let stage = Stage {
        captured,
        scenario,
        seed,
    };
    let mut manifest = Manifest::default();
    let mut order = Vec::new();
    let mut evidence = Evidence {
        path: as_asked(scenario),
        ..Evidence::default()
    };
    let mut priming = Vec::new();
    for (arm_index, arm) in scenario.arms.iter().enumerate() {
        let hosts = stage.hosts(arm_index, &mut manifest.facts)?;
        let mut primed = Vec::new();
        for (index, workload) in scenario.workloads.iter().enumerate() {
            if let Some(reason) = reason(scenario, arm, workload) {
                let fact = format!("{}, {}", arm.name, workload.name);
                let reason = format!("not simulated: {reason}");
                manifest.facts.insert(fact, reason);
                continue;
            }
            let mut finish = |number: u32, block: &Block| {
                for &host in captured {
                    keep(HostCapture {
                        arm: arm.name.clone(),
                        workload: workload.name.clone(),
                        block: number,
                        host,
                        pcapng: captures::of(
                            &block.programs.world,
                            block.lan,
                            &block.pool,
                            (host, scenario.path.ip),
                        ),
                    });
                }
            };
            order.extend(
                (0..blocks_of(scenario)).map(|_| format!("{}, {}", arm.name, workload.name)),
            );
            let (measured, made) = stage.measure(arm, workload, &hosts, &mut finish)?;
            primed.extend(made);
            evidence.measured.insert((arm_index, index), measured);
        }
        priming.extend(summary(arm, &primed));
    }
    let cells = comparison::cells(scenario, seed, &evidence);
    let assertions = comparison::assertions(&beyond::checkable(scenario), &cells);
    Ok(Document {
        schema: "longhaul.lab".to_owned(),
        version: VERSION,
        manifest,
        scenario: scenario.name.clone(),
        seed,
        interrupted: false,
        broken: None,
        // Virtual time makes the asked runs and no more.
        conduct: Some(Conduct {
            precision: None,
            max_runs: None,
            ..comparison::conduct(scenario)
        }),
        order,
        cells,
        priming,
        assertions,
    })
}

impl Stage<'_> {
    /// The endpoints of an arm; what is said of them goes to `facts`, once for hosts that arms share.
    fn hosts(
        &self,
        arm: usize,
        facts: &mut BTreeMap<String, String>,
    ) -> Result<BTreeMap<HostName, Config>, SimulateError> {
        let own = &self.scenario.arms[arm];
        let mut configs = BTreeMap::new();
        for (name, settings) in self.scenario.for_arm(arm) {
            let SimulatedHost {
                mut config,
                ignored,
            } = host(&settings, name)?;
            config.mss = config.mss.min(largest_mss(self.scenario.path.ip));
            let who = if own.hosts.contains_key(&name) {
                format!("{name} in {}", own.name)
            } else {
                name.to_string()
            };
            // Rivals are a host of their own only where there are some.
            let rivals = self
                .scenario
                .workloads
                .iter()
                .any(|workload| !workload.rivals.is_empty());
            let far = self
                .scenario
                .relays
                .values()
                .any(|relay| relay.at == scenario::Site::Far);
            let told = match name {
                HostName::Rival => rivals,
                HostName::FarRelay => far,
                HostName::Client | HostName::Relay | HostName::Origin => true,
            };
            if told {
                let fact = format!("{who}: congestion control");
                facts.insert(fact, config.algorithm.to_string());
            }
            for key in ignored {
                facts.insert(format!("{who}: {key}"), "not simulated".to_owned());
            }
            configs.insert(name, config);
        }
        Ok(configs)
    }

    /// All blocks of one arm and one workload.
    fn measure(
        &self,
        arm: &Arm,
        workload: &Workload,
        hosts: &BTreeMap<HostName, Config>,
        finish: &mut dyn FnMut(u32, &Block),
    ) -> Result<(Measured, Vec<Primed>), SimulateError> {
        let experiment = &self.scenario.experiment;
        let blocks = blocks_of(self.scenario);
        let mut measured = Measured::default();
        let mut primed = Vec::new();
        let mut series = Vec::new();
        let mut rivals = Vec::new();
        let hops = self.relays(arm.relay.hops());
        let arm = &across(arm, &hops);
        for number in 0..blocks {
            let seed = self.seed_of(arm, workload, u64::from(number));
            let mut block = self.block(arm, hosts, &hops, seed)?;
            primed.append(&mut block.primed);
            block.invite_rivals(workload, hosts)?;
            block.start_schedule();
            let share = transfer::Share::begin(&block);
            let before = measured.transfers.len();
            let counts = (experiment.warm_up, experiment.block);
            transfer::play(
                arm,
                workload,
                &mut block,
                counts,
                &mut measured,
                &mut series,
            );
            finish(number, &block);
            if !workload.rivals.is_empty() {
                let beside = share.end(&block);
                let span = share.span(&block);
                let own: u64 = measured.transfers[before..]
                    .iter()
                    .map(|one| one.bytes)
                    .sum();
                let own = [transfer::bits(own) / span.as_secs_f64()];
                let alone = self.alone(arm, workload, hosts, seed, span)?;
                rivals.push(Rivals {
                    alone_bps: alone,
                    beside_bps: beside,
                    own_bps: own.to_vec(),
                });
            }
        }
        if let Some(unprimed) = &arm.unprimed {
            let mut alone = Measured::default();
            let seed = self.seed_of(arm, workload, u64::MAX);
            let hops = self.relays(std::slice::from_ref(unprimed));
            let mut block = self.block(arm, hosts, &hops, seed)?;
            // Its time is told, and nothing else of it.
            block.sampling = None;
            block.start_schedule();
            transfer::play(
                arm,
                workload,
                &mut block,
                (0, 1),
                &mut alone,
                &mut Vec::new(),
            );
            measured.first_unprimed = alone.transfers.into_iter().next();
        }
        measured.rivals = Rivals::mean(&rivals);
        measured.series = transfer::representative(&measured.transfers, &mut series);
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

    /// What the rivals get on the same path without the arm, over `span`.
    fn alone(
        &self,
        arm: &Arm,
        workload: &Workload,
        hosts: &BTreeMap<HostName, Config>,
        seed: u64,
        span: Duration,
    ) -> Result<Vec<f64>, SimulateError> {
        let mut block = self.block(arm, hosts, &[], seed)?;
        block.invite_rivals(workload, hosts)?;
        block.start_schedule();
        let share = transfer::Share::begin(&block);
        let until = block.programs.world.now() + span;
        block.programs.pass(until);
        Ok(share.end(&block))
    }

    fn relays(&self, names: &[String]) -> Vec<&Relay> {
        let relays = names.iter().map(|name| self.scenario.relays.get(name));
        relays.flatten().collect()
    }

    /// One seed for one block of one cell, whatever other arms and workloads there are.
    fn seed_of(&self, arm: &Arm, workload: &Workload, number: u64) -> u64 {
        let name = arm
            .name
            .bytes()
            .fold(0, |sum, byte| mix(sum ^ u64::from(byte)));
        let bytes = workload.bytes.map_or(0, Bytes::get);
        mix(self.seed ^ mix(number ^ mix(bytes ^ name)))
    }
}

/// The arm as its long path sees it: a relay that ends TLS begins it anew, with the newest version that it and
/// the origin have, whatever its client speaks.
fn across(arm: &Arm, hops: &[&Relay]) -> Arm {
    let mut arm = arm.clone();
    if hops.iter().any(|relay| relay.mode == RelayMode::Tls) {
        arm.tls = Some(Tls::V1_3);
    }
    arm
}

/// Blocks of each arm and workload.
fn blocks_of(scenario: &Scenario) -> u32 {
    let experiment = &scenario.experiment;
    experiment.runs / experiment.block.max(1)
}

/// A simulated path is what was asked for; nothing has to be checked.
#[expect(clippy::cast_precision_loss, reason = "bits per second far below 2^52")]
pub(crate) fn as_asked(scenario: &Scenario) -> PathCheck {
    let rtt = scenario.path.rtt.get().as_secs_f64();
    let rate = scenario.path.bottleneck_rate().bits_per_s() as f64;
    let backward = scenario.path.bottleneck_rate_of(Flow::Down);
    let bounded = backward < Rate::bit_per_s(u64::MAX);
    let backward = bounded.then(|| backward.bits_per_s() as f64);
    PathCheck {
        rtt_asked_s: rtt,
        rtt_achieved_s: Some(rtt),
        rate_asked_bps: rate,
        rate_achieved_bps: Some(rate),
        backward_rate_asked_bps: backward,
        backward_rate_achieved_bps: backward,
        ..PathCheck::default()
    }
}

/// Mixes a seed from what distinguishes one block from another.
const fn mix(seed: u64) -> u64 {
    SplitMix64::new(seed).bits()
}

/// Bytes by which the header of `ip` is larger than that of IPv4.
const fn larger_header(ip: IpVersion) -> u32 {
    ip.header_bytes() - IpVersion::V4.header_bytes()
}

/// The largest segment of TCP in an IP packet of 1500 bytes, without options.
fn largest_mss(ip: IpVersion) -> u16 {
    const TCP_HEADER: u32 = 20;
    u16::try_from(1_500 - ip.header_bytes() - TCP_HEADER).unwrap_or(u16::MAX)
}

/// Payload at a path's rate: a pacer counts no headers.
fn payload_rate(rate: Rate, ip: IpVersion) -> Rate {
    let overhead = ip.full_packet();
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
    let product = path.bottleneck_rate().checked_mul(path.rtt.get());
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
