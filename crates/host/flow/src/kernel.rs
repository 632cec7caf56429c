//! The kernel's TCP, by blocking sockets: the fastest way to move bytes from one thread.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use profile::Side;
use record::flow::{Sample, Setting};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use sys::socket::{Applied, ApplyError, Buffer};
use sys::tcp_info::TcpInfo;
use units::{Bytes, Rate};

use crate::engine::{Engine, EngineError, LOOK, Listener, Opened, SocketOptions, Stream};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// How long connecting may take: five SYNs.
const CONNECT: Duration = Duration::from_secs(31);

/// The kernel's TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

// === impl Kernel ===

impl Engine for Kernel {
    fn connect(
        &self,
        address: SocketAddr,
        options: &SocketOptions,
        given_up: &dyn Fn() -> bool,
    ) -> Result<Opened, EngineError> {
        let failed = |source| EngineError::Connect { address, source };
        let socket = socket(address).map_err(failed)?;
        let mut settings = buffers(&socket, options, address)?;
        if let Some(bind) = options.bind {
            socket
                .bind(&bind.into())
                .map_err(|source| EngineError::Bind {
                    address: bind,
                    source,
                })?;
        }
        // Before connect, so that the handshake's window scale knows the buffer and the first flight the
        // algorithm.
        settings.extend(dynamic(
            &socket,
            options.congestion_control.as_deref(),
            options.pace,
            address,
        )?);
        connect(&socket, address, given_up).map_err(failed)?;
        let stream = TcpStream::from(socket);
        // A receipt must not wait for the acknowledgement of data before it.
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Opened {
            stream: Arc::new(KernelStream(stream)),
            settings,
        })
    }

    fn listen(
        &self,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> Result<Box<dyn Listener>, EngineError> {
        let failed = |source| EngineError::Listen { address, source };
        let socket = socket(address).map_err(failed)?;
        socket.set_reuse_address(true).map_err(failed)?;
        buffers(&socket, options, address)?;
        dynamic(
            &socket,
            options.congestion_control.as_deref(),
            options.pace,
            address,
        )?;
        socket.bind(&address.into()).map_err(failed)?;
        socket.listen(BACKLOG).map_err(failed)?;
        let listener = TcpListener::from(socket);
        let local = listener.local_addr().map_err(failed)?;
        Ok(Box::new(KernelListener {
            listener,
            local,
            stopped: AtomicBool::new(false),
        }))
    }
}

/// Connects, and looks every now and then whether it is still wanted.
fn connect(socket: &Socket, address: SocketAddr, given_up: &dyn Fn() -> bool) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    if let Err(error) = socket.connect(&address.into()) {
        if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) {
            return Err(error);
        }
        let end = Instant::now() + CONNECT;
        while !answered(socket)? {
            if given_up() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if Instant::now() >= end {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
    }
    socket.set_nonblocking(false)
}

/// Waits a little; whether the peer has accepted or refused.
fn answered(socket: &Socket) -> io::Result<bool> {
    let look = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&look)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::STREAM, None)
}

fn buffers(
    socket: &Socket,
    options: &SocketOptions,
    peer: SocketAddr,
) -> Result<Vec<Setting>, EngineError> {
    let wanted = [
        (Buffer::Send, options.send_buffer),
        (Buffer::Receive, options.receive_buffer),
    ];
    wanted
        .into_iter()
        .filter_map(|(buffer, bytes)| Some((buffer, bytes?)))
        .map(|(buffer, bytes)| {
            applied(sys::socket::set_buffer(
                socket,
                buffer,
                bytes,
                Side::Server,
                peer,
            ))
        })
        .collect()
}

