//! A listener, and who may come in by it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use profile::{Side, TcpProfile};
use sys::socket::Applied;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::event::{Event, Events};
use crate::{Admission, RunError};

/// Waiting connections in the kernel, beyond which it drops SYNs; `net.core.somaxconn` bounds it.
const BACKLOG: u32 = 4096;
/// After the kernel ran out of something that an accepted connection needs; doubles up to the maximum.
/// Without a pause a full descriptor table would turn the listener into a busy loop.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// A listener that lets in whom it may, as many as there are places.
pub(crate) struct Door {
    listener: Arc<TcpListener>,
    admission: Admission,
    places: Places,
    /// Accepted, and still without a place.
    waiting: Option<(TcpStream, SocketAddr)>,
    /// The congestion control that accepted sockets must have; `None` where the profile leaves it open.
    congestion: Option<String>,
    /// Whether accepting has failed since somebody came in here.
    is_short: bool,
    events: Events,
}

/// How many may be inside at the same time, by whichever door.
#[derive(Clone)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    /// How many there are, taken or not.
    size: Arc<Mutex<usize>>,
    shortage: Arc<Mutex<Shortage>>,
}

/// What all doors do while something is short that an accepted connection needs: it is short at all of them, and one of them
/// tells.
struct Shortage {
    /// Nobody tries before.
    until: Instant,
    /// For this long next.
    pause: Duration,
}

/// Somebody who came in, and the place that is theirs until they leave.
pub(crate) struct Visitor<S = TcpStream> {
    pub(crate) stream: S,
    pub(crate) peer: SocketAddr,
    pub(crate) place: OwnedSemaphorePermit,
}

/// A listener with the client-side profile on it, which accepted sockets inherit.
pub(crate) fn bind(
    address: SocketAddr,
    profile: &TcpProfile,
) -> Result<(TcpListener, Vec<Applied>), RunError> {
    let (socket, applied) = socket_for(address, profile, false)?;
    socket
        .bind(address)
        .map_err(|source| RunError::Listen { address, source })?;
    Ok((listen(socket, address)?, applied))
}

/// The listening socket of this address that was handed over, with the profile on it, or a new one.
pub(crate) fn take_or_bind(
    address: SocketAddr,
    profile: &TcpProfile,
    handed: &mut Vec<std::net::TcpListener>,
) -> Result<(TcpListener, Vec<Applied>), RunError> {
    let Some(socket) = take(address, handed).into_iter().next() else {
        return bind(address, profile);
    };
    let applied = prepare(&socket, address, profile, false)?;
    Ok((watched(socket, address)?, applied))
}

/// All sockets of this address that were handed over.
pub(crate) fn take(
    address: SocketAddr,
    handed: &mut Vec<std::net::TcpListener>,
) -> Vec<std::net::TcpListener> {
    let is_it =
        |socket: &mut std::net::TcpListener| socket.local_addr().is_ok_and(|at| at == address);
    handed.extract_if(.., is_it).collect()
}

/// Says which sockets were handed over in vain.
pub(crate) fn tell_unused(handed: Vec<std::net::TcpListener>, events: &Events) {
    for socket in handed {
        let address = socket.local_addr();
        let address = address.map_or_else(|_| "?".into(), |address| address.to_string());
        events(Event::Warning {
            name: "socket-not-used",
            text: format!("no relay listens on {address}, which was handed over"),
        });
    }
}

/// The socket, watched by the runtime that this is called in.
pub(crate) fn watched(
    socket: std::net::TcpListener,
    address: SocketAddr,
) -> Result<TcpListener, RunError> {
    let watched = socket
        .set_nonblocking(true)
        .and_then(|()| TcpListener::from_std(socket));
    watched.map_err(|source| RunError::Listen { address, source })
}

/// Several sockets of one address, with the client-side profile on each, among which the kernel divides connections
/// once they [listen]. `transparent`: those to addresses that are not this host's come in as well.
pub(crate) fn bind_several(
    address: SocketAddr,
    profile: &TcpProfile,
    transparent: bool,
    count: usize,
) -> Result<Vec<TcpSocket>, RunError> {
    let listen = |source| RunError::Listen { address, source };
    let (first, _) = socket_for(address, profile, transparent)?;
    // Alone, so that an address that somebody else listens on is refused. Sharing is allowed only then, and only
    // among sockets that say so: whoever binds after this without it is refused in turn (`inet_bind_conflict` in
    // `net/ipv4/inet_connection_sock.c`).
    first.bind(address).map_err(listen)?;
    let bound = first.local_addr().map_err(listen)?;
    let mut sockets = vec![first];
    for _ in 1..count {
        sockets[0].set_reuseport(true).map_err(listen)?;
        let (next, _) = socket_for(address, profile, transparent)?;
        next.set_reuseport(true).map_err(listen)?;
        next.bind(bound).map_err(listen)?;
        sockets.push(next);
    }
    Ok(sockets)
}

