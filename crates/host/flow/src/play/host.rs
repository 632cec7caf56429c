//! The kernel as a host: a socket in a namespace, and the device behind which the script speaks.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use script::{Action, Ending, Host, Quantity, Sent, Setting, Value, Who};
use socket2::{Domain, Socket, TcpKeepalive, Type};
use sys::namespace::NetworkNamespace;
use sys::realtime;
use sys::tcp_info::{State, TcpInfo};
use sys::tun::Tun;
use tcp::{EcnCodepoint, KeepAlive, Segment};
use units::{SeqNum, Time};
use wire::{TcpFlags, TcpOptions};

use super::PlayError;
use super::settings::{CONGESTION_CONTROL, KernelSettings, SYN_LINEAR_TIMEOUTS};
use crate::stack::Key;
use crate::stack::packet;

/// The kernel, one listener or one connection of it, and our end of its device.
#[derive(Debug)]
pub(super) struct KernelHost {
    tun: Tun,
    namespace: NetworkNamespace,
    options: KernelSettings,
    /// Where the kernel is, and where the script.
    local: SocketAddr,
    remote: SocketAddr,
    listener: Socket,
    socket: Option<Socket>,
    start: Instant,
    sent: VecDeque<Sent>,
    packet: Vec<u8>,
    ending: Ending,
    late: Duration,
    /// When this thread was last seen to run.
    looked: Time,
}

const DEVICE: &str = "play0";
/// Where the kernel listens, and from where the script speaks to it.
const LISTENING: u16 = 7000;
const SCRIPT: u16 = 40_000;
/// The usual MTU less two headers without options.
const MSS: u16 = 1460;
/// The longest sleep: whoever wakes later than that was late.
const NAP: Duration = Duration::from_millis(2);
/// How long a connection may take from its handshake's last packet to the listener's queue.
const TO_ACCEPT: Duration = Duration::from_millis(200);

// === impl KernelHost ===

impl KernelHost {
    pub(super) fn new<'a>(
        settings: impl Iterator<Item = &'a Setting>,
        ipv6: bool,
    ) -> Result<Self, PlayError> {
        let options = KernelSettings::of(settings)?;
        let namespace = NetworkNamespace::create("flow-play").map_err(PlayError::Namespace)?;
        let tun = Tun::create_in(&namespace, DEVICE).map_err(PlayError::Device)?;
        for (name, value) in &options.sysctls {
            let key = format!("net.ipv4.{name}");
            if *name == SYN_LINEAR_TIMEOUTS && namespace.sysctl(&key).is_err() {
                continue;
            }
            namespace.set_sysctl(&key, value).map_err(|source| {
                if *name == CONGESTION_CONTROL {
                    PlayError::CongestionControl {
                        name: value.clone(),
                        source,
                    }
                } else {
                    PlayError::Namespace(source)
                }
            })?;
        }
        let (network, local, remote, headers) = if ipv6 {
            ("fd78::/64", "fd78::1", "fd78::2", 60)
        } else {
            ("10.78.0.0/24", "10.78.0.1", "10.78.0.2", 40)
        };
        let length = network.rsplit_once('/').map_or("", |(_, length)| length);
        let mtu = options.mss.unwrap_or(MSS).saturating_add(headers);
        let nodad = if ipv6 { "nodad" } else { "" };
        // The address brings no route: over IPv6 it would be preferred to the one with the settings.
        namespace
            .ip(&format!(
                "link set {DEVICE} mtu {mtu} up\n\
                 addr add {local}/{length} dev {DEVICE} noprefixroute {nodad}\n\
                 route add {network} dev {DEVICE}{}",
                options.route
            ))
            .map_err(PlayError::Namespace)?;
        let address = |text: &str, port| {
            let ip: Result<IpAddr, _> = text.parse();
            ip.map(|ip| SocketAddr::new(ip, port))
                .map_err(|_| PlayError::Impossible("an address of ours is none"))
        };
        let (local, remote) = (address(local, LISTENING)?, address(remote, SCRIPT)?);
        wait_for_kernel(&tun, local.ip(), remote)?;
        let listener = socket(&namespace, local, &options)?;
        let listening = listener
            .bind(&local.into())
            .and_then(|()| listener.listen(1));
        listening.map_err(failed("listen"))?;
        Ok(Self {
            tun,
            namespace,
            options,
            local,
            remote,
            listener,
            socket: None,
            start: Instant::now(),
            sent: VecDeque::new(),
            packet: vec![0; 65_536],
            ending: Ending::None,
            late: Duration::ZERO,
            looked: Time::ZERO,
        })
    }

    /// How late this thread was at worst.
    pub(super) const fn late(&self) -> Duration {
        self.late
    }

    /// The connection; the one that the listener has, where none was opened.
    fn socket(&mut self) -> Result<&Socket, PlayError> {
        if self.socket.is_none() {
            let ready = realtime::wait_readable([self.listener.as_fd()], Some(TO_ACCEPT));
            ready.map_err(failed("wait for the connection"))?;
            let (accepted, _) = self.listener.accept().map_err(failed("accept"))?;
            accepted.set_nonblocking(true).map_err(failed("accept"))?;
            self.socket = Some(accepted);
        }
        self.socket
            .as_ref()
            .ok_or(PlayError::Impossible("there is no connection yet"))
    }

    /// Reads what the kernel has sent, cut into the segments that a wire would see.
    fn take_packets(&mut self) -> Result<(), PlayError> {
        while let Some((header, length)) = self.tun.read(&mut self.packet).map_err(wire("read"))? {
            let at = self.now();
            let bytes = self.packet.get(..length).unwrap_or_default();
            let Some((_, segment, _)) = packet::parse(header, bytes, self.remote.ip()) else {
                continue;
            };
            let size = u32::from(header.gso_size);
            let mut rest = Some(segment);
            while let Some(segment) = rest {
                let (first, others) = cut(segment, size);
                self.sent.push_back(Sent { at, segment: first });
                rest = others;
            }
        }
        Ok(())
    }

    /// Remembers why the connection failed, which the kernel tells once.
    fn note_error(&mut self) -> Result<(), PlayError> {
        let error = self
            .socket()?
            .take_error()
            .map_err(failed("ask for errors"))?;
        match error.map(|error| error.kind()) {
            None => {}
            Some(io::ErrorKind::TimedOut) => self.ending = Ending::TimedOut,
            Some(_) => self.ending = Ending::Reset,
        }
        Ok(())
    }
}

