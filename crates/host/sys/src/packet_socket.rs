//! Capture of whole frames at an interface, through a ring that the kernel writes (`TPACKET_V3`,
//! `Documentation/networking/packet_mmap.rst`).
//!
//! One wake-up brings a block of many frames, cut to the snapshot length by a filter before they are
//! copied, so a busy machine loses none at the rates of the lab. What is lost is counted by the kernel and
//! reported: a capture that is not complete says so.

mod ring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::namespace::{NamespaceError, NetworkNamespace};
use crate::packet_socket::ring::Ring;
use crate::realtime::wait_readable;

/// How the bytes of a frame are to be read: pcap's link types.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkType {
    /// `LINKTYPE_ETHERNET`, 1: veth, loopback.
    Ethernet,
    /// `LINKTYPE_RAW`, 101: an IP packet without anything before it, as TUN devices have it.
    Raw,
}

/// A frame as it passed the interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CapturedFrame<'a> {
    /// When the kernel saw it: nanoseconds since the epoch.
    pub timestamp_ns: u64,
    /// Its length on the interface, which segmentation offload can make larger than the MTU.
    pub original_length: u32,
    /// Its first bytes, up to the snapshot length.
    pub data: &'a [u8],
    /// Whether this host sent it.
    pub outgoing: bool,
}

/// What a capture saw in all.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CaptureSummary {
    /// Frames handed over.
    pub frames: u64,
    /// Frames that the kernel had to drop because the ring was full.
    pub dropped: u64,
}

/// A capture under way on a thread of its own. Dropping it stops it.
#[derive(Debug)]
pub struct FrameCapture {
    link_type: LinkType,
    /// Its end of the pipe wakes the thread when it closes.
    stop: Option<io::PipeWriter>,
    thread: Option<JoinHandle<Result<CaptureSummary, CaptureError>>>,
}