/// Lets clients come to a bound socket, watched by the runtime that this is called in.
pub(crate) fn listen(socket: TcpSocket, address: SocketAddr) -> Result<TcpListener, RunError> {
    socket
        .listen(BACKLOG)
        .map_err(|source| RunError::Listen { address, source })
}

/// A socket that will listen, with the client-side profile on it, as it was read back.
fn socket_for(
    address: SocketAddr,
    profile: &TcpProfile,
    transparent: bool,
) -> Result<(TcpSocket, Vec<Applied>), RunError> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    };
    let socket = socket.map_err(|source| RunError::Socket { address, source })?;
    // A restart must not wait for the last run's connections to leave TIME_WAIT.
    socket
        .set_reuseaddr(true)
        .map_err(|source| RunError::Listen { address, source })?;
    let applied = prepare(&socket, address, profile, transparent)?;
    Ok((socket, applied))
}

/// Puts the client-side profile on a socket that listens, or will.
pub(crate) fn prepare(
    socket: &impl AsFd,
    address: SocketAddr,
    profile: &TcpProfile,
    transparent: bool,
) -> Result<Vec<Applied>, RunError> {
    if transparent {
        sys::redirect::set_transparent(socket, address.is_ipv4())
            .map_err(|source| RunError::Transparent { address, source })?;
    }
    sys::socket::apply(socket, profile, Side::Client, address).map_err(|source| RunError::Profile {
        side: Side::Client,
        address,
        source: Box::new(source),
    })
}

// === impl Places ===

impl Places {
    pub(crate) fn new(places: usize) -> Self {
        let size = places.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(size)),
            size: Arc::new(Mutex::new(size)),
            shortage: Arc::new(Mutex::new(Shortage {
                until: Instant::now(),
                pause: FIRST_PAUSE,
            })),
        }
    }

    fn shortage(&self) -> MutexGuard<'_, Shortage> {
        // A pause is valid whatever its holder was doing when it panicked.
        self.shortage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many from now on. Whoever is inside keeps their place, also where there are fewer.
    fn resize(&self, places: usize) {
        let wanted = places.min(Semaphore::MAX_PERMITS);
        // A number is valid whatever its holder was doing when it panicked.
        let mut size = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted >= *size {
            self.free.add_permits(wanted - *size);
        } else {
            // As many as are free now, and the others as their holders leave.
            let surplus = u32::try_from(*size - wanted).unwrap_or(u32::MAX);
            let free = Arc::clone(&self.free);
            tokio::spawn(async move {
                for _ in 0..surplus {
                    if let Ok(place) = free.acquire().await {
                        place.forget();
                    }
                }
            });
        }
        *size = wanted;
    }
}

// === impl Shortage ===

impl Shortage {
    /// Until when to wait, and for how long that is where nobody waits yet.
    fn wait(&mut self, now: Instant) -> (Instant, Option<Duration>) {
        if now < self.until {
            return (self.until, None);
        }
        let pause = self.pause;
        self.until = now + pause;
        self.pause = (pause * 2).min(MAX_PAUSE);
        (self.until, Some(pause))
    }
}

// === impl Door ===

impl Door {
    /// `listener` has `profile` on it: see [`bind`].
    pub(crate) fn new(
        listener: impl Into<Arc<TcpListener>>,
        profile: &TcpProfile,
        admission: impl Into<Admission>,
        places: usize,
        events: Events,
    ) -> Self {
        Self::with_places(listener, profile, admission, &Places::new(places), events)
    }

    /// The same, with places that other doors give away as well.
    pub(crate) fn with_places(
        listener: impl Into<Arc<TcpListener>>,
        profile: &TcpProfile,
        admission: impl Into<Admission>,
        places: &Places,
        events: Events,
    ) -> Self {
        let listener = listener.into();
        Self {
            congestion: congestion_of(&listener, profile),
            listener,
            admission: admission.into(),
            places: places.clone(),
            waiting: None,
            is_short: false,
            events,
        }
    }