impl Host for KernelHost {
    type Error = PlayError;

    fn who(&self) -> Who {
        Who::Kernel
    }

    fn now(&self) -> Time {
        let nanos = self.start.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn next_sent(&mut self, until: Time) -> Result<Option<Sent>, PlayError> {
        loop {
            let before = self.now();
            // Nothing between two looks takes time; where it did, this thread did not run.
            self.late = self.late.max(before.since(self.looked));
            self.looked = before;
            self.take_packets()?;
            if let Some(sent) = self.sent.pop_front() {
                return Ok(Some(sent));
            }
            let left = until.since(before);
            if left.is_zero() {
                return Ok(None);
            }
            let nap = left.min(NAP);
            let woken = realtime::wait_readable([self.tun.as_fd()], Some(nap));
            woken.map_err(wire("wait for"))?;
            self.looked = self.now();
            let slept = self.looked.since(before);
            self.late = self.late.max(slept.saturating_sub(nap));
        }
    }

    fn arrive(&mut self, segment: &Segment) -> Result<(), PlayError> {
        send(&self.tun, self.remote, self.local, segment)
    }

    fn act(&mut self, action: Action) -> Result<(), PlayError> {
        match action {
            Action::Nothing => {}
            Action::Connect => {
                let socket = socket(&self.namespace, self.local, &self.options)?;
                match socket.connect(&self.remote.into()) {
                    Err(error) if error.raw_os_error() != Some(EINPROGRESS) => {
                        return Err(failed("connect")(error));
                    }
                    Ok(()) | Err(_) => {}
                }
                let local = socket.local_addr().map_err(failed("connect"))?;
                self.local = local
                    .as_socket()
                    .ok_or(PlayError::Impossible("the kernel has an address of no IP"))?;
                self.socket = Some(socket);
            }
            Action::Write(bytes) => {
                let length = usize::try_from(bytes).unwrap_or(usize::MAX);
                let data = vec![0; length.min(1 << 24)];
                let sent = self.socket()?.send(&data).map_err(failed("write"))?;
                all("written", sent, bytes)?;
            }
            Action::Read(bytes) => {
                let length = usize::try_from(bytes).unwrap_or(usize::MAX);
                let mut data = vec![0; length.min(1 << 24)];
                let read =
                    sys::socket::receive(self.socket()?, &mut data).map_err(failed("read"))?;
                all("read", read, bytes)?;
            }
            Action::Close => {
                sys::socket::finish_sending(self.socket()?).map_err(failed("close"))?;
            }
            Action::Abort => {
                let socket = self.socket()?;
                socket
                    .set_linger(Some(Duration::ZERO))
                    .map_err(failed("abort"))?;
                self.socket = None;
            }
            Action::PathMtu(_) => {
                return Err(PlayError::Impossible(
                    "the kernel learns the path MTU from ICMP, which scripts do not have",
                ));
            }
        }
        Ok(())
    }

    fn is_in(&mut self, state: tcp::State) -> Result<Result<(), String>, PlayError> {
        if self.socket.is_none() && state == tcp::State::SynReceived {
            // A connection that is not complete has no socket yet.
            return Ok(Ok(()));
        }
        let seen = TcpInfo::of(self.socket()?).map_err(PlayError::Info)?.state;
        let same = match state {
            tcp::State::SynSent => seen == State::SynSent,
            tcp::State::SynReceived => seen == State::SynReceived,
            tcp::State::Established => seen == State::Established,
            tcp::State::FinWait1 => seen == State::FinWait1,
            tcp::State::FinWait2 => seen == State::FinWait2,
            tcp::State::CloseWait => seen == State::CloseWait,
            tcp::State::Closing => seen == State::Closing,
            tcp::State::LastAck => seen == State::LastAck,
            // The kernel waits with a smaller structure, and the socket has gone (`tcp_time_wait`).
            tcp::State::TimeWait | tcp::State::Closed => seen == State::Closed,
        };
        Ok(if same {
            Ok(())
        } else {
            Err(format!("{seen:?}"))
        })
    }

    fn value(&mut self, quantity: Quantity) -> Result<Value, PlayError> {
        let info = TcpInfo::of(self.socket()?).map_err(PlayError::Info)?;
        Ok(match quantity {
            Quantity::Cwnd => Value::Number(info.snd_cwnd.into()),
            Quantity::Ssthresh => info
                .snd_ssthresh
                .map_or(Value::Infinite, |segments| Value::Number(segments.into())),
            Quantity::Readable => {
                let bytes = rustix::io::ioctl_fionread(self.socket()?);
                Value::Number(bytes.map_err(|error| failed("ask for bytes")(error.into()))?)
            }
            Quantity::Ending => {
                self.note_error()?;
                Value::Ending(self.ending)
            }
        })
    }
}

/// Knocks where nobody listens until the kernel refuses: over IPv6, an address answers in its own time.
fn wait_for_kernel(tun: &Tun, local: IpAddr, remote: SocketAddr) -> Result<(), PlayError> {
    const MOST: Duration = Duration::from_secs(5);
    const NOBODY: u16 = 9;
    let knock = Segment {
        seq: SeqNum::new(0),
        ack: None,
        flags: TcpFlags::SYN,
        window: 0,
        payload: 0,
        options: TcpOptions::default(),
        ecn: EcnCodepoint::NotEct,
    };
    let peer = SocketAddr::new(local, NOBODY);
    let mut packet = vec![0; 65_536];
    let start = Instant::now();
    while start.elapsed() < MOST {
        send(tun, remote, peer, &knock)?;
        realtime::wait_readable([tun.as_fd()], Some(NAP)).map_err(wire("wait for"))?;
        while let Some((header, length)) = tun.read(&mut packet).map_err(wire("read"))? {
            let bytes = packet.get(..length).unwrap_or_default();
            if packet::parse(header, bytes, remote.ip()).is_some() {
                return Ok(());
            }
        }
    }
    Err(PlayError::Impossible("the device did not become ready"))
}

/// One packet to the kernel.
fn send(tun: &Tun, from: SocketAddr, to: SocketAddr, segment: &Segment) -> Result<(), PlayError> {
    let key = Key {
        port: from.port(),
        peer: to,
    };
    let mut headers = Vec::new();
    // One packet each: offload has no part in what is to be seen.
    let size = segment.payload.max(1);
    let header = packet::headers(&mut headers, from.ip(), &key, segment, size)
        .map_err(|error| PlayError::Packet(error.to_string()))?;
    let length = usize::try_from(segment.payload).unwrap_or(usize::MAX);
    let payload = vec![0; length.min(65_000)];
    tun.write(header, &headers, &payload)
        .map_err(wire("write to"))
}

fn wire(operation: &'static str) -> impl FnOnce(io::Error) -> PlayError {
    move |source| PlayError::Wire { operation, source }
}

/// `EINPROGRESS`: connecting goes on while we do something else.
const EINPROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();

fn failed(operation: &'static str) -> impl FnOnce(io::Error) -> PlayError {
    move |source| PlayError::Socket { operation, source }
}

fn all(what: &'static str, done: usize, asked: u64) -> Result<(), PlayError> {
    let done = u64::try_from(done).unwrap_or(u64::MAX);
    if done == asked {
        return Ok(());
    }
    Err(PlayError::Short { what, done, asked })
}

/// A socket in the namespace that never makes us wait.
fn socket(
    namespace: &NetworkNamespace,
    near: SocketAddr,
    options: &KernelSettings,
) -> Result<Socket, PlayError> {
    let make = || {
        let socket = Socket::new(Domain::for_address(near), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(options.no_delay)?;
        if let Some(KeepAlive {
            idle,
            interval,
            probes,
        }) = options.keep_alive
        {
            let keep_alive = TcpKeepalive::new()
                .with_time(idle)
                .with_interval(interval)
                .with_retries(probes);
            socket.set_tcp_keepalive(&keep_alive)?;
        }
        Ok(socket)
    };
    let made = namespace.enter(make).map_err(PlayError::Namespace)?;
    made.map_err(failed("make a socket"))
}

/// The first segment of a superpacket of segments of `size`, and what remains.
fn cut(segment: Segment, size: u32) -> (Segment, Option<Segment>) {
    if size == 0 || segment.payload <= size {
        return (segment, None);
    }
    let at_the_end = TcpFlags::FIN.union(TcpFlags::PSH).bits();
    let at_the_beginning = TcpFlags::CWR.bits();
    let without = |flags: u16| TcpFlags::from_bits(segment.flags.bits() & !flags);
    let first = Segment {
        payload: size,
        flags: without(at_the_end),
        ..segment
    };
    let rest = Segment {
        seq: segment.seq + size,
        payload: segment.payload - size,
        flags: without(at_the_beginning),
        ..segment
    };
    (first, Some(rest))
}
