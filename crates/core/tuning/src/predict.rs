//! What a change would bring, played by the simulator.
//!
//! The host is the scenario's client, its peer a roomy Linux host, so that only this host can be what holds
//! a transfer back.

use std::fmt::Write as _;
use std::time::Duration;

use record::lab::Cell;
use record::tune::Gain;
use scenario::Scenario;
use units::{Bytes, format_span};

use crate::rules::Proposal;
use crate::{Host, Path, Settings};

/// Sysctls that the simulated endpoint obeys.
const PLAYED: [&str; 7] = [
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];
/// Silence before each burst: longer than any retransmission timeout here.
const SILENCE: Duration = Duration::from_secs(5);
/// A change that saves or costs less is within what the simulator is good for.
const NOTICEABLE: f64 = 0.02;
/// An object of a size that many services write.
const FIRST: u64 = 100_000;
/// Round trips' worth of data in the long transfers: enough for slow start to be a small part.
const LONG_IN_BDP: u64 = 20;

/// The transfers that changes are judged by.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Transfers {
    /// A long one each way, bursts and a first small upload, sized by the path.
    #[default]
    Usual,
    /// All of one size.
    Sized(Bytes),
}

/// There is no prediction.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unpredicted {
    #[error("the simulator does not know the congestion control `{0}`, so no gain is predicted")]
    Algorithm(String),
    #[error("this path can't be simulated: {0}")]
    Scenario(String),
}

/// Fills in what each finding would bring alone; returns what all that `--apply` makes bring together.
pub(crate) fn gains(
    host: &Host,
    path: &Path,
    transfers: Transfers,
    proposals: &mut [Proposal],
) -> Result<Vec<Gain>, Unpredicted> {
    let arms = arms(host, proposals);
    let document = sim::run(&scenario(host, path, transfers, &arms)?, 1)
        .map_err(|error| Unpredicted::Scenario(chain(&error)))?;
    for arm in &arms {
        if let Some(proposal) = arm.proposal.and_then(|index| proposals.get_mut(index)) {
            let of_cell = |cell| gain(cell, &arm.name);
            proposal.finding.gains = document.cells.iter().filter_map(of_cell).collect();
        }
    }
    let together = document.cells.iter().filter_map(|cell| gain(cell, ALL));
    Ok(together.collect())
}

const NOW: &str = "now";
const ALL: &str = "all";

/// One way of doing the transfers.
struct Arm {
    name: String,
    settings: Settings,
    initial_cwnd: Option<u32>,
    proposal: Option<usize>,
}

/// The host as it is, with each change alone, and with all that `--apply` makes.
fn arms(host: &Host, proposals: &[Proposal]) -> Vec<Arm> {
    let own_cwnd = host.route.as_ref().and_then(crate::Route::initial_cwnd);
    let arm = |name: &str, settings: Settings, proposal| Arm {
        name: name.to_owned(),
        settings,
        initial_cwnd: own_cwnd,
        proposal,
    };
    let mut now = host.settings.clone();
    if let Some(control) = host.congestion_control() {
        now = now.with("net.ipv4.tcp_congestion_control", control);
    }
    let mut all = now.clone();
    let mut arms = vec![arm(NOW, now.clone(), None)];
    for (index, Proposal { finding, played }) in proposals.iter().enumerate() {
        let mut settings = now.clone();
        for (key, value) in &played.sysctls {
            settings = settings.with(key, value);
            if finding.kind.is_applied() {
                all = all.with(key, value);
            }
        }
        let obeyed = |(key, _): &(String, String)| PLAYED.contains(&key.as_str());
        if played.sysctls.iter().any(obeyed) || played.initial_cwnd.is_some() {
            let arm = arm(&finding.name, settings, Some(index));
            arms.push(Arm {
                initial_cwnd: played.initial_cwnd.or(own_cwnd),
                ..arm
            });
        }
    }
    arms.push(arm(ALL, all, None));
    arms
}

fn scenario(
    host: &Host,
    path: &Path,
    transfers: Transfers,
    arms: &[Arm],
) -> Result<Scenario, Unpredicted> {
    if let Some(algorithm) = host.congestion_control()
        && !["reno", "cubic", "bbr"].contains(&algorithm)
    {
        return Err(Unpredicted::Algorithm(algorithm.to_owned()));
    }
    let table: toml::Table = arms_text(path, transfers, arms)
        .parse()
        .map_err(|error: toml::de::Error| Unpredicted::Scenario(error.to_string()))?;
    let mut variants = scenario::expand(&table).map_err(|problems| {
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Unpredicted::Scenario(said.join("; "))
    })?;
    variants
        .pop()
        .map(|variant| variant.scenario)
        .ok_or_else(|| Unpredicted::Scenario("it has no variant".to_owned()))
}

