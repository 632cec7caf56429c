//! One block's world: the path, the relays' pools, and whoever else is on the path.

use std::collections::BTreeMap;
use std::time::Duration;

use link::{LossSpec, PathSpec};
use scenario::{Arm, Flow, HostName, Relay, RelayMode, Site, Workload};
use tcp::{Config, Pacing};
use units::Bytes;

use super::{LAN_RTT, SimulateError, Stage, hot_window, larger_header, payload_rate};
use crate::hosts;
use crate::http::{Primed, Programs};
use crate::world::{ConnectionId, PathId, Side, World};

/// A block's world.
pub(super) struct Block {
    pub(super) programs: Programs,
    pub(super) wan: PathId,
    lan: PathId,
    /// Connections behind the first HTTP relay, the one that has waited longest first.
    pool: Vec<ConnectionId>,
    pub(super) primed: Vec<Primed>,
    /// Between two points of a transfer's series, where one is wanted.
    pub(super) sampling: Option<Duration>,
    legs: Vec<Leg>,
    /// From which leg on connections are pooled.
    pooled_from: Option<usize>,
    /// The hosts at the two ends of every connection of the arm.
    made: Vec<(ConnectionId, HostName, HostName)>,
    pub(super) rivals: Vec<(ConnectionId, Flow)>,
}

/// A connection's place between client and origin.
#[derive(Clone)]
struct Leg {
    path: PathId,
    near: (HostName, Config),
    far: (HostName, Config),
}

impl Stage<'_> {
    /// A fresh world for `arm` with its path, and with the relays' pools ready.
    pub(super) fn block(
        &self,
        arm: &Arm,
        hosts: &BTreeMap<HostName, Config>,
        hops: &[&Relay],
        seed: u64,
    ) -> Result<Block, SimulateError> {
        let fail = |source| SimulateError::Path { source };
        let mut world = World::new();
        if !self.captured.is_empty() {
            world.record();
        }
        let wan = world
            .add_path(&self.scenario.path.spec(seed))
            .map_err(fail)?;
        let lan = PathSpec::symmetric(LAN_RTT, None, Bytes::mib(1), LossSpec::None, seed);
        let lan = world.add_path(&lan).map_err(fail)?;
        for path in [wan, lan] {
            world.enlarge_headers(path, larger_header(self.scenario.path.ip));
        }
        let mut block = Block {
            programs: Programs::new(world),
            wan,
            lan,
            pool: Vec::new(),
            primed: Vec::new(),
            sampling: self.scenario.experiment.series_interval(),
            legs: Vec::new(),
            pooled_from: None,
            made: Vec::new(),
            rivals: Vec::new(),
        };
        block.lay_out(hosts, hops)?;
        if let Some(pooled) = block.pooled_from
            && let Some(relay) = pooled.checked_sub(1).and_then(|hop| hops.get(hop))
        {
            self.fill_pool(arm, relay, pooled, &mut block);
        }
        Ok(block)
    }

    fn fill_pool(&self, arm: &Arm, relay: &Relay, pooled: usize, block: &mut Block) {
        let path = &self.scenario.path;
        if relay.knows_path_rate {
            for leg in &mut block.legs[pooled..] {
                leg.near.1.pacing = Pacing::AtMost(payload_rate(path.bottleneck_rate(), path.ip));
            }
        }
        for _ in 0..relay.pool_min_idle.max(1) {
            let connection = block.connect_from(pooled);
            // What fails here fails the transfers that need the connection, and is told there.
            let ready = block.programs.establish(connection).is_ok();
            // Priming needs the origin at the other end: behind further relays it is left out.
            let last = pooled + 1 == block.legs.len();
            if ready && relay.prime && last && !arm.relay.is_direct() {
                let target = relay.hot_window.unwrap_or_else(|| hot_window(relay, path));
                block
                    .primed
                    .extend(block.programs.prime(connection, target));
            }
            block.pool.push(connection);
        }
    }
}

/// Up, down.
pub(super) const fn ways(flow: Flow) -> (bool, bool) {
    (
        matches!(flow, Flow::Up | Flow::Both),
        matches!(flow, Flow::Down | Flow::Both),
    )
}

