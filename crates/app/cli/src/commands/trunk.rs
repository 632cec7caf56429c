//! `longhaul trunk`: from arguments or a file to a running end of a trunk.

pub(crate) mod arguments;

mod check;
mod question;
mod state;

use std::fmt::Write as _;
use std::process::ExitCode;

use relay::trunk::{
    FarOptions, Identity, ListenerOptions, NearOptions, PaddingOptions, SecurityOptions,
    TrunkConfig, TrunkLimitOptions, TrunkOptions,
};
use serde::Serialize;

use super::relay::{copy_fast, misconfigured, serve_trunk, text};
use crate::failure::{Blame as _, Failure};
use crate::output;
use arguments::{Trunk, TrunkCommand, TrunkEnd, TrunkFar, TrunkInit, TrunkNear, TrunkRun};

/// What `trunk init --json` prints.
#[derive(Debug, Serialize)]
struct Initialised {
    identity: String,
    kept: bool,
    pin: String,
    peers: Vec<String>,
}

pub(crate) fn run(arguments: &Trunk) -> Result<ExitCode, Failure> {
    copy_fast();
    match &arguments.command {
        TrunkCommand::Near(near) => one_liner(near_options(near), &near.end),
        TrunkCommand::Far(far) => one_liner(far_options(far), &far.end),
        TrunkCommand::Run(run) => from_file(run),
        TrunkCommand::Init(arguments) => init(arguments),
        TrunkCommand::Check(arguments) => check::run(arguments),
        TrunkCommand::Status(arguments) => state::status(arguments),
        TrunkCommand::History(arguments) => state::history(arguments),
    }
}

/// Runs what a command line describes, or prints the file that says the same.
fn one_liner(options: TrunkOptions, end: &TrunkEnd) -> Result<ExitCode, Failure> {
    let file = options.to_toml();
    let config = options.resolve().usage("this trunk cannot be")?;
    if end.print_config {
        output::data(&file.bug("cannot write the configuration")?)?;
        return Ok(ExitCode::SUCCESS);
    }
    serve_trunk(config, end.json)
}

fn from_file(arguments: &TrunkRun) -> Result<ExitCode, Failure> {
    let path = &arguments.config;
    let config =
        TrunkConfig::from_toml(&text(path)?).map_err(|error| misconfigured(error, path))?;
    serve_trunk(config, arguments.json)
}

fn near_options(arguments: &TrunkNear) -> TrunkOptions {
    let end = &arguments.end;
    let options = NearOptions {
        via: arguments.via.clone(),
        wan_profile: Some(end.wan_profile.clone()),
        lan_profile: Some(end.lan_profile.clone()),
        security: security(end),
        padding: PaddingOptions {
            ready_for: end.path_rate,
            ..PaddingOptions::default()
        },
        limits: limits(end),
        listeners: vec![ListenerOptions {
            listen: arguments.listen.to_string(),
            to: arguments.to.clone(),
            allow: arguments.allow.clone(),
        }],
        ..NearOptions::default()
    };
    beside(TrunkOptions::near(options), end)
}

fn far_options(arguments: &TrunkFar) -> TrunkOptions {
    let end = &arguments.end;
    let options = FarOptions {
        listen: arguments.listen.to_string(),
        allow: arguments.allow.clone(),
        allow_targets: arguments.allow_target.clone(),
        wan_profile: Some(end.wan_profile.clone()),
        lan_profile: Some(end.lan_profile.clone()),
        security: security(end),
        padding: PaddingOptions {
            ready_for: end.path_rate,
            ..PaddingOptions::default()
        },
        limits: limits(end),
        ..FarOptions::default()
    };
    beside(TrunkOptions::far(options), end)
}

/// What stands beside the end in a file.
fn beside(options: TrunkOptions, end: &TrunkEnd) -> TrunkOptions {
    let options = match end.status {
        Some(address) => options.with_status(address),
        None => options,
    };
    match end.probe_every {
        Some(every) => options.with_probe_every(every),
        None => options,
    }
}

fn security(end: &TrunkEnd) -> SecurityOptions {
    if end.plain {
        return SecurityOptions {
            plain: Some(true),
            ..SecurityOptions::default()
        };
    }
    SecurityOptions {
        identity: Some(end.identity.clone()),
        trust: end.trust.iter().map(ToString::to_string).collect(),
        ..SecurityOptions::default()
    }
}

fn limits(end: &TrunkEnd) -> TrunkLimitOptions {
    TrunkLimitOptions {
        wan_connections: end.wan_connections,
        outage: end.outage,
        ..TrunkLimitOptions::default()
    }
}

fn init(arguments: &TrunkInit) -> Result<ExitCode, Failure> {
    let identity = Identity::init(&arguments.identity, &arguments.trust)
        .environment("this end of the trunk gets no identity")?;
    let directory = arguments.identity.display();
    if arguments.json {
        output::json(&Initialised {
            identity: directory.to_string(),
            kept: identity.kept,
            pin: identity.pin.to_string(),
            peers: identity.peers.iter().map(ToString::to_string).collect(),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let made = if identity.kept { "kept" } else { "made" };
    let mut text = format!(
        "key {made} in {directory}\npin {}\n\nat the other end, run:\n  longhaul trunk init --trust {}\n",
        identity.pin, identity.pin
    );
    if identity.peers.is_empty() {
        text.push_str("\nno peer is trusted yet: run here what the other end's init prints\n");
    }
    for peer in &identity.peers {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "trusted: {peer}");
    }
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}
