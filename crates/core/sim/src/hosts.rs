//! From a scenario's hosts to endpoints.

use congestion::Choice;
use scenario::{Host, HostName, Preferences, Relay, TcpKnobs, Threshold};
use tcp::{AckPolicy, Config, Pacing, ReceiveBuffer};
use units::Bytes;

use crate::experiment::SimulateError;

/// A host of the scenario as an endpoint behaves there, and what of it could not be taken over.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedHost {
    pub(crate) config: Config,
    /// Sysctls that change nothing in the simulator.
    pub(crate) ignored: Vec<String>,
}

pub(crate) fn host(host: &Host, name: HostName) -> Result<SimulatedHost, SimulateError> {
    let mut simulated = SimulatedHost {
        config: Config {
            // Clients and servers of HTTP set TCP_NODELAY.
            nagle: false,
            send_buffer_grows: true,
            ..Config::linux()
        },
        ignored: Vec::new(),
    };
    if let Some(profile) = &host.profile {
        let profiled = profile::builtin::find(profile);
        if let Some(choice) = profiled.and_then(|profile| known(&profile.congestion_control)) {
            choose(&mut simulated.config, choice);
        }
        let rest = format!("profile {profile} beyond its congestion control");
        simulated.ignored.push(rest);
    }
    if let Some(algorithm) = &host.congestion_control {
        choose(&mut simulated.config, algorithm_of(algorithm, name)?);
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
    turn(&mut simulated.config, &host.tcp);
    Ok(simulated)
}

/// A relay's sockets towards client and origin on `host`, whose endpoints are as `config` says.
pub(crate) fn of_relay(
    relay: &Relay,
    host: HostName,
    config: &Config,
) -> Result<(Config, Config), SimulateError> {
    let (mut towards_client, mut towards_origin) = (config.clone(), config.clone());
    for (side, profile) in [
        (&mut towards_client, &relay.client_profile),
        (&mut towards_origin, &relay.server_profile),
    ] {
        // The first of its algorithms that is simulated; scenarios name only built-in profiles.
        let profile = profile.as_deref().and_then(profile::builtin::find);
        if let Some(choice) = profile.and_then(|profile| known(&profile.congestion_control)) {
            choose(side, choice);
        }
    }
    let names = relay
        .congestion_control
        .as_ref()
        .map_or(&[][..], Preferences::names);
    if let Some(first) = names.first() {
        let choice = known(names).map_or_else(|| algorithm_of(first, host), Ok)?;
        choose(&mut towards_origin, choice);
    }
    Ok((towards_client, towards_origin))
}

/// Uses an algorithm with its parameters.
pub(crate) const fn choose(config: &mut Config, choice: Choice) {
    config.algorithm = choice.algorithm;
    config.tuning = choice.tuning;
}

/// The algorithm of this name on `host`, with the parameters that stand behind it.
pub(crate) fn algorithm_of(name: &str, host: HostName) -> Result<Choice, SimulateError> {
    name.parse()
        .map_err(|source| SimulateError::CongestionControl {
            host: host.as_str(),
            source,
        })
}

/// The first of a profile's algorithms that is simulated.
fn known(names: &[String]) -> Option<Choice> {
    names.iter().find_map(|name| name.parse().ok())
}

/// Turns single knobs.
fn turn(config: &mut Config, knobs: &TcpKnobs) {
    let set = |flag: &mut bool, knob: Option<bool>| *flag = knob.unwrap_or(*flag);
    set(&mut config.window_scaling, knobs.window_scaling);
    set(&mut config.sack, knobs.sack);
    set(&mut config.timestamps, knobs.timestamps);
    config.initial_cwnd = knobs.initial_cwnd.unwrap_or(config.initial_cwnd);
    config.mss = knobs.mss.unwrap_or(config.mss);
    if let Some(buffer) = knobs.send_buffer {
        config.send_buffer = buffer;
        config.send_buffer_grows = false;
    }
    match knobs.initial_ssthresh {
        None => {}
        Some(Threshold::Infinite) => config.initial_ssthresh = None,
        Some(Threshold::Bytes(bytes)) => config.initial_ssthresh = Some(bytes),
    }
    if let Some(window) = knobs.receive_window {
        config.receive_buffer = ReceiveBuffer::Fixed(window);
    }
    if let Some(rate) = knobs.pacing {
        config.pacing = Pacing::AtMost(rate);
    }
    if let Some(delay) = knobs.delayed_ack {
        config.ack_policy = AckPolicy::Every2 { delay: delay.get() };
    }
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
        "tcp_congestion_control" => choose(config, value.parse().ok()?),
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
