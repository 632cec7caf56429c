//! What a network device was told, asked by the ioctls of `ethtool(8)`.
//!
//! Layouts and numbers are those of `include/uapi/linux/ethtool.h`. They are asked of the calling thread's
//! network namespace.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The kernel's device ioctls, through a socket that carries nothing.
#[derive(Debug)]
pub struct DeviceControl {
    socket: OwnedFd,
}

/// Work that a device, or the kernel on its behalf, does for whole bursts instead of single packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Offload {
    /// TCP segmentation by the device.
    Tso,
    /// Segmentation by the kernel, late.
    Gso,
    /// Merging of received segments by the kernel.
    Gro,
}

/// Descriptors of a device's receive ring.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ring {
    /// As it is set.
    pub now: u32,
    /// What the device could have.
    pub most: u32,
}

const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GGRO: u32 = 0x2b;

/// `struct ethtool_value`.
#[derive(Default)]
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ethtool_ringparam`.
#[derive(Default)]
#[repr(C)]
struct RingParameters {
    command: u32,
    rx_max_pending: u32,
    rx_mini_max_pending: u32,
    rx_jumbo_max_pending: u32,
    tx_max_pending: u32,
    rx_pending: u32,
    rx_mini_pending: u32,
    rx_jumbo_pending: u32,
    tx_pending: u32,
}

// === impl DeviceControl ===

impl DeviceControl {
    /// Opens it in the namespace of the calling thread.
    pub fn open() -> io::Result<Self> {
        // SAFETY: socket takes numbers only.
        let descriptor =
            unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above has just made it, and nobody else knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self { socket })
    }

    /// Whether `device` does that.
    pub fn offload(&self, device: &str, offload: Offload) -> io::Result<bool> {
        let mut value = Value {
            command: match offload {
                Offload::Tso => ETHTOOL_GTSO,
                Offload::Gso => ETHTOOL_GGSO,
                Offload::Gro => ETHTOOL_GGRO,
            },
            data: 0,
        };
        self.ask(device, &mut value)?;
        Ok(value.data != 0)
    }

    /// The receive ring; an error of kind `Unsupported` where the device has none to speak of.
    pub fn receive_ring(&self, device: &str) -> io::Result<Ring> {
        let mut parameters = RingParameters {
            command: ETHTOOL_GRINGPARAM,
            ..RingParameters::default()
        };
        self.ask(device, &mut parameters)?;
        Ok(Ring {
            now: parameters.rx_pending,
            most: parameters.rx_max_pending,
        })
    }

    /// Bytes of an IP packet that `device` takes.
    pub fn mtu(&self, device: &str) -> io::Result<u32> {
        let mut request = request(device)?;
        self.control(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU has filled this field in.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        u32::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Its number in this network namespace.
    pub fn index(&self, device: &str) -> io::Result<u32> {
        let mut request = request(device)?;
        self.control(libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX has filled this field in.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        u32::try_from(index).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// `question` is the structure that its first field, the command, asks to be filled in.
    fn ask<T>(&self, device: &str, question: &mut T) -> io::Result<()> {
        let mut request = request(device)?;
        request.ifr_ifru.ifru_data = std::ptr::from_mut(question).cast();
        self.control(libc::SIOCETHTOOL, &mut request)
    }

    fn control(&self, number: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
        let descriptor = self.socket.as_raw_fd();
        // SAFETY: all these requests take a `struct ifreq`, which outlives the call, as does what it points to.
        let result = unsafe { libc::ioctl(descriptor, number, std::ptr::from_mut(request)) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// An empty request for `device`.
fn request(device: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeroes is a `struct ifreq` without a name.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte stays zero: the end of the name.
    if device.is_empty() || device.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_answers_and_has_no_ring() {
        let control = DeviceControl::open().unwrap();
        assert!(control.mtu("lo").unwrap() >= 1280);
        assert_eq!(control.index("lo").unwrap(), 1);
        assert!(control.offload("lo", Offload::Gso).unwrap());
        let ring = control.receive_ring("lo").unwrap_err();
        assert_eq!(ring.raw_os_error(), Some(libc::EOPNOTSUPP), "{ring}");
    }

    #[test]
    fn a_device_that_cannot_be_is_an_error() {
        let control = DeviceControl::open().unwrap();
        for name in ["", "lh-no-such-dev", "a-name-that-is-too-long"] {
            assert!(control.mtu(name).is_err(), "{name}");
        }
    }
}
