//! TUN devices which carry offload-sized packets.
//!
//! With a virtio-net header (`IFF_VNET_HDR`) and segmentation offload (`TUNSETOFFLOAD`), one read takes a
//! superpacket of TCP or UDP of up to 64 KiB with its checksum still to be made, and one write gives it to
//! the other end, which trusts that checksum. That is what carries gigabits through one thread: one system
//! call per superpacket, and no byte of payload is touched (`drivers/net/tun.c`, `virtio_net.h`).

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::namespace::{NamespaceError, NetworkNamespace};

/// Packets that may wait in the device for its reader: enough that a reader which is late by a scheduling
/// quantum loses none. The path's own queue belongs into the model, not here.
const TX_QUEUE_LEN: u32 = 50_000;

/// A TUN device: layer 3, with virtio-net headers, non-blocking. Closing the last descriptor removes it.
#[derive(Debug)]
pub struct Tun {
    descriptor: OwnedFd,
    name: String,
}

/// The virtio-net header in front of every packet: what is left to be done to it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct VirtioHeader {
    /// [`VirtioHeader::NEEDS_CHECKSUM`] and others.
    pub flags: u8,
    /// What kind of superpacket it is; see [`Segmentation`].
    pub gso_type: u8,
    /// Bytes of the headers that every segment repeats. A hint, not to be trusted.
    pub header_len: u16,
    /// Payload bytes per segment.
    pub gso_size: u16,
    /// Where the transport header starts, from the IP header on.
    pub checksum_start: u16,
    /// Where its checksum field is, from `checksum_start` on.
    pub checksum_offset: u16,
}

/// What a virtio header says about segmentation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Segmentation {
    /// One packet.
    None,
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over either.
    Udp,
    /// Something we did not ask the kernel for.
    Other(u8),
}

