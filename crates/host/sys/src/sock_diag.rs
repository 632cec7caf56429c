//! The TCP sockets of a network namespace, asked of its kernel by netlink (`sock_diag(7)`).
//!
//! The answer carries the same `TCP_INFO` that `getsockopt` gives, for sockets of any process. A socket
//! opened inside a namespace keeps serving that namespace, whatever thread asks later. Layouts are those
//! of `include/uapi/linux/inet_diag.h`, in host byte order but for ports and addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::tcp_info::{State, TcpInfo};

/// A netlink socket that lists the TCP sockets of the namespace in which it was opened.
#[derive(Debug)]
pub struct SockDiag {
    netlink: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Which states of sockets are asked for, as the kernel numbers them (`include/net/tcp_states.h`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct States(u32);

/// One TCP socket as its kernel describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpSocket {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// Where the connection stands.
    pub state: State,
    /// The kernel's own number for this socket: two sockets with the same addresses, one after the other,
    /// differ in it.
    pub cookie: u64,
    /// The socket's file (`socket:[…]` below `/proc/PID/fd`); zero where no process holds it any more.
    pub inode: u32,
    /// The user who made it.
    pub uid: u32,
    /// Bytes received that nobody has read.
    pub receive_queue: u32,
    /// Bytes written that the peer has not acknowledged.
    pub send_queue: u32,
    /// The congestion control at work, such as `cubic`; absent where the kernel does not say.
    pub congestion_control: Option<String>,
    /// Absent while the connection is only half made.
    pub info: Option<TcpInfo>,
}

/// The kernel did not list its sockets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SockDiagError {
    /// No netlink socket.
    #[error("cannot open a sock_diag socket")]
    Open(#[source] io::Error),
    /// The question or its answer did not pass.
    #[error("cannot {operation} the list of TCP sockets")]
    Exchange {
        /// What was tried.
        operation: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// An answer that does not have the layout of `inet_diag.h`.
    #[error("the kernel's list of TCP sockets cannot be read")]
    Malformed,
}

/// `struct nlmsghdr`.
const MESSAGE_HEADER: usize = 16;
/// `struct inet_diag_req`.
const REQUEST: usize = 60;
/// `struct inet_diag_msg`.
const ANSWER: usize = 72;
/// `struct nlattr`.
const ATTRIBUTE_HEADER: usize = 4;

/// The older of two questions: it walks the kernel's table once for both address families, as `ss` does. The newer one
/// names a family, and twice past 20,000 sockets cost an eighth more.
const TCPDIAG_GETSOCK: u16 = 18;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
/// A dump comes in messages of at most 32 KiB (`NLMSG_GOODSIZE` and `netlink_recvmsg` in `af_netlink.c`).
const BUFFER: usize = 64 * 1024;

// === impl States ===

impl States {
    /// States with data to speak of: `ESTABLISHED` (1), `FIN_WAIT1` and `2` (4, 5), `CLOSE_WAIT` (8),
    /// `LAST_ACK` (9), `CLOSING` (11).
    pub const WITH_DATA: Self = Self(1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11);
    /// Those and connections that are being made: `SYN_SENT` (2), `SYN_RECV` (3).
    pub const CONNECTIONS: Self = Self(Self::WITH_DATA.0 | 1 << 2 | 1 << 3);
    /// Those and listeners (10), which tell who opened which connection.
    pub const WITH_LISTENERS: Self = Self(Self::CONNECTIONS.0 | 1 << 10);
    /// Every state, listeners (10), `TIME_WAIT` (6) and connections that nobody has accepted yet (12) too.
    pub const ALL: Self = Self(Self::CONNECTIONS.0 | 1 << 6 | 1 << 10 | 1 << 12);

    /// These, and `TIME_WAIT` (6).
    #[must_use]
    pub const fn and_time_wait(self) -> Self {
        Self(self.0 | 1 << 6)
    }
}

// === impl SockDiag ===

impl SockDiag {
    /// Opens it in the namespace of the calling thread; see
    /// [`NetworkNamespace::enter`](crate::namespace::NetworkNamespace::enter).
    pub fn open() -> Result<Self, SockDiagError> {
        // SAFETY: socket takes numbers only.
        let descriptor = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                libc::NETLINK_SOCK_DIAG,
            )
        };
        if descriptor < 0 {
            return Err(SockDiagError::Open(io::Error::last_os_error()));
        }
        // SAFETY: the call above has just made it, and nobody else knows it.
        let netlink = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self {
            netlink,
            sequence: 0,
            buffer: vec![0; BUFFER],
        })
    }

    /// Every TCP socket with data to speak of, of both address families.
    pub fn tcp_sockets(&mut self) -> Result<Vec<TcpSocket>, SockDiagError> {
        let mut sockets = Vec::new();
        self.visit(States::WITH_DATA, |socket| sockets.push(socket))?;
        Ok(sockets)
    }

    /// Hands every TCP socket in one of `states` to `visitor`, of both address families.
    pub fn visit(
        &mut self,
        states: States,
        mut visitor: impl FnMut(TcpSocket),
    ) -> Result<(), SockDiagError> {
        self.ask(states)?;
        while self.read(&mut visitor)? {}
        Ok(())
    }

    fn ask(&mut self, states: States) -> Result<(), SockDiagError> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = request(states, self.sequence);
        // SAFETY: the buffer outlives the call and its length is given; an unconnected netlink socket sends
        // to the kernel.
        let sent = unsafe {
            libc::send(
                self.netlink.as_raw_fd(),
                request.as_ptr().cast(),
                request.len(),
                0,
            )
        };
        if usize::try_from(sent) == Ok(request.len()) {
            return Ok(());
        }
        Err(SockDiagError::Exchange {
            operation: "ask for",
            source: io::Error::last_os_error(),
        })
    }

    /// Takes in one datagram of the answer; whether more will come.
    fn read(&mut self, visitor: &mut impl FnMut(TcpSocket)) -> Result<bool, SockDiagError> {
        // SAFETY: the kernel writes at most the buffer's length into it.
        let received = unsafe {
            libc::recv(
                self.netlink.as_raw_fd(),
                self.buffer.as_mut_ptr().cast(),
                self.buffer.len(),
                0,
            )
        };
        let Ok(received) = usize::try_from(received) else {
            let source = io::Error::last_os_error();
            if source.kind() == io::ErrorKind::Interrupted {
                return Ok(true);
            }
            return Err(SockDiagError::Exchange {
                operation: "read",
                source,
            });
        };
        let received = received.min(self.buffer.len());
        take_in(&self.buffer[..received], self.sequence, visitor)
    }
}

