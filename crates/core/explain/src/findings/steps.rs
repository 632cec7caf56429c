//! What every finding has: commands in the terms of the system that needs them, a profile, a display filter.

use core::fmt::Write as _;
use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use connections::{Connection, Side};
use record::explain::{Finding, Steps};
use tuning::Path;
use tuning::remedies::{Cause, Target, nothing, remedy};
use units::{LossRate, Rate};

use super::{Judged, Need};
use crate::analysis::Analysed;
use crate::system;

/// Hosts for which commands are printed; the rest has the same to do.
const MOST_STEPS: usize = 3;

pub(super) fn complete(
    judged: Judged,
    connections: &[Analysed],
    target: Option<Target>,
) -> Finding {
    let Judged { mut finding, needs } = judged;
    let concerned: Vec<&Analysed> = finding
        .connections
        .iter()
        .filter_map(|id| usize::try_from(*id).ok()?.checked_sub(1))
        .filter_map(|index| connections.get(index))
        .collect();
    finding.filter = filter(&finding.name, &concerned);
    finding.profile = needs
        .iter()
        .find_map(|need| profile(need.cause))
        .map(str::to_owned);
    for need in &needs {
        let room = MOST_STEPS.saturating_sub(finding.steps.len());
        finding
            .steps
            .extend(steps(*need, &concerned, target).into_iter().take(room));
    }
    // Who asks for a system is told, too, that it has nothing.
    if finding.steps.is_empty()
        && let (Some(target), Some(need)) = (target, needs.first())
        && let Some(at) = concerned.first().map(|analysed| host(analysed, need.side))
    {
        finding.steps.push(Steps {
            system: target.as_str().into(),
            at,
            because: asked(target),
            says: nothing(target),
            commands: Vec::new(),
            undo: Vec::new(),
        });
    }
    let possible = |need: &Need| Target::ALL.iter().any(|all| settable(need.cause, *all));
    if finding.steps.is_empty() && needs.iter().any(possible) {
        finding
            .remedy
            .push_str(" `--for SYSTEM` prints the commands, with their undo.");
    }
    finding
}

fn settable(cause: Cause, target: Target) -> bool {
    let any = Path {
        rtt: Duration::from_millis(100),
        rate: Rate::mbit_per_s(100),
        loss: LossRate::ZERO,
    };
    remedy(cause, target, &any).is_some()
}

/// What the hosts on the side that needs it have to do, one entry per system.
fn steps(need: Need, concerned: &[&Analysed], target: Option<Target>) -> Vec<Steps> {
    let mut by_system: BTreeMap<Target, (String, String, Path, bool)> = BTreeMap::new();
    for analysed in concerned {
        let connection = &analysed.connection;
        let guessed = || {
            let syn = connection.flow(need.side).syn?;
            let guess = system::guess(&syn)?;
            Some((guess.target, guess.because))
        };
        let known = match target {
            Some(target) => Some((target, asked(target))),
            None => guessed(),
        };
        if let Some((target, because)) = known {
            let at = host(analysed, need.side);
            by_system.entry(target).or_insert_with(|| {
                let (path, assumed) = path(concerned, need.side);
                (at, because, path, assumed)
            });
        }
    }
    by_system
        .into_iter()
        .filter_map(|(target, (at, because, path, assumed))| {
            let remedy = remedy(need.cause, target, &path)?;
            let mut says = remedy.says;
            if assumed && depends_on_rate(need.cause, target, &path) {
                // Writing to a String cannot fail.
                let _ = write!(
                    says,
                    " The capture does not show the path's rate: sizes are for {}.",
                    path.rate
                );
            }
            Some(Steps {
                system: target.as_str().into(),
                at,
                because,
                says,
                commands: remedy.commands,
                undo: remedy.undo,
            })
        })
        .collect()
}

/// Where to run what a side needs.
fn host(analysed: &Analysed, side: Side) -> String {
    let connection = &analysed.connection;
    let host = match side {
        Side::Client => &connection.client.host,
        Side::Server => &connection.server.host,
    };
    format!("the {side} {host}")
}

