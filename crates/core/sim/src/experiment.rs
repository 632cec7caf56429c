mod beyond;
mod block;
mod blocks;
mod plan;
#[cfg(test)]
mod tests;
mod transfer;

use std::collections::BTreeMap;
use std::time::Duration;

use comparison::{Evidence, SplitMix64};
use congestion::ParseAlgorithmError;
use link::InvalidPath;
use record::Manifest;
use record::lab::{Document, PathCheck, Priming, VERSION};
use scenario::{Arm, Flow, HostName, IpVersion, Problem, Relay, Scenario, Workload};
use tcp::Config;
use units::{Bytes, Rate};

use crate::captures::HostCapture;
use crate::hosts::{SimulatedHost, host};
use crate::http::Primed;
pub(crate) use beyond::reason;
use blocks::Blocks;

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

/// The same, and for every block what each of `captured` sees on its interfaces, where packets pass it.
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
    let mut evidence = Evidence {
        path: as_asked(scenario),
        ..Evidence::default()
    };
    let mut hosts = Vec::new();
    for arm in 0..scenario.arms.len() {
        hosts.push(stage.hosts(arm, &mut manifest.facts)?);
    }
    let mut blocks = stage.blocks(&hosts, &mut manifest.facts);
    let mut order = Vec::new();
    for one in blocks.values_mut() {
        for _ in 0..comparison::rounds(scenario) {
            order.push(one.label());
            one.play(&mut evidence.measured, keep)?;
        }
    }
    for number in comparison::rounds(scenario).. {
        let round = comparison::further_round(scenario, seed, number, &evidence.measured);
        if round.is_empty() {
            break;
        }
        for block in round {
            if let Some(one) = blocks.get_mut(&(block.arm, block.workload)) {
                order.push(one.label());
                one.play(&mut evidence.measured, keep)?;
            }
        }
    }
    let mut primed: BTreeMap<usize, Vec<Primed>> = BTreeMap::new();
    for ((arm, workload), one) in blocks {
        let measured = evidence.measured.entry((arm, workload)).or_default();
        primed.entry(arm).or_default().extend(one.finish(measured)?);
    }
    let priming = primed.iter();
    let priming = priming.filter_map(|(arm, primed)| summary(&scenario.arms[*arm], primed));
    let priming = priming.collect();
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
        conduct: Some(comparison::conduct(scenario)),
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

    /// What is to be played of every arm and workload; what is left out is told in `facts`.
    fn blocks<'a>(
        &'a self,
        hosts: &'a [BTreeMap<HostName, Config>],
        facts: &mut BTreeMap<String, String>,
    ) -> BTreeMap<(usize, usize), Blocks<'a>> {
        let mut blocks = BTreeMap::new();
        for (arm_index, (arm, hosts)) in self.scenario.arms.iter().zip(hosts).enumerate() {
            for (index, workload) in self.scenario.workloads.iter().enumerate() {
                if let Some(reason) = reason(self.scenario, arm, workload) {
                    let fact = format!("{}, {}", arm.name, workload.name);
                    facts.insert(fact, format!("not simulated: {reason}"));
                    continue;
                }
                let place = (arm_index, index);
                blocks.insert(place, Blocks::new(self, place, hosts));
            }
        }
        blocks
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
