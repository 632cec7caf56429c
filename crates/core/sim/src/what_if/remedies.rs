//! The remedies: how each changes a scenario of one arm and one workload.

use std::collections::BTreeMap;

use congestion::Algorithm;
use record::what_if::{NotTried, RemedyName};
use scenario::{
    Arm, Flow, Host, HostName, Kind, Relay, RelayMode, Route, Scenario, Site, TcpKnobs, Threshold,
    Workload,
};
use tcp::{Config, ReceiveBuffer};
use units::Bytes;

use crate::experiment::SimulateError;
use crate::hosts;

/// What is tried, and what is not and why.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalogue {
    pub(super) tried: Vec<Candidate>,
    pub(super) not_tried: Vec<NotTried>,
}

/// A remedy applied.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) name: RemedyName,
    pub(super) change: String,
    pub(super) scenario: Scenario,
}

/// Initial windows to try, in segments: what content networks use, and what fills a fast path at once.
const INITIAL_WINDOWS: [u32; 2] = [32, 100];
/// Algorithms that a released kernel has.
const ALGORITHMS: [&str; 5] = ["reno", "cubic", "bbr", "highspeed", "westwood"];
/// By how much connections are multiplied.
const TIMES: [u32; 3] = [2, 4, 8];
/// Windows are no smaller than this, and no larger than a window field can say (RFC 7323 section 2.3).
const LEAST_WINDOW: Bytes = Bytes::kib(64);
const LARGEST_WINDOW: Bytes = Bytes::mib(512);
/// A part below this is not worth a request of its own.
const LEAST_PART: Bytes = Bytes::kib(16);

/// Every remedy for `today`, which has one arm and one workload.
pub(super) fn of(today: &Scenario) -> Result<Catalogue, SimulateError> {
    let mut catalogue = Catalogue::default();
    let (Some(arm), Some(workload)) = (today.arms.first(), today.workloads.first()) else {
        return Ok(catalogue);
    };
    let bench = Bench {
        today,
        arm,
        workload,
        ends: ends(today, arm, workload.direction())?,
    };
    for remedy in [
        Bench::receive_window,
        Bench::send_buffer,
        Bench::initial_cwnd,
        Bench::initial_ssthresh,
        Bench::algorithm,
        Bench::reuse,
        Bench::parallel,
        Bench::relays,
    ] {
        remedy(&bench, &mut catalogue);
    }
    Ok(catalogue)
}

/// What remedies are applied to.
struct Bench<'a> {
    today: &'a Scenario,
    arm: &'a Arm,
    workload: &'a Workload,
    ends: Ends,
}

/// The hosts at the two ends of the long path, by what they do with the payload.
struct Ends {
    senders: Vec<(HostName, Config)>,
    receivers: Vec<(HostName, Config)>,
}

/// Who stands at the ends of the long path: the client or a near relay, a far relay or the origin.
fn ends(scenario: &Scenario, arm: &Arm, flow: Flow) -> Result<Ends, SimulateError> {
    let settings = scenario.for_arm(0);
    let config = |name: HostName| hosts::host(&settings[&name], name).map(|host| host.config);
    let mut near = (HostName::Client, config(HostName::Client)?);
    let mut far = (HostName::Origin, config(HostName::Origin)?);
    let hops = arm.relay.hops().iter();
    for relay in hops.filter_map(|hop| scenario.relays.get(hop)) {
        let host = match relay.at {
            Site::Near => HostName::Relay,
            Site::Far => HostName::FarRelay,
        };
        let (towards_client, towards_origin) = hosts::of_relay(relay, host, &config(host)?)?;
        if relay.at == Site::Far {
            far = (host, towards_client);
            break;
        }
        near = (host, towards_origin);
    }
    Ok(match flow {
        Flow::Up => Ends {
            senders: vec![near],
            receivers: vec![far],
        },
        Flow::Down => Ends {
            senders: vec![far],
            receivers: vec![near],
        },
        Flow::Both => Ends {
            senders: vec![near.clone(), far.clone()],
            receivers: vec![near, far],
        },
    })
}

// === impl Bench ===

