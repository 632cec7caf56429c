//! Many sockets watched by one thread: epoll(7), and a bell for other threads.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// At most so many are told of at once.
const AT_ONCE: usize = 256;

/// Watches sockets, each by a token of its owner's choice. A socket is watched until its last descriptor is closed.
#[derive(Debug)]
pub struct Poller(OwnedFd);

/// That a watched socket is ready for something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ready {
    /// Whose.
    pub token: u64,
    /// For what.
    pub readiness: Readiness,
}

/// What a socket is ready for, as far as has been told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Readiness(EventFlags);

/// Makes a [`Poller`] return from its wait, from any thread.
#[derive(Debug)]
pub struct Bell(OwnedFd);

// === impl Poller ===

impl Poller {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Tells once of everything that a connection becomes ready for, and of what it is ready for now
    /// (`EPOLLET`): whoever is told goes on until the kernel says that it would
    /// block, or a read has brought less than it could ([`Readiness::is_urgent`] tells when that says nothing).
    pub fn watch(&self, connection: &impl AsFd, token: u64) -> io::Result<()> {
        let all =
            EventFlags::IN | EventFlags::PRI | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(
            &self.0,
            connection,
            EventData::new_u64(token),
            all,
        )?)
    }

    /// Tells that there is something to read or to accept, as long as there is.
    pub fn watch_arrivals(&self, source: &impl AsFd, token: u64) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::add(&self.0, source, data, EventFlags::IN)?)
    }

    /// The same of a source that several threads watch, each by a poller of its own: at least one of those that wait is told, not all of
    /// them (`EPOLLEXCLUSIVE`).
    pub fn watch_shared_arrivals(&self, source: &impl AsFd, token: u64) -> io::Result<()> {
        let data = EventData::new_u64(token);
        let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
        Ok(epoll::add(&self.0, source, data, flags)?)
    }

    /// Tells of it no more.
    pub fn forget(&self, source: &impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.0, source)?)
    }

    /// Waits until something is ready, or for so long, `None` for ever; `ready` holds what is ready then, perhaps nothing.
    pub fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        ready.clear();
        let mut room = [MaybeUninit::uninit(); AT_ONCE];
        let events = match epoll::wait(&self.0, &mut room, timeout.as_ref()) {
            Ok((events, _)) => events,
            // A signal is for whoever handles it.
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        ready.extend(events.iter().map(|event| {
            // Copied out: the structure is packed.
            let (flags, data) = (event.flags, event.data);
            Ready {
                token: data.u64(),
                readiness: Readiness(flags),
            }
        }));
        Ok(())
    }
}

// === impl Readiness ===

impl Readiness {
    /// Told while there are no bytes, because reading comes to an end or to an error.
    const ENDED: EventFlags = EventFlags::RDHUP
        .union(EventFlags::HUP)
        .union(EventFlags::ERR);
    /// Writing comes to an error.
    const BROKEN: EventFlags = EventFlags::HUP.union(EventFlags::ERR);

    /// Whether reading brings something: bytes, the stream's end, or an error.
    #[must_use]
    pub fn is_readable(self) -> bool {
        self.0.intersects(EventFlags::IN | Self::ENDED)
    }

    /// Whether writing comes to something: room, or an error.
    #[must_use]
    pub fn is_writable(self) -> bool {
        self.0.intersects(EventFlags::OUT | Self::BROKEN)
    }

    /// Whether the connection has failed. The error is still to be taken.
    #[must_use]
    pub fn has_failed(self) -> bool {
        self.0.contains(EventFlags::ERR)
    }

    /// Whether there is urgent data, or was: reading stops before it
    /// (`tcp_recvmsg_locked` in `net/ipv4/tcp.c`), so a short read does not mean that nothing follows.
    #[must_use]
    pub fn is_urgent(self) -> bool {
        self.0.contains(EventFlags::PRI)
    }

    /// This, and what was told now.
    #[must_use]
    pub fn and(self, told: Self) -> Self {
        Self(self.0 | told.0)
    }