fn asked(target: Target) -> String {
    format!("by `--for {}`", target.as_str())
}

/// Whether what is advised would be another for another rate.
fn depends_on_rate(cause: Cause, target: Target, known: &Path) -> bool {
    let slower = Path {
        rate: Rate::mbit_per_s(10),
        ..*known
    };
    remedy(cause, target, known) != remedy(cause, target, &slower)
}

/// The path to size buffers for: the longest round trip, and the highest rate that shows; and whether none does.
fn path(concerned: &[&Analysed], side: Side) -> (Path, bool) {
    /// What `longhaul tune` takes where nobody says.
    const UNKNOWN: Rate = Rate::mbit_per_s(1000);
    let directions = || {
        let both = concerned.iter().flat_map(|analysed| analysed.directions());
        both.map(|(_, direction)| direction)
    };
    let rtt = directions()
        .filter_map(|direction| direction.timeline.base_rtt)
        .max();
    let rate = directions()
        .filter_map(|direction| direction.attribution.path_rate.rate.ok())
        .max();
    let lossy = concerned
        .iter()
        .any(|analysed| analysed.connection.flow(side).repeated_bytes > 0);
    let some = LossRate::per_billion(1_000_000).unwrap_or(LossRate::ZERO);
    let path = Path {
        rtt: rtt.unwrap_or(Duration::from_millis(100)),
        rate: rate.map_or(UNKNOWN, crate::text::rounded),
        loss: if lossy { some } else { LossRate::ZERO },
    };
    (path, rate.is_none())
}

/// The built-in profile whose settings take the cause away from a relay's side of the path.
const fn profile(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::ReceiveWindow
        | Cause::NoWindowScaling
        | Cause::SendBuffer
        | Cause::Loss
        | Cause::NoSack
        | Cause::RestartAfterIdle
        | Cause::LowThreshold => Some("wan"),
        Cause::NewConnections | Cause::TooFewConnections => Some("s3"),
        Cause::NoTimestamps
        | Cause::SmallWrites
        | Cause::ContinueWait
        | Cause::TlsRoundTrips
        | Cause::TlsResumption
        | Cause::BlackHole => None,
    }
}

/// The connections, and of their packets those that the finding speaks of.
fn filter(name: &str, concerned: &[&Analysed]) -> Option<String> {
    let first = &concerned.first()?.connection;
    let all = |same: &dyn Fn(&Connection) -> bool| {
        concerned.iter().all(|analysed| same(&analysed.connection))
    };
    let one_server = all(&|connection| connection.server == first.server);
    let one_client = all(&|connection| connection.client.host == first.client.host);
    let mut text = format!("tcp.port == {}", first.server.port);
    // Where there is no common server, the first connection stands for all.
    if one_server || !one_client {
        push_host(&mut text, &first.server.host);
    }
    if one_client {
        push_host(&mut text, &first.client.host);
    }
    if concerned.len() == 1 {
        // Writing to a String cannot fail.
        let _ = write!(text, " && tcp.port == {}", first.client.port);
    }
    let of_packets = match name {
        "zero-window-stalls" => " && (tcp.analysis.zero_window || tcp.analysis.window_update)",
        "syn-loss"
        | "no-sack"
        | "no-timestamps"
        | "no-window-scaling"
        | "small-mss"
        | "no-connection-reuse" => " && tcp.flags.syn == 1",
        "loss-limited" | "loss-recovery" | "policer" | "pmtud-blackhole" => {
            " && tcp.analysis.flags"
        }
        "half-closed-by-peer" => " && (tcp.flags.fin == 1 || tcp.flags.reset == 1)",
        "tls-extra-round-trips" | "tls-no-resumption" => " && tls.handshake",
        "expect-100-continue" => " && (http.request || http.response.code == 100)",
        _ => "",
    };
    text.push_str(of_packets);
    Some(text)
}

/// Names are not resolved, so that only addresses can be asked for.
fn push_host(text: &mut String, host: &str) {
    let field = match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => "ip.addr",
        Ok(IpAddr::V6(_)) => "ipv6.addr",
        Err(_) => return,
    };
    let _ = write!(text, " && {field} == {host}");
}