/// Frames could not be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The namespace could not be entered.
    #[error("cannot capture at `{interface}`")]
    Namespace {
        /// The interface.
        interface: String,
        /// What failed.
        #[source]
        source: NamespaceError,
    },
    /// A system call was refused.
    #[error("cannot {operation} to capture at `{interface}`")]
    Setup {
        /// What was tried.
        operation: &'static str,
        /// The interface.
        interface: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The interface is neither Ethernet nor plain IP.
    #[error("`{interface}` has hardware type {hardware}, which is neither Ethernet nor plain IP")]
    Hardware {
        /// The interface.
        interface: String,
        /// `ARPHRD_…`.
        hardware: u16,
    },
    /// It broke while it ran.
    #[error("the capture at `{interface}` broke")]
    Run {
        /// The interface.
        interface: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

// === impl FrameCapture ===

impl FrameCapture {
    /// Captures everything that passes `interface` in `namespace`, both ways, from when this returns.
    /// `on_frame` gets every frame in the kernel's order, cut to `snapshot_length` bytes.
    pub fn start(
        namespace: &NetworkNamespace,
        interface: &str,
        snapshot_length: u32,
        on_frame: impl FnMut(CapturedFrame<'_>) + Send + 'static,
    ) -> Result<Self, CaptureError> {
        let (ring, link_type) = namespace
            .enter(|| open(interface, snapshot_length))
            .map_err(|source| CaptureError::Namespace {
                interface: interface.to_owned(),
                source,
            })??;
        let (stopped, stop) = io::pipe().map_err(setup("make a pipe", interface))?;
        let name: Arc<str> = interface.into();
        let thread = thread::Builder::new()
            .name(format!("capture {interface}"))
            .spawn(move || {
                run(ring, &stopped, on_frame).map_err(|source| CaptureError::Run {
                    interface: name.to_string(),
                    source,
                })
            })
            .map_err(setup("start a thread", interface))?;
        Ok(Self {
            link_type,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// How to read the frames.
    #[must_use]
    pub const fn link_type(&self) -> LinkType {
        self.link_type
    }

    /// Hands over every frame that passed before this call, and ends.
    ///
    /// # Panics
    /// When `on_frame` panicked, with its message.
    pub fn stop(mut self) -> Result<CaptureSummary, CaptureError> {
        drop(self.stop.take());
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panicked)) => std::panic::resume_unwind(panicked),
            None => Ok(CaptureSummary::default()),
        }
    }
}

impl Drop for FrameCapture {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Nobody is left to be told.
            let _ended = thread.join();
        }
    }
}

fn run(
    mut ring: Ring,
    stopped: &io::PipeReader,
    mut on_frame: impl FnMut(CapturedFrame<'_>),
) -> io::Result<CaptureSummary> {
    let mut summary = CaptureSummary::default();
    let mut kept = 0;
    loop {
        summary.frames += ring.drain(&mut on_frame);
        let [_, stop] = wait_readable([ring.as_fd(), stopped.as_fd()], None)?;
        let (more, dropped) = ring.statistics()?;
        kept += more;
        summary.dropped += dropped;
        if stop {
            break;
        }
    }
    loop {
        summary.frames += ring.drain(&mut on_frame);
        if summary.frames >= kept {
            return Ok(summary);
        }
        // The block that the kernel is filling becomes ours when its time is up and the kernel's timer runs.
        let [ready] = wait_readable([ring.as_fd()], Some(PATIENCE))?;
        if !ready {
            summary.dropped += kept - summary.frames;
            return Ok(summary);
        }
    }
}

/// A block that is not full is handed over after this time.
const RETIRE: Duration = Duration::from_millis(10);
/// Longer than any processor stands still; a kernel that has not handed over a block by then will not.
const PATIENCE: Duration = Duration::from_secs(10);

/// In the calling thread's namespace.
fn open(interface: &str, snapshot_length: u32) -> Result<(Ring, LinkType), CaptureError> {
    let setup = |operation| setup(operation, interface);
    let device = rustix::net::netdevice::name_to_index(probe_socket(interface)?, interface)
        .map_err(|error| setup("find the interface")(error.into()))?;
    // Protocol 0 receives nothing: not before the filter is attached and the ring is there.
    let descriptor = owned(
        // SAFETY: socket takes numbers.
        unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) },
    )
    .map_err(setup("open a packet socket"))?;
    cut_at(&descriptor, snapshot_length).map_err(setup("attach a filter"))?;
    let ring = Ring::new(descriptor, RETIRE).map_err(setup("map a ring"))?;
    let hardware = bind(ring.as_fd().as_raw_fd(), device).map_err(setup("bind a socket"))?;
    let link_type = match hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkType::Ethernet,
        libc::ARPHRD_NONE => LinkType::Raw,
        hardware => {
            return Err(CaptureError::Hardware {
                interface: interface.to_owned(),
                hardware,
            });
        }
    };
    Ok((ring, link_type))
}

fn setup(operation: &'static str, interface: &str) -> impl FnOnce(io::Error) -> CaptureError {
    let interface = interface.to_owned();
    move |source| CaptureError::Setup {
        operation,
        interface,
        source,
    }
}

/// Any socket serves to ask about devices.
fn probe_socket(interface: &str) -> Result<std::net::UdpSocket, CaptureError> {
    std::net::UdpSocket::bind("0.0.0.0:0").map_err(setup("open a socket", interface))
}

/// A filter of one instruction: keep the first `length` bytes of everything.
fn cut_at(socket: &OwnedFd, length: u32) -> io::Result<()> {
    let return_constant = 0x06; // BPF_RET | BPF_K
    let mut instruction = libc::sock_filter {
        code: return_constant,
        jt: 0,
        jf: 0,
        k: length.max(1),
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut instruction,
    };
    ring::set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Binds to the device, from when on frames arrive, and returns its hardware type (`ARPHRD_…`).
fn bind(socket: libc::c_int, device: u32) -> io::Result<u16> {
    // SAFETY: all zeroes is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
    address.sll_protocol = u16::try_from(libc::ETH_P_ALL).unwrap_or_default().to_be();
    address.sll_ifindex = i32::try_from(device).unwrap_or_default();
    let mut length = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or_default();
    // SAFETY: `address` and `length` outlive both calls, and `length` is the address's size.
    let failed = unsafe {
        libc::bind(socket, (&raw const address).cast(), length) != 0
            || libc::getsockname(socket, (&raw mut address).cast(), &raw mut length) != 0
    };
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(address.sll_hatype)
}

/// Takes ownership of what a system call returned.
fn owned(result: libc::c_int) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}
