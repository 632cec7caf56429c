//! Being started by a supervisor such as systemd: listeners that it hands over (`sd_listen_fds(3)`), and what it
//! is told (`sd_notify(3)`). Both are environment variables and a datagram, so no library is needed.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::FdFlags;
use rustix::net::SocketType;
use rustix::pipe::PipeFlags;
use rustix::time::ClockId;

use crate::isolation::pass_descriptor;

/// The first descriptor that is handed over (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;

/// More than any configuration has listeners; a number beyond it is a mistake.
const MOST: RawFd = 1024;

/// How long a state that is told once waits for a full queue: the kernel keeps ten messages that nobody has read
/// (`net.unix.max_dgram_qlen`).
const PATIENCE: Duration = Duration::from_secs(1);

/// The variable in which a process tells its successor of its listeners: descriptors, separated by commas.
const INHERITED: &str = "LONGHAUL_LISTENERS";

/// The variable with the descriptor on which a successor says that it serves.
const SUCCESS: &str = "LONGHAUL_SUCCESS";

/// The variable with the descriptor of a socket to the process before, where that wants something back.
const PASSAGE: &str = "LONGHAUL_PASSAGE";

/// Takes the listening TCP sockets that the supervisor, or the process before this one, has opened. They are
/// taken once: later calls return none.
///
/// Nothing is returned where the variables are absent or meant for another process.
pub fn take_listeners() -> io::Result<Vec<TcpListener>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let number = |name: &str| env::var(name).ok()?.parse::<i32>().ok();
    let ours = number("LISTEN_PID") == i32::try_from(std::process::id()).ok();
    let count = number("LISTEN_FDS").unwrap_or(0);
    let descriptors: Vec<RawFd> = if let Ok(list) = env::var(INHERITED) {
        let numbers = list.split(',').filter_map(|number| number.parse().ok());
        numbers.filter(|&number| number >= FIRST).collect()
    } else if ours && (1..=MOST).contains(&count) {
        (FIRST..FIRST + count).collect()
    } else {
        Vec::new()
    };
    let mut listeners = Vec::new();
    for descriptor in descriptors {
        // SAFETY: whoever started this process opened these descriptors for it and nobody else in it, as the
        // variables say; `TAKEN` makes this the only place that owns them. One that is not open is refused by the
        // first call below, and closing it has no effect.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
        let is_listener = rustix::net::sockopt::socket_type(&descriptor)? == SocketType::STREAM
            && rustix::net::sockopt::socket_acceptconn(&descriptor)?;
        if !is_listener {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a descriptor that was handed over is no listening stream socket",
            ));
        }
        listeners.push(TcpListener::from(descriptor));
    }
    Ok(listeners)
}

/// Takes the socket that the process before this one has left to pass things back to it; `None` where there is none.
/// It is taken once.
pub fn take_passage() -> io::Result<Option<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = env::var(PASSAGE)
        .ok()
        .and_then(|number| number.parse().ok());
    let Some(number) = number.filter(|&number: &RawFd| number >= FIRST) else {
        return Ok(None);
    };
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(None);
    }
    // SAFETY: the process before this one opened the descriptor for this one, as the variable says; `TAKEN` makes
    // this the only place that owns it. One that is not open is refused by the next call.
    let passage = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&passage, FdFlags::CLOEXEC)?;
    Ok(Some(passage))
}

/// A process that was started to serve in this one's place.
#[derive(Debug)]
pub struct Successor {
    process: Child,
    success: File,
}

impl Successor {
    /// Starts `program` with this process' arguments, and with listeners that both then have. `passage` is where it
    /// [passes back](crate::passing) what turns out to be this process'.
    pub fn start(
        program: &Path,
        listeners: Vec<OwnedFd>,
        passage: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let (success, told) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let mut command = Command::new(program);
        command.args(env::args_os().skip(1));
        let numbers: Vec<String> = listeners
            .into_iter()
            .map(|listener| pass_descriptor(&mut command, listener).to_string())
            .collect();
        let told = pass_descriptor(&mut command, told);
        command
            .env(INHERITED, numbers.join(","))
            .env(SUCCESS, told.to_string())
            // Those of a supervisor are among them.
            .env_remove("LISTEN_PID")
            // The one of the process before this is none of its business.
            .env_remove(PASSAGE);
        if let Some(passage) = passage {
            let number = pass_descriptor(&mut command, passage);
            command.env(PASSAGE, number.to_string());
        }
        let process = command.spawn()?;
        Ok(Self {
            process,
            success: success.into(),
        })
    }

    /// Its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until it serves; an error where it has ended instead. Blocks.
    pub fn wait(&mut self) -> io::Result<()> {
        let mut word = [0];
        if self.success.read(&mut word)? == 1 {
            return Ok(());
        }
        let status = self.process.wait()?;
        Err(io::Error::other(format!("it has ended with {status}")))
    }
}

/// Tells the process before this one that this one serves; nothing where there is none. Says it once.
pub fn succeed() -> io::Result<()> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let number = env::var(SUCCESS)
        .ok()
        .and_then(|number| number.parse().ok());
    let Some(number) = number.filter(|&number: &RawFd| number >= FIRST) else {
        return Ok(());
    };
    if SAID.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the process before this one opened the descriptor for this one, as the variable says; `SAID` makes
    // this the only place that owns it.
    let mut told = File::from(unsafe { OwnedFd::from_raw_fd(number) });
    told.write_all(&[1])
}

/// Tells the supervisor a state such as `READY=1`; nothing where there is none (`NOTIFY_SOCKET`).
pub fn notify(state: &str) -> io::Result<()> {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else {
        return Ok(());
    };
    let address = address(&path)?;
    let socket = UnixDatagram::unbound()?;
    // A supervisor that does not read must not hold up whoever tells for long.
    if state.starts_with("WATCHDOG=") {
        // The next one says the same.
        socket.set_nonblocking(true)?;
    } else {
        socket.set_write_timeout(Some(PATIENCE))?;
    }
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}

/// A path, or behind `@` a name in the abstract space (unix(7)).
fn address(path: &OsStr) -> io::Result<SocketAddr> {
    match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(path),
    }
}

/// How often the supervisor wants to be told `WATCHDOG=1`, if at all (`sd_watchdog_enabled(3)`).
pub fn watchdog_interval() -> Option<Duration> {
    let pid = env::var("WATCHDOG_PID").ok();
    if pid.is_some_and(|pid| pid != std::process::id().to_string()) {
        return None;
    }
    let microseconds = env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    (microseconds > 0).then(|| Duration::from_micros(microseconds))
}

/// The monotonic clock in microseconds, as `MONOTONIC_USEC` wants it.
pub fn monotonic_us() -> Option<u64> {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).ok()?;
    let nanoseconds = u64::try_from(now.tv_nsec).ok()?;
    Some(seconds * 1_000_000 + nanoseconds / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_is_reached_by_path_and_by_abstract_name() {
        let path = address(OsStr::new("/run/systemd/notify")).unwrap();
        assert_eq!(
            path.as_pathname().unwrap().to_str(),
            Some("/run/systemd/notify")
        );
        let name = address(OsStr::new("@longhaul")).unwrap();
        assert_eq!(name.as_abstract_name(), Some(&b"longhaul"[..]));
    }
}