    /// Goes on by another configuration; the listener has `profile` on it already. Whoever is inside keeps
    /// their place, also where there are fewer now.
    pub(crate) fn renew(&mut self, profile: &TcpProfile, admission: Admission, places: usize) {
        self.congestion = congestion_of(&self.listener, profile);
        self.admission = admission;
        self.places.resize(places);
    }

    /// The next who may come in. Nobody is lost where this is given up while it waits.
    pub(crate) async fn next(&mut self) -> Visitor {
        loop {
            if self.waiting.is_none() {
                self.waiting = Some(self.accept().await);
            }
            // At the limit, clients wait instead of being turned away: one here, the others in the kernel's queue. A
            // place that was taken before anybody comes would be missing at the other doors.
            let Ok(place) = Arc::clone(&self.places.free).acquire_owned().await else {
                // The semaphore is never closed.
                std::future::pending().await
            };
            if let Some((stream, peer)) = self.waiting.take() {
                return Visitor {
                    stream,
                    peer,
                    place,
                };
            }
        }
    }

    /// The next who may come in, once there is a place.
    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    if std::mem::take(&mut self.is_short) {
                        self.places.shortage().pause = FIRST_PAUSE;
                    }
                    if self.admits(peer) {
                        self.keep_congestion(&stream, peer);
                        return (stream, peer);
                    }
                }
                Err(error) if is_shortage(&error) => {
                    self.is_short = true;
                    let (until, begun) = self.places.shortage().wait(Instant::now());
                    if let Some(pause) = begun {
                        (self.events)(Event::Warning {
                            name: "accept-shortage",
                            text: format!(
                                "cannot accept clients: {error}; next attempt in {}. \
                                 `ulimit -n` bounds the descriptors of a process",
                                units::format_span(pause)
                            ),
                        });
                    }
                    sleep_until(until).await;
                }
                // The client left before it was accepted (accept(2) passes its network errors on).
                Err(_) => {}
            }
        }
    }

    /// Accepted sockets inherit the listener's congestion control, unless their route has one of its own. The
    /// profile is the nearer word.
    fn keep_congestion(&self, stream: &TcpStream, peer: SocketAddr) {
        let Some(name) = &self.congestion else {
            return;
        };
        let kept = sys::socket::keep_congestion_control(stream, name, Side::Client, peer);
        if let Err(error) = kept {
            (self.events)(Event::Warning {
                name: "profile-not-in-effect",
                text: crate::chain(&error),
            });
        }
    }

    /// Whether this client may connect; told where not.
    fn admits(&self, peer: SocketAddr) -> bool {
        let refused = self.admission.refuses(peer.ip());
        if let Some(why) = refused {
            (self.events)(Event::Refused {
                peer,
                why: why.into(),
            });
        }
        refused.is_none()
    }
}

/// The congestion control that accepted sockets must have; `None` where the profile leaves it open.
fn congestion_of(listener: &TcpListener, profile: &TcpProfile) -> Option<String> {
    let effective = sys::socket::congestion_control(listener).ok();
    effective.filter(|name| profile.congestion_control.contains(name))
}

/// Whether accepting failed for want of something that may be there again later.
fn is_shortage(error: &io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS, ENOMEM of Linux, which io::ErrorKind does not tell apart.
    matches!(error.raw_os_error(), Some(24 | 23 | 105 | 12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_told_once_whoever_meets_it_and_pauses_double() {
        let now = Instant::now();
        let mut shortage = Shortage {
            until: now,
            pause: FIRST_PAUSE,
        };
        let (until, begun) = shortage.wait(now);
        assert_eq!((until, begun), (now + FIRST_PAUSE, Some(FIRST_PAUSE)));
        // Another door, a moment later.
        assert_eq!(shortage.wait(now + FIRST_PAUSE / 2), (until, None));
        assert_eq!(shortage.wait(until).1, Some(2 * FIRST_PAUSE));
        for _ in 0..10 {
            let until = shortage.until;
            assert!(shortage.wait(until).1 <= Some(MAX_PAUSE));
        }
        assert_eq!(shortage.pause, MAX_PAUSE);
    }
}
