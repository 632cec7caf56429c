//! The targets of one relay: which one the next connection goes to, and which are known to be there.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use profile::TcpProfile;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::names::{Found, Meaning, Names};
use super::{ConnectError, Connected, Dialer, Shown, health, shares};
use crate::event::{Event, Events};
use crate::{Balance, Balancing, Target};

/// The targets of one relay.
pub(crate) struct Group {
    members: Vec<Arc<Member>>,
    pub(super) balancing: Balancing,
    pub(super) dialer: Dialer,
    names: Names,
    /// Whose turn it is.
    next: AtomicUsize,
    events: Events,
    /// The task that looks at the targets, which ends with this.
    checker: OnceLock<AbortHandle>,
}

/// One target.
pub(super) struct Member {
    pub(super) target: Target,
    /// Its address, where it is written as one.
    address: Option<SocketAddr>,
    /// Connections of this relay, those under way included.
    open: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What its name means, as far as it was ever found out.
    meaning: Option<Meaning>,
    /// Until when that is used without asking again.
    known_until: Option<Instant>,
    /// Addresses that could not be connected to while another could, until when they are tried last.
    resting: BTreeMap<SocketAddr, Instant>,
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
            names: Names::of(&balancing.name_servers),
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

    pub(crate) fn has_one_target(&self) -> bool {
        self.only_member().is_some()
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

    /// Begins to connect where there is one target and one address of it, and that is known: then there is nothing to choose, to
    /// ask for or to try next. `None` where that is not so. The connection is to be [ended](Self::arrived) when its socket is writable.
    pub(crate) fn go_straight(
        &self,
        shown: &mut Option<Shown>,
    ) -> Option<Result<Connected<TcpStream>, ConnectError>> {
        let peer = self.only_member()?.only_address()?;
        let begun = self.dialer.prepare(None, peer, shown);
        let begun = begun.and_then(|prepared| prepared.begin(peer));
        Some(begun.map_err(|error| self.went_wrong(error)))
    }

    /// What has come of going straight: it may have `failed`.
    pub(crate) fn arrived<S: AsFd>(
        &self,
        connected: Connected<S>,
        failed: bool,
    ) -> Result<Connected<S>, ConnectError> {
        let connected = connected.over(failed);
        let connected = connected.map_err(|error| self.went_wrong(error))?;
        if let Some(member) = self.only_member().filter(|_| self.is_told_of_targets()) {
            self.succeeded(member);
        }
        Ok(connected)
    }

    /// Going straight has taken too long.
    pub(crate) fn has_waited(&self, waited: Duration) -> ConnectError {
        let host = self.only_member().map(|member| member.target.host.clone());
        let host = host.unwrap_or_default();
        self.went_wrong(ConnectError::Timeout { host, waited })
    }

    /// Notes what going straight has failed by.
    fn went_wrong(&self, error: ConnectError) -> ConnectError {
        // Where it is ours, it says nothing about the target.
        if !error.is_resource()
            && let Some(member) = self.only_member()
        {
            self.failed(member, &error);
        }
        error
    }

    fn only_member(&self) -> Option<&Member> {
        match &self.members[..] {
            [member] => Some(member),
            _ => None,
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
        let host = &member.target.host;
        if let Some(address) = member.address {
            return self.dialer.connect_any(&[address], host, deadline).await;
        }
        let started = Instant::now();
        let addresses =
            timeout_at(deadline, self.resolve(member))
                .await
                .map_err(|_elapsed| ConnectError::Timeout {
                    host: host.clone(),
                    waited: started.elapsed(),
                })??;
        let connected = self.dialer.connect_any(&addresses, host, deadline).await?;
        member.passed_over(&addresses, connected.peer, self.balancing.rest);
        Ok(connected)
    }

    /// The member's addresses, in the order in which to try them. Known ones are used on where resolving fails: a name
    /// server that is down should not take the relay with it.
    pub(super) async fn resolve(&self, member: &Member) -> Result<Vec<SocketAddr>, ConnectError> {
        let target = &member.target;
        if let Some(address) = member.address {
            return Ok(vec![address]);
        }
        let known = {
            let mut state = member.state();
            let now = Instant::now();
            if state.meaning.is_some() {
                if state.known_until.is_some_and(|until| now < until) {
                    return state.in_order(target);
                }
                // Meanwhile, and where asking fails, what is known is used.
                state.known_until = Some(now + self.balancing.resolve_every);
            }
            state.meaning.is_some()
        };
        // Questions to name servers take kilobytes, which every client's connection would keep room for.
        let Found { meaning, holds } = match Box::pin(self.names.find(target)).await {
            Ok(found) => found,
            Err(source) if !known => {
                let host = target.to_string();
                return Err(ConnectError::Resolve { host, source });
            }
            Err(error) => {
                (self.events)(Event::Warning {
                    name: "name-not-resolved",
                    text: format!("{target}: {error}; its last known addresses are used on"),
                });
                return member.state().in_order(target);
            }
        };
        let mut state = member.state();
        state.meaning = Some(meaning);
        state.known_until = Some(Instant::now() + holds.unwrap_or(self.balancing.resolve_every));
        state.in_order(target)
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
    fn is_told_of_targets(&self) -> bool {
        self.members.len() > 1 || self.balancing.check.is_some()
    }

    fn tell(&self, member: &Member, available: bool, why: String) {
        if self.is_told_of_targets() {
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
            address: target.address(),
            open: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    /// Those that were tried before the one that took the connection could not be connected to.
    fn passed_over(&self, tried: &[SocketAddr], taken: SocketAddr, rest: Duration) {
        if tried.first() == Some(&taken) {
            return;
        }
        let until = Instant::now() + rest;
        let failed = tried.iter().take_while(|address| **address != taken);
        let mut state = self.state();
        state
            .resting
            .extend(failed.map(|&address| (address, until)));
    }

    /// Its address, where it is written as one, or its name is known to mean only one.
    fn only_address(&self) -> Option<SocketAddr> {
        if self.address.is_some() {
            return self.address;
        }
        let mut state = self.state();
        let known = state
            .known_until
            .is_some_and(|until| Instant::now() < until);
        if !known {
            return None;
        }
        match state.in_order(&self.target).ok()?[..] {
            [address] => Some(address),
            _ => None,
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

// === impl State ===

impl State {
    fn in_order(&mut self, target: &Target) -> Result<Vec<SocketAddr>, ConnectError> {
        let now = Instant::now();
        self.resting.retain(|_, until| now < *until);
        let mut order = match &self.meaning {
            Some(Meaning::NotOffered) => {
                let target = target.to_string();
                return Err(ConnectError::NotOffered { target });
            }
            Some(meaning) => meaning.in_order(&mut |most| fastrand::u32(..=most)),
            None => Vec::new(),
        };
        if order.is_empty() {
            let host = target.host.clone();
            return Err(ConnectError::NoAddress { host });
        }
        order.sort_by_key(|address| self.resting.contains_key(address));
        Ok(order)
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
    use std::net::Ipv4Addr;
    use std::sync::mpsc;

    use domain::base::iana::Rtype;

    use super::super::zone::Zone;
    use super::*;

    fn group(by: Balance) -> Arc<Group> {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let balancing = Balancing {
            also: vec![target("127.0.0.1:2"), target("127.0.0.1:3")],
            by,
            rest: Duration::from_secs(10),
            check: None,
            resolve_every: Duration::from_secs(30),
            name_servers: Vec::new(),
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

    const SERVICE: &str = "_s3._tcp.store.example";

    /// Whoever asks this name server for the service.
    fn of_service(zone: &Zone) -> (Arc<Group>, mpsc::Receiver<Event>) {
        let balancing = Balancing {
            also: Vec::new(),
            by: Balance::RoundRobin,
            rest: Duration::from_secs(10),
            check: None,
            resolve_every: Duration::from_secs(30),
            name_servers: vec![zone.address],
        };
        let target = Target::or_service(&format!("srv+{SERVICE}")).unwrap();
        let (sender, events) = mpsc::channel();
        let tell: Events = Arc::new(move |event| drop(sender.send(event)));
        let profile = profile::builtin::lan();
        (Group::new([&target], &balancing, &profile, tell), events)
    }

    async fn ports(group: &Group) -> Result<Vec<u16>, ConnectError> {
        let addresses = group.resolve(&group.members[0]).await?;
        Ok(addresses.iter().map(SocketAddr::port).collect())
    }

    /// The clock stands only meanwhile: with a clock that runs ahead of what comes over sockets, every question would
    /// time out.
    async fn later(seconds: u64) {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(seconds)).await;
        tokio::time::resume();
    }

    #[tokio::test]
    async fn a_service_is_asked_for_again_when_its_records_have_aged() {
        let zone = Zone::start().await;
        zone.host("a.store.example", 600, &[Ipv4Addr::LOCALHOST]);
        zone.offers(SERVICE, 60, &[(0, 0, 1001, "a.store.example")]);
        let (group, _events) = of_service(&zone);
        assert_eq!(ports(&group).await.unwrap(), [1001]);
        zone.offers(SERVICE, 60, &[(0, 0, 1002, "a.store.example")]);
        later(58).await;
        assert_eq!(ports(&group).await.unwrap(), [1001]);
        assert_eq!(zone.asked(Rtype::SRV, "udp"), 1);
        later(3).await;
        assert_eq!(ports(&group).await.unwrap(), [1002]);
        assert_eq!(zone.asked(Rtype::SRV, "udp"), 2);
    }

    #[tokio::test]
    async fn the_last_good_answer_is_used_on_where_asking_fails() {
        let zone = Zone::start().await;
        let (group, events) = of_service(&zone);
        assert!(matches!(
            ports(&group).await,
            Err(ConnectError::Resolve { .. })
        ));
        zone.host("a.store.example", 60, &[Ipv4Addr::LOCALHOST]);
        zone.offers(SERVICE, 60, &[(0, 0, 1001, "a.store.example")]);
        assert_eq!(ports(&group).await.unwrap(), [1001]);
        zone.fail(true);
        later(61).await;
        assert_eq!(ports(&group).await.unwrap(), [1001]);
        let warned = events.try_iter().any(|event| {
            matches!(event, Event::Warning { name: "name-not-resolved", text } if text.contains(SERVICE))
        });
        assert!(warned);
        // Not asked again for each connection, but once `resolve-every` is over.
        let asked = zone.asked(Rtype::SRV, "udp");
        assert_eq!(ports(&group).await.unwrap(), [1001]);
        assert_eq!(zone.asked(Rtype::SRV, "udp"), asked);
        zone.fail(false);
        zone.offers(SERVICE, 60, &[(0, 0, 1002, "a.store.example")]);
        later(31).await;
        assert_eq!(ports(&group).await.unwrap(), [1002]);
    }

    #[tokio::test]
    async fn a_service_that_is_not_offered_is_told_as_that_and_comes_back() {
        let zone = Zone::start().await;
        zone.host("a.store.example", 60, &[Ipv4Addr::LOCALHOST]);
        zone.offers(SERVICE, 60, &[(0, 0, 1001, "a.store.example")]);
        let (group, _events) = of_service(&zone);
        assert_eq!(ports(&group).await.unwrap(), [1001]);
        zone.offers(SERVICE, 60, &[(0, 0, 0, ".")]);
        later(61).await;
        assert!(matches!(
            ports(&group).await,
            Err(ConnectError::NotOffered { .. })
        ));
        zone.offers(SERVICE, 60, &[(0, 0, 1001, "a.store.example")]);
        later(61).await;
        assert_eq!(ports(&group).await.unwrap(), [1001]);
    }

    #[tokio::test]
    async fn what_does_not_fit_a_datagram_is_asked_for_over_tcp() {
        let zone = Zone::start().await;
        zone.cut();
        zone.host("a.store.example", 60, &[Ipv4Addr::LOCALHOST]);
        let offers: Vec<_> = (0..200)
            .map(|port| (port, 0, 1000 + port, "a.store.example"))
            .collect();
        zone.offers(SERVICE, 60, &offers);
        let (group, _events) = of_service(&zone);
        let expected: Vec<u16> = (1000..1200).collect();
        assert_eq!(ports(&group).await.unwrap(), expected);
        assert_eq!(zone.asked(Rtype::SRV, "tcp"), 1);
    }

    #[tokio::test]
    async fn an_address_that_was_passed_over_is_tried_last_for_its_rest() {
        let zone = Zone::start().await;
        zone.host("a.store.example", 600, &[Ipv4Addr::LOCALHOST]);
        let offers = [
            (1, 0, 1001, "a.store.example"),
            (2, 0, 1002, "a.store.example"),
        ];
        zone.offers(SERVICE, 600, &offers);
        let (group, _events) = of_service(&zone);
        let tried = group.resolve(&group.members[0]).await.unwrap();
        group.members[0].passed_over(&tried, tried[1], group.balancing.rest);
        assert_eq!(ports(&group).await.unwrap(), [1002, 1001]);
        later(11).await;
        assert_eq!(ports(&group).await.unwrap(), [1001, 1002]);
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
