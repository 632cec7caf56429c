//! Options that bound a connection: buffers, segments, handshakes; and its class of service.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use profile::{Side, TcpProfile};
use socket2::{Domain, SockRef};
use units::Bytes;

use super::{ApplyError, Options, Way};

impl Options<'_> {
    pub(super) fn bounds(&mut self, profile: &TcpProfile) -> Result<(), ApplyError> {
        if let Some(size) = profile.send_buffer {
            self.buffer("SO_SNDBUF", libc::SO_SNDBUF, size)?;
        }
        if let Some(size) = profile.receive_buffer {
            self.buffer("SO_RCVBUF", libc::SO_RCVBUF, size)?;
        }
        if let Some(size) = profile.max_segment {
            self.max_segment(size)?;
        }
        // A listener sends no SYN, and its accepted sockets are past it.
        if let Some(retries) = profile.syn_retries
            && self.side == Side::Server
        {
            self.exact(
                "TCP_SYNCNT",
                &i32::from(retries),
                |socket, value| set_int(socket, libc::IPPROTO_TCP, libc::TCP_SYNCNT, *value),
                |socket| int(socket, libc::IPPROTO_TCP, libc::TCP_SYNCNT),
            )?;
        }
        if let Some(dscp) = profile.dscp {
            self.dscp(dscp)?;
        }
        let milliseconds = Duration::from_millis(1);
        let microseconds = Duration::from_micros(1);
        for (option, name, span, unit) in [
            ("TCP_DELACK_MAX_US", 46, profile.delayed_ack, microseconds),
            ("TCP_RTO_MIN_US", 45, profile.min_rto, microseconds),
            ("TCP_RTO_MAX_MS", 44, profile.max_rto, milliseconds),
        ] {
            if let Some(span) = span {
                self.timer(option, name, span, unit)?;
            }
        }
        Ok(())
    }

    /// A timer of the connection, in a `unit` of its own. Kernels count it in jiffies (10 ms at most) and round
    /// up; those before 6.15 do not know it, and refuse. The numbers are those of `linux/tcp.h`, which the C
    /// library's headers have not yet.
    fn timer(
        &mut self,
        option: &'static str,
        name: libc::c_int,
        span: Duration,
        unit: Duration,
    ) -> Result<(), ApplyError> {
        let asked = i32::try_from(span.as_nanos() / unit.as_nanos()).unwrap_or(i32::MAX);
        if self.way != Way::Read {
            set_int(&self.socket, libc::IPPROTO_TCP, name, asked)
                .map_err(|source| self.refused(option, units::format_span(span), source))?;
        }
        let read = int(&self.socket, libc::IPPROTO_TCP, name)
            .map_err(|source| self.unreadable(option, source))?;
        let effective = unit * u32::try_from(read).unwrap_or(0);
        let (requested, told) = (units::format_span(span), units::format_span(effective));
        if effective < span || effective > span + Duration::from_millis(10) {
            return Err(self.ineffective(option, requested, told));
        }
        self.record(option, requested, told);
        Ok(())
    }

    /// A fixed buffer. The kernel doubles what is asked for, for its own bookkeeping
    /// (`__sock_set_rcvbuf` in `net/core/sock.c`), and silently takes `net.core.wmem_max` or `rmem_max`
    /// where that is less: so twice the request has to read back.
    fn buffer(
        &mut self,
        option: &'static str,
        name: libc::c_int,
        size: Bytes,
    ) -> Result<(), ApplyError> {
        let asked = i32::try_from(size.get()).unwrap_or(i32::MAX);
        self.set(option, &asked, |socket, value| {
            set_int(socket, libc::SOL_SOCKET, name, *value)
        })?;
        self.compare(option, &asked, |socket| {
            int(socket, libc::SOL_SOCKET, name).map(|doubled| doubled / 2)
        })
    }

    /// The largest segment. A connected socket tells the size in use, which options and the peer make
    /// smaller, so any size up to the one asked for is right.
    fn max_segment(&mut self, size: Bytes) -> Result<(), ApplyError> {
        const OPTION: &str = "TCP_MAXSEG";
        let asked = i32::try_from(size.get()).unwrap_or(i32::MAX);
        if self.way != Way::Read {
            set_int(&self.socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, asked)
                .map_err(|source| self.refused(OPTION, asked.to_string(), source))?;
        }
        let effective = int(&self.socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG)
            .map_err(|source| self.unreadable(OPTION, source))?;
        if effective > asked {
            return Err(self.ineffective(OPTION, asked.to_string(), effective.to_string()));
        }
        self.record(OPTION, asked.to_string(), effective.to_string());
        Ok(())
    }

    /// The class of service (RFC 2474), above the two bits of ECN, which are the kernel's. A socket for
    /// both families needs both options, since it sends IPv4 to mapped addresses.
    fn dscp(&mut self, dscp: u8) -> Result<(), ApplyError> {
        let v4 = (libc::IPPROTO_IP, libc::IP_TOS);
        let v6 = (libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
        let is_v6 = self
            .socket
            .domain()
            .is_ok_and(|domain| domain == Domain::IPV6);
        let options: &[_] = if is_v6 {
            &[("IPV6_TCLASS", v6), ("IP_TOS", v4)]
        } else {
            &[("IP_TOS", v4)]
        };
        for &(option, (level, name)) in options {
            self.exact(
                option,
                &(i32::from(dscp) << 2),
                |socket, value| set_int(socket, level, name, *value),
                |socket| int(socket, level, name).map(|class| class & !0b11),
            )?;
        }
        Ok(())
    }
}