/// Settings that can change while a connection is open.
fn dynamic(
    socket: &impl std::os::fd::AsFd,
    congestion_control: Option<&str>,
    pace: Option<Rate>,
    peer: SocketAddr,
) -> Result<Vec<Setting>, EngineError> {
    let mut settings = Vec::new();
    if let Some(name) = congestion_control {
        let set = sys::socket::set_congestion_control(socket, name, Side::Server, peer);
        settings.push(applied(set)?);
    }
    if let Some(rate) = pace {
        let set = sys::socket::set_pacing_rate(socket, rate, Side::Server, peer);
        settings.push(applied(set)?);
    }
    Ok(settings)
}

fn applied(result: Result<Applied, ApplyError>) -> Result<Setting, EngineError> {
    let applied = result.map_err(EngineError::Setting)?;
    Ok(Setting {
        option: applied.option.to_owned(),
        requested: applied.requested,
        effective: applied.effective,
    })
}

#[derive(Debug)]
struct KernelStream(TcpStream);

// === impl KernelStream ===

impl Stream for KernelStream {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(buffer)
    }

    fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.0).write_vectored(pieces)
    }

    fn limit_wait(&self, longest: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(longest)
    }

    fn shut_down(&self) {
        // It may be closed already, which is what is wanted.
        let _ = self.0.shutdown(Shutdown::Both);
    }

    fn finish(&self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }

    fn sample(&self) -> Option<Sample> {
        TcpInfo::of(&self.0).ok().map(|info| sample(&info))
    }

    fn congestion_control(&self) -> Option<String> {
        sys::socket::congestion_control(&self.0).ok()
    }

    fn adjust(
        &self,
        congestion_control: Option<&str>,
        pace: Option<Rate>,
    ) -> Result<Vec<Setting>, EngineError> {
        // The address is for the error only.
        let peer = self.peer().unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
        dynamic(&self.0, congestion_control, pace, peer)
    }

    fn local(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok()
    }
}

fn sample(info: &TcpInfo) -> Sample {
    let mss = info.snd_mss.get();
    let segments = |count: u32| u64::from(count).saturating_mul(mss);
    let seconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64());
    Sample {
        at_s: 0.0,
        // The SYN counts as one.
        acknowledged: info.bytes_acked.map_or(0, Bytes::get).saturating_sub(1),
        cwnd: info.cwnd().get(),
        ssthresh: info.snd_ssthresh.map(segments),
        rtt_s: info.rtt.as_secs_f64(),
        min_rtt_s: seconds(info.min_rtt),
        in_flight: info.in_flight().get(),
        retransmits: info.total_retrans.into(),
        lost: info.lost.into(),
        delivery_rate_bps: info.delivery_rate.map(bits),
        pacing_rate_bps: info.pacing_rate.map(bits),
        peer_window: info.snd_wnd.map(Bytes::get),
        busy_s: seconds(info.busy),
        rwnd_limited_s: seconds(info.rwnd_limited),
        sndbuf_limited_s: seconds(info.sndbuf_limited),
    }
}

/// Bits per second as the documents carry them.
#[expect(clippy::cast_precision_loss, reason = "2^53 bit/s are 9 Pbit/s")]
fn bits(rate: Rate) -> f64 {
    rate.bits_per_s() as f64
}

#[derive(Debug)]
struct KernelListener {
    listener: TcpListener,
    local: SocketAddr,
    stopped: AtomicBool,
}

// === impl KernelListener ===

impl Listener for KernelListener {
    fn accept(&self) -> Option<Result<Opened, EngineError>> {
        let accepted = self.listener.accept();
        if self.stopped.load(Ordering::Acquire) {
            return None;
        }
        let address = self.local;
        let opened = accepted.and_then(|(stream, _)| {
            stream.set_nodelay(true)?;
            Ok(Opened {
                stream: Arc::new(KernelStream(stream)),
                settings: Vec::new(),
            })
        });
        Some(opened.map_err(|source| EngineError::Accept { address, source }))
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // On Linux this makes a blocked accept come back (`inet_shutdown` of a listener).
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }

    fn local(&self) -> SocketAddr {
        self.local
    }
}
