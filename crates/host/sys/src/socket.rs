//! Socket options: applied, read back, recorded.
//!
//! Every option of a profile is set, then asked for again, and the two are compared by a rule of that
//! option's own. An option that the kernel refuses or changes is an error: for a relay whose whole point
//! is how its sockets behave, a warning would be a lie.

mod bounds;
mod extensions;

use std::fmt;
use std::io;
use std::mem::size_of;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use profile::{KeepAlive, Side, TcpProfile};
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use units::{Bytes, Rate, Span};

/// An option as asked for and as the kernel reports it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Applied {
    /// The option's name in the kernel's headers.
    pub option: &'static str,
    /// What the profile asks for.
    pub requested: String,
    /// What was read back.
    pub effective: String,
}

/// A profile's setting could not be put into effect.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The kernel refused the option.
    #[error("cannot set {option} to {requested} on the {side} socket to {peer}")]
    Set {
        /// The option's name in the kernel's headers.
        option: &'static str,
        /// What the profile asks for.
        requested: String,
        /// Which socket.
        side: Side,
        /// Its other end.
        peer: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The option was set and could not be read back.
    #[error("cannot read back {option} from the {side} socket to {peer}")]
    ReadBack {
        /// The option's name in the kernel's headers.
        option: &'static str,
        /// Which socket.
        side: Side,
        /// Its other end.
        peer: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel as a whole does not allow it.
    #[error(
        "{option} on the {side} socket to {peer}: {sysctl} is {effective}; sysctl -w {sysctl}={needed} allows it"
    )]
    Disallowed {
        /// The option's name in the kernel's headers, or what it is about.
        option: &'static str,
        /// Which socket.
        side: Side,
        /// Its other end.
        peer: SocketAddr,
        /// The kernel's setting.
        sysctl: &'static str,
        /// What it is.
        effective: u32,
        /// What it has to be.
        needed: u32,
    },
    /// The kernel accepted the option and then reported another value.
    #[error("{option} on the {side} socket to {peer} reads back {effective}, not {requested}")]
    NotEffective {
        /// The option's name in the kernel's headers.
        option: &'static str,
        /// Which socket.
        side: Side,
        /// Its other end.
        peer: SocketAddr,
        /// What the profile asks for.
        requested: String,
        /// What was read back.
        effective: String,
    },
}

/// Puts `profile` into effect on a TCP socket. `peer` is for the error only.
///
/// Leaves `SO_SNDBUF` and `SO_RCVBUF` alone unless the profile asks for fixed sizes: setting either ends
/// the kernel's autotuning.
pub fn apply(
    socket: &impl AsFd,
    profile: &TcpProfile,
    side: Side,
    peer: SocketAddr,
) -> Result<Vec<Applied>, ApplyError> {
    Options::of(socket, side, peer).profile(profile, Way::SetAndRead)
}

/// Asks whether `profile` is in effect, without setting anything: for a socket that inherited its options
/// from a listener (`sk_clone_lock` in `net/core/sock.c`), or one that has carried data meanwhile.
pub fn verify(
    socket: &impl AsFd,
    profile: &TcpProfile,
    side: Side,
    peer: SocketAddr,
) -> Result<Vec<Applied>, ApplyError> {
    Options::of(socket, side, peer).profile(profile, Way::Read)
}

/// Puts `profile` into effect as [`apply`] does, for one more socket of a kind on which that has shown the same
/// profile to be in effect. A refused option is an error here as well; read back are those that the kernel may
/// bend (buffers, segments, timers), and no other: a number that it stores as it came costs a system call
/// to be told again. `congestion` is the congestion control that was found in effect, if the profile names any.
pub fn apply_again(
    socket: &impl AsFd,
    profile: &TcpProfile,
    congestion: Option<&str>,
    side: Side,
    peer: SocketAddr,
) -> Result<(), ApplyError> {
    let options = Options::of(socket, side, peer);
    if let Some(name) = congestion {
        options.set(CONGESTION, &name, |socket, name| {
            socket.set_tcp_congestion(name.as_bytes())
        })?;
    }
    options.profile(profile, Way::Set).map(drop)
}

/// Bounds the rate at which a socket's segments leave. The kernel counts payload bytes, so a rate on
/// the wire has to be scaled down by the share of the headers first.
pub fn set_pacing_rate(
    socket: &impl AsFd,
    rate: Rate,
    side: Side,
    peer: SocketAddr,
) -> Result<Applied, ApplyError> {
    Options::of(socket, side, peer).pacing_rate(rate)
}

