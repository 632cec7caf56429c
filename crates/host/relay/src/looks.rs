//! What is looked at once per relay: whether profiles are in effect, and whether the relay stands at the
//! right end of the path.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use profile::{Side, TcpProfile};
use sys::socket::Applied;
use sys::tcp_info::TcpInfo;
use tokio::time::Instant;

use crate::AppliedOption;
use crate::event::{Event, Events, Stage};

/// What only the first connections look at, whichever comes first.
#[derive(Debug)]
pub(crate) struct Looks {
    began: Instant,
    /// The second since then in which the distance was looked at last.
    measured: AtomicU64,
    /// Whether the relay has warned of being near to the wrong end of the path.
    warned_distance: AtomicBool,
    /// Whether the client-side profile was found in effect after data had flowed.
    client_verified: AtomicBool,
    /// Whether the options of a connected socket were told.
    server_reported: AtomicBool,
    /// Whether the server-side profile was found in effect after data had flowed.
    server_verified: AtomicBool,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            measured: AtomicU64::new(u64::MAX),
            warned_distance: AtomicBool::new(false),
            client_verified: AtomicBool::new(false),
            server_reported: AtomicBool::new(false),
            server_verified: AtomicBool::new(false),
        }
    }
}

impl Looks {
    /// Whether the distance to a client is still to be looked at: once a second until somebody was warned.
    pub(crate) fn want_distance(&self, now: Instant) -> bool {
        let second = (now - self.began).as_secs();
        let measured = self.measured.load(Ordering::Relaxed);
        !self.warned_distance.load(Ordering::Relaxed)
            && second != measured
            && self.measured.swap(second, Ordering::Relaxed) == measured
    }

    /// Tells of the first connected socket's options.
    pub(crate) fn at_connected(
        &self,
        events: &Events,
        profile: &TcpProfile,
        applied: Vec<Applied>,
    ) {
        if is_first(&self.server_reported) {
            report(events, Side::Server, profile, Stage::Connected, applied);
        }
    }

    /// Reads the first accepted socket's options once it has carried data.
    pub(crate) fn at_client(
        &self,
        events: &Events,
        profile: &TcpProfile,
        stream: &impl AsFd,
        peer: SocketAddr,
    ) {
        if is_first(&self.client_verified) {
            verify(events, stream, profile, Side::Client, peer);
        }
    }

    /// Reads the first connected socket's options once it has carried data.
    pub(crate) fn at_server(
        &self,
        events: &Events,
        profile: &TcpProfile,
        stream: &impl AsFd,
        peer: SocketAddr,
    ) {
        if is_first(&self.server_verified) {
            verify(events, stream, profile, Side::Server, peer);
        }
    }

    /// Warns once where the client is as far away as the target: the relay is at the wrong end.
    pub(crate) fn at_distance(
        &self,
        events: &Events,
        client: SocketAddr,
        near: &TcpInfo,
        far: &TcpInfo,
    ) {
        if self.warned_distance.load(Ordering::Relaxed) {
            return;
        }
        let smallest = |info: &TcpInfo| info.min_rtt.unwrap_or(info.rtt);
        let (near, far) = (smallest(near), smallest(far));
        // Below 5 ms, both are at hand and nothing is to be gained or lost.
        let wrong_end = near >= far && near >= Duration::from_millis(5);
        if wrong_end && !self.warned_distance.swap(true, Ordering::Relaxed) {
            events(Event::Warning {
                name: "client-is-far",
                text: format!(
                    "client {} is {} away, the origin only {}: the relay belongs near the client",
                    client.ip(),
                    units::format_span(near),
                    units::format_span(far),
                ),
            });
        }
    }
}

/// Whether nobody was here before. Whoever comes later only reads: many threads may.
fn is_first(seen: &AtomicBool) -> bool {
    !seen.load(Ordering::Relaxed) && !seen.swap(true, Ordering::Relaxed)
}

/// Tells what a profile's options are on a socket.
pub(crate) fn report(
    events: &Events,
    side: Side,
    profile: &TcpProfile,
    stage: Stage,
    applied: Vec<Applied>,
) {
    events(Event::Applied {
        side,
        profile: profile.name.clone(),
        stage,
        options: applied.into_iter().map(AppliedOption::from).collect(),
    });
}

/// Tells what a profile's options are on a socket that has carried data.
fn verify(events: &Events, stream: &impl AsFd, profile: &TcpProfile, side: Side, peer: SocketAddr) {
    match sys::socket::verify(stream, profile, side, peer) {
        Ok(applied) => report(events, side, profile, Stage::AfterData, applied),
        Err(error) => events(Event::Warning {
            name: "profile-not-in-effect",
            text: format!("after data had flowed: {}", crate::chain(&error)),
        }),
    }
}
