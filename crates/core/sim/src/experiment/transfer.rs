//! Transfers of a block, one after the other.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use comparison::{Measured, Transfer};
use record::LimitSeconds;
use record::lab::Series;
use scenario::{Arm, Flow, Workload};
use units::{Bytes, Span};

use super::block::{Block, ways};
use super::plan::{self, Plan};
use crate::lanes::Lane;
use crate::world::{ConnectionId, Side};

/// A client takes a moment between two transfers; the lab's takes some milliseconds.
const PAUSE: Duration = Duration::from_millis(2);

/// `count` transfers in `block`, of which the first `warm_up` are not counted; `series` gets one entry for
/// each that is.
pub(super) fn play(
    arm: &Arm,
    workload: &Workload,
    block: &mut Block,
    (warm_up, count): (u32, u32),
    measured: &mut Measured,
    series: &mut Vec<Option<Series>>,
) {
    let mut kept = Vec::new();
    let payload = workload.payload(arm.parallel(workload));
    for number in 0..warm_up.saturating_add(count) {
        let before = block.retransmissions();
        let result = match plan::plan(workload, arm) {
            Some(plan) if workload.duration.is_none() => {
                sized(arm, workload, block, plan, &mut kept)
            }
            Some(_) | None => timed(arm, workload, block),
        };
        if let Some(position) = number.checked_sub(warm_up) {
            let mut transfer = Transfer {
                position: usize::try_from(position).unwrap_or(usize::MAX),
                seconds: f64::NAN,
                ..Transfer::default()
            };
            match result {
                Ok(done) => {
                    transfer.seconds = done.seconds;
                    let bytes = done.bytes.or_else(|| payload.map(Bytes::get));
                    transfer.bytes = bytes.unwrap_or(0);
                    transfer.steady_bps = done.steady_bps;
                    series.push(done.series);
                    for (limit, seconds) in done.limits {
                        *measured.limits.entry(limit).or_default() += seconds;
                    }
                }
                Err(why) => {
                    transfer.failure = Some(why);
                    series.push(None);
                }
            }
            measured.transfers.push(transfer);
        }
        let pause = block.programs.world.now() + PAUSE;
        block.programs.pass(pause);
        if number >= warm_up
            && let Some(transfer) = measured.transfers.last_mut()
        {
            transfer.counters = since(&before, block.retransmissions());
        }
    }
}

/// What was counted since `before`.
fn since(
    before: &BTreeMap<String, u64>,
    mut after: BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    for (name, count) in &mut after {
        *count -= before.get(name).copied().unwrap_or_default();
    }
    after
}

/// A finished transfer.
struct Done {
    seconds: f64,
    /// Where it is not the workload's payload.
    bytes: Option<u64>,
    steady_bps: Option<f64>,
    limits: LimitSeconds,
    series: Option<Series>,
}