/// Bounds the bytes that a socket holds and has not sent, above which it is not writable (`TCP_NOTSENT_LOWAT`). For a socket
/// that is open already, because what is right changes with its pace.
pub fn set_unsent_bound(
    socket: &impl AsFd,
    bound: Bytes,
    side: Side,
    peer: SocketAddr,
) -> Result<(), ApplyError> {
    Options::of(socket, side, peer).unsent_bound(bound)
}

/// What the kernel may call a congestion control, the first choice first: by its own module, or as
/// `longhaul cc load` names what it puts in. `newreno_44` is a `NewReno` that was loaded with `--ssthresh 44`; the kernel has
/// no module of that name.
#[must_use]
pub fn kernel_names(name: &str) -> Vec<String> {
    let module = match name {
        "westwood+" => "westwood",
        other => other,
    };
    match module {
        "westwood" | "highspeed" => vec![module.to_owned(), format!("lh_{module}")],
        "newreno" => vec![format!("lh_{module}")],
        _ if module.starts_with("newreno_") => vec![format!("lh_{module}")],
        _ => vec![module.to_owned()],
    }
}

/// Sets the congestion control of one TCP socket by its name in the kernel.
pub fn set_congestion_control(
    socket: &impl AsFd,
    name: &str,
    side: Side,
    peer: SocketAddr,
) -> Result<Applied, ApplyError> {
    let mut options = Options::of(socket, side, peer);
    options.congestion_control(&[name.to_owned()])?;
    Ok(Applied {
        option: CONGESTION,
        requested: name.to_owned(),
        effective: name.to_owned(),
    })
}

/// Sets `name` again where a route's own congestion control (`ip route … congctl`) has taken its place: at
/// connect (`tcp_ca_dst_init` in `net/ipv4/tcp_output.c`) and on accepted sockets (`tcp_ca_openreq_child` in
/// `net/ipv4/tcp_minisocks.c`) the kernel prefers the route's.
pub fn keep_congestion_control(
    socket: &impl AsFd,
    name: &str,
    side: Side,
    peer: SocketAddr,
) -> Result<(), ApplyError> {
    // Behind the name stand zeros, as many as there is room for.
    let is_it = |effective: [u8; bounds::NAME]| {
        effective.split(|&byte| byte == 0).next() == Some(name.as_bytes())
    };
    if bounds::congestion_name(socket).is_ok_and(is_it) {
        return Ok(());
    }
    set_congestion_control(socket, name, side, peer).map(drop)
}

/// One of a socket's two buffers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Buffer {
    /// `SO_SNDBUF`.
    Send,
    /// `SO_RCVBUF`; on a listener it holds for the connections accepted from it.
    Receive,
}

/// Fixes a buffer's size and so ends the kernel's autotuning of it, for load generators that play a host
/// with small buffers. The kernel books twice of what is asked for, to have room for its own overhead,
/// and holds it below `net.core.wmem_max` and `rmem_max` (`sock_setsockopt` in `net/core/sock.c`).
pub fn set_buffer(
    socket: &impl AsFd,
    buffer: Buffer,
    bytes: Bytes,
    side: Side,
    peer: SocketAddr,
) -> Result<Applied, ApplyError> {
    let mut options = Options::of(socket, side, peer);
    let size = usize::try_from(bytes.get()).unwrap_or(usize::MAX);
    let option = match buffer {
        Buffer::Send => "SO_SNDBUF",
        Buffer::Receive => "SO_RCVBUF",
    };
    options.exact(
        option,
        &size,
        |socket, size| match buffer {
            Buffer::Send => socket.set_send_buffer_size(*size),
            Buffer::Receive => socket.set_recv_buffer_size(*size),
        },
        |socket| {
            let booked = match buffer {
                Buffer::Send => socket.send_buffer_size(),
                Buffer::Receive => socket.recv_buffer_size(),
            };
            booked.map(|booked| booked / 2)
        },
    )?;
    Ok(Applied {
        option,
        requested: bytes.to_string(),
        effective: bytes.to_string(),
    })
}