impl Bench<'_> {
    /// Opens the receivers' windows so far that they never hold the sender back.
    fn receive_window(&self, catalogue: &mut Catalogue) {
        const NAME: RemedyName = RemedyName::ReceiveWindow;
        let wanted = self.ample();
        let ample = |config: &Config| {
            let fixed =
                matches!(config.receive_buffer, ReceiveBuffer::Fixed(window) if window >= wanted);
            fixed && config.window_scaling
        };
        let receivers = &self.ends.receivers;
        if receivers.iter().all(|(_, config)| ample(config)) {
            catalogue.leave_out(NAME, format!("it is {wanted} or more from the start"));
            return;
        }
        let mut scenario = self.knobs(receivers, |knobs| knobs.receive_window = Some(wanted));
        // Scaling takes both ends (RFC 7323 section 2.2).
        for name in self.ends.names() {
            change(&mut scenario, name, |host| {
                host.tcp.window_scaling = Some(true);
            });
        }
        let who = names(receivers);
        let change = format!("{who}: receive window {wanted}");
        catalogue.try_out(NAME, change, scenario);
    }

    fn send_buffer(&self, catalogue: &mut Catalogue) {
        const NAME: RemedyName = RemedyName::SendBuffer;
        let wanted = self.ample();
        let senders = &self.ends.senders;
        if senders
            .iter()
            .all(|(_, config)| config.send_buffer >= wanted)
        {
            let least = senders.iter().map(|(_, config)| config.send_buffer).min();
            let least = least.unwrap_or(wanted);
            let product = self.product();
            catalogue.leave_out(
                NAME,
                format!("it may be {least}, and the path holds {product}"),
            );
            return;
        }
        let who = names(senders);
        let change = format!("{who}: send buffer {wanted}");
        let scenario = self.knobs(senders, |knobs| knobs.send_buffer = Some(wanted));
        catalogue.try_out(NAME, change, scenario);
    }

    fn initial_cwnd(&self, catalogue: &mut Catalogue) {
        const NAME: RemedyName = RemedyName::InitialCwnd;
        let senders = &self.ends.senders;
        let least = senders.iter().map(|(_, config)| config.initial_cwnd).min();
        let least = least.unwrap_or_default();
        let larger = INITIAL_WINDOWS.into_iter().filter(|cwnd| *cwnd > least);
        let before = catalogue.tried.len();
        for cwnd in larger {
            let change = format!("{}: initial cwnd {cwnd}", names(senders));
            let scenario = self.knobs(senders, |knobs| knobs.initial_cwnd = Some(cwnd));
            catalogue.try_out(NAME, change, scenario);
        }
        if catalogue.tried.len() == before {
            catalogue.leave_out(NAME, format!("it is {least} segments"));
        }
    }

    /// Infinite, as RFC 5681 wants it, and the path's product, at which slow start need not overshoot.
    fn initial_ssthresh(&self, catalogue: &mut Catalogue) {
        const NAME: RemedyName = RemedyName::InitialSsthresh;
        let senders = &self.ends.senders;
        let heedless = |algorithm| matches!(algorithm, Algorithm::Bbr | Algorithm::Bbr3);
        if senders.iter().all(|(_, config)| heedless(config.algorithm)) {
            catalogue.leave_out(NAME, "BBR has no slow-start threshold".to_owned());
            return;
        }
        let mut try_out = |threshold: Threshold, as_now: Option<Bytes>, said: &str| {
            if senders
                .iter()
                .all(|(_, config)| config.initial_ssthresh == as_now)
            {
                catalogue.leave_out(NAME, format!("it is {said}"));
                return;
            }
            let change = format!("{}: initial ssthresh {said}", names(senders));
            let scenario = self.knobs(senders, |knobs| knobs.initial_ssthresh = Some(threshold));
            catalogue.try_out(NAME, change, scenario);
        };
        try_out(Threshold::Infinite, None, "infinite");
        let product = self.product();
        try_out(
            Threshold::Bytes(product),
            Some(product),
            &product.to_string(),
        );
    }

    fn algorithm(&self, catalogue: &mut Catalogue) {
        let senders = &self.ends.senders;
        for name in ALGORITHMS {
            let same = |(_, config): &(HostName, Config)| config.algorithm.as_str() == name;
            if senders.iter().all(same) {
                continue;
            }
            let mut scenario = self.today.clone();
            for (host, _) in senders {
                forget_algorithm(&mut scenario, *host);
                change(&mut scenario, *host, |host| {
                    host.congestion_control = Some(name.to_owned());
                });
            }
            let change = format!("{}: congestion control {name}", names(senders));
            catalogue.try_out(RemedyName::Algorithm, change, scenario);
        }
    }

    fn reuse(&self, catalogue: &mut Catalogue) {
        /// Transfers after which a kept connection has shown what it can do.
        const ENOUGH: u32 = 5;
        const NAME: RemedyName = RemedyName::ConnectionReuse;
        if self.arm.reuse {
            catalogue.leave_out(NAME, "connections are kept already".to_owned());
            return;
        }
        if self.workload.duration.is_some() {
            let why = "a transfer lasts as long as its connection".to_owned();
            catalogue.leave_out(NAME, why);
            return;
        }
        let mut scenario = self.today.clone();
        let experiment = &mut scenario.experiment;
        let blocks = experiment.runs / experiment.block.max(1);
        experiment.block = experiment.block.max(ENOUGH);
        experiment.runs = experiment.block.saturating_mul(blocks.max(1));
        let change = format!("one connection for {} transfers", experiment.block);
        for arm in &mut scenario.arms {
            arm.reuse = true;
        }
        catalogue.try_out(NAME, change, scenario);
    }

    /// The same payload over more connections at once.
    fn parallel(&self, catalogue: &mut Catalogue) {
        const NAME: RemedyName = RemedyName::Parallel;
        let Workload { kind, bytes, .. } = self.workload;
        let now = self.arm.parallel(self.workload).max(1);
        let splits = match kind {
            Kind::Exchange | Kind::Command => false,
            Kind::Replicate => true,
            Kind::Upload | Kind::Download | Kind::Stream | Kind::Burst => {
                bytes.is_some() || self.workload.duration.is_some()
            }
        };
        if !splits {
            let why = "what goes one after the other can't go side by side".to_owned();
            catalogue.leave_out(NAME, why);
            return;
        }
        for times in TIMES {
            let count = now.saturating_mul(times);
            let Some((workload, how)) = self.side_by_side(now, count) else {
                let why = format!("{count} connections would carry less than {LEAST_PART} each");
                catalogue.leave_out(NAME, why);
                return;
            };
            let mut scenario = self.today.clone();
            scenario.workloads = vec![workload];
            for arm in &mut scenario.arms {
                arm.parallel = Some(count);
            }
            let change = format!("{count} connections{how}");
            catalogue.try_out(NAME, change, scenario);
        }
    }

    /// The workload over `count` connections instead of `now`, and how; `None` where too little would be
    /// left for each.
    fn side_by_side(&self, now: u32, count: u32) -> Option<(Workload, String)> {
        let mut workload = self.workload.clone();
        let shared = workload.part.is_some() || workload.kind == Kind::Replicate;
        let Some(bytes) = workload.bytes.filter(|_| !shared) else {
            // A duration, or parts and objects that go to whichever connection is free.
            return Some((workload, String::new()));
        };
        let whole = bytes.get().checked_mul(u64::from(now))?;
        let each = Bytes::new(whole.div_ceil(u64::from(count.max(1))));
        if each < LEAST_PART {
            return None;
        }
        if matches!(workload.kind, Kind::Upload | Kind::Download) {
            workload.bytes = Some(Bytes::new(whole));
            workload.part = Some(each);
            return Some((workload, format!(", in parts of {each}")));
        }
        workload.bytes = Some(each);
        Some((workload, format!(", {each} each")))
    }

    fn relays(&self, catalogue: &mut Catalogue) {
        const PLACES: [RemedyName; 4] = [
            RemedyName::HotPool,
            RemedyName::RelayNear,
            RemedyName::RelayFar,
            RemedyName::RelayPair,
        ];
        if !self.arm.relay.is_direct() {
            for name in PLACES {
                catalogue.leave_out(name, "the arm leads through relays already".to_owned());
            }
            return;
        }
        let plain = |at| Relay {
            mode: RelayMode::Tcp,
            at,
            ..Relay::default()
        };
        let relayed = |relays: &[Relay]| {
            let mut scenario = self.today.clone();
            let named = relays.iter().enumerate();
            let named: BTreeMap<String, Relay> = named
                .map(|(number, relay)| (format!("what-if-{number}"), relay.clone()))
                .collect();
            for arm in &mut scenario.arms {
                arm.relay = named.keys().collect::<Route>();
            }
            scenario.relays.extend(named);
            scenario
        };
        if !self.workload.kind.is_object() {
            let why = "only requests of HTTP can share connections".to_owned();
            catalogue.leave_out(RemedyName::HotPool, why);
        } else if self.arm.tls(self.workload).is_some() {
            let why = "a relay can't read requests inside of TLS".to_owned();
            catalogue.leave_out(RemedyName::HotPool, why);
        } else {
            let pool = self.arm.parallel(self.workload).max(2);
            let mut scenario = relayed(&[Relay {
                pool_min_idle: pool,
                ..Relay::default()
            }]);
            // What priming has grown must not decay while a connection waits.
            change(&mut scenario, HostName::Relay, |host| {
                let key = "net.ipv4.tcp_slow_start_after_idle".to_owned();
                host.sysctls.insert(key, "0".to_owned());
            });
            let change = format!("relay beside client, {pool} hot connections");
            catalogue.try_out(RemedyName::HotPool, change, scenario);
        }
        for (name, relays, change) in [
            (
                RemedyName::RelayNear,
                vec![plain(Site::Near)],
                "relay beside client",
            ),
            (
                RemedyName::RelayFar,
                vec![plain(Site::Far)],
                "relay beside origin",
            ),
            (
                RemedyName::RelayPair,
                vec![plain(Site::Near), plain(Site::Far)],
                "relay at each end",
            ),
        ] {
            catalogue.try_out(name, change.to_owned(), relayed(&relays));
        }
    }

    /// What the path holds: rate times round-trip time.
    fn product(&self) -> Bytes {
        let path = &self.today.path;
        let rate = path.bottleneck_rate_of(self.workload.direction());
        let product = rate.checked_mul(path.rtt.get()).unwrap_or(LARGEST_WINDOW);
        product.clamp(LEAST_WINDOW, LARGEST_WINDOW)
    }

    /// A window that holds nobody back: it has room for a full path and as much again, which is what a
    /// round of repair needs.
    fn ample(&self) -> Bytes {
        let product = self.product().get();
        Bytes::new(product.saturating_mul(2)).clamp(LEAST_WINDOW, LARGEST_WINDOW)
    }

    /// Today's scenario with other knobs on `hosts`.
    fn knobs(&self, hosts: &[(HostName, Config)], turn: impl Fn(&mut TcpKnobs)) -> Scenario {
        let mut scenario = self.today.clone();
        for (name, _) in hosts {
            change(&mut scenario, *name, |host| turn(&mut host.tcp));
        }
        scenario
    }
}

