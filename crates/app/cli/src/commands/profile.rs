//! `longhaul profile`: the built-in profiles, and every setting of one.

use std::fmt::Write as _;
use std::process::ExitCode;

use profile::TcpProfile;
use serde_json::{Value, json};

use crate::arguments::{Profile, ProfileCommand};
use crate::failure::{Failure, Kind};
use crate::output;

pub(crate) fn run(arguments: &Profile) -> Result<ExitCode, Failure> {
    match &arguments.command {
        ProfileCommand::List { json } => list(*json)?,
        ProfileCommand::Show { name, json } => show(name, *json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The path that each built-in profile suits.
fn suits(name: &str) -> &'static str {
    match name {
        "lan" => "hosts of one site: round trips up to about 2 ms",
        "wan" => "a long path: 20 to 600 ms, 10 Mbit/s to 1 Gbit/s, some loss",
        "s3" => "a long, clean path to an object store over hot connections",
        "mobile" => "cellular and crowded wireless networks: 30 to 150 ms that vary, deep buffers",
        "satellite" => "a geostationary satellite: 500 to 700 ms, 2 to 100 Mbit/s",
        "legacy" => "old equipment, and comparison with what TCP did before 2004",
        _ => "a profile of your own",
    }
}

fn list(as_json: bool) -> Result<(), Failure> {
    let profiles: Vec<TcpProfile> = profile::builtin::NAMES
        .iter()
        .filter_map(|name| profile::builtin::find(name))
        .collect();
    if as_json {
        return output::json(&profiles.iter().map(describe).collect::<Vec<_>>());
    }
    let mut text = String::new();
    for profile in &profiles {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<9} {}", profile.name, suits(&profile.name));
    }
    text.push_str("\n`longhaul profile show NAME` lists the settings.\n");
    output::data(&text)
}

fn show(name: &str, as_json: bool) -> Result<(), Failure> {
    let Some(profile) = profile::builtin::find(name) else {
        let known = profile::builtin::NAMES.join("`, `");
        let error = anyhow::anyhow!("there is no built-in profile `{name}`");
        return Err(Failure::new(Kind::Usage, error).hint(format!("known profiles: `{known}`")));
    };
    let settings = describe(&profile);
    if as_json {
        return output::json(&settings);
    }
    let mut text = String::new();
    for (field, value) in settings.as_object().into_iter().flatten() {
        let value = match value.as_str() {
            Some(text) => text.to_owned(),
            None if value.is_null() => "as the kernel has it".to_owned(),
            None => value.to_string(),
        };
        let _ = writeln!(text, "{field:<30} {value}");
    }
    output::data(&text)
}

/// Every setting by the name that configuration files use.
fn describe(profile: &TcpProfile) -> Value {
    let keep_alive = profile.keep_alive.map(|keep_alive| {
        let (idle, interval) = (keep_alive.idle, keep_alive.interval);
        format!(
            "after {}, {} probes {} apart",
            units::format_span(idle),
            keep_alive.probes,
            units::format_span(interval)
        )
    });
    json!({
        "name": profile.name,
        "suits": suits(&profile.name),
        "congestion-control": profile.congestion_control.join(", "),
        "congestion-control-forgetting": profile
            .congestion_control_forgetting
            .as_ref()
            .map(|order| order.join(", ")),
        "nagle": profile.nagle,
        "max-pacing-rate": profile.max_pacing_rate.map(|rate| rate.to_string()),
        "notsent-low-water": profile.notsent_low_water.map(|bytes| bytes.to_string()),
        "keep-alive": keep_alive,
        "user-timeout": profile.user_timeout.map(units::format_span),
        "send-buffer": profile.send_buffer.map(|bytes| bytes.to_string()),
        "receive-buffer": profile.receive_buffer.map(|bytes| bytes.to_string()),
        "max-segment": profile.max_segment.map(|bytes| bytes.to_string()),
        "syn-retries": profile.syn_retries,
        "dscp": profile.dscp,
    })
}