/// Lets a socket's receive window open as far as to `bytes` before its bytes have been read; from there on the kernel's autotuning
/// goes on. As far as `net.ipv4.tcp_rmem` allows, half of whose maximum is the kernel's own bound here.
///
/// A receive buffer that was fixed stays as it is (`tcp_set_rcvlowat` in `net/ipv4/tcp.c`, which makes room for what a
/// reader says it waits for; nobody waits for so much, so that is taken back at once).
pub fn begin_receive_window_at(
    socket: &impl AsFd,
    bytes: Bytes,
    side: Side,
    peer: SocketAddr,
) -> Result<(), ApplyError> {
    const OPTION: &str = "SO_RCVLOWAT";
    let options = Options::of(socket, side, peer);
    let most = i32::try_from(bytes.get()).unwrap_or(i32::MAX);
    for low_water in [most, 1] {
        options.set(OPTION, &low_water, |socket, value| {
            bounds::set_int(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, *value)
        })?;
    }
    Ok(())
}

/// The name of the congestion control that is in effect on a TCP socket.
pub fn congestion_control(socket: &impl AsFd) -> io::Result<String> {
    let name = SockRef::from(socket).tcp_congestion()?;
    Ok(String::from_utf8_lossy(&name)
        .trim_end_matches('\0')
        .to_owned())
}

/// What an idle connection has to say for itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IdleState {
    /// Open, nothing to read.
    Quiet,
    /// The peer has sent its FIN.
    Finished,
    /// The peer has sent bytes that nobody asked for.
    Unsolicited,
    /// The connection failed, by a reset or by a timeout.
    Failed,
}

/// Looks at an idle connection without taking anything from it and without waiting.
#[must_use]
pub fn idle_state(socket: &impl AsFd) -> IdleState {
    let mut byte = [0_u8; 1];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match rustix::net::recv(socket, &mut byte, flags) {
        Ok((0, _)) => IdleState::Finished,
        Ok(_) => IdleState::Unsolicited,
        Err(rustix::io::Errno::AGAIN) => IdleState::Quiet,
        Err(_) => IdleState::Failed,
    }
}

/// Takes what a socket has received, as far as it fits; 0 at the end of the stream.
pub fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _length) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
    Ok(count)
}

/// Writes once, and returns how many bytes were taken. A peer that is gone is an error here, not a signal to the process.
pub fn send(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// The next connection of a listener that does not wait; neither does the connection.
pub fn accept(listener: &impl AsFd) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (stream, peer) = rustix::net::acceptfrom_with(listener, flags)?;
    // TCP's peers have addresses.
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    let peer = peer.ok_or(io::ErrorKind::NotConnected)?;
    Ok((stream.into(), peer))
}

/// A socket that can connect to such an address, and does not wait.
pub fn unconnected(peer: SocketAddr) -> io::Result<TcpStream> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new_raw(Domain::for_address(peer), kind, Some(Protocol::TCP))?;
    Ok(socket.into())
}

/// Gives a socket its own address.
pub fn bind(socket: &impl AsFd, address: SocketAddr) -> io::Result<()> {
    Ok(rustix::net::bind(socket, &address)?)
}

/// Begins to connect a socket that does not wait. When it is writable, [`take_error`] tells what has come of it.
pub fn connect(socket: &impl AsFd, peer: SocketAddr) -> io::Result<()> {
    match rustix::net::connect(socket, &peer) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What a connection has failed by, if it has and nobody has been told yet.
pub fn take_error(socket: &impl AsFd) -> io::Result<()> {
    match rustix::net::sockopt::socket_error(socket)? {
        Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// This host's address of a connection.
pub fn local_address(socket: &impl AsFd) -> io::Result<SocketAddr> {
    let address = rustix::net::getsockname(socket)?;
    Ok(SocketAddr::try_from(address)?)
}

/// Makes closing a reset: the peer does not take what came for the whole.
pub fn reset_when_closed(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).set_linger(Some(Duration::ZERO))
}

/// Ends the sending direction: the peer gets a FIN once all that was written has arrived.
pub fn finish_sending(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).shutdown(std::net::Shutdown::Write)
}

/// Leaves urgent data at its place in the stream, for a socket or those that a listener will accept.
/// Without this, reading skips the urgent byte (`tcp_recvmsg_locked` in `net/ipv4/tcp.c`).
pub fn keep_urgent_inline(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).set_out_of_band_inline(true)
}

const CONGESTION: &str = "TCP_CONGESTION";

