//! The blocks of one arm and one workload, one after the other, and what they have measured together.

use std::collections::BTreeMap;
use std::time::Duration;

use comparison::{Measured, Rivals};
use record::lab::Series;
use scenario::{Arm, HostName, Relay, RelayMode, Tls, Workload};
use tcp::Config;

use super::block::Block;
use super::{SimulateError, Stage, transfer};
use crate::captures::{self, HostCapture};
use crate::http::Primed;

/// One arm with one workload.
pub(super) struct Blocks<'a> {
    stage: &'a Stage<'a>,
    /// Indices of the arm and of the workload in the scenario.
    place: (usize, usize),
    /// As its long path sees it.
    arm: Arm,
    workload: &'a Workload,
    hosts: &'a BTreeMap<HostName, Config>,
    hops: Vec<&'a Relay>,
    /// How many are played.
    played: u32,
    primed: Vec<Primed>,
    rivals: Vec<Rivals>,
    /// One for each transfer.
    curves: Vec<Option<Series>>,
}

// === impl Blocks ===

impl<'a> Blocks<'a> {
    /// Nothing is played yet.
    pub(super) fn new(
        stage: &'a Stage<'a>,
        place: (usize, usize),
        hosts: &'a BTreeMap<HostName, Config>,
    ) -> Self {
        let arm = &stage.scenario.arms[place.0];
        let hops = stage.relays(arm.relay.hops());
        Self {
            stage,
            place,
            arm: across(arm, &hops),
            workload: &stage.scenario.workloads[place.1],
            hosts,
            hops,
            played: 0,
            primed: Vec::new(),
            rivals: Vec::new(),
            curves: Vec::new(),
        }
    }

    /// What each is called.
    pub(super) fn label(&self) -> String {
        format!("{}, {}", self.arm.name, self.workload.name)
    }

    /// Plays the next one; `keep` gets what captured hosts saw of it.
    pub(super) fn play(
        &mut self,
        measured: &mut BTreeMap<(usize, usize), Measured>,
        keep: &mut dyn FnMut(HostCapture),
    ) -> Result<(), SimulateError> {
        let Self {
            stage,
            arm,
            workload,
            hosts,
            ..
        } = self;
        let measured = measured.entry(self.place).or_default();
        let seed = stage.seed_of(arm, workload, u64::from(self.played));
        let mut block = stage.block(arm, hosts, &self.hops, seed)?;
        self.primed.append(&mut block.primed);
        block.invite_rivals(workload, hosts)?;
        block.start_schedule();
        let share = transfer::Share::begin(&block);
        let before = measured.transfers.len();
        let experiment = &stage.scenario.experiment;
        let counts = (experiment.warm_up, experiment.block);
        transfer::play(
            arm,
            workload,
            &mut block,
            counts,
            measured,
            &mut self.curves,
        );
        if !workload.rivals.is_empty() {
            let beside = share.end(&block);
            let span = share.span(&block);
            let own: u64 = measured.transfers[before..]
                .iter()
                .map(|one| one.bytes)
                .sum();
            let own = transfer::bits(own) / span.as_secs_f64();
            let alone = self.alone(seed, span)?;
            self.rivals.push(Rivals {
                alone_bps: alone,
                beside_bps: beside,
                own_bps: vec![own],
            });
        }
        self.capture(&block, keep);
        self.played += 1;
        Ok(())
    }

    /// The last one is played: means instead of sums, and whatever is measured once. Returns how the arm's pools were
    /// primed.
    pub(super) fn finish(mut self, measured: &mut Measured) -> Result<Vec<Primed>, SimulateError> {
        measured.first_unprimed = self.unprimed()?;
        measured.rivals = Rivals::mean(&self.rivals);
        measured.series = transfer::representative(&measured.transfers, &mut self.curves);
        // Summed up to here; the document wants the mean.
        let good = measured
            .transfers
            .iter()
            .filter(|transfer| transfer.failure.is_none());
        let good = f64::from(u32::try_from(good.count()).unwrap_or(u32::MAX).max(1));
        for seconds in measured.limits.values_mut() {
            *seconds /= good;
        }
        Ok(self.primed)
    }

    /// What every captured host sees of `block`, where packets pass it.
    fn capture(&self, block: &Block, keep: &mut dyn FnMut(HostCapture)) {
        let ends = block.hosts_by_connection();
        for &host in self.stage.captured {
            let ip = self.stage.scenario.path.ip;
            if let Some(pcapng) = captures::of(&block.programs.world, &ends, host, ip) {
                keep(HostCapture {
                    arm: self.arm.name.clone(),
                    workload: self.workload.name.clone(),
                    block: self.played,
                    host,
                    pcapng,
                });
            }
        }
    }

    /// The first transfer through a pool that is connected but not primed, where the arm asks for it.
    fn unprimed(&self) -> Result<Option<comparison::Transfer>, SimulateError> {
        let (stage, arm, workload) = (self.stage, &self.arm, self.workload);
        let Some(unprimed) = &arm.unprimed else {
            return Ok(None);
        };
        let seed = stage.seed_of(arm, workload, u64::MAX);
        let hops = stage.relays(std::slice::from_ref(unprimed));
        let mut block = stage.block(arm, self.hosts, &hops, seed)?;
        // Its time is told, and nothing else of it.
        block.sampling = None;
        block.start_schedule();
        let mut alone = Measured::default();
        let nothing = &mut Vec::new();
        transfer::play(arm, workload, &mut block, (0, 1), &mut alone, nothing);
        Ok(alone.transfers.into_iter().next())
    }

    /// What the rivals get on the same path without the arm, over `span`.
    fn alone(&self, seed: u64, span: Duration) -> Result<Vec<f64>, SimulateError> {
        let mut block = self.stage.block(&self.arm, self.hosts, &[], seed)?;
        block.invite_rivals(self.workload, self.hosts)?;
        block.start_schedule();
        let share = transfer::Share::begin(&block);
        let until = block.programs.world.now() + span;
        block.programs.pass(until);
        Ok(share.end(&block))
    }
}

/// The arm as its long path sees it: a relay that ends TLS begins it anew, with the newest version that it and
/// the origin have, whatever its client speaks.
fn across(arm: &Arm, hops: &[&Relay]) -> Arm {
    let mut arm = arm.clone();
    if hops.iter().any(|relay| relay.mode == RelayMode::Tls) {
        arm.tls = Some(Tls::V1_3);
    }
    arm
}
