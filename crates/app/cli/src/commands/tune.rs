//! `longhaul tune`: what of this host's settings holds transfers back, and its change with a way back.

pub(crate) mod arguments;
mod capture;

use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;
use std::time::Duration;

use record::tune::{Change, Document};
use tune::{Place, TuneError};
use tuning::systems::System;
use tuning::{Path, Transfers, clients};
use units::{Rate, format_span};

use crate::failure::{Blame as _, Failure, Kind};
use crate::output;
use arguments::{Tune, TuneFor};

/// Where nothing says otherwise.
const RATE: Rate = Rate::mbit_per_s(1_000);
/// How long a host may take to answer a SYN: three of them.
const PATIENCE: Duration = Duration::from_secs(7);

pub(crate) fn run(arguments: &Tune) -> Result<ExitCode, Failure> {
    let place = arguments.place();
    if arguments.revert {
        return revert(&place, arguments.json);
    }
    let (path, to) = path(arguments)?;
    if arguments.clients {
        return print_clients(&path);
    }
    let document = match arguments.r#for {
        TuneFor::Linux => {
            let transfers = arguments.bytes.map_or(Transfers::Usual, Transfers::Sized);
            tuning::advise(&tune::read(&place, to), &path, transfers)
        }
        TuneFor::Windows => tuning::systems::advise(System::Windows, &path),
        TuneFor::Aix => tuning::systems::advise(System::Aix, &path),
        TuneFor::Macos => tuning::systems::advise(System::Macos, &path),
        TuneFor::Bigip => tuning::systems::advise(System::Bigip, &path),
    };
    if arguments.json {
        output::json(&document)?;
    } else {
        output::data(&report::text::tune(
            &document,
            arguments.all,
            output::style(),
        ))?;
    }
    if arguments.apply {
        return apply(&place, &document, arguments);
    }
    Ok(if arguments.check && !changes(&document).is_empty() {
        ExitCode::from(Kind::Assertion.exit_code())
    } else {
        ExitCode::SUCCESS
    })
}

/// The path to tune for, and the host at its end where one was named.
fn path(arguments: &Tune) -> Result<(Path, Option<IpAddr>), Failure> {
    if let Some(file) = &arguments.from_capture {
        return capture::path(file, arguments);
    }
    let rate = arguments.rate.unwrap_or(RATE);
    let loss = arguments.loss.unwrap_or(units::LossRate::ZERO);
    let Some(target) = &arguments.to else {
        let Some(rtt) = arguments.rtt else {
            return Err(Failure::new(
                Kind::Usage,
                anyhow::anyhow!("the path's round-trip time is not known"),
            )
            .hint(
                "give `--rtt '200 ms'`, `--to HOST:PORT` to measure it, or `--from-capture slow.pcap`",
            ));
        };
        let rtt = rtt.get();
        return Ok((Path { rtt, rate, loss }, None));
    };
    let address = target
        .to_socket_addrs()
        .usage(format!("`{target}` is no HOST:PORT that resolves"))?
        .next()
        .ok_or_else(|| Failure::new(Kind::Usage, anyhow::anyhow!("`{target}` has no address")))?;
    let rtt = match arguments.rtt {
        Some(rtt) => rtt.get(),
        None => measured(address)?,
    };
    Ok((Path { rtt, rate, loss }, Some(address.ip())))
}

fn measured(address: SocketAddr) -> Result<Duration, Failure> {
    let rtt = tune::handshake(address, PATIENCE).map_err(|error| {
        let context = format!("no TCP handshake with {address}");
        Failure::new(
            Kind::Environment,
            anyhow::Error::from(error).context(context),
        )
        .hint("name a port that listens, or give `--rtt`")
    })?;
    output::say(&format!(
        "measured: {} to {address}, the shortest of five handshakes",
        format_span(rtt)
    ));
    Ok(rtt)
}

/// Everything that `--apply` makes.
fn changes(document: &Document) -> Vec<Change> {
    let applied = document
        .findings
        .iter()
        .filter(|finding| finding.kind.is_applied());
    applied
        .flat_map(|finding| finding.changes.clone())
        .collect()
}

fn apply(place: &Place, document: &Document, arguments: &Tune) -> Result<ExitCode, Failure> {
    if document.host.system != "linux" {
        return Err(Failure::new(
            Kind::Usage,
            anyhow::anyhow!("`--apply` changes the host that it runs on, which is Linux"),
        )
        .hint("run the printed commands there"));
    }
    let changes = changes(document);
    if changes.is_empty() {
        output::say("nothing to change");
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.yes && !agreed(&changes)? {
        output::say("nothing was changed");
        return Ok(ExitCode::SUCCESS);
    }
    let applied = tune::apply(place, &changes, arguments.persist).map_err(environment)?;
    for key in &applied.sysctls {
        output::say(&format!("set and read back: {key}"));
    }
    if applied.lasting {
        output::say(&format!("written: `{}`", place.drop_in.display()));
    }
    output::say(
        "`longhaul tune --revert` takes all of it back. New listeners and connections have it.",
    );
    Ok(ExitCode::SUCCESS)
}

fn agreed(changes: &[Change]) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(
            Kind::Usage,
            anyhow::anyhow!("`--apply` asks before it writes, and nobody is at the terminal"),
        )
        .hint("add `--yes`"));
    }
    output::say(&format!("write {} settings? [y/N]", changes.len()));
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .environment("can't read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn revert(place: &Place, json: bool) -> Result<ExitCode, Failure> {
    let restored = tune::revert(place).map_err(environment)?;
    if json {
        output::json(&serde_json::json!({
            "restored": restored.sysctls,
            "rebooted": restored.rebooted,
            "drop_in": restored.drop_in,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for key in &restored.sysctls {
        output::say(&format!("as it was: {key}"));
    }
    if restored.rebooted {
        output::say("the host was started anew since: its sysctls had lost the changes already");
    }
    if restored.drop_in {
        output::say(&format!("as it was: `{}`", place.drop_in.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn environment(error: TuneError) -> Failure {
    let denied = std::error::Error::source(&error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|source| source.kind() == io::ErrorKind::PermissionDenied);
    let nothing = matches!(error, TuneError::NoJournal { .. });
    let failure = Failure::new(Kind::Environment, error);
    if denied {
        failure.hint("run it as root, in the host's own network namespace")
    } else if nothing {
        failure.hint("`--journal FILE` names another one")
    } else {
        failure
    }
}

fn print_clients(path: &Path) -> Result<ExitCode, Failure> {
    let mut text = format!("{}\n", clients::reason(path));
    for advice in clients::advice(path) {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "\n{}", advice.client);
        for line in advice.lines {
            let _ = writeln!(text, "  {line}");
        }
    }
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}