    /// The same after all bytes that were there have been read: what comes after them is told anew.
    #[must_use]
    pub fn emptied(self) -> Self {
        Self(self.0 - EventFlags::IN)
    }

    /// The same after writing has found no room.
    #[must_use]
    pub fn filled(self) -> Self {
        Self(self.0 - EventFlags::OUT)
    }
}

impl Default for Readiness {
    /// For nothing.
    fn default() -> Self {
        Self(EventFlags::empty())
    }
}

// === impl Bell ===

impl Bell {
    /// A bell, to be watched for arrivals.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Whoever watches it is told, now or at the next wait.
    pub fn ring(&self) {
        // Only a count beyond 2^64 could be refused, and then it rings already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Ends its ringing.
    pub fn silence(&self) {
        // Where it does not ring, there is nothing to read.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn ready(poller: &Poller) -> Vec<Ready> {
        let mut ready = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        ready
    }

    fn next(poller: &Poller) -> Ready {
        let mut ready = Vec::new();
        while ready.is_empty() {
            poller.wait(None, &mut ready).unwrap();
        }
        ready[0]
    }

    #[test]
    fn a_connection_is_told_of_once_and_an_arrival_as_long_as_it_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let poller = Poller::new().unwrap();
        poller.watch_arrivals(&listener, 1).unwrap();
        assert_eq!(ready(&poller), []);
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for _ in 0..2 {
            let told = next(&poller);
            assert!(told.token == 1 && told.readiness.is_readable(), "{told:?}");
        }
        let (mut server, _) = listener.accept().unwrap();
        poller.watch(&server, 2).unwrap();
        let told = next(&poller).readiness;
        assert!(told.is_writable() && !told.is_readable(), "{told:?}");
        assert_eq!(ready(&poller), []);
        client.write_all(b"x").unwrap();
        let told = next(&poller).readiness;
        assert!(told.is_readable() && !told.emptied().is_readable());
        assert_eq!(ready(&poller), []);
        server.read_exact(&mut [0]).unwrap();
        drop(client);
        let told = next(&poller).readiness;
        // The end is there when all bytes are read.
        assert!(told.emptied().is_readable() && !told.has_failed());
        poller.forget(&listener).unwrap();
        let _waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(ready(&poller), []);
    }

    #[test]
    fn urgent_data_is_told_of() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        crate::socket::keep_urgent_inline(&server).unwrap();
        let poller = Poller::new().unwrap();
        poller.watch(&server, 1).unwrap();
        client.write_all(b"abc").unwrap();
        let before = next(&poller).readiness;
        assert!(!before.is_urgent());
        rustix::net::send(&client, b"!", rustix::net::SendFlags::OOB).unwrap();
        client.write_all(b"d").unwrap();
        assert!(before.and(next(&poller).readiness).emptied().is_urgent());
        // The trap: a short read, and there is more.
        let mut buffer = [0; 16];
        assert_eq!(crate::socket::receive(&server, &mut buffer).unwrap(), 3);
        assert!(crate::socket::receive(&server, &mut buffer).unwrap() > 0);
    }

    #[test]
    fn a_reset_is_ready_for_everything_and_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let poller = Poller::new().unwrap();
        poller.watch(&server, 1).unwrap();
        let before = next(&poller).readiness;
        crate::socket::reset_when_closed(&client).unwrap();
        drop(client);
        let now = before.and(next(&poller).readiness).emptied().filled();
        assert!(now.has_failed() && now.is_readable() && now.is_writable());
        let error = crate::socket::take_error(&server).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        crate::socket::take_error(&server).unwrap();
    }

    #[test]
    fn a_bell_rings_until_it_is_silenced_however_often_it_was_rung() {
        let bell = Bell::new().unwrap();
        let poller = Poller::new().unwrap();
        poller.watch_arrivals(&bell, 7).unwrap();
        bell.silence();
        assert_eq!(ready(&poller), []);
        std::thread::scope(|scope| {
            scope.spawn(|| bell.ring());
            assert_eq!(next(&poller).token, 7);
        });
        bell.ring();
        assert_eq!(ready(&poller).len(), 1);
        bell.silence();
        assert_eq!(ready(&poller), []);
    }
}
