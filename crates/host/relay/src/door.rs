//! A listener, and who may come in by it.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use profile::{Side, TcpProfile};
use sys::socket::Applied;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpSocket;
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

/// A listener that lets in whom it may, as many as there are places, watched by the runtime that waits at it.
pub(crate) struct Door {
    gate: Gate,
    watched: Option<AsyncFd<Arc<TcpListener>>>,
}

/// A listener that lets in whom it may, as many as there are places, whoever watches it.
pub(crate) struct Gate {
    /// All sockets of its address. Other gates may have the same.
    listeners: Arc<[Arc<TcpListener>]>,
    /// Where it stands: by which clients come in unless others are watched as well.
    own: usize,
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

/// What comes of asking a gate for the next visitor.
pub(crate) enum Knock {
    Came(Visitor<TcpStream>),
    /// Nobody stands before it.
    Nobody,
    /// Somebody was turned away, or has left.
    Again,
    /// Somebody waits inside for a place: nobody else comes in before one is [free](Gate::place).
    Full,
    /// Something is short that an accepted connection needs; nobody tries before.
    Short(Instant),
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
pub(crate) struct Visitor<S = tokio::net::TcpStream> {
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
    handed: &mut Vec<TcpListener>,
) -> Result<(TcpListener, Vec<Applied>), RunError> {
    let Some(socket) = take(address, handed).into_iter().next() else {
        return bind(address, profile);
    };
    let applied = prepare(&socket, address, profile, false)?;
    Ok((handed_over(socket, address)?, applied))
}

/// All sockets of this address that were handed over.
pub(crate) fn take(address: SocketAddr, handed: &mut Vec<TcpListener>) -> Vec<TcpListener> {
    let is_it = |socket: &mut TcpListener| socket.local_addr().is_ok_and(|at| at == address);
    handed.extract_if(.., is_it).collect()
}

/// Says which sockets were handed over in vain.
pub(crate) fn tell_unused(handed: Vec<TcpListener>, events: &Events) {
    for socket in handed {
        let address = socket.local_addr();
        let address = address.map_or_else(|_| "?".into(), |address| address.to_string());
        events(Event::Warning {
            name: "socket-not-used",
            text: format!("no relay listens on {address}, which was handed over"),
        });
    }
}

/// A socket that was handed over, as a gate needs it.
pub(crate) fn handed_over(
    socket: TcpListener,
    address: SocketAddr,
) -> Result<TcpListener, RunError> {
    socket
        .set_nonblocking(true)
        .map_err(|source| RunError::Listen { address, source })?;
    Ok(socket)
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

/// Lets clients come to a bound socket. To be called in a runtime.
pub(crate) fn listen(socket: TcpSocket, address: SocketAddr) -> Result<TcpListener, RunError> {
    let listener = socket
        .listen(BACKLOG)
        .and_then(tokio::net::TcpListener::into_std);
    listener.map_err(|source| RunError::Listen { address, source })
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

// === impl Gate ===

impl Gate {
    /// At the socket of this index; all of them have `profile` on them: see [`bind`]. Other gates may give away the same `places`.
    pub(crate) fn new(
        (listeners, own): (Arc<[Arc<TcpListener>]>, usize),
        profile: &TcpProfile,
        admission: impl Into<Admission>,
        places: &Places,
        events: Events,
    ) -> Self {
        Self {
            congestion: congestion_of(&listeners[own], profile),
            listeners,
            own,
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
        self.congestion = congestion_of(&self.listeners[self.own], profile);
        self.admission = admission;
        self.places.resize(places);
    }

    /// All sockets of its address.
    pub(crate) fn listeners(&self) -> &[Arc<TcpListener>] {
        &self.listeners
    }

    /// Lets the next in by the socket of this index, if somebody is there.
    ///
    /// At the limit, clients wait instead of being turned away: one here, the others in the kernel's queue. A place that was taken
    /// before anybody comes would be missing at the other gates.
    pub(crate) fn knock(&mut self, index: usize) -> Knock {
        if self.waiting.is_none()
            && let Some(nobody) = self.accept(index)
        {
            return nobody;
        }
        match Arc::clone(&self.places.free).try_acquire_owned() {
            Ok(place) => self.enter(place).map_or(Knock::Nobody, Knock::Came),
            Err(_full) => Knock::Full,
        }
    }

    /// Whether somebody waits inside for a place.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.is_some()
    }

    /// A place, once there is one, for whoever waits inside.
    pub(crate) fn place(&self) -> impl Future<Output = OwnedSemaphorePermit> + Send + use<> {
        let free = Arc::clone(&self.places.free);
        async move {
            match free.acquire_owned().await {
                Ok(place) => place,
                // The semaphore is never closed.
                Err(_closed) => std::future::pending().await,
            }
        }
    }

    /// Whoever waits inside, once there is a place, watched by the runtime that waits for it. Nobody is lost where this is given up.
    pub(crate) async fn admitted(&mut self) -> Visitor {
        while self.is_full() {
            let place = self.place().await;
            // Where nobody can watch it, the client sees its connection closed.
            if let Some(Ok(visitor)) = self.enter(place).map(Visitor::watched) {
                return visitor;
            }
        }
        std::future::pending().await
    }

    /// Gives a place to whoever waits inside.
    pub(crate) fn enter(&mut self, place: OwnedSemaphorePermit) -> Option<Visitor<TcpStream>> {
        let (stream, peer) = self.waiting.take()?;
        Some(Visitor {
            stream,
            peer,
            place,
        })
    }

    /// Has the next wait inside; or why nobody does.
    fn accept(&mut self, index: usize) -> Option<Knock> {
        match sys::socket::accept(&self.listeners[index]) {
            Ok((stream, peer)) => {
                if std::mem::take(&mut self.is_short) {
                    self.places.shortage().pause = FIRST_PAUSE;
                }
                if !self.admits(peer) {
                    return Some(Knock::Again);
                }
                self.keep_congestion(&stream, peer);
                self.waiting = Some((stream, peer));
                None
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(Knock::Nobody),
            Err(error) if is_shortage(&error) => Some(Knock::Short(self.falls_short(&error))),
            // The client left before it was accepted (accept(2) passes its network errors on).
            Err(_) => Some(Knock::Again),
        }
    }

    /// Nobody is let in for a while, which is told where it begins. Until when.
    pub(crate) fn falls_short(&mut self, error: &io::Error) -> Instant {
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
        until
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

// === impl Door ===

impl Door {
    /// As [`Gate::new`], with one socket, and places of its own.
    pub(crate) fn new(
        listener: impl Into<Arc<TcpListener>>,
        profile: &TcpProfile,
        admission: impl Into<Admission>,
        places: usize,
        events: Events,
    ) -> Self {
        let places = Places::new(places);
        let listeners = Arc::from([listener.into()]);
        Gate::new((listeners, 0), profile, admission, &places, events).into()
    }

    /// Watches it no more.
    pub(crate) fn into_gate(self) -> Gate {
        self.gate
    }

    /// The next who may come in. Nobody is lost where this is given up while it waits.
    pub(crate) async fn next(&mut self) -> Visitor {
        loop {
            // While clients come one after the other, nothing here would wait, and nobody else of this thread would get a turn.
            tokio::task::coop::consume_budget().await;
            let visitor = match self.gate.knock(self.gate.own) {
                Knock::Came(visitor) => Some(visitor),
                Knock::Again => None,
                Knock::Full => {
                    let place = self.gate.place().await;
                    self.gate.enter(place)
                }
                Knock::Short(until) => {
                    sleep_until(until).await;
                    None
                }
                Knock::Nobody => {
                    if let Err(error) = self.somebody().await {
                        sleep_until(self.gate.falls_short(&error)).await;
                    }
                    None
                }
            };
            let Some(visitor) = visitor else {
                continue;
            };
            match visitor.watched() {
                Ok(visitor) => return visitor,
                Err(error) => sleep_until(self.gate.falls_short(&error)).await,
            }
        }
    }

    /// Resolves when somebody may stand before it.
    async fn somebody(&mut self) -> io::Result<()> {
        let watched = match &mut self.watched {
            Some(watched) => watched,
            none => none.insert(watched(&self.gate.listeners[self.gate.own])?),
        };
        let mut guard = watched.readable().await?;
        // Whoever knocks next finds everybody who has come before this moment.
        guard.clear_ready();
        Ok(())
    }
}

impl From<Gate> for Door {
    fn from(gate: Gate) -> Self {
        Self {
            gate,
            watched: None,
        }
    }
}

// === impl Visitor ===

impl Visitor<TcpStream> {
    /// The same, watched by the runtime that this is called in. Where that cannot be, the client sees its connection closed.
    pub(crate) fn watched(self) -> io::Result<Visitor> {
        Ok(Visitor {
            stream: tokio::net::TcpStream::from_std(self.stream)?,
            peer: self.peer,
            place: self.place,
        })
    }
}

/// The listener, watched by the runtime that this is called in.
#[expect(
    deprecated,
    reason = "its replacement is unsafe, for descriptors that change; a listener's stays while somebody has it"
)]
fn watched(listener: &Arc<TcpListener>) -> io::Result<AsyncFd<Arc<TcpListener>>> {
    AsyncFd::with_interest(Arc::clone(listener), Interest::READABLE)
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
