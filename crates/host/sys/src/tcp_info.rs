//! What the kernel knows about a connection: `TCP_INFO`, with units.
//!
//! The structure has grown with the kernel (`include/uapi/linux/tcp.h`), always at its end, and
//! `getsockopt` fills as much as it knows. So a field is absent where the returned length does not
//! reach it; a zero is always the kernel's own.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use limit::kernel::{Clocks, Reading};
use units::{Bytes, Rate};

/// What `tcp_info` of a 6.18 kernel holds; a longer one is cut here, a shorter one is padded.
const LENGTH: usize = 280;

/// One reading of a socket's `TCP_INFO`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TcpInfo {
    /// Where the connection stands.
    pub state: State,
    /// Whether marks of congestion were agreed on (RFC 3168).
    pub ecn: bool,
    /// Retransmission timeout now in force.
    pub rto: Duration,
    /// Smoothed round-trip time (RFC 6298).
    pub rtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// Smallest round-trip time of the kernel's window (5 minutes by default); `None` before the first.
    pub min_rtt: Option<Duration>,
    /// Congestion window in segments of [`TcpInfo::snd_mss`].
    pub snd_cwnd: u32,
    /// Slow start threshold in segments; `None` while it is infinite.
    pub snd_ssthresh: Option<u32>,
    /// Payload of a full segment, options already taken off.
    pub snd_mss: Bytes,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Segments acknowledged selectively.
    pub sacked: u32,
    /// Segments taken for lost.
    pub lost: u32,
    /// Retransmissions since the connection was made.
    pub total_retrans: u32,
    /// The rate at which the kernel spaces segments; `None` where it does not pace.
    pub pacing_rate: Option<Rate>,
    /// The newest delivery rate sample.
    pub delivery_rate: Option<Rate>,
    /// Payload acknowledged by the peer.
    pub bytes_acked: Option<Bytes>,
    /// Payload received in order.
    pub bytes_received: Option<Bytes>,
    /// Payload sent, retransmissions included.
    pub bytes_sent: Option<Bytes>,
    /// Payload retransmitted.
    pub bytes_retrans: Option<Bytes>,
    /// Payload in the send buffer that has not left yet.
    pub notsent: Option<Bytes>,
    /// Time in which something was in flight or waiting to leave.
    pub busy: Option<Duration>,
    /// The part of `busy` held back by the peer's window.
    pub rwnd_limited: Option<Duration>,
    /// The part of `busy` held back by the send buffer.
    pub sndbuf_limited: Option<Duration>,
    /// The window that the peer advertised last, scaled (kernel 5.4 and later).
    pub snd_wnd: Option<Bytes>,
    /// The window that this side advertised last, scaled (kernel 6.2 and later).
    pub rcv_wnd: Option<Bytes>,
    /// Retransmission timeouts so far (kernel 6.7 and later).
    pub total_rto: Option<u16>,
}

/// TCP connection state, numbered as in `include/net/tcp_states.h`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Both directions are open.
    Established,
    /// A SYN was sent.
    SynSent,
    /// A SYN was answered.
    SynReceived,
    /// This side has sent its FIN.
    FinWait1,
    /// This side's FIN is acknowledged.
    FinWait2,
    /// Both FINs have passed, waiting for stray segments.
    TimeWait,
    /// No connection.
    Closed,
    /// The peer has sent its FIN, this side has not.
    CloseWait,
    /// Both have sent a FIN, ours is not acknowledged.
    LastAck,
    /// A listener.
    Listening,
    /// Both FINs crossed.
    Closing,
    /// A number this version has no name for.
    Other(u8),
}