/// One socket under way to its profile.
struct Options<'a> {
    socket: SockRef<'a>,
    side: Side,
    peer: SocketAddr,
    way: Way,
    applied: Vec<Applied>,
}

/// What is done with each option.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    SetAndRead,
    /// Compared without setting.
    Read,
    /// Read back only where the kernel may bend it; the congestion control is set elsewhere.
    Set,
}

impl<'a> Options<'a> {
    fn of(socket: &'a impl AsFd, side: Side, peer: SocketAddr) -> Self {
        Self {
            socket: SockRef::from(socket),
            side,
            peer,
            way: Way::SetAndRead,
            applied: Vec::new(),
        }
    }

    fn profile(mut self, profile: &TcpProfile, way: Way) -> Result<Vec<Applied>, ApplyError> {
        self.way = way;
        if way != Way::Set {
            self.congestion_control(&profile.congestion_control)?;
        }
        self.exact(
            "TCP_NODELAY",
            &!profile.nagle,
            |socket, value| socket.set_tcp_nodelay(*value),
            |socket| socket.tcp_nodelay(),
        )?;
        if let Some(low_water) = profile.notsent_low_water {
            self.unsent_bound(low_water)?;
        }
        if let Some(keep_alive) = profile.keep_alive {
            self.keep_alive(keep_alive)?;
        }
        if let Some(timeout) = profile.user_timeout {
            self.exact(
                "TCP_USER_TIMEOUT",
                &Span::from(timeout),
                |socket, value| socket.set_tcp_user_timeout(Some(value.get())),
                |socket| Ok(socket.tcp_user_timeout()?.unwrap_or_default().into()),
            )?;
        }
        if let Some(rate) = profile.max_pacing_rate {
            self.pacing_rate(rate)?;
        }
        self.bounds(profile)?;
        self.extensions(profile)?;
        Ok(self.applied)
    }

    /// Takes the first algorithm that the kernel has and lets this process use
    /// (`net.ipv4.tcp_allowed_congestion_control`); an error tells of the last one's refusal.
    fn congestion_control(&mut self, preferences: &[String]) -> Result<(), ApplyError> {
        let requested = preferences.join(" or ");
        let names: Vec<String> = preferences
            .iter()
            .flat_map(|name| kernel_names(name))
            .collect();
        let mut refusal = None;
        for name in &names {
            if self.way == Way::Read {
                break;
            }
            match self.socket.set_tcp_congestion(name.as_bytes()) {
                Ok(()) => return self.congestion_in_effect(std::slice::from_ref(name), requested),
                Err(source) => refusal = Some(source),
            }
        }
        match refusal {
            Some(source) => Err(self.refused(CONGESTION, requested, source)),
            None if preferences.is_empty() => Ok(()),
            None => self.congestion_in_effect(&names, requested),
        }
    }

    /// Whether one of `expected` is in effect.
    fn congestion_in_effect(
        &mut self,
        expected: &[String],
        requested: String,
    ) -> Result<(), ApplyError> {
        let effective = self
            .socket
            .tcp_congestion()
            .map_err(|source| self.unreadable(CONGESTION, source))?;
        let effective = String::from_utf8_lossy(&effective)
            .trim_end_matches('\0')
            .to_owned();
        if !expected.contains(&effective) {
            return Err(self.ineffective(CONGESTION, requested, effective));
        }
        self.record(CONGESTION, requested, effective);
        Ok(())
    }

