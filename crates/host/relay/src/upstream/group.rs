//! The targets of one relay: which one the next connection goes to, and which are known to be there.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use profile::TcpProfile;
use tokio::net::lookup_host;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::{ConnectError, Connected, Dialer, health, shares};
use crate::event::{Event, Events};
use crate::{Balance, Balancing, Target};

/// The targets of one relay.
pub(crate) struct Group {
    members: Vec<Arc<Member>>,
    pub(super) balancing: Balancing,
    pub(super) dialer: Dialer,
    /// Whose turn it is.
    next: AtomicUsize,
    events: Events,
    /// The task that looks at the targets, which ends with this.
    checker: OnceLock<AbortHandle>,
}

/// One target.
pub(super) struct Member {
    pub(super) target: Target,
    /// Connections of this relay, those under way included.
    open: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    addresses: Vec<SocketAddr>,
    resolved_at: Option<Instant>,
    /// Until when it is tried last, after a client's connection failed.
    rests_until: Option<Instant>,
    /// Whether looks have found that it is not there.
    out: bool,
    /// Looks in a row with the other outcome.
    contrary: u32,
}

/// A connection to a target, counted for as long as this lives.
pub(crate) struct Place(Arc<Member>);

// === impl Group ===

impl Group {
    /// The targets of a relay, looked at from now on where the configuration says so.
    pub(crate) fn new<'a>(
        targets: impl IntoIterator<Item = &'a Target>,
        balancing: &Balancing,
        profile: &TcpProfile,
        events: Events,
    ) -> Arc<Self> {
        let group = Arc::new(Self {
            members: targets
                .into_iter()
                .map(|target| Arc::new(Member::new(target)))
                .collect(),
            balancing: balancing.clone(),
            dialer: Dialer::new(profile),
            next: AtomicUsize::new(0),
            events,
            checker: OnceLock::new(),
        });
        if balancing.check.is_some() {
            let task = tokio::spawn(health::watch(Arc::downgrade(&group)));
            group.checker.get_or_init(|| task.abort_handle());
        }
        group
    }

    pub(super) fn members(&self) -> &[Arc<Member>] {
        &self.members
    }

    /// Connects to the target whose turn it is, or to the next where that fails. The error is the last one's.
    ///
    /// Each attempt gets its share of `patience`, so that a target that answers nothing leaves time for the
    /// others.
    pub(crate) async fn connect(&self, patience: Duration) -> Result<Connected, ConnectError> {
        let deadline = Instant::now() + patience;
        let mut left = self.members.len();
        let mut tried = Vec::new();
        loop {
            let (index, place) = self.choose(&tried);
            let member = &self.members[index];
            let share = deadline.saturating_duration_since(Instant::now()) / shares(left);
            let error = match self.try_member(member, Instant::now() + share).await {
                Ok(connected) => {
                    self.succeeded(member);
                    return Ok(Connected {
                        place: Some(place),
                        ..connected
                    });
                }
                Err(error) => error,
            };
            if error.is_resource() {
                // Ours, not the target's: no other would do better.
                return Err(error);
            }
            self.failed(member, &error);
            left -= 1;
            if left == 0 {
                return Err(error);
            }
            tried.push(index);
        }
    }

    /// The member whose turn it is, among those not tried yet, and a place there. Members that are out come
    /// last: with nobody else left, even they are worth an attempt.
    fn choose(&self, tried: &[usize]) -> (usize, Place) {
        let count = self.members.len();
        let start = match self.balancing.by {
            Balance::RoundRobin if tried.is_empty() => self.next.fetch_add(1, Ordering::Relaxed),
            Balance::RoundRobin => tried[0] + 1,
            Balance::LeastConnections | Balance::FirstAvailable => 0,
        };
        let turns = (0..count).map(|turn| (start + turn) % count);
        let left = turns.filter(|index| !tried.contains(index));
        let chosen = left.min_by_key(|&index| {
            let member = &self.members[index];
            let open = match self.balancing.by {
                Balance::LeastConnections => member.open.load(Ordering::Relaxed),
                Balance::RoundRobin | Balance::FirstAvailable => 0,
            };
            // The first of equals is taken, so the order of turns decides between them.
            (member.is_out(), open)
        });
        let index = chosen.unwrap_or(0);
        (index, Place::at(&self.members[index]))
    }

    async fn try_member(
        &self,
        member: &Member,
        deadline: Instant,
    ) -> Result<Connected, ConnectError> {
        let started = Instant::now();
        let host = &member.target.host;
        let addresses =
            timeout_at(deadline, self.resolve(member))
                .await
                .map_err(|_elapsed| ConnectError::Timeout {
                    host: host.clone(),
                    waited: started.elapsed(),
                })??;
        self.dialer.connect_any(&addresses, host, deadline).await
    }

    /// The member's addresses, in the resolver's order. Known ones are used on where resolving fails: a name
    /// server that is down should not take the relay with it.
    pub(super) async fn resolve(&self, member: &Member) -> Result<Vec<SocketAddr>, ConnectError> {
        let target = &member.target;
        if let Ok(address) = target.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, target.port)]);
        }
        let known = {
            let mut state = member.state();
            let every = self.balancing.resolve_every;
            let fresh = state.resolved_at.is_some_and(|at| at.elapsed() < every);
            if fresh && !state.addresses.is_empty() {
                return Ok(state.addresses.clone());
            }
            if !state.addresses.is_empty() {
                // Meanwhile, the others use what is known.
                state.resolved_at = Some(Instant::now());
            }
            state.addresses.clone()
        };
        let looked_up = lookup_host((target.host.as_str(), target.port)).await;
        let addresses: Vec<_> = match looked_up {
            Ok(addresses) => addresses.collect(),
            Err(source) if known.is_empty() => {
                let host = target.host.clone();
                return Err(ConnectError::Resolve { host, source });
            }
            Err(error) => {
                (self.events)(Event::Warning {
                    name: "name-not-resolved",
                    text: format!("{target}: {error}; its last known addresses are used on"),
                });
                return Ok(known);
            }
        };
        if addresses.is_empty() {
            let host = target.host.clone();
            return Err(ConnectError::NoAddress { host });
        }
        let mut state = member.state();
        state.addresses.clone_from(&addresses);
        state.resolved_at = Some(Instant::now());
        Ok(addresses)
    }

    fn succeeded(&self, member: &Member) {
        let mut state = member.state();
        let rested = state.rests_until.take().is_some();
        let out = state.out;
        drop(state);
        if rested && !out {
            self.tell(member, true, "a connection was made".into());
        }
    }

    fn failed(&self, member: &Member, error: &ConnectError) {
        let until = Instant::now() + self.balancing.rest;
        let mut state = member.state();
        let rested = state.rests_until.replace(until).is_some();
        let out = state.out;
        drop(state);
        if !rested && !out {
            self.tell(member, false, crate::chain(error));
        }
    }

    /// Counts a look at a member, and tells where that changes what is known.
    pub(super) fn looked(&self, member: &Member, result: Result<(), String>) {
        let Some(check) = &self.balancing.check else {
            return;
        };
        let mut state = member.state();
        if result.is_err() == state.out {
            state.contrary = 0;
            return;
        }
        state.contrary += 1;
        let enough = if state.out { check.rise } else { check.fall };
        if state.contrary < enough {
            return;
        }
        state.contrary = 0;
        state.out = result.is_err();
        if result.is_ok() {
            state.rests_until = None;
        }
        drop(state);
        let available = result.is_ok();
        let why = result.err().unwrap_or_else(|| "it answers again".into());
        self.tell(member, available, why);
    }

    /// Of a single target nobody needs to be told: each connection's event says what it met.
    fn tell(&self, member: &Member, available: bool, why: String) {
        if self.members.len() > 1 || self.balancing.check.is_some() {
            (self.events)(Event::Target {
                target: member.target.to_string(),
                available,
                why,
            });
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(checker) = self.checker.get() {
            checker.abort();
        }
    }
}

