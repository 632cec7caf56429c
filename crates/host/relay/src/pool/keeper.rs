//! The task that keeps a pool filled and hot.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sys::tcp_info::TcpInfo;
use tokio::time::{Instant, timeout};
use units::{Bytes, Rate};

use super::prime::{self, PrimeError, Primed};
use super::{Connection, Liveness, Pool, Temperature};
use crate::Priming;
use crate::event::Event;

/// How often idle connections are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a shortage of idle connections lasts before a new one is made although enough exist: most
/// requests bring theirs back sooner, and a priming would take the path from them.
const SHORTAGE: Duration = Duration::from_secs(2);
/// How long one batch of priming waits for requests to leave the path to it.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long an origin that ends connections during priming is left in peace.
const PRIMING_PAUSE: Duration = Duration::from_mins(5);
/// Fewer priming requests than this open no window worth their round trip.
const FEWEST_REQUESTS: u64 = 16;
/// How long it is remembered that an origin ends connections after a number of requests.
const LEARNT: Duration = Duration::from_hours(1);
/// After a failed connection attempt; doubles up to the maximum.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Keeps `pool` filled and hot until it is dropped.
pub(crate) async fn keep(pool: Arc<Pool>) {
    let mut keeper = Keeper {
        budget: Budget::new(&pool),
        priming_from: Instant::now(),
        shortage: None,
        dialling_from: Instant::now(),
        backoff: FIRST_BACKOFF,
        ready: false,
        spent_requests: 0,
        spent_bytes: 0,
        told_budget: false,
        origin_limit: None,
        pool,
    };
    loop {
        keeper.reap();
        while keeper.work().await {}
        let lost = keeper.pool.lost.notified();
        // Whether a connection was lost or time has passed, the next look tells what to do.
        let _ = timeout(LOOK_INTERVAL, lost).await;
    }
}

struct Keeper {
    pool: Arc<Pool>,
    budget: Budget,
    /// No priming before.
    priming_from: Instant,
    /// Since when idle connections have been missing without a break, and the pool's refills until then.
    shortage: Option<(Instant, u64)>,
    /// No new connection before.
    dialling_from: Instant,
    backoff: Duration,
    ready: bool,
    spent_requests: u64,
    spent_bytes: u64,
    told_budget: bool,
    /// After how many requests the origin was seen to end a connection (nginx: 1000, Apache: 100, both
    /// by default), and when. Forgotten after [`LEARNT`]: it may have been a fault of the path.
    origin_limit: Option<(u64, Instant)>,
}

impl Keeper {
    /// Does one thing that is due; `false` if there is none.
    async fn work(&mut self) -> bool {
        if self.wants_another() {
            return self.add().await;
        }
        self.tell_ready();
        // A connection that a request waits for is not taken from under it.
        let primes = self.pool.relay.priming.is_some()
            && Instant::now() >= self.priming_from
            && !self.pool.is_wanted();
        if primes && let Some(connection) = self.take_cooled() {
            let connection = self.prime(connection, true).await;
            if let Some(connection) = connection {
                self.pool.put_back(connection);
            }
            return true;
        }
        if primes && let Some(connection) = self.take_resting() {
            self.touch(connection).await;
            return true;
        }
        false
    }

    /// A hot connection that is half-way to its idle limit.
    fn take_resting(&self) -> Option<Connection> {
        let mut idle = self.pool.idle();
        let limit = self.pool.relay.pool.idle_timeout / 2;
        let resting = |c: &Connection| c.hot_window.is_some() && c.used.elapsed() >= limit;
        let index = idle.iter().position(resting)?;
        Some(idle.remove(index))
    }

    /// Sends one small harmless request, so that neither the origin nor the pool gives up a connection
    /// whose windows cost megabytes to open.
    async fn touch(&mut self, mut connection: Connection) {
        let pool = Arc::clone(&self.pool);
        let Some(priming) = pool.relay.priming.as_ref() else {
            return pool.close(connection, "priming is off");
        };
        let one = Priming {
            padding: Bytes::new(1),
            max_requests: 1,
            ..priming.clone()
        };
        let everything = Bytes::new(u64::MAX);
        match prime::prime(
            &mut connection.stream,
            &one,
            everything,
            || async {},
            || false,
        )
        .await
        {
            Ok(_) => {
                connection.used = Instant::now();
                connection.primings += 1;
                pool.put_back(connection);
            }
            Err((error, _)) => pool.close(connection, &crate::chain(&error)),
        }
    }

    /// Closes what cannot serve again.
    fn reap(&self) {
        let mut gone = Vec::new();
        let now = Instant::now();
        {
            let mut idle = self.pool.idle();
            let mut index = 0;
            while index < idle.len() {
                match self.pool.unusable(&mut idle[index], Liveness::Sure, now) {
                    Some(why) => gone.push((idle.remove(index), why)),
                    None => index += 1,
                }
            }
        }
        for (connection, why) in gone {
            self.pool.close(connection, why);
        }
    }

