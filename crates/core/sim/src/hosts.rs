//! From a scenario's hosts to endpoints.

use congestion::Algorithm;
use scenario::{HostName, Scenario};
use tcp::{Config, ReceiveBuffer};
use units::Bytes;

use crate::experiment::SimulateError;

/// A host of the scenario as an endpoint behaves there, and what of it could not be taken over.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedHost {
    pub(crate) config: Config,
    /// Sysctls that change nothing in the simulator.
    pub(crate) ignored: Vec<String>,
}

pub(crate) fn host(scenario: &Scenario, name: HostName) -> Result<SimulatedHost, SimulateError> {
    let mut simulated = SimulatedHost {
        config: Config {
            // Clients and servers of HTTP set TCP_NODELAY.
            nagle: false,
            ..Config::linux()
        },
        ignored: Vec::new(),
    };
    let Some(host) = scenario.hosts.get(&name) else {
        return Ok(simulated);
    };
    if let Some(algorithm) = &host.congestion_control {
        simulated.config.algorithm =
            algorithm
                .parse::<Algorithm>()
                .map_err(|source| SimulateError::CongestionControl {
                    host: name.as_str(),
                    source,
                })?;
    }
    for (key, value) in &host.sysctls {
        let applied =
            apply(&mut simulated.config, key, value).ok_or_else(|| SimulateError::Sysctl {
                host: name.as_str(),
                key: key.clone(),
                value: value.clone(),
            })?;
        if !applied {
            simulated.ignored.push(key.clone());
        }
    }
    Ok(simulated)
}

/// `None` where the value cannot be read, `Some(false)` where the key means nothing here.
fn apply(config: &mut Config, key: &str, value: &str) -> Option<bool> {
    let flag = || match value.trim() {
        "0" => Some(false),
        "1" | "2" => Some(true),
        _ => None,
    };
    match key.strip_prefix("net.ipv4.").unwrap_or(key) {
        "tcp_slow_start_after_idle" => config.restart_after_idle = flag()?,
        "tcp_sack" => config.sack = flag()?,
        "tcp_timestamps" => config.timestamps = flag()?,
        "tcp_window_scaling" => config.window_scaling = flag()?,
        "tcp_congestion_control" => config.algorithm = value.trim().parse().ok()?,
        "tcp_rmem" => {
            let [_, default, max] = triple(value)?;
            // Half of a buffer counts as payload; the default may lie above the maximum.
            let initial = Bytes::new(default / 2);
            let max = Bytes::new((max / 2).max(default.min(max) / 2));
            config.receive_buffer = ReceiveBuffer::Autotuned { initial, max };
        }
        "tcp_wmem" => config.send_buffer = Bytes::new(triple(value)?[2]),
        _ => return Some(false),
    }
    Some(true)
}

fn triple(value: &str) -> Option<[u64; 3]> {
    let mut numbers = value.split_whitespace().map(str::parse);
    let triple = [
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
    ];
    numbers.next().is_none().then_some(triple)
}