/// Takes in one datagram of the answer to question `sequence`; whether more will come.
pub(crate) fn take_in(
    mut datagram: &[u8],
    sequence: u32,
    visitor: &mut impl FnMut(TcpSocket),
) -> Result<bool, SockDiagError> {
    while !datagram.is_empty() {
        let message = Message::split_from(&mut datagram).ok_or(SockDiagError::Malformed)?;
        if message.sequence != sequence {
            continue;
        }
        match i32::from(message.kind) {
            libc::NLMSG_DONE => return Ok(false),
            libc::NLMSG_ERROR => return message.error().map(|()| false),
            _ => {
                if let Some(socket) = decode(message.body) {
                    visitor(socket);
                }
            }
        }
    }
    Ok(true)
}

/// `struct nlmsghdr` and `struct inet_diag_req`, asking for the TCP sockets of both address families.
fn request(states: States, sequence: u32) -> [u8; MESSAGE_HEADER + REQUEST] {
    const LENGTH: u32 = 76;
    // NLM_F_REQUEST and NLM_F_DUMP.
    const REQUEST_DUMP: u16 = 0x301;
    const { assert!(MESSAGE_HEADER + REQUEST == 76) };
    let mut bytes = [0; MESSAGE_HEADER + REQUEST];
    bytes[0..4].copy_from_slice(&LENGTH.to_ne_bytes());
    bytes[4..6].copy_from_slice(&TCPDIAG_GETSOCK.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    // idiag_ext; the family before it is not looked at.
    bytes[19] = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);
    // idiag_states, behind struct inet_diag_sockid.
    bytes[68..72].copy_from_slice(&states.0.to_ne_bytes());
    bytes
}

/// One netlink message.
struct Message<'a> {
    kind: u16,
    sequence: u32,
    body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Takes the first message off `rest`.
    fn split_from(rest: &mut &'a [u8]) -> Option<Self> {
        let length = usize::try_from(u32_at(rest, 0)?).ok()?;
        let body = rest.get(MESSAGE_HEADER..length)?;
        let message = Self {
            kind: u16_at(rest, 4)?,
            sequence: u32_at(rest, 8)?,
            body,
        };
        *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    }

    /// `struct nlmsgerr`: a negative errno first.
    fn error(&self) -> Result<(), SockDiagError> {
        let errno = u32_at(self.body, 0)
            .ok_or(SockDiagError::Malformed)?
            .cast_signed();
        if errno == 0 {
            return Ok(());
        }
        Err(SockDiagError::Exchange {
            operation: "get",
            source: io::Error::from_raw_os_error(errno.wrapping_neg()),
        })
    }
}