    fn wants_another(&mut self) -> bool {
        let limits = &self.pool.relay.pool;
        let idle = self.pool.idle().len();
        let min_idle = self.pool.min_idle();
        if idle >= min_idle {
            self.shortage = None;
            return false;
        }
        let open = limits.max_connections - self.pool.slots.available_permits();
        let refills = self.pool.refills.load(Ordering::Relaxed);
        let since = match self.shortage {
            Some((since, before)) if before == refills => since,
            Some(_) | None => self.shortage.insert((Instant::now(), refills)).0,
        };
        let lasting = open < min_idle || since.elapsed() >= SHORTAGE;
        lasting && open < limits.max_connections && Instant::now() >= self.dialling_from
    }

    /// Makes a connection, primed if that is wanted and possible.
    async fn add(&mut self) -> bool {
        let Ok(slot) = Arc::clone(&self.pool.slots).try_acquire_owned() else {
            return false;
        };
        let deadline = Instant::now() + self.pool.relay.limits.connect_timeout;
        match self.pool.dial(slot, deadline).await {
            Ok(connection) => {
                self.backoff = FIRST_BACKOFF;
                let primes =
                    self.pool.relay.priming.is_some() && Instant::now() >= self.priming_from;
                let connection = if primes {
                    self.prime(connection, false).await
                } else {
                    Some(connection)
                };
                if let Some(connection) = connection {
                    self.pool.put_back(connection);
                }
            }
            Err(error) => {
                self.pool.emit(Event::Warning {
                    name: "origin-unreachable",
                    text: format!(
                        "{}; next attempt in {}",
                        crate::chain(&error),
                        units::format_span(self.backoff)
                    ),
                });
                self.dialling_from = Instant::now() + self.backoff;
                self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
            }
        }
        true
    }

    /// An idle connection that has cooled, or was made while priming was paused; tells of each cooling
    /// once.
    fn take_cooled(&mut self) -> Option<Connection> {
        let affordable = self.budget.holds();
        let limit = self.origin_limit();
        let enough = self.pool.min_idle();
        let mut idle = self.pool.idle();
        let mut found = None;
        let mut hot = self.pool.long.lent();
        for (index, connection) in idle.iter_mut().enumerate() {
            if priming_requests_left(limit, connection) < FEWEST_REQUESTS {
                continue;
            }
            let forgets = connection.forgets_windows;
            match connection.temperature() {
                // Where every use is followed by cooling, one event tells it.
                Temperature::Hot => {
                    hot += 1;
                    connection.told_cool &= forgets;
                }
                // Those that priming gave up on have a target too, and count as cooled.
                Temperature::Unprimed => found = found.or(Some(index)),
                Temperature::Cooled { info, target, why } => {
                    // What is opened again would be forgotten again within one silent RTO.
                    if !forgets {
                        found = found.or(Some(index));
                    }
                    if !connection.told_cool {
                        connection.told_cool = true;
                        self.pool.emit(Event::Cooled {
                            connection: connection.id,
                            cwnd_bytes: info.cwnd().get(),
                            peer_window_bytes: info.snd_wnd.map(Bytes::get),
                            target_bytes: target.get(),
                            why,
                        });
                    }
                }
            }
        }
        // What downloads have brought beyond those that are kept ready serves as it is.
        let index = found.filter(|_| hot < enough)?;
        if affordable {
            return Some(idle.remove(index));
        }
        drop(idle);
        if !self.told_budget {
            self.told_budget = true;
            self.pool.emit(Event::Warning {
                name: "priming-budget-spent",
                text: "connections have cooled, and prime.hourly-bytes is spent: they serve as they are"
                    .into(),
            });
        }
        None
    }

    /// Primes a connection; `None` if that broke it.
    async fn prime(&mut self, mut connection: Connection, again: bool) -> Option<Connection> {
        let pool = Arc::clone(&self.pool);
        let priming = pool.relay.priming.as_ref()?;
        // The first filling is what was asked for; the budget bounds what comes after it.
        if self.ready && !self.budget.holds() {
            return Some(connection);
        }
        let Ok(info) = TcpInfo::of(connection.stream.tcp()) else {
            pool.close(connection, "the kernel does not tell its state");
            return None;
        };
        let rtt = info.min_rtt.unwrap_or(info.rtt);
        let target = pool.relay.hot_window(rtt);
        let quiet = || pool.traffic.quiet(rtt, PATIENCE);
        let wanted = || pool.is_wanted();
        let left = priming_requests_left(self.origin_limit(), &connection);
        let within = Priming {
            max_requests: priming.max_requests.min(left),
            ..priming.clone()
        };
        match prime::prime(&mut connection.stream, &within, target, quiet, wanted).await {
            Ok(primed) => {
                self.count(primed.spent.requests, primed.spent.bytes);
                connection.primings += primed.spent.requests;
                connection.hot_window = Some(target);
                let bottleneck = primed.bottleneck.filter(|_| pool.relay.path_rate.is_none());
                if let Some(rate) = bottleneck
                    && let Err(error) = pool.pace_at(connection.stream.tcp(), rate, connection.peer)
                {
                    pool.close(connection, &crate::chain(&error));
                    return None;
                }
                connection.used = Instant::now();
                if primed.interrupted {
                    // A request waits for it; the rest of priming can wait for the request.
                    connection.told_cool = true;
                } else if !primed.missing.is_empty() && within.max_requests < priming.max_requests {
                    // As far as this origin lets a connection come; the next one will not come further.
                    connection.told_cool = true;
                } else if !primed.missing.is_empty() {
                    // What a whole budget could not reach, the next second will not reach either.
                    self.priming_from = Instant::now() + PRIMING_PAUSE;
                    connection.told_cool = true;
                }
                pool.emit(event(&connection, again, primed));
                Some(connection)
            }
            Err((error, spent)) => {
                self.count(spent.requests, spent.bytes);
                let why = self.learn(&error, connection.asked() + spent.requests);
                pool.emit(Event::PrimingFailed {
                    connection: connection.id,
                    requests: spent.requests,
                    bytes: spent.bytes,
                    why,
                });
                pool.close(connection, "priming ended it");
                None
            }
        }
    }