pub(super) fn set_int(
    socket: &SockRef<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: i32,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<i32>()).expect("4 fits any socklen_t");
    // SAFETY: the descriptor is borrowed for the call, the kernel reads `length` bytes of a live i32.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
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

pub(super) fn int(socket: &SockRef<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<i32> {
    let mut value = 0_i32;
    let mut length = libc::socklen_t::try_from(size_of::<i32>()).expect("4 fits any socklen_t");
    // SAFETY: the descriptor is borrowed for the call, the kernel writes at most `length` bytes into a
    // live i32.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Room for the name of a congestion control (`TCP_CA_NAME_MAX` of `net/tcp.h`).
pub(super) const NAME: usize = 16;

/// The name of the congestion control in effect, and zeros behind it.
pub(super) fn congestion_name(socket: &impl AsFd) -> io::Result<[u8; NAME]> {
    let mut name = [0; NAME];
    let mut length = libc::socklen_t::try_from(NAME).expect("16 fits any socklen_t");
    // SAFETY: the descriptor is borrowed for the call, the kernel writes at most `length` bytes into a
    // live array of as many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(name)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::socket::{apply, verify};

    fn bounded() -> TcpProfile {
        TcpProfile {
            send_buffer: Some(Bytes::kib(64)),
            receive_buffer: Some(Bytes::kib(96)),
            max_segment: Some(Bytes::new(1000)),
            syn_retries: Some(3),
            dscp: Some(10),
            delayed_ack: Some(Duration::from_millis(10)),
            min_rto: Some(Duration::from_millis(40)),
            max_rto: Some(Duration::from_secs(20)),
            ..profile::builtin::wan()
        }
    }

    /// On both sides of a connection, set before it is there and read after data has flowed.
    fn holds_on(address: &str) {
        let profile = bounded();
        let listener = TcpListener::bind(address).unwrap();
        let peer = listener.local_addr().unwrap();
        apply(&listener, &profile, Side::Client, peer).unwrap();
        let domain = Domain::for_address(peer);
        let connecting = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
        apply(&connecting, &profile, Side::Server, peer).unwrap();
        connecting.connect(&peer.into()).unwrap();
        let mut connected = TcpStream::from(connecting);
        let (mut accepted, _) = listener.accept().unwrap();
        connected.write_all(b"x").unwrap();
        accepted.read_exact(&mut [0]).unwrap();
        for (socket, side) in [(&accepted, Side::Client), (&connected, Side::Server)] {
            let applied = verify(socket, &profile, side, peer).unwrap();
            let effective = |option: &str| {
                let found = applied.iter().find(|applied| applied.option == option);
                found.map(|applied| applied.effective.clone())
            };
            assert_eq!(effective("SO_SNDBUF").as_deref(), Some("65536"));
            assert_eq!(effective("SO_RCVBUF").as_deref(), Some("98304"));
            assert!(effective("TCP_MAXSEG").unwrap().parse::<i32>().unwrap() <= 1000);
            assert_eq!(effective("TCP_SYNCNT").is_some(), side == Side::Server);
            assert_eq!(effective("IP_TOS").as_deref(), Some("40"));
            assert_eq!(effective("TCP_RTO_MIN_US").as_deref(), Some("40 ms"));
            assert_eq!(effective("TCP_RTO_MAX_MS").as_deref(), Some("20 s"));
            assert!(effective("TCP_DELACK_MAX_US").is_some());
        }
    }

    #[test]
    fn bounds_hold_on_accepted_and_connected_sockets_after_data_has_flowed() {
        holds_on("127.0.0.1:0");
        holds_on("[::1]:0");
    }

    #[test]
    fn a_buffer_that_the_kernel_cuts_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let profile = TcpProfile {
            send_buffer: Some(Bytes::mib(1024)),
            ..profile::builtin::wan()
        };
        let error = apply(&listener, &profile, Side::Client, peer).unwrap_err();
        assert!(
            matches!(
                error,
                ApplyError::NotEffective {
                    option: "SO_SNDBUF",
                    ..
                }
            ),
            "{error}"
        );
    }
}