/// `struct inet_diag_msg` and its attributes; `None` for a family that is not IP.
fn decode(body: &[u8]) -> Option<TcpSocket> {
    let family = i32::from(*body.first()?);
    let end = |port: usize, address: usize| {
        let port = u16::from_be_bytes(array_at(body, port)?);
        let address = match family {
            libc::AF_INET => IpAddr::from(Ipv4Addr::from(array_at::<4>(body, address)?)),
            libc::AF_INET6 => {
                IpAddr::from(Ipv6Addr::from(array_at::<16>(body, address)?)).to_canonical()
            }
            _ => return None,
        };
        Some(SocketAddr::new(address, port))
    };
    let cookie = u64::from(u32_at(body, 44)?) | u64::from(u32_at(body, 48)?) << 32;
    let mut socket = TcpSocket {
        local: end(4, 8)?,
        peer: end(6, 24)?,
        state: State::from_number(*body.get(1)?),
        cookie,
        inode: u32_at(body, 68)?,
        uid: u32_at(body, 64)?,
        receive_queue: u32_at(body, 56)?,
        send_queue: u32_at(body, 60)?,
        congestion_control: None,
        info: None,
    };
    let mut attributes = body.get(ANSWER..)?;
    while let Some((kind, value)) = split_attribute(&mut attributes) {
        match kind {
            INET_DIAG_INFO => socket.info = TcpInfo::decode(value),
            INET_DIAG_CONG => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                socket.congestion_control = Some(String::from_utf8_lossy(name).into_owned());
            }
            _ => {}
        }
    }
    Some(socket)
}

/// Takes the first attribute off `rest`.
fn split_attribute<'a>(rest: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let length = usize::from(u16_at(rest, 0)?);
    let kind = u16_at(rest, 2)?;
    let value = rest.get(ATTRIBUTE_HEADER..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, value))
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array_at(bytes, offset).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array_at(bytes, offset).map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn both_ends_of_a_connection_are_listed_with_what_they_carried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 5000]).unwrap();
        server.read_exact(&mut [0; 4000]).unwrap();

        let sockets = SockDiag::open().unwrap().tcp_sockets().unwrap();
        let of = |local: SocketAddr| sockets.iter().find(|one| one.local == local);
        let sender = of(client.local_addr().unwrap()).unwrap();
        let info = sender.info.as_ref().unwrap();
        assert_eq!(sender.peer, client.peer_addr().unwrap());
        assert_eq!(sender.state, State::Established);
        assert_eq!(info.bytes_sent, TcpInfo::of(&client).unwrap().bytes_sent);
        assert_eq!(info.bytes_sent.map(units::Bytes::get), Some(5000));
        assert!(
            sender
                .congestion_control
                .as_deref()
                .is_some_and(|name| !name.is_empty())
        );
        let receiver = sockets
            .iter()
            .find(|one| one.peer == client.local_addr().unwrap());
        assert_eq!(receiver.unwrap().receive_queue, 1000);
        assert_ne!(receiver.unwrap().cookie, sender.cookie);
        let file = std::fs::read_link(format!("/proc/self/fd/{}", client.as_raw_fd())).unwrap();
        assert_eq!(file.to_str().unwrap(), format!("socket:[{}]", sender.inode));
    }

    #[test]
    fn a_dual_stack_connection_carries_its_ipv4_address() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let (_server, _) = listener.accept().unwrap();
        let sockets = SockDiag::open().unwrap().tcp_sockets().unwrap();
        let accepted = sockets
            .iter()
            .find(|one| one.peer == client.local_addr().unwrap());
        assert!(accepted.is_some(), "{sockets:#?}");
    }

    #[test]
    fn one_question_lists_both_address_families_and_each_socket_once() {
        let listeners = ["127.0.0.1:0", "[::1]:0"].map(|at| TcpListener::bind(at).unwrap());
        let clients = listeners
            .each_ref()
            .map(|one| TcpStream::connect(one.local_addr().unwrap()).unwrap());
        let sockets = SockDiag::open().unwrap().tcp_sockets().unwrap();
        for client in clients {
            let address = client.local_addr().unwrap();
            let listed = sockets.iter().filter(|one| one.local == address);
            assert_eq!(listed.count(), 1, "{address}");
        }
    }

    #[test]
    fn listeners_are_listed_where_they_are_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut kernel = SockDiag::open().unwrap();
        let mut listed = |states| {
            let mut found = false;
            kernel
                .visit(states, |socket| {
                    found |= socket.local == address && socket.state == State::Listening;
                })
                .unwrap();
            found
        };
        assert!(listed(States::ALL));
        assert!(!listed(States::CONNECTIONS));
    }

    #[test]
    fn cut_messages_are_refused_and_never_read_beyond() {
        let mut whole = Vec::new();
        whole.extend_from_slice(&88_u32.to_ne_bytes());
        whole.extend_from_slice(&TCPDIAG_GETSOCK.to_ne_bytes());
        whole.extend_from_slice(&[0; 10]);
        whole.push(2);
        whole.extend_from_slice(&[1; 71]);
        for length in 0..whole.len() {
            let mut rest = &whole[..length];
            assert!(Message::split_from(&mut rest).is_none(), "{length}");
        }
        let mut rest = whole.as_slice();
        let body = Message::split_from(&mut rest).unwrap().body;
        assert!(decode(body).is_some());
        for length in 0..body.len() {
            assert!(decode(&body[..length]).is_none(), "{length}");
        }
    }
}
