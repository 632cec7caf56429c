//! The way back to the process that this one has succeeded.
//!
//! Both processes of an upgrade have the socket that near ends connect to, and only the newer one accepts. A
//! connection that belongs to a session of the older one (it replaces one that died) can be told by its hello, and that
//! comes inside TLS, which cannot be moved to another process. So the newer one keeps the TLS and carries what is inside to
//! and fro; with it goes a copy of the connection's descriptor, on which the older one reads and sets what a trunk
//! does to its sockets.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sys::passing;
use tokio::io::{AsyncWriteExt as _, Interest, copy_bidirectional_with_sizes};
use tokio::net::{TcpStream, UnixDatagram, UnixStream};

use super::event::WanTls;
use super::shield::Shielded;

/// One direction's bytes between the two processes: an eighth of a millisecond of 4 Gbit/s, and 50 ms of 10 Mbit/s.
const BUFFER: usize = 64 << 10;

/// A socket to the process before this one, or to the one after it.
#[derive(Debug)]
pub(super) struct Passage {
    /// It keeps messages apart as a datagram socket does, which is what the runtime has a type for.
    socket: UnixDatagram,
}

/// A connection on its way to the process that its session belongs to.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) note: Note,
    carrier: OwnedFd,
    tcp: OwnedFd,
}

/// What is said of a connection that is passed.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Note {
    /// The far end that its hello names.
    pub(super) instance: u64,
    /// What its handshake agreed on.
    pub(super) tls: Option<WanTls>,
}

/// A connection whose TLS another process does.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) carrier: UnixStream,
    pub(super) tcp: TcpStream,
    pub(super) tls: Option<WanTls>,
}

// === impl Passage ===

impl Passage {
    /// Two ends, the second for the process that is started.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (here, there) = passing::pair()?;
        Ok((Self::new(here)?, there))
    }

    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            socket: UnixDatagram::from_std(socket.into())?,
        })
    }

    /// Gives the process at the other end its part of a connection; ours is returned.
    pub(super) async fn offer(&self, note: &Note, tcp: &TcpStream) -> io::Result<UnixStream> {
        let (ours, theirs) = passing::streams(BUFFER)?;
        self.send(note, theirs.as_fd(), tcp.as_fd()).await?;
        UnixStream::from_std(ours)
    }

    /// Passes on what came from the other side, to a process that is older still.
    pub(super) async fn pass_on(&self, passed: &Passed) -> io::Result<()> {
        let Passed { note, carrier, tcp } = passed;
        self.send(note, carrier.as_fd(), tcp.as_fd()).await
    }

    async fn send(
        &self,
        note: &Note,
        carrier: BorrowedFd<'_>,
        tcp: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let text = serde_json::to_vec(note)?;
        let send = || passing::send(&self.socket, &text, &[carrier, tcp]);
        self.socket.async_io(Interest::WRITABLE, send).await
    }

    /// The next connection that belongs here; `None` where the other process is gone.
    pub(super) async fn next(&self) -> io::Result<Option<Passed>> {
        let receive = || passing::receive(&self.socket);
        let received = self.socket.async_io(Interest::READABLE, receive).await?;
        let Some((text, descriptors)) = received else {
            return Ok(None);
        };
        let note = serde_json::from_slice(&text)?;
        let [carrier, tcp] = <[OwnedFd; 2]>::try_from(descriptors)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Some(Passed { note, carrier, tcp }))
    }

    /// Resolves once the other process is gone.
    pub(super) async fn closed(&self) {
        while let Ok(Some(_)) = self.next().await {}
    }
}

// === impl Passed ===

impl Passed {
    /// The connection, for this process.
    pub(super) fn open(self) -> io::Result<Carried> {
        let tcp = std::net::TcpStream::from(self.tcp);
        Ok(Carried {
            carrier: UnixStream::from_std(StdUnixStream::from(self.carrier))?,
            tcp: TcpStream::from_std(tcp)?,
            tls: self.note.tls,
        })
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        // The process in between may wait for a WAN that has died. One that is closed already needs no end.
        let _ = passing::end(&self.tcp);
    }
}

/// Carries a connection's bytes to the process that has the other end of `carrier`, and back, until both directions have
/// ended. `said` was read from the connection already.
pub(super) async fn carry(
    mut link: Shielded,
    said: &Bytes,
    mut carrier: UnixStream,
) -> io::Result<()> {
    carrier.write_all(said).await?;
    copy_bidirectional_with_sizes(&mut link, &mut carrier, BUFFER, BUFFER).await?;
    Ok(())
}