/// `TCP_INFO` could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read TCP_INFO")]
pub struct TcpInfoError(#[source] io::Error);

// === impl TcpInfo ===

impl TcpInfo {
    /// Reads the socket's `TCP_INFO`; fails on what is not a TCP socket.
    pub fn of(socket: &impl AsFd) -> Result<Self, TcpInfoError> {
        let mut buffer = MaybeUninit::<[u8; LENGTH]>::zeroed();
        let mut length = libc::socklen_t::try_from(LENGTH).expect("280 fits any socklen_t");
        // SAFETY: the descriptor is borrowed for the call; the kernel writes at most `length` bytes
        // into a buffer of exactly that size and stores how many it wrote.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                buffer.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(TcpInfoError(io::Error::last_os_error()));
        }
        // SAFETY: zeroed bytes are a valid array of bytes, whatever part of it the kernel filled.
        let bytes = unsafe { buffer.assume_init() };
        let filled = usize::try_from(length).map_or(LENGTH, |length| length.min(LENGTH));
        Self::decode(&bytes[..filled]).ok_or_else(|| {
            TcpInfoError(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the kernel returned less than the structure of Linux 2.6",
            ))
        })
    }

    /// The congestion window in bytes of payload.
    #[must_use]
    pub fn cwnd(&self) -> Bytes {
        Bytes::new(u64::from(self.snd_cwnd).saturating_mul(self.snd_mss.get()))
    }

    /// Payload in flight: sent, neither acknowledged nor known to have left the network.
    #[must_use]
    pub fn in_flight(&self) -> Bytes {
        let segments = self
            .unacked
            .saturating_sub(self.sacked)
            .saturating_sub(self.lost);
        Bytes::new(u64::from(segments).saturating_mul(self.snd_mss.get()))
    }

    /// The kernel's clocks of what held the sender; `None` where it keeps none (before 4.10).
    #[must_use]
    pub fn clocks(&self) -> Option<Clocks> {
        Some(Clocks {
            busy: self.busy?,
            rwnd_limited: self.rwnd_limited?,
            sndbuf_limited: self.sndbuf_limited?,
        })
    }

    /// What the division of a sender's time into limits needs, windows in segments.
    #[must_use]
    pub fn reading(&self) -> Reading {
        Reading {
            clocks: self.clocks(),
            rtt: self.rtt,
            min_rtt: self.min_rtt,
            cwnd: self.snd_cwnd.into(),
            ssthresh: self.snd_ssthresh.map(u64::from),
            lost: self.lost.into(),
            retransmissions: self.total_retrans.into(),
        }
    }

    /// Decodes `struct tcp_info`; `None` if even the fields of Linux 2.6 are not all there.
    ///
    /// Offsets are those of the structure, in host byte order; two of its fields are C bit fields.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let info = Fields(bytes);
        let unlimited = |rate: u64| rate != u64::MAX;
        Some(Self {
            state: State::from_number(*bytes.first()?),
            // TCPI_OPT_ECN of linux/tcp.h.
            ecn: bytes.get(5)? & 8 != 0,
            rto: micros(info.u32(8)?),
            snd_mss: Bytes::new(info.u32(16)?.into()),
            unacked: info.u32(24)?,
            sacked: info.u32(28)?,
            lost: info.u32(32)?,
            rtt: micros(info.u32(68)?),
            rttvar: micros(info.u32(72)?),
            // TCP_INFINITE_SSTHRESH of include/net/tcp.h.
            snd_ssthresh: Some(info.u32(76)?).filter(|&segments| segments < 0x7fff_ffff),
            snd_cwnd: info.u32(80)?,
            total_retrans: info.u32(100)?,
            pacing_rate: info
                .u64(104)
                .filter(|&rate| unlimited(rate))
                .map(rate_from_bytes),
            bytes_acked: info.u64(120).map(Bytes::new),
            bytes_received: info.u64(128).map(Bytes::new),
            notsent: info.u32(144).map(|bytes| Bytes::new(bytes.into())),
            // ~0 until there is a sample.
            min_rtt: info.u32(148).filter(|&rtt| rtt != u32::MAX).map(micros),
            delivery_rate: info.u64(160).map(rate_from_bytes),
            busy: info.u64(168).map(Duration::from_micros),
            rwnd_limited: info.u64(176).map(Duration::from_micros),
            sndbuf_limited: info.u64(184).map(Duration::from_micros),
            bytes_sent: info.u64(200).map(Bytes::new),
            bytes_retrans: info.u64(208).map(Bytes::new),
            snd_wnd: info.u32(228).map(|bytes| Bytes::new(bytes.into())),
            rcv_wnd: info.u32(232).map(|bytes| Bytes::new(bytes.into())),
            total_rto: info.u16(240),
        })
    }
}