// === impl Member ===

impl Member {
    fn new(target: &Target) -> Self {
        Self {
            target: target.clone(),
            open: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    fn is_out(&self) -> bool {
        let state = self.state();
        state.out
            || state
                .rests_until
                .is_some_and(|until| Instant::now() < until)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each field is valid whatever its holder was doing when it panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Place ===

impl Place {
    fn at(member: &Arc<Member>) -> Self {
        member.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(member))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(by: Balance) -> Arc<Group> {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let balancing = Balancing {
            also: vec![target("127.0.0.1:2"), target("127.0.0.1:3")],
            by,
            rest: Duration::from_secs(10),
            check: None,
            resolve_every: Duration::from_secs(30),
        };
        let profile = profile::builtin::lan();
        let first = target("127.0.0.1:1");
        let targets = std::iter::once(&first).chain(&balancing.also);
        Group::new(targets, &balancing, &profile, Arc::new(drop))
    }

    #[test]
    fn each_is_taken_in_turn() {
        let group = group(Balance::RoundRobin);
        let turns: Vec<_> = (0..6).map(|_| group.choose(&[]).0).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
        // After the one whose turn it was comes the next.
        assert_eq!(group.choose(&[2]).0, 0);
        assert_eq!(group.choose(&[2, 0]).0, 1);
    }

    #[test]
    fn the_one_with_the_fewest_connections_is_taken() {
        let group = group(Balance::LeastConnections);
        let mut places: Vec<_> = (0..3).map(|_| group.choose(&[])).collect();
        assert_eq!(
            places.iter().map(|place| place.0).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        drop(places.remove(1));
        assert_eq!(group.choose(&[]).0, 1);
    }

    #[test]
    fn one_that_failed_comes_last_and_is_tried_where_nobody_else_is_left() {
        let group = group(Balance::FirstAvailable);
        let refused = ConnectError::NoAddress { host: "a".into() };
        group.failed(&group.members[0], &refused);
        assert_eq!(group.choose(&[]).0, 1);
        assert_eq!(group.choose(&[1, 2]).0, 0);
        group.succeeded(&group.members[0]);
        assert_eq!(group.choose(&[]).0, 0);
    }
}