impl Block {
    /// Lets the rivals of `workload` begin, and have their head start.
    pub(super) fn invite_rivals(
        &mut self,
        workload: &Workload,
        hosts: &BTreeMap<HostName, Config>,
    ) -> Result<(), SimulateError> {
        let mut start = self.programs.world.now();
        for rival in &workload.rivals {
            let mut config = hosts[&HostName::Rival].clone();
            if let Some(name) = &rival.congestion_control {
                hosts::choose(&mut config, hosts::algorithm_of(name, HostName::Rival)?);
            }
            let mut origin = hosts[&HostName::Origin].clone();
            if rival.direction != Flow::Up {
                (origin.algorithm, origin.tuning) = (config.algorithm, config.tuning);
            }
            for _ in 0..rival.count {
                let connection = self.programs.connect(self.wan, &config, &origin);
                let (up, down) = ways(rival.direction);
                self.programs.flood(connection, up, down);
                self.rivals.push((connection, rival.direction));
            }
            start = start.max(self.programs.world.now() + rival.head_start.get());
        }
        self.programs.pass(start);
        Ok(())
    }

    /// The path's schedule begins with the first transfer, as in the lab: not with what prepares it.
    pub(super) fn start_schedule(&mut self) {
        self.programs.world.start_schedule(self.wan);
    }

    /// The legs between client and origin.
    fn lay_out(
        &mut self,
        hosts: &BTreeMap<HostName, Config>,
        hops: &[&Relay],
    ) -> Result<(), SimulateError> {
        let mut near = (HostName::Client, hosts[&HostName::Client].clone());
        let mut site = Site::Near;
        for (number, relay) in hops.iter().enumerate() {
            let host = match relay.at {
                Site::Near => HostName::Relay,
                Site::Far => HostName::FarRelay,
            };
            let path = if relay.at == site { self.lan } else { self.wan };
            let (towards_client, towards_origin) = hosts::of_relay(relay, host, &hosts[&host])?;
            self.legs.push(Leg {
                path,
                near,
                far: (host, towards_client),
            });
            if relay.mode == RelayMode::Http {
                self.pooled_from.get_or_insert(number + 1);
            }
            near = (host, towards_origin);
            site = relay.at;
        }
        self.legs.push(Leg {
            path: if site == Site::Far {
                self.lan
            } else {
                self.wan
            },
            near,
            far: (HostName::Origin, hosts[&HostName::Origin].clone()),
        });
        Ok(())
    }

    /// A connection over leg `from`, with all further ones behind it. They begin together: what a
    /// relay's accept comes later is a LAN's round trip.
    fn connect_from(&mut self, from: usize) -> ConnectionId {
        let upstream = (from + 1 < self.legs.len()).then(|| self.behind(from + 1));
        let leg = self.legs[from].clone();
        let connection = match upstream {
            None => self.programs.connect(leg.path, &leg.near.1, &leg.far.1),
            Some(upstream) => {
                self.programs
                    .connect_through(leg.path, &leg.near.1, &leg.far.1, upstream)
            }
        };
        self.made.push((connection, leg.near.0, leg.far.0));
        connection
    }

    /// A connection that goes on behind a relay: pooled where there is one free.
    fn behind(&mut self, leg: usize) -> ConnectionId {
        if self.pooled_from == Some(leg) && !self.pool.is_empty() {
            // The connection that has waited longest serves next; its place is kept by `open`.
            return self.pool.remove(0);
        }
        self.connect_from(leg)
    }

    /// Connections of the client, `count` at once.
    pub(super) fn open(&mut self, count: usize) -> Vec<ConnectionId> {
        let idle = self.pool.len().min(count);
        let served: Vec<ConnectionId> = self.pool.iter().take(idle).copied().collect();
        let opened = (0..count).map(|_| self.connect_from(0)).collect();
        self.pool.extend(served);
        opened
    }

    /// The host that opened each connection, and the one that it was opened to.
    pub(super) fn hosts_by_connection(&self) -> BTreeMap<ConnectionId, (HostName, HostName)> {
        let own = self.made.iter().map(|&(one, near, far)| (one, (near, far)));
        let rivals = self.rivals.iter();
        let rivals = rivals.map(|(one, _)| (*one, (HostName::Rival, HostName::Origin)));
        own.chain(rivals).collect()
    }

    /// Segments sent again so far, by host.
    pub(super) fn retransmissions(&self) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::new();
        for (connection, near, far) in &self.made {
            for (side, host) in [(Side::Near, near), (Side::Far, far)] {
                let end = self.programs.world.end(*connection, side);
                let again = end.map_or(0, |end| end.sender().retransmissions);
                *counters
                    .entry(format!("{host}: TcpRetransSegs"))
                    .or_default() += again;
            }
        }
        counters
    }
}