/// A transfer of a size.
fn sized(
    arm: &Arm,
    workload: &Workload,
    block: &mut Block,
    mut plan: Plan,
    kept: &mut Vec<ConnectionId>,
) -> Result<Done, String> {
    let started = block.programs.world.now();
    let new = kept.is_empty();
    let connections = if new {
        block.open(plan.lanes.len())
    } else {
        std::mem::take(kept)
    };
    if new {
        for turns in &mut plan.lanes {
            let handshake = plan::handshake(arm.tls(workload));
            turns.splice(0..0, handshake);
        }
    }
    let started = if plan.connected {
        for connection in &connections {
            block.programs.establish(*connection)?;
        }
        block.programs.world.now()
    } else {
        started
    };
    let watched = sender(block, workload, connections[0]);
    block.programs.world.keep_account(watched.0, watched.1);
    watch(block, workload, &connections);
    if let Some(pause) = workload.read_pause {
        let span = Span::get(pause.r#for);
        block
            .programs
            .pause_reading(connections[0], pause.after.get(), span);
    }
    if let Some(turn) = plan.first {
        let mut alone = [Lane::new(
            connections[0],
            plan.lanes[0].drain(..).chain([turn]),
        )];
        block.programs.drive(&mut alone, &mut VecDeque::new())?;
    }
    let mut lanes: Vec<Lane> = connections
        .iter()
        .zip(plan.lanes)
        .map(|(connection, turns)| Lane::new(*connection, turns))
        .collect();
    block.programs.drive(&mut lanes, &mut plan.shared)?;
    let mut took = lanes.iter().map(|lane| lane.busy(started)).max();
    if let Some(turn) = plan.last {
        let mut alone = [Lane::new(connections[0], [turn])];
        block.programs.drive(&mut alone, &mut plan.shared)?;
        took = Some(alone[0].busy(started));
    }
    let done = Done {
        seconds: took.unwrap_or_default().as_secs_f64(),
        bytes: None,
        steady_bps: None,
        limits: block.programs.world.limits(watched.0, watched.1),
        series: block.programs.world.watched(),
    };
    if arm.reuse {
        *kept = connections;
    } else {
        for connection in connections {
            block.programs.close(connection);
        }
    }
    Ok(done)
}

/// A stream for a time, on connections of its own.
fn timed(arm: &Arm, workload: &Workload, block: &mut Block) -> Result<Done, String> {
    let duration = workload.duration.map_or(Duration::ZERO, Span::get);
    let count = usize::try_from(arm.parallel(workload)).unwrap_or(1);
    let started = block.programs.world.now();
    let (up, down) = ways(workload.direction());
    let connections = block.open(count);
    let watched = sender(block, workload, connections[0]);
    block.programs.world.keep_account(watched.0, watched.1);
    watch(block, workload, &connections);
    for connection in &connections {
        block.programs.flood(*connection, up, down);
    }
    block.programs.pass(started + duration / 2);
    let half = arrived(block, &connections, up, down);
    block.programs.pass(started + duration);
    let bytes = arrived(block, &connections, up, down);
    let limits = block.programs.world.limits(watched.0, watched.1);
    let series = block.programs.world.watched();
    for connection in &connections {
        block.programs.still_open(*connection)?;
    }
    block.programs.stop(&connections);
    let seconds = duration.as_secs_f64();
    Ok(Done {
        seconds,
        bytes: Some(bytes),
        steady_bps: Some(bits(bytes - half) / (seconds / 2.0)),
        limits,
        series,
    })
}

fn arrived(block: &Block, connections: &[ConnectionId], up: bool, down: bool) -> u64 {
    let each = connections.iter().map(|connection| {
        let (near, far) = block.programs.arrived(*connection);
        (if down { near } else { 0 }) + (if up { far } else { 0 })
    });
    each.sum()
}

/// The end whose limits are booked: where the payload comes from, on the path's side of relays.
fn sender(block: &Block, workload: &Workload, connection: ConnectionId) -> (ConnectionId, Side) {
    match workload.direction() {
        Flow::Up | Flow::Both => (connection, Side::Near),
        Flow::Down => (block.programs.origin_of(connection), Side::Far),
    }
}

/// Watches all senders of a transfer where they put payload on the long path.
fn watch(block: &mut Block, workload: &Workload, connections: &[ConnectionId]) {
    let Some(interval) = block.sampling else {
        return;
    };
    let side = match workload.direction() {
        Flow::Up | Flow::Both => Side::Near,
        Flow::Down => Side::Far,
    };
    let ends: Vec<(ConnectionId, Side)> = connections
        .iter()
        .map(|connection| (block.programs.on_path(*connection, block.wan), side))
        .collect();
    block.programs.world.watch(&ends, interval);
}

/// The series of the transfer that took the median time, or moved the median of data where all take one
/// time.
pub(super) fn representative(
    transfers: &[Transfer],
    series: &mut [Option<Series>],
) -> Option<Series> {
    let mut seen: Vec<(&Transfer, &mut Option<Series>)> = transfers
        .iter()
        .zip(series)
        .filter(|(transfer, series)| transfer.failure.is_none() && series.is_some())
        .collect();
    seen.sort_by(|(a, _), (b, _)| {
        let by_time = a.seconds.total_cmp(&b.seconds);
        by_time.then(b.bytes.cmp(&a.bytes))
    });
    let middle = seen.len().checked_sub(1)? / 2;
    seen.get_mut(middle)?.1.take()
}

/// What rivals got beside the arm over the last `seconds`, and get without it.
pub(super) struct Share {
    before: Vec<u64>,
    since: units::Time,
}

impl Share {
    /// From now on.
    pub(super) fn begin(block: &Block) -> Self {
        Self {
            before: rates_of(block),
            since: block.programs.world.now(),
        }
    }

    /// Payload bits per second of every rival flow since then.
    pub(super) fn end(&self, block: &Block) -> Vec<f64> {
        let span = block.programs.world.now().since(self.since).as_secs_f64();
        let after = rates_of(block);
        let moved = after.iter().zip(&self.before);
        moved
            .map(|(after, before)| bits(after - before) / span)
            .collect()
    }

    /// How long that was.
    pub(super) fn span(&self, block: &Block) -> Duration {
        block.programs.world.now().since(self.since)
    }
}

fn rates_of(block: &Block) -> Vec<u64> {
    let rivals = block.rivals.iter();
    rivals
        .map(|(connection, flow)| {
            let (up, down) = ways(*flow);
            arrived(block, &[*connection], up, down)
        })
        .collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "bytes of a simulation are far below 2^52"
)]
pub(super) fn bits(bytes: u64) -> f64 {
    bytes as f64 * 8.0
}