/// Changes a host's settings in the only arm.
fn change(scenario: &mut Scenario, name: HostName, change: impl Fn(&mut Host)) {
    for arm in &mut scenario.arms {
        change(arm.hosts.entry(name).or_default());
    }
}

/// Takes away what would win over a host's congestion control: sysctls, and settings of relays on it.
fn forget_algorithm(scenario: &mut Scenario, name: HostName) {
    let own = scenario.arms.iter_mut().map(|arm| &mut arm.hosts);
    for hosts in own.chain([&mut scenario.hosts]) {
        if let Some(host) = hosts.get_mut(&name) {
            let named = |key: &str| key.ends_with("tcp_congestion_control");
            host.sysctls.retain(|key, _| !named(key));
        }
    }
    let at = match name {
        HostName::Relay => Site::Near,
        HostName::FarRelay => Site::Far,
        HostName::Client | HostName::Origin | HostName::Rival => return,
    };
    for relay in scenario.relays.values_mut().filter(|relay| relay.at == at) {
        relay.congestion_control = None;
        relay.client_profile = None;
        relay.server_profile = None;
    }
}

fn names(hosts: &[(HostName, Config)]) -> String {
    let names: Vec<&str> = hosts.iter().map(|(name, _)| name.as_str()).collect();
    names.join(" and ")
}

// === impl Ends ===

impl Ends {
    fn names(&self) -> impl Iterator<Item = HostName> {
        let all = self.senders.iter().chain(&self.receivers);
        all.map(|(name, _)| *name)
    }
}

// === impl Catalogue ===

impl Catalogue {
    fn try_out(&mut self, name: RemedyName, change: String, scenario: Scenario) {
        self.tried.push(Candidate {
            name,
            change,
            scenario,
        });
    }

    fn leave_out(&mut self, name: RemedyName, why: String) {
        self.not_tried.push(NotTried { name, why });
    }
}
