//! What packets go through.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use sys::tun::{Tun, VirtioHeader};

/// A TUN device, or something in a test that loses packets on the way to one.
pub trait Device: fmt::Debug + Send + Sync {
    /// As [`Tun::read`].
    fn read(&self, packet: &mut [u8]) -> io::Result<Option<(VirtioHeader, usize)>>;
    /// As [`Tun::write`].
    fn write(&self, header: VirtioHeader, headers: &[u8], payload: &[u8]) -> io::Result<()>;
    /// Readable when there is a packet.
    fn ready(&self) -> BorrowedFd<'_>;
}

impl Device for Tun {
    fn read(&self, packet: &mut [u8]) -> io::Result<Option<(VirtioHeader, usize)>> {
        Self::read(self, packet)
    }

    fn write(&self, header: VirtioHeader, headers: &[u8], payload: &[u8]) -> io::Result<()> {
        Self::write(self, header, headers, payload)
    }

    fn ready(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}