fn micros(count: u32) -> Duration {
    Duration::from_micros(count.into())
}

fn rate_from_bytes(bytes_per_s: u64) -> Rate {
    Rate::bit_per_s(bytes_per_s.saturating_mul(8))
}

/// The structure's bytes, as far as the kernel filled them.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..offset + N)?.try_into().ok()
    }

    fn u16(&self, offset: usize) -> Option<u16> {
        self.array(offset).map(u16::from_ne_bytes)
    }

    fn u32(&self, offset: usize) -> Option<u32> {
        self.array(offset).map(u32::from_ne_bytes)
    }

    fn u64(&self, offset: usize) -> Option<u64> {
        self.array(offset).map(u64::from_ne_bytes)
    }
}

// === impl State ===

impl State {
    pub(crate) const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Established,
            2 => Self::SynSent,
            3 | 12 => Self::SynReceived,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            6 => Self::TimeWait,
            7 => Self::Closed,
            8 => Self::CloseWait,
            9 => Self::LastAck,
            10 => Self::Listening,
            11 => Self::Closing,
            other => Self::Other(other),
        }
    }
}

impl From<State> for record::top::State {
    fn from(state: State) -> Self {
        match state {
            State::Established => Self::Established,
            State::SynSent => Self::SynSent,
            State::SynReceived => Self::SynRecv,
            State::FinWait1 => Self::FinWait1,
            State::FinWait2 => Self::FinWait2,
            State::TimeWait => Self::TimeWait,
            State::Closed => Self::Closed,
            State::CloseWait => Self::CloseWait,
            State::LastAck => Self::LastAck,
            State::Listening => Self::Listening,
            State::Closing => Self::Closing,
            State::Other(_) => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::mem::offset_of;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn every_offset_is_the_one_of_the_kernel_header() {
        assert_eq!(offset_of!(libc::tcp_info, tcpi_options), 5);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_rto), 8);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_snd_mss), 16);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_unacked), 24);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_rtt), 68);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_snd_ssthresh), 76);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_snd_cwnd), 80);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_total_retrans), 100);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_pacing_rate), 104);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_bytes_acked), 120);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_notsent_bytes), 144);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_min_rtt), 148);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_delivery_rate), 160);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_busy_time), 168);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_bytes_sent), 200);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_bytes_retrans), 208);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_snd_wnd), 228);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_rcv_wnd), 232);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_total_rto), 240);
    }

    #[test]
    fn an_established_connection_reports_what_it_carried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();
        server.write_all(b"!").unwrap();
        client.read_exact(&mut [0; 1]).unwrap();

        let info = TcpInfo::of(&client).unwrap();
        assert_eq!(info.state, State::Established);
        assert_eq!(info.bytes_sent, Some(Bytes::new(5000)));
        assert_eq!(
            info.bytes_acked,
            Some(Bytes::new(5000 + 1)),
            "the SYN counts as one"
        );
        assert_eq!(info.bytes_received, Some(Bytes::new(1)));
        assert_eq!(info.cwnd().get() % info.snd_mss.get(), 0);
        assert!(info.cwnd() >= info.snd_mss);
        assert!(info.snd_wnd.is_some_and(|window| window >= Bytes::kib(16)));
        assert!(info.rtt > Duration::ZERO && info.rtt < Duration::from_secs(1));
        assert_eq!(info.total_retrans, 0);
        assert!(info.busy >= info.rwnd_limited);
    }

    #[test]
    fn an_older_kernels_shorter_structure_leaves_newer_fields_absent() {
        let bytes = [1_u8; 104];
        let info = TcpInfo::decode(&bytes).unwrap();
        assert_eq!(info.state, State::Established);
        assert_eq!(info.total_retrans, 0x0101_0101);
        assert_eq!(info.pacing_rate, None);
        assert_eq!(info.snd_wnd, None);
        assert_eq!(TcpInfo::decode(&bytes[..103]), None);
        assert_eq!(TcpInfo::decode(&[]), None);
    }

    #[test]
    fn what_is_not_a_tcp_socket_is_an_error() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(TcpInfo::of(&socket).is_err());
    }
}