fn arms_text(path: &Path, transfers: Transfers, arms: &[Arm]) -> String {
    let bdp = path.bdp().get();
    let (long, burst, first) = match transfers {
        Transfers::Usual => (
            bdp.saturating_mul(LONG_IN_BDP)
                .clamp(1_000_000, 100_000_000),
            bdp.clamp(100_000, 10_000_000),
            Some(FIRST),
        ),
        Transfers::Sized(size) => (size.get(), size.get(), None),
    };
    // At least a few segments, whatever the product.
    let queue = bdp.max(30_000);
    let roomy = bdp.saturating_mul(8).clamp(6 << 20, 1 << 30);
    let runs = if path.loss == units::LossRate::ZERO {
        1
    } else {
        5
    };
    let loss = if path.loss == units::LossRate::ZERO {
        String::new()
    } else {
        format!("loss = \"{}\"\n", path.loss)
    };
    let mut text = format!(
        "name = \"tune\"\nseed = 1\n\
         [path]\nrtt = \"{rtt}\"\nrate = \"{rate} kbit/s\"\nqueue = \"{queue} B\"\n{loss}\
         [hosts.origin]\nsysctls = {{ \"net.ipv4.tcp_rmem\" = \"4096 131072 {roomy}\", \
         \"net.ipv4.tcp_wmem\" = \"4096 16384 {roomy}\", \
         \"net.ipv4.tcp_congestion_control\" = \"cubic\" }}\n\
         [experiment]\nruns = {runs}\nblock = 1\nseries = \"0 s\"\n",
        rtt = format_span(path.rtt),
        rate = path.rate.bits_per_s() / 1_000,
    );
    let named = |verb: &str, bytes: u64| format!("{verb} {}", Bytes::new(bytes));
    let mut workload = |name: &str, rest: &str| {
        // Writing to a String cannot fail, here and below.
        let _ = write!(text, "[[workloads]]\nname = \"{name}\"\n{rest}\n");
    };
    workload(
        &named("upload", long),
        &format!("kind = \"stream\"\nbytes = \"{long} B\""),
    );
    workload(
        &named("download", long),
        &format!("kind = \"stream\"\ndirection = \"down\"\nbytes = \"{long} B\""),
    );
    let silence = format_span(SILENCE);
    workload(
        // Their times together: that is what the simulator, as the lab, gives for bursts.
        &format!(
            "ten uploads of {}, each after {silence} of silence",
            Bytes::new(burst)
        ),
        &format!("kind = \"burst\"\nidle = \"{silence}\"\ncount = 10\nbytes = \"{burst} B\""),
    );
    if let Some(first) = first {
        workload(
            &named("first upload", first),
            &format!("kind = \"stream\"\nbytes = \"{first} B\""),
        );
    }
    for arm in arms {
        let _ = write!(text, "[[arms]]\nname = \"{}\"\n", arm.name);
        let played = PLAYED.iter().filter_map(|key| {
            let value = arm.settings.text(key)?;
            Some(format!(
                "\"{key}\" = {}",
                toml::Value::String(value.trim().to_owned())
            ))
        });
        let sysctls = played.collect::<Vec<_>>().join(", ");
        let _ = write!(text, "[arms.hosts.client]\nsysctls = {{ {sysctls} }}\n");
        if let Some(segments) = arm.initial_cwnd {
            let _ = writeln!(text, "tcp = {{ initial-cwnd = {segments} }}");
        }
    }
    text
}

/// What an arm brings in a cell, where that is more than noise.
fn gain(cell: &Cell, arm: &str) -> Option<Gain> {
    let median = |name: &str| cell.arms.iter().find(|arm| arm.name == name)?.median_s;
    let gain = Gain {
        transfer: cell.workload.clone(),
        before_s: median(NOW)?,
        after_s: median(arm)?,
        floor_s: cell.floor_s,
    };
    (gain.saved().abs() >= NOTICEABLE).then_some(gain)
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
