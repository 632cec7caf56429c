//! UDP sockets that know when the kernel received a packet, to the nanosecond.
//!
//! A timestamp taken after `recv` measures the scheduler as well as the path. These are taken when the
//! packet enters the network stack (`SO_TIMESTAMPNS`), so a reader may be late.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, SystemTime};

use crate::namespace::{NamespaceError, NetworkNamespace};

/// One end of a conversation in datagrams. Never blocks.
#[derive(Debug)]
pub struct DatagramSocket {
    socket: UdpSocket,
}

/// A datagram that arrived, or several of one size in a row which the kernel kept together (`UDP_GRO`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Datagram {
    /// Bytes written to the buffer.
    pub length: usize,
    /// Bytes of each datagram in it; the last may be shorter. As long as it all where it is one.
    pub segment: usize,
    /// When the kernel received it, since the epoch; comparable to [`now`].
    pub at: Duration,
}

/// Two ends could not be connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatagramError {
    /// A namespace could not be entered.
    #[error("cannot open a datagram socket")]
    Namespace {
        /// What failed.
        #[source]
        source: NamespaceError,
    },
    /// An address is not there, or an option was refused.
    #[error("cannot {operation} a datagram socket at {address}")]
    Socket {
        /// What was tried.
        operation: &'static str,
        /// The address of this end.
        address: IpAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Holds a train of packets whose reader is late: 100 ms at 1 Gbit/s.
const BUFFER: libc::c_int = 16 << 20;

/// Now, on the clock of [`Datagram::at`].
#[must_use]
pub fn now() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

// === impl DatagramSocket ===

impl DatagramSocket {
    /// Two sockets, each in its namespace at its address, that hear only each other.
    pub fn pair(
        near: (&NetworkNamespace, IpAddr),
        far: (&NetworkNamespace, IpAddr),
    ) -> Result<(Self, Self), DatagramError> {
        let (near, near_address) = (Self::open(near.0, near.1)?, near.1);
        let (far, far_address) = (Self::open(far.0, far.1)?, far.1);
        near.connect_to(&far, near_address)?;
        far.connect_to(&near, far_address)?;
        Ok((near, far))
    }

    /// Sends one datagram; one that no longer fits into the socket's buffer is an error.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.socket.send(bytes).map(|_| ())
    }

    /// Sends `bytes` as datagrams of `segment` bytes each, the last as long as the rest, and lets the kernel
    /// part them as late as it can (`UDP_SEGMENT`). No more than 64 KiB and 128 datagrams fit one call.
    pub fn send_segments(&self, bytes: &[u8], segment: u16) -> io::Result<()> {
        let mut parts = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control = ControlBuffer { bytes: [0; 64] };
        // SAFETY: all zeroes is a valid msghdr: null pointers with zero lengths.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut parts;
        message.msg_iovlen = 1;
        message.msg_control = control.bytes.as_mut_ptr().cast();
        let data = libc::c_uint::try_from(size_of_val(&segment)).unwrap_or(0);
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute, and one header with two bytes of data fits the
        // 64 bytes that `msg_control` points to, aligned for it; sendmsg reads `bytes` and writes nothing.
        let sent = unsafe {
            message.msg_controllen = libc::CMSG_SPACE(data) as usize;
            let header = &mut *libc::CMSG_FIRSTHDR(&raw const message);
            header.cmsg_level = libc::SOL_UDP;
            header.cmsg_type = libc::UDP_SEGMENT;
            header.cmsg_len = libc::CMSG_LEN(data) as usize;
            std::ptr::copy_nonoverlapping(
                (&raw const segment).cast::<u8>(),
                libc::CMSG_DATA(header),
                size_of_val(&segment),
            );
            libc::sendmsg(self.socket.as_raw_fd(), &raw const message, 0)
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// The next datagram that has arrived. What is longer than `buffer` is cut.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Datagram>> {
        let mut parts = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut control = ControlBuffer { bytes: [0; 64] };
        // SAFETY: all zeroes is a valid msghdr: null pointers with zero lengths.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut parts;
        message.msg_iovlen = 1;
        message.msg_control = control.bytes.as_mut_ptr().cast();
        message.msg_controllen = control.bytes.len();
        // SAFETY: everything that `message` points to outlives the call and is as long as it says.
        let received = unsafe {
            libc::recvmsg(
                self.socket.as_raw_fd(),
                &raw mut message,
                libc::MSG_DONTWAIT,
            )
        };
        let Ok(length) = usize::try_from(received) else {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::WouldBlock {
                return Ok(None);
            }
            return Err(error);
        };
        let notes = Notes::of(&message);
        Ok(Some(Datagram {
            length,
            segment: notes.segment.unwrap_or(length),
            // Without a stamp (the kernel always sets one where asked) now is the best that is known.
            at: notes.at.unwrap_or_else(now),
        }))
    }

    fn open(namespace: &NetworkNamespace, address: IpAddr) -> Result<Self, DatagramError> {
        let socket = namespace
            .enter(|| UdpSocket::bind(SocketAddr::new(address, 0)))
            .map_err(|source| DatagramError::Namespace { source })?;
        let failed = |operation| {
            move |source| DatagramError::Socket {
                operation,
                address,
                source,
            }
        };
        let socket = socket.map_err(failed("bind"))?;
        socket.set_nonblocking(true).map_err(failed("configure"))?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
            .map_err(failed("switch on timestamps of"))?;
        set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1)
            .map_err(failed("switch on coalescing of"))?;
        // Beyond net.core.rmem_max, which is right for a train that must not be lost here, only root may
        // go; anybody else gets as much as that allows.
        for (forced, asked) in [
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        ] {
            set_option(&socket, libc::SOL_SOCKET, forced, BUFFER)
                .or_else(|_| set_option(&socket, libc::SOL_SOCKET, asked, BUFFER))
                .map_err(failed("size the buffers of"))?;
        }
        Ok(Self { socket })
    }

    fn connect_to(&self, other: &Self, address: IpAddr) -> Result<(), DatagramError> {
        let connect = || self.socket.connect(other.socket.local_addr()?);
        connect().map_err(|source| DatagramError::Socket {
            operation: "connect",
            address,
            source,
        })
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Room for a timestamp and a size, aligned as control messages must be.
#[repr(C, align(8))]
struct ControlBuffer {
    bytes: [u8; 64],
}

/// What the kernel says beside a datagram.
#[derive(Default)]
struct Notes {
    at: Option<Duration>,
    segment: Option<usize>,
}

// === impl Notes ===

impl Notes {
    fn of(message: &libc::msghdr) -> Self {
        let mut notes = Self::default();
        // SAFETY: `message` was filled by recvmsg and its control buffer is alive; the macros walk it
        // within the length that the kernel wrote, and each kind of data is as long as its type.
        unsafe {
            let mut control = libc::CMSG_FIRSTHDR(message);
            while !control.is_null() {
                let header = &*control;
                match (header.cmsg_level, header.cmsg_type) {
                    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
                        notes.at = duration(read_data::<libc::timespec>(control));
                    }
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        notes.segment = usize::try_from(read_data::<libc::c_int>(control)).ok();
                    }
                    _ => {}
                }
                control = libc::CMSG_NXTHDR(message, control);
            }
        }
        notes
    }
}

/// The data of a control message, which need not be aligned for what it holds.
///
/// # Safety
/// `control` must head a control message whose data is a `T`, plain numbers all of it.
unsafe fn read_data<T>(control: *const libc::cmsghdr) -> T {
    let mut data = MaybeUninit::<T>::uninit();
    // SAFETY: by the caller's promise there are as many bytes, and any are a valid `T`.
    unsafe {
        std::ptr::copy_nonoverlapping(
            libc::CMSG_DATA(control),
            data.as_mut_ptr().cast(),
            size_of::<T>(),
        );
        data.assume_init()
    }
}

fn duration(stamp: libc::timespec) -> Option<Duration> {
    let seconds = u64::try_from(stamp.tv_sec).ok()?;
    let nanos = u32::try_from(stamp.tv_nsec).ok()?;
    Some(Duration::new(seconds, nanos))
}

fn set_option(
    socket: &UdpSocket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of_val(&value)).unwrap_or(0);
    // SAFETY: `value` outlives the call and is as long as said.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
