//! Sums over connections: per server, per pair of hosts, and how far the first findings reach.

use core::time::Duration;
use std::collections::BTreeMap;

use connections::Endpoint;
use limit::Detail;
use record::LimitName;
use record::explain::{Endpoint as Named, Explained, Finding, Traffic};
use units::Time;

use crate::analysis::{Analysed, Direction};
use crate::text::median;

/// As few findings as explain this part of the time that was held back.
const ENOUGH: f64 = 0.8;

/// Per server, and per client and server; those first that were held back longest.
pub(crate) fn summaries(connections: &[Analysed]) -> (Vec<Traffic>, Vec<Traffic>) {
    let mut servers: BTreeMap<&Endpoint, Vec<&Analysed>> = BTreeMap::new();
    let mut pairs: BTreeMap<(&str, &Endpoint), Vec<&Analysed>> = BTreeMap::new();
    for analysed in connections {
        let (client, server) = (
            &analysed.connection.client.host,
            &analysed.connection.server,
        );
        servers.entry(server).or_default().push(analysed);
        pairs.entry((client, server)).or_default().push(analysed);
    }
    let servers = servers
        .into_iter()
        .map(|(server, of)| traffic(None, server, &of));
    let pairs = pairs
        .into_iter()
        .map(|((client, server), of)| traffic(Some(client), server, &of));
    (ranked(servers.collect()), ranked(pairs.collect()))
}

/// How much of what was held back the first findings explain.
pub(crate) fn explained(connections: &[Analysed], findings: &[Finding]) -> Option<Explained> {
    let held: Duration = connections
        .iter()
        .flat_map(held)
        .map(|(_, time)| time)
        .sum();
    let held_s = held.as_secs_f64();
    let (mut reached, mut number) = (0.0, 0_u32);
    for lost in findings.iter().filter_map(|finding| finding.lost_s) {
        if lost <= 0.0 || reached >= ENOUGH * held_s {
            break;
        }
        reached += lost;
        number += 1;
    }
    (number > 0 && !held.is_zero()).then(|| Explained {
        held_s,
        findings: number,
        // Two findings may speak of the same seconds.
        share: (reached / held_s).min(1.0),
    })
}

fn ranked(mut traffic: Vec<Traffic>) -> Vec<Traffic> {
    // Stable: what was held back as long stays in order of its name.
    traffic.sort_by(|one, other| other.held_s.total_cmp(&one.held_s));
    traffic
}

fn traffic(client: Option<&str>, server: &Endpoint, of: &[&Analysed]) -> Traffic {
    let mut limits: BTreeMap<LimitName, Duration> = BTreeMap::new();
    for (limit, time) in of.iter().flat_map(|one| held(one)) {
        *limits.entry(limit).or_default() += time;
    }
    let all: Duration = limits.values().sum();
    let most = limits.iter().max_by_key(|(_, time)| **time);
    let durations = of.iter().map(|one| one.connection.duration());
    Traffic {
        client: client.map(str::to_owned),
        server: Named {
            host: server.host.clone(),
            port: server.port,
        },
        connections: u64::try_from(of.len()).unwrap_or(u64::MAX),
        parallel: parallel(of),
        requests: of
            .iter()
            .map(|one| u64::try_from(one.transfers_at.len()).unwrap_or(u64::MAX))
            .sum(),
        opened_per_s: opened_per_s(of),
        bytes_to_server: of.iter().map(|one| one.connection.to_server.bytes()).sum(),
        bytes_to_client: of.iter().map(|one| one.connection.to_client.bytes()).sum(),
        duration_s: durations.sum::<Duration>().as_secs_f64(),
        held_s: all.as_secs_f64(),
        mostly: most
            .filter(|(_, time)| !time.is_zero())
            .map(|(limit, _)| *limit),
        rtt_s: median(of.iter().filter_map(|one| one.connection.base_rtt()))
            .map(|rtt| rtt.as_secs_f64()),
    }
}

/// What a setting, a program or the network could change, in the direction where that is more.
pub(crate) fn held(analysed: &Analysed) -> impl Iterator<Item = (LimitName, Duration)> + '_ {
    let of = |direction| held_in(direction).map(|(_, time)| time).sum::<Duration>();
    let (up, down) = (&analysed.to_server, &analysed.to_client);
    held_in(if of(down) > of(up) { down } else { up })
}

/// Waiting for a window above TCP as well, though it counts as the application's.
fn held_in(direction: &Direction) -> impl Iterator<Item = (LimitName, Duration)> + '_ {
    let attribution = &direction.attribution;
    let channel = attribution.held_by(LimitName::Application, Detail::PeerWindow);
    let channel = (!channel.is_zero()).then_some((LimitName::Application, channel));
    let held = attribution.limits().filter(|(limit, _)| is_held(*limit));
    held.chain(channel)
}

const fn is_held(limit: LimitName) -> bool {
    match limit {
        LimitName::Handshake
        | LimitName::TlsHandshake
        | LimitName::Policer
        | LimitName::LossRecovery
        | LimitName::ReceiveWindow
        | LimitName::SlowStart
        | LimitName::LossLimited
        | LimitName::CongestionAvoidance
        | LimitName::SendBuffer
        | LimitName::NagleDelayedAck => true,
        LimitName::Closing
        | LimitName::Bottleneck
        | LimitName::Propagation
        | LimitName::Application
        | LimitName::Unknown => false,
    }
}

/// How often a connection is opened, from the first to the last.
#[expect(clippy::cast_precision_loss, reason = "connections, far below 2^52")]
fn opened_per_s(of: &[&Analysed]) -> Option<f64> {
    let opened = || of.iter().map(|one| one.connection.first_at);
    let span = opened().max()?.since(opened().min()?);
    let intervals = of.len().checked_sub(1).filter(|count| *count > 0)?;
    (!span.is_zero()).then(|| intervals as f64 / span.as_secs_f64())
}

/// Most connections that were open at a time.
pub(crate) fn parallel(of: &[&Analysed]) -> u64 {
    let mut edges: Vec<(Time, bool)> = Vec::with_capacity(of.len() * 2);
    for one in of {
        edges.push((one.connection.first_at, true));
        edges.push((one.connection.last_at, false));
    }
    // One that ends when another begins was not beside it: `false` sorts first.
    edges.sort_unstable();
    let (mut open, mut most) = (0_u64, 0);
    for (_, opens) in edges {
        open = if opens {
            open + 1
        } else {
            open.saturating_sub(1)
        };
        most = open.max(most);
    }
    most.max(u64::from(!of.is_empty()))
}
