//! The hops of a transfer's payload: between which hosts' TCP it travels, and where each can be seen best.
//!
//! A capture tells what held a sender back only where it was made at that sender: elsewhere its slow start
//! looks like an application that has nothing to send.

use std::net::IpAddr;
use std::path::PathBuf;

use scenario::{Capture, Flow, RelayMode, Site, Workload};

use super::Bench;
use super::block::Job;
use super::topology::Place;

/// One hop of the payload.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Leg {
    /// The sender's name.
    pub(crate) from: String,
    /// The receiver's name.
    pub(crate) to: String,
    /// Whether the WAN lies between them.
    pub(crate) crosses_wan: bool,
    /// Whether payload goes towards the origin, which is the way that connections are opened.
    pub(crate) upwards: bool,
    /// Who opens its connections.
    pub(crate) client: IpAddr,
    /// Who accepts them.
    pub(crate) server: IpAddr,
}

/// A capture of a leg, made at its sender.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LegCapture {
    pub(crate) leg: Leg,
    pub(crate) file: PathBuf,
    pub(crate) lasts: Lasts,
}

/// What a capture has seen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Lasts {
    /// One block's transfers, whose connections begin and end with it.
    Block,
    /// All blocks: connections outlive a block, and what was negotiated at their beginning must be known.
    Run,
}

/// A leg, and by whom it is captured.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) leg: Leg,
    pub(super) sender: Place,
    /// The hop whose pool its connections belong to, where there is one.
    pub(super) pool: Option<usize>,
}

impl Bench {
    /// The legs of a workload's payload along `route`, in the order in which the payload takes them; where
    /// it flows both ways, those towards the origin first.
    pub(super) fn legs(&self, route: &[String], workload: &Workload) -> Vec<Seat> {
        let hops = self.plan.route(route);
        let mut places = vec![Place::Client];
        places.extend(hops.iter().copied().map(Place::Hop));
        places.push(Place::Origin);
        let leg = |pair: &[Place], upwards: bool| {
            let (opener, listener) = (pair[0], pair[1]);
            let (sender, receiver) = if upwards {
                (opener, listener)
            } else {
                (listener, opener)
            };
            let name = |place| self.topology.node(place).name.clone();
            Seat {
                leg: Leg {
                    from: name(sender),
                    to: name(receiver),
                    crosses_wan: self.site(opener) != self.site(listener),
                    upwards,
                    client: self.topology.tcp_address(opener),
                    server: self.topology.tcp_address(listener),
                },
                sender,
                pool: hop_of(opener).filter(|hop| self.has_pool(*hop)),
            }
        };
        let mut legs = Vec::new();
        if workload.direction() != Flow::Down {
            legs.extend(places.windows(2).map(|pair| leg(pair, true)));
        }
        if workload.direction() != Flow::Up {
            legs.extend(places.windows(2).rev().map(|pair| leg(pair, false)));
        }
        legs
    }

    /// The leg whose sender's TCP decides how fast payload crosses the WAN.
    pub(super) fn long_haul(&self, route: &[String], workload: &Workload) -> Option<Seat> {
        let mut legs = self.legs(route, workload).into_iter();
        legs.find(|seat| seat.leg.crosses_wan)
    }

    /// Captures in which a job's legs can be seen: those of its own block, by `block_file`, and those that
    /// last as long as a relay.
    pub(super) fn leg_captures(
        &self,
        job: &Job<'_>,
        block_file: impl Fn(Place) -> Option<PathBuf>,
    ) -> Vec<LegCapture> {
        let legs = self.legs(job.route, job.workload).into_iter();
        let captured = legs.filter_map(|seat| {
            let lasting = match (seat.sender, seat.pool) {
                (Place::Hop(hop), _) => self.relays.get(&hop)?.capture(),
                (_, Some(hop)) => self.relays.get(&hop)?.capture_behind(),
                (_, None) => None,
            };
            let (file, lasts) = match lasting {
                Some(file) => (file, Lasts::Run),
                None => (block_file(seat.sender)?, Lasts::Block),
            };
            Some(LegCapture {
                leg: seat.leg,
                file,
                lasts,
            })
        });
        captured.collect()
    }

    /// Ends whose device a block captures because they send payload on connections that the block makes.
    pub(super) fn ends_that_send(&self, job: &Job<'_>) -> Vec<Place> {
        let legs = self.legs(job.route, job.workload).into_iter();
        let ends = legs.filter(|seat| seat.pool.is_none() && !matches!(seat.sender, Place::Hop(_)));
        ends.map(|seat| seat.sender).collect()
    }

    /// Whether a relay's connections outlive the transfers that they carry.
    pub(super) fn has_pool(&self, hop: usize) -> bool {
        let relay = self.scenario.relays.get(&self.plan.hops[hop].relay);
        relay.is_none_or(|relay| relay.command.is_none() && relay.mode == RelayMode::Http)
    }

    /// Whether the origin sends payload into the pool of `hop`, and has to be watched as long as that is open.
    pub(super) fn origin_fills_pool(&self, hop: usize) -> bool {
        let workloads = &self.scenario.workloads;
        self.scenario.experiment.capture != Capture::None
            && self.has_pool(hop)
            && self.plan.hops[hop].behind.is_empty()
            && workloads.iter().any(|one| one.direction() != Flow::Up)
    }

    fn site(&self, place: Place) -> Site {
        match place {
            Place::Client | Place::Rival => Site::Near,
            Place::Origin | Place::RivalSink => Site::Far,
            Place::Hop(hop) => self.plan.hops[hop].site,
        }
    }
}

const fn hop_of(place: Place) -> Option<usize> {
    match place {
        Place::Hop(hop) => Some(hop),
        Place::Client | Place::Origin | Place::Rival | Place::RivalSink => None,
    }
}