    fn origin_limit(&self) -> Option<u64> {
        self.origin_limit
            .filter(|(_, since)| since.elapsed() < LEARNT)
            .map(|(limit, _)| limit)
    }

    /// What follows from a priming that ended its connection after so many requests, as a sentence.
    ///
    /// An origin that ends each connection after a number of requests is primed with fewer from now on;
    /// any other failure stops priming for a while.
    fn learn(&mut self, error: &PrimeError, asked: u64) -> String {
        let error_text = crate::chain(error);
        let ended = matches!(error, PrimeError::Ended | PrimeError::Exchange(_));
        let known = self.origin_limit().unwrap_or(u64::MAX);
        if ended && asked < known && for_priming(asked) >= FEWEST_REQUESTS {
            self.origin_limit = Some((asked, Instant::now()));
            return format!(
                "{error_text}; from now on a connection is primed with {} requests, so that some are \
                 left for clients",
                for_priming(asked)
            );
        }
        self.priming_from = Instant::now() + PRIMING_PAUSE;
        format!(
            "{error_text}; connections serve unprimed for {}",
            units::format_span(PRIMING_PAUSE)
        )
    }

    fn count(&mut self, requests: u64, bytes: u64) {
        self.spent_requests += requests;
        self.spent_bytes += bytes;
        if self.ready {
            self.budget.spend(bytes);
        }
    }

    fn tell_ready(&mut self) {
        let idle = self.pool.idle();
        if self.ready || idle.len() < self.pool.min_idle() {
            return;
        }
        let connections = idle.len();
        let hot = |c: &&Connection| c.temperature().is_hot();
        let hot = idle.iter().filter(hot).count();
        drop(idle);
        self.ready = true;
        self.pool.emit(Event::PoolReady {
            connections,
            hot,
            requests: self.spent_requests,
            bytes: self.spent_bytes,
            seconds: self.pool.started.elapsed().as_secs_f64(),
        });
    }
}

fn event(connection: &Connection, again: bool, primed: Primed) -> Event {
    Event::Primed {
        connection: connection.id,
        again,
        requests: primed.spent.requests,
        bytes: primed.spent.bytes,
        seconds: primed.spent.time.as_secs_f64(),
        target_bytes: primed.target.get(),
        cwnd_bytes: primed.info.cwnd().get(),
        peer_window_bytes: primed.info.snd_wnd.map(Bytes::get),
        rtt_s: primed.info.rtt.as_secs_f64(),
        retransmitted: primed.retransmitted,
        statuses: primed.spent.statuses,
        bottleneck_bps: primed.bottleneck.map(Rate::bits_per_s),
        missing: primed.missing,
    }
}

/// The share of an origin's requests per connection that priming takes: a window of 2 MiB takes about 650
/// of nginx's 1000, and a connection should serve clients for as long as possible after that.
fn for_priming(limit: u64) -> u64 {
    limit / 4 * 3
}

/// How many priming requests a connection may still carry.
fn priming_requests_left(limit: Option<u64>, connection: &Connection) -> u64 {
    limit.map_or(u64::MAX, |limit| {
        for_priming(limit).saturating_sub(connection.asked())
    })
}

/// Bytes that re-priming may still spend in this hour. What fills the pool at the start is not counted.
struct Budget {
    hourly: u64,
    spent: u64,
    since: Instant,
}

impl Budget {
    fn new(pool: &Pool) -> Self {
        let priming = pool.relay.priming.as_ref();
        Self {
            hourly: priming.map_or(0, |priming| priming.hourly_bytes.get()),
            spent: 0,
            since: Instant::now(),
        }
    }

    fn holds(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_hours(1) {
            self.spent = 0;
            self.since = Instant::now();
        }
        self.spent < self.hourly
    }

    fn spend(&mut self, bytes: u64) {
        self.spent = self.spent.saturating_add(bytes);
    }
}