/// A TUN device could not be made or taken over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The module is missing, or this user may not use it.
    #[error(
        "cannot open `/dev/net/tun`; load the module `tun`, and let this user read and write it"
    )]
    Open {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A setting was refused.
    #[error("cannot {operation} TUN device `{device}`")]
    Configure {
        /// What was tried.
        operation: &'static str,
        /// The device.
        device: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The name is empty or longer than 15 bytes.
    #[error("`{name}` cannot be the name of a device: 1 to 15 bytes")]
    Name {
        /// As given.
        name: String,
    },
    /// A number given as an inherited descriptor is none, or not a TUN device.
    #[error("descriptor {number} is not a TUN device")]
    Inherit {
        /// As given.
        number: RawFd,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The namespace could not be entered or the device not be configured in it.
    #[error("cannot set TUN device `{device}` up")]
    Namespace {
        /// The device.
        device: String,
        /// What failed.
        #[source]
        source: NamespaceError,
    },
}

// === impl Tun ===

impl Tun {
    /// Makes a device called `name` in `namespace`, down and without an address. It gets no IPv6
    /// link-local address when it goes up, so that the kernel sends nothing on its own and the n-th packet
    /// of the path is the n-th of whoever uses it.
    pub fn create_in(namespace: &NetworkNamespace, name: &str) -> Result<Self, TunError> {
        let in_namespace = |source| TunError::Namespace {
            device: name.to_owned(),
            source,
        };
        let tun = namespace
            .enter(|| Self::create(name))
            .map_err(in_namespace)??;
        namespace
            .ip(&format!(
                "link set dev {name} txqueuelen {TX_QUEUE_LEN} addrgenmode none"
            ))
            .map_err(in_namespace)?;
        Ok(tun)
    }

    /// Takes over a device whose descriptor this process inherited under `number`.
    pub fn inherited(number: RawFd) -> Result<Self, TunError> {
        let inherit = |source| TunError::Inherit { number, source };
        if number < 0 {
            return Err(inherit(io::Error::from_raw_os_error(libc::EBADF)));
        }
        // SAFETY: fcntl with F_DUPFD takes no pointer; a number that is not open gives EBADF.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) }
            .try_clone_to_owned()
            .map_err(inherit)?;
        let mut request = InterfaceRequest::default();
        ioctl(
            descriptor.as_fd(),
            libc::TUNGETIFF,
            (&raw mut request).cast(),
        )
        .map_err(inherit)?;
        Ok(Self {
            descriptor,
            name: request.name(),
        })
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes a packet that the kernel sent to the device: its length in `packet`, which should hold 65,535
    /// bytes. `None` where there is none at the moment.
    pub fn read(&self, packet: &mut [u8]) -> io::Result<Option<(VirtioHeader, usize)>> {
        let mut header = [0; VirtioHeader::LEN];
        let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(packet)];
        match rustix::io::readv(&self.descriptor, &mut parts) {
            Ok(length) => {
                let length = length.saturating_sub(VirtioHeader::LEN);
                Ok(Some((VirtioHeader::from_bytes(header), length)))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets a packet arrive at the device. `headers` and `payload` are its bytes, parted anywhere.
    pub fn write(&self, header: VirtioHeader, headers: &[u8], payload: &[u8]) -> io::Result<()> {
        let header = header.to_bytes();
        let parts = [
            IoSlice::new(&header),
            IoSlice::new(headers),
            IoSlice::new(payload),
        ];
        rustix::io::writev(&self.descriptor, &parts)?;
        Ok(())
    }

    /// Makes a device in the calling thread's namespace.
    fn create(name: &str) -> Result<Self, TunError> {
        let mut request = InterfaceRequest::named(name).ok_or_else(|| TunError::Name {
            name: name.to_owned(),
        })?;
        let file = open_clone_device()?;
        let descriptor = OwnedFd::from(file);
        let configure = |operation| {
            move |source| TunError::Configure {
                operation,
                device: name.to_owned(),
                source,
            }
        };
        request.flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
        ioctl(
            descriptor.as_fd(),
            libc::TUNSETIFF,
            (&raw mut request).cast(),
        )
        .map_err(configure("create"))?;
        let offload = |wanted: libc::c_uint| {
            ioctl(
                descriptor.as_fd(),
                libc::TUNSETOFFLOAD,
                std::ptr::without_provenance_mut(wanted as usize),
            )
        };
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        // Kernels before 6.2 know no segmentation of UDP here and part it before it reaches us: that works,
        // at some hundreds of Mbit/s.
        offload(tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6)
            .or_else(|_| offload(tcp))
            .map_err(configure("switch on segmentation offload for"))?;
        let mut unlimited = libc::c_int::MAX;
        ioctl(
            descriptor.as_fd(),
            libc::TUNSETSNDBUF,
            (&raw mut unlimited).cast(),
        )
        .map_err(configure("lift the send buffer's limit of"))?;
        Ok(Self {
            descriptor,
            name: name.to_owned(),
        })
    }
}

impl From<Tun> for OwnedFd {
    /// To be passed to another process, which takes it over with [`Tun::inherited`].
    fn from(tun: Tun) -> Self {
        tun.descriptor
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn open_clone_device() -> Result<File, TunError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(|source| TunError::Open { source })
}

// === impl VirtioHeader ===

impl VirtioHeader {
    /// The checksum field holds the sum of the pseudo-header; the rest is still to be summed.
    pub const NEEDS_CHECKSUM: u8 = 1;
    /// Bit in `gso_type`: the first segment only keeps the TCP flag CWR.
    const ECN: u8 = 0x80;
    const LEN: usize = 10;

    /// A packet that needs nothing done.
    pub const PLAIN: Self = Self {
        flags: 0,
        gso_type: 0,
        header_len: 0,
        gso_size: 0,
        checksum_start: 0,
        checksum_offset: 0,
    };

    /// What kind of superpacket it announces.
    #[must_use]
    pub const fn segmentation(&self) -> Segmentation {
        match self.gso_type & !Self::ECN {
            0 => Segmentation::None,
            1 => Segmentation::Tcp4,
            4 => Segmentation::Tcp6,
            // VIRTIO_NET_HDR_GSO_UDP_L4 of include/uapi/linux/virtio_net.h.
            5 => Segmentation::Udp,
            other => Segmentation::Other(other),
        }
    }

    /// The same packet when only one segment of it is left.
    #[must_use]
    pub const fn without_segmentation(self) -> Self {
        Self {
            gso_type: 0,
            gso_size: 0,
            header_len: 0,
            ..self
        }
    }

    /// Native byte order, which is the device's default (`TUNSETVNETLE` unset).
    fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let [flags, gso_type, h0, h1, g0, g1, s0, s1, o0, o1] = bytes;
        Self {
            flags,
            gso_type,
            header_len: u16::from_ne_bytes([h0, h1]),
            gso_size: u16::from_ne_bytes([g0, g1]),
            checksum_start: u16::from_ne_bytes([s0, s1]),
            checksum_offset: u16::from_ne_bytes([o0, o1]),
        }
    }

    fn to_bytes(self) -> [u8; Self::LEN] {
        let [h0, h1] = self.header_len.to_ne_bytes();
        let [g0, g1] = self.gso_size.to_ne_bytes();
        let [s0, s1] = self.checksum_start.to_ne_bytes();
        let [o0, o1] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.gso_type, h0, h1, g0, g1, s0, s1, o0, o1]
    }
}

const IFF_TUN: libc::c_short = 0x0001;
const IFF_NO_PI: libc::c_short = 0x1000;
const IFF_VNET_HDR: libc::c_short = 0x4000;

/// `struct ifreq` with its flags: 16 bytes of name and a union of 24 bytes.
#[derive(Debug, Default)]
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: libc::c_short,
    rest_of_union: [u8; 22],
}

// === impl InterfaceRequest ===

impl InterfaceRequest {
    /// `None` where the name with its final zero does not fit.
    fn named(name: &str) -> Option<Self> {
        let mut request = Self::default();
        if name.is_empty() || name.len() >= request.name.len() {
            return None;
        }
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        Some(request)
    }

    fn name(&self) -> String {
        let end = self.name.iter().position(|&byte| byte == 0);
        String::from_utf8_lossy(&self.name[..end.unwrap_or(self.name.len())]).into_owned()
    }
}

/// `argument` is what the request wants: a pointer to its structure, which outlives the call, or a number.
fn ioctl(
    descriptor: BorrowedFd<'_>,
    request: libc::Ioctl,
    argument: *mut libc::c_void,
) -> io::Result<()> {
    // SAFETY: every caller passes what the request wants, see above; the descriptor is open.
    if unsafe { libc::ioctl(descriptor.as_raw_fd(), request, argument) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtio_header_survives_its_bytes() {
        let header = VirtioHeader {
            flags: VirtioHeader::NEEDS_CHECKSUM,
            gso_type: 0x81,
            header_len: 52,
            gso_size: 1448,
            checksum_start: 20,
            checksum_offset: 16,
        };
        assert_eq!(VirtioHeader::from_bytes(header.to_bytes()), header);
        assert_eq!(header.segmentation(), Segmentation::Tcp4);
    }

    #[test]
    fn a_descriptor_that_is_no_tun_device_is_refused() {
        let file = File::open("/dev/null").unwrap();
        assert!(matches!(
            Tun::inherited(file.as_raw_fd()),
            Err(TunError::Inherit { .. })
        ));
        assert!(Tun::inherited(-1).is_err());
    }
}
