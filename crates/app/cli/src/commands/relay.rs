//! `longhaul relay`: from arguments or a file to a running relay, its events on stdout or in the log.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use relay::{Config, Event, HttpOptions};

use crate::arguments::{Relay, RelayCheck, RelayCommand, RelayHttp, RelayRun, Switch};
use crate::failure::{Blame as _, Failure};
use crate::output;

pub(crate) fn run(arguments: Relay) -> Result<ExitCode, Failure> {
    match arguments.command {
        RelayCommand::Http(http) => one_liner(http),
        RelayCommand::Run(run) => from_file(&run),
        RelayCommand::Check(check) => check_file(&check),
    }
}

fn one_liner(arguments: RelayHttp) -> Result<ExitCode, Failure> {
    let (json, print_config) = (arguments.json, arguments.print_config);
    let options = options(arguments);
    let text = options.to_toml().bug("cannot write the configuration")?;
    let config = Config::http(options).usage("this relay cannot be")?;
    if print_config {
        output::data(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    serve(config, json)
}

/// Loopback and private networks (RFC 1918, RFC 4193, RFC 4291 section 2.5.6).
const PRIVATE: [&str; 7] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
];

fn options(arguments: RelayHttp) -> HttpOptions {
    // A relay for a whole site by default, never one for the Internet.
    let allow = if arguments.allow.is_empty() {
        PRIVATE.map(str::to_owned).to_vec()
    } else {
        arguments.allow
    };
    HttpOptions {
        listen: arguments.listen.to_string(),
        target: arguments.target,
        client_profile: Some(arguments.client_profile),
        server_profile: Some(arguments.server_profile),
        allow,
        path_rate: arguments.path_rate,
        pool: relay::PoolOptions {
            min_idle: Some(arguments.pool_min_idle as usize),
            ..relay::PoolOptions::default()
        },
        prime: relay::PrimeOptions {
            enabled: Some(arguments.prime == Switch::On),
            window: arguments.hot_window,
            ..relay::PrimeOptions::default()
        },
        limits: relay::LimitOptions::default(),
    }
}

fn from_file(arguments: &RelayRun) -> Result<ExitCode, Failure> {
    serve(read(&arguments.config)?, arguments.json)
}

fn read(path: &Path) -> Result<Config, Failure> {
    let text = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.usage(format!("cannot read `{}`", path.display()))?;
    Config::from_toml(&text).usage(format!(
        "`{}` is no configuration of a relay",
        path.display()
    ))
}

/// Runs until SIGINT or SIGTERM, then drains. Events go to stdout as JSON lines, or to the log.
fn serve(config: Config, as_json: bool) -> Result<ExitCode, Failure> {
    if !as_json {
        log_to_stderr();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .environment("cannot start the runtime")?;
    let events = move |event: Event| {
        if as_json {
            // A reader that has gone is no reason to stop serving.
            let _ = output::json_line(&event);
        } else {
            log(&event);
        }
    };
    runtime
        .block_on(relay::run(config, events, asked_to_stop()))
        .environment("the relay cannot start")?;
    Ok(ExitCode::SUCCESS)
}

async fn asked_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        // Without handlers the signals keep their default action, which also ends the relay.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("LONGHAUL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(filter)
        .init();
}

/// One line per event: its name as the message, its fields behind it.
fn log(event: &Event) {
    let Ok(serde_json::Value::Object(mut fields)) = serde_json::to_value(event) else {
        return;
    };
    let name = fields
        .remove("event")
        .and_then(|name| name.as_str().map(str::to_owned));
    let name = name.unwrap_or_default();
    let text: Vec<String> = fields
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(field, value)| format!("{field}={value}"))
        .collect();
    let text = text.join(" ");
    match event {
        Event::Warning { .. } | Event::PrimingFailed { .. } => tracing::warn!("{name} {text}"),
        Event::Listening { .. }
        | Event::Applied { .. }
        | Event::Connected { .. }
        | Event::Primed { .. }
        | Event::PoolReady { .. }
        | Event::Cooled { .. }
        | Event::RequestDone { .. }
        | Event::Closed { .. }
        | Event::Refused { .. }
        | Event::Draining { .. }
        | Event::Stopped { .. } => tracing::info!("{name} {text}"),
    }
}

fn check_file(arguments: &RelayCheck) -> Result<ExitCode, Failure> {
    let config = read(&arguments.config)?;
    let report = relay::check(&config).environment("this configuration does not work here")?;
    if arguments.json {
        output::json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for relay in &report.relays {
        let addresses: Vec<String> = relay.addresses.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "{} -> {} ({})",
            relay.listen,
            relay.target,
            addresses.join(", ")
        );
        let sides = [
            ("client side", &relay.client_profile, &relay.client_options),
            ("server side", &relay.server_profile, &relay.server_options),
        ];
        for (side, profile, options) in sides {
            let _ = writeln!(text, "  {side}: profile `{profile}`");
            for option in options {
                let _ = writeln!(
                    text,
                    "    {:<22} asked {:<12} in effect {}",
                    option.option, option.requested, option.effective
                );
            }
        }
        for warning in &relay.warnings {
            let _ = writeln!(text, "  warning: {warning}");
        }
    }
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}