    fn keep_alive(&mut self, keep_alive: KeepAlive) -> Result<(), ApplyError> {
        // Times first: switched on before them, the first probe would be timed by the defaults. Each by its own
        // option: the wrapper's call for all of them sets SO_KEEPALIVE along with each, for every connection.
        for (option, name, span) in [
            ("TCP_KEEPIDLE", libc::TCP_KEEPIDLE, keep_alive.idle),
            ("TCP_KEEPINTVL", libc::TCP_KEEPINTVL, keep_alive.interval),
        ] {
            self.exact(
                option,
                &Span::from(span),
                |socket, value| {
                    let seconds = i32::try_from(value.get().as_secs()).unwrap_or(i32::MAX);
                    bounds::set_int(socket, libc::IPPROTO_TCP, name, seconds)
                },
                |socket| {
                    let seconds = bounds::int(socket, libc::IPPROTO_TCP, name)?;
                    let seconds = u64::try_from(seconds).unwrap_or(0);
                    Ok(Span::from(Duration::from_secs(seconds)))
                },
            )?;
        }
        let probes = i32::try_from(keep_alive.probes).unwrap_or(i32::MAX);
        self.exact(
            "TCP_KEEPCNT",
            &probes,
            |socket, value| bounds::set_int(socket, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, *value),
            |socket| bounds::int(socket, libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
        )?;
        self.exact(
            "SO_KEEPALIVE",
            &true,
            |socket, value| socket.set_keepalive(*value),
            |socket| socket.keepalive(),
        )
    }

    fn unsent_bound(&mut self, bound: Bytes) -> Result<(), ApplyError> {
        let bytes = u32::try_from(bound.get()).unwrap_or(u32::MAX);
        self.exact(
            "TCP_NOTSENT_LOWAT",
            &bytes,
            |socket, value| socket.set_tcp_notsent_lowat(*value),
            |socket| socket.tcp_notsent_lowat(),
        )
    }

    fn pacing_rate(&mut self, rate: Rate) -> Result<Applied, ApplyError> {
        const OPTION: &str = "SO_MAX_PACING_RATE";
        let bytes_per_s = rate.bytes_per_s();
        self.exact(
            OPTION,
            &BytesPerSecond(bytes_per_s),
            |socket, value| set_max_pacing_rate(socket, value.0),
            |socket| max_pacing_rate(socket).map(BytesPerSecond),
        )?;
        Ok(Applied {
            option: OPTION,
            requested: rate.to_string(),
            effective: BytesPerSecond(bytes_per_s).to_string(),
        })
    }

    /// Sets an option whose value the kernel stores as it is, or refuses; it must read back as it was set.
    fn exact<T: PartialEq + fmt::Display>(
        &mut self,
        option: &'static str,
        requested: &T,
        set: impl Fn(&SockRef<'_>, &T) -> io::Result<()>,
        read: impl Fn(&SockRef<'_>) -> io::Result<T>,
    ) -> Result<(), ApplyError> {
        self.set(option, requested, set)?;
        if self.way == Way::Set {
            return Ok(());
        }
        self.compare(option, requested, read)
    }

    fn set<T: fmt::Display>(
        &self,
        option: &'static str,
        requested: &T,
        set: impl Fn(&SockRef<'_>, &T) -> io::Result<()>,
    ) -> Result<(), ApplyError> {
        if self.way == Way::Read {
            return Ok(());
        }
        set(&self.socket, requested)
            .map_err(|source| self.refused(option, requested.to_string(), source))
    }

    fn compare<T: PartialEq + fmt::Display>(
        &mut self,
        option: &'static str,
        requested: &T,
        read: impl Fn(&SockRef<'_>) -> io::Result<T>,
    ) -> Result<(), ApplyError> {
        let effective = read(&self.socket).map_err(|source| self.unreadable(option, source))?;
        if effective != *requested {
            return Err(self.ineffective(option, requested.to_string(), effective.to_string()));
        }
        self.record(option, requested.to_string(), effective.to_string());
        Ok(())
    }

    fn record(&mut self, option: &'static str, requested: String, effective: String) {
        self.applied.push(Applied {
            option,
            requested,
            effective,
        });
    }

    fn refused(&self, option: &'static str, requested: String, source: io::Error) -> ApplyError {
        ApplyError::Set {
            option,
            requested,
            side: self.side,
            peer: self.peer,
            source,
        }
    }

    fn unreadable(&self, option: &'static str, source: io::Error) -> ApplyError {
        ApplyError::ReadBack {
            option,
            side: self.side,
            peer: self.peer,
            source,
        }
    }

    fn ineffective(
        &self,
        option: &'static str,
        requested: String,
        effective: String,
    ) -> ApplyError {
        ApplyError::NotEffective {
            option,
            side: self.side,
            peer: self.peer,
            requested,
            effective,
        }
    }
}

#[derive(PartialEq)]
struct BytesPerSecond(u64);

impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Rate::bit_per_s(self.0.saturating_mul(8)).fmt(f)
    }
}

/// `SO_MAX_PACING_RATE`, which no safe wrapper offers, in its 64-bit form (kernel 5.0 and later).
fn set_max_pacing_rate(socket: &SockRef<'_>, bytes_per_s: u64) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<u64>()).expect("8 fits any socklen_t");
    // SAFETY: the descriptor is borrowed for the call, the kernel reads `length` bytes of a live u64.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_s).cast(),
            length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn max_pacing_rate(socket: &SockRef<'_>) -> io::Result<u64> {
    let mut bytes_per_s = 0_u64;
    let mut length = libc::socklen_t::try_from(size_of::<u64>()).expect("8 fits any socklen_t");
    // SAFETY: the descriptor is borrowed for the call, the kernel writes at most `length` bytes into a
    // live u64.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw mut bytes_per_s).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(bytes_per_s)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> (TcpStream, TcpStream, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        (client, listener.accept().unwrap().0, address)
    }

    #[test]
    fn a_buffer_holds_half_of_what_the_kernel_books_and_too_much_is_refused() {
        let (client, _server, peer) = pair();
        for buffer in [Buffer::Send, Buffer::Receive] {
            set_buffer(&client, buffer, Bytes::kib(64), Side::Server, peer).unwrap();
            let refused = set_buffer(&client, buffer, Bytes::mib(1 << 20), Side::Server, peer);
            assert!(
                matches!(refused, Err(ApplyError::NotEffective { .. })),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn a_receive_window_has_room_from_the_beginning_and_a_fixed_buffer_stays() {
        let room = |socket: &TcpStream| SockRef::from(socket).recv_buffer_size().unwrap();
        let (automatic, fixed, peer) = pair();
        SockRef::from(&fixed)
            .set_recv_buffer_size(32 << 10)
            .unwrap();
        let before = (room(&automatic), room(&fixed));
        let window = Bytes::mib(1);
        for socket in [&automatic, &fixed] {
            begin_receive_window_at(socket, window, Side::Server, peer).unwrap();
        }
        // As long as the window, and what its packets cost beside their payload.
        assert!(
            before.0 < 1 << 20 && room(&automatic) >= 1 << 20,
            "{before:?}"
        );
        assert_eq!(room(&fixed), before.1);
        // Readers still hear of every byte.
        (&fixed).write_all(b"x").unwrap();
        assert_eq!((&automatic).read(&mut [0; 9]).unwrap(), 1);
    }

    #[test]
    fn a_congestion_control_is_set_by_name_and_an_unknown_one_refused() {
        let (client, _server, peer) = pair();
        set_congestion_control(&client, "reno", Side::Server, peer).unwrap();
        assert_eq!(congestion_control(&client).unwrap(), "reno");
        assert!(set_congestion_control(&client, "no-such", Side::Server, peer).is_err());
    }

    #[test]
    fn names_of_papers_stand_for_the_kernels_module_and_for_what_we_put_in() {
        assert_eq!(kernel_names("westwood+"), ["westwood", "lh_westwood"]);
        assert_eq!(kernel_names("highspeed"), ["highspeed", "lh_highspeed"]);
        assert_eq!(kernel_names("newreno"), ["lh_newreno"]);
        assert_eq!(kernel_names("newreno_44"), ["lh_newreno_44"]);
        assert_eq!(kernel_names("lh_newreno_44"), ["lh_newreno_44"]);
        assert_eq!(kernel_names("cubic"), ["cubic"]);
    }

    #[test]
    fn every_built_in_profile_is_applied_and_reads_back() {
        for name in profile::builtin::NAMES {
            let (client, _server, peer) = pair();
            let profile = profile::builtin::find(name).unwrap();
            let applied = apply(&client, &profile, Side::Server, peer).unwrap();
            let options: Vec<_> = applied.iter().map(|applied| applied.option).collect();
            let mut expected = vec!["TCP_CONGESTION", "TCP_NODELAY"];
            expected.extend(profile.notsent_low_water.map(|_| "TCP_NOTSENT_LOWAT"));
            expected.extend([
                "TCP_KEEPIDLE",
                "TCP_KEEPINTVL",
                "TCP_KEEPCNT",
                "SO_KEEPALIVE",
            ]);
            expected.extend(profile.user_timeout.map(|_| "TCP_USER_TIMEOUT"));
            expected.extend(profile.syn_retries.map(|_| "TCP_SYNCNT"));
            assert_eq!(options, expected, "{name}");
            assert_eq!(client.nodelay().unwrap(), !profile.nagle);
        }
    }

    #[test]
    fn a_profile_that_is_applied_again_is_in_effect_and_only_what_may_be_bent_is_read_back() {
        let (client, _server, peer) = pair();
        let mut profile = profile::builtin::wan();
        profile.congestion_control = vec!["no-such-cc".into(), "reno".into()];
        profile.send_buffer = Some(Bytes::kib(64));
        profile.syn_retries = Some(3);
        apply_again(&client, &profile, Some("reno"), Side::Server, peer).unwrap();
        let (other, _server, _) = pair();
        assert_eq!(
            verify(&client, &profile, Side::Server, peer).unwrap(),
            apply(&other, &profile, Side::Server, peer).unwrap()
        );
        profile.send_buffer = Some(Bytes::mib(1 << 10));
        let bent = apply_again(&client, &profile, None, Side::Server, peer).unwrap_err();
        assert!(matches!(bent, ApplyError::NotEffective { .. }), "{bent}");
        let refused =
            apply_again(&client, &profile, Some("no-such-cc"), Side::Server, peer).unwrap_err();
        assert!(matches!(refused, ApplyError::Set { .. }), "{refused}");
    }

    #[test]
    fn an_accepted_socket_inherits_the_whole_profile_of_its_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let mut profile = profile::builtin::wan();
        profile.congestion_control = vec!["no-such-cc".into(), "reno".into()];
        profile.max_pacing_rate = Some(Rate::mbit_per_s(40_000));
        let listening = apply(&listener, &profile, Side::Client, peer).unwrap();
        let mut client = TcpStream::connect(peer).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        client.write_all(b"x").unwrap();
        accepted.read_exact(&mut [0]).unwrap();
        assert_eq!(
            verify(&accepted, &profile, Side::Client, peer).unwrap(),
            listening
        );
        accepted.set_nodelay(false).unwrap();
        let error = verify(&accepted, &profile, Side::Client, peer).unwrap_err();
        assert!(
            matches!(
                error,
                ApplyError::NotEffective {
                    option: "TCP_NODELAY",
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn the_first_algorithm_that_the_kernel_has_is_taken() {
        let (client, _server, peer) = pair();
        let mut profile = profile::builtin::wan();
        profile.congestion_control = vec!["no-such-cc".into(), "reno".into(), "cubic".into()];
        let applied = apply(&client, &profile, Side::Server, peer).unwrap();
        assert_eq!(applied[0].requested, "no-such-cc or reno or cubic");
        assert_eq!(applied[0].effective, "reno");
    }

    #[test]
    fn a_refusal_names_option_side_and_peer_and_keeps_the_kernels_word_as_source() {
        let (client, _server, peer) = pair();
        let mut profile = profile::builtin::lan();
        profile.congestion_control = vec!["no-such-cc".into()];
        let error = apply(&client, &profile, Side::Client, peer).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot set TCP_CONGESTION to no-such-cc on the client-side socket to {peer}")
        );
        let source = std::error::Error::source(&error).unwrap();
        assert!(source.to_string().contains("os error 2"), "{source}");
    }

    #[test]
    fn a_pacing_rate_reads_back_beyond_32_bits() {
        let (client, _server, peer) = pair();
        for rate in [Rate::mbit_per_s(100), Rate::mbit_per_s(40_000)] {
            let applied = set_pacing_rate(&client, rate, Side::Server, peer).unwrap();
            assert_eq!(applied.effective, rate.to_string());
        }
    }

    #[test]
    fn a_low_water_mark_reads_back_as_it_was_set() {
        let (client, _server, peer) = pair();
        let mut profile = profile::builtin::wan();
        profile.notsent_low_water = Some(Bytes::new(12_345));
        let applied = apply(&client, &profile, Side::Server, peer).unwrap();
        let low_water = applied
            .iter()
            .find(|applied| applied.option == "TCP_NOTSENT_LOWAT");
        assert_eq!(low_water.unwrap().effective, "12345");
    }

    #[test]
    fn an_idle_connection_tells_quiet_from_finished_and_from_unsolicited_bytes() {
        let (client, mut server, _) = pair();
        assert_eq!(idle_state(&client), IdleState::Quiet);
        server.write_all(b"x").unwrap();
        let mut byte = [0];
        client.peek(&mut byte).unwrap(); // waits until the byte is there
        assert_eq!(idle_state(&client), IdleState::Unsolicited);

        let (client, server, _) = pair();
        drop(server);
        client.peek(&mut byte).unwrap(); // waits for the FIN
        assert_eq!(idle_state(&client), IdleState::Finished);
    }
}
