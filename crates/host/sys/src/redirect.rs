//! Connections that the network redirected to this host: where they were going, and sockets with addresses that
//! are not this host's.

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

/// `SO_ORIGINAL_DST` of `linux/netfilter_ipv4.h`, and `IP6T_SO_ORIGINAL_DST` of
/// `linux/netfilter_ipv6/ip6_tables.h`.
const ORIGINAL_DESTINATION: libc::c_int = 80;

/// Where a client was going before a DNAT or REDIRECT rule of this host changed its destination, as connection
/// tracking remembers it. An error where there was no such rule.
pub fn original_destination(accepted: &impl AsFd, is_ipv4: bool) -> io::Result<SocketAddr> {
    if is_ipv4 {
        let address: libc::sockaddr_in = option(accepted, libc::SOL_IP)?;
        let ip = u32::from_be(address.sin_addr.s_addr);
        Ok(SocketAddrV4::new(ip.into(), u16::from_be(address.sin_port)).into())
    } else {
        let address: libc::sockaddr_in6 = option(accepted, libc::SOL_IPV6)?;
        let ip = address.sin6_addr.s6_addr;
        Ok(SocketAddrV6::new(ip.into(), u16::from_be(address.sin6_port), 0, 0).into())
    }
}

/// Lets a socket have addresses that are not this host's: a listener gets what a TPROXY rule sends to it, a
/// socket that connects may be bound to a client's address (`IP_TRANSPARENT`, `ip(7)`). Takes `CAP_NET_ADMIN`.
pub fn set_transparent(socket: &impl AsFd, is_ipv4: bool) -> io::Result<()> {
    let (level, name) = if is_ipv4 {
        (libc::SOL_IP, libc::IP_TRANSPARENT)
    } else {
        (libc::SOL_IPV6, libc::IPV6_TRANSPARENT)
    };
    let on: libc::c_int = 1;
    let length = size_of_as_socklen::<libc::c_int>();
    // SAFETY: the option takes an int, which lives through the call, and its length.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const on).cast(),
            length,
        )
    };
    if failed == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Reads [`ORIGINAL_DESTINATION`] as the address type of its family.
fn option<T>(socket: &impl AsFd, level: libc::c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of_as_socklen::<T>();
    // SAFETY: the kernel writes at most `length` bytes to `value`.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            ORIGINAL_DESTINATION,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if failed == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both types are plain numbers, for which all bits zero, and whatever the kernel wrote, are values.
    Ok(unsafe { value.assume_init() })
}

/// The size of a type that is passed to a socket option.
fn size_of_as_socklen<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0)
}
