//! A PID and mount namespace around the whole lab, so that whatever ends it ends everything in it.
//!
//! ```text
//!  outer process   waits, passes signals on, ends with the inner status
//!    `- init       pid 1 of the new namespace: reaps orphans; SIGKILL comes when the outer process dies
//!        `- inner  returns from `isolate`; everything the lab starts is its child
//! ```
//!
//! When the inner process ends or is killed, init ends; when the outer one is killed, the kernel kills
//! init; and when init ends, the kernel kills every process of the namespace (`pid_namespaces(7)`). Network
//! namespaces and devices hang on descriptors of these processes and go with them. So no list of things to
//! clean up exists, and nothing has to run for it to work.
//!
//! Without root the same happens inside a user namespace in which this user is root.

mod child;
mod supervisor;

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process;

use crate::isolation::supervisor::{SignalMask, supervise};

pub use child::{bind_files, die_with_parent, kill_group, pass_descriptor};

/// How the isolation came to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Privilege {
    /// By the privileges of the process itself.
    Root,
    /// By a user namespace in which an ordinary user is root. Devices outside are out of reach, and so is
    /// real-time priority unless the user has it anyway.
    UserNamespace,
}

/// Isolation is impossible here. [`hint`](Self::hint) says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IsolationError {
    /// Only the calling thread would be isolated.
    #[error("cannot isolate a process that already has {count} threads")]
    ThreadsRunning {
        /// Threads of this process.
        count: usize,
    },
    /// The kernel said no to new namespaces.
    #[error("cannot create a process namespace, neither as this user nor in a user namespace")]
    CreateNamespaces {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The namespaces are there, but could not be made fit for use.
    #[error("cannot {step} inside the new namespaces")]
    Prepare {
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A pipe could not be made, or init ended without a word.
    #[error("cannot watch over the isolated process")]
    Watch {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Continues in an isolated child process. Call it first thing in `main`: before any thread, and before
/// anything that must not exist twice.
///
/// Returns in the child only. The calling process stays behind, forwards SIGHUP, SIGINT, SIGQUIT, SIGTERM,
/// SIGUSR1 and SIGUSR2, and exits with the child's status (128 + n after signal n). It does return where
/// isolation fails, and is unchanged then. A signal to the whole process group may arrive in the child more
/// than once.
pub fn isolate() -> Result<Privilege, IsolationError> {
    let count = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if count != 1 {
        return Err(IsolationError::ThreadsRunning { count });
    }
    let watch = |source| IsolationError::Watch { source };
    let (mut reports, report) = io::pipe().map_err(watch)?;
    let mask = SignalMask::block_forwarded().map_err(watch)?;
    let identity = Identity::current();

    let (init, privilege) = match fork_into_namespaces() {
        Ok(forked) => forked,
        Err(source) => {
            mask.restore();
            return Err(IsolationError::CreateNamespaces { source });
        }
    };
    if init == 0 {
        drop(reports);
        return Ok(become_init(privilege, &identity, report.into(), &mask));
    }
    drop(report);

    match read_report(&mut reports) {
        Ok(()) => {
            let status = supervise(init);
            leave(status)
        }
        Err(error) => {
            supervise(init);
            mask.restore();
            Err(error)
        }
    }
}

/// In the new namespaces, pid 1: prepares them and forks. Returns in the inner process only.
fn become_init(
    privilege: Privilege,
    identity: &Identity,
    report: OwnedFd,
    mask: &SignalMask,
) -> Privilege {
    let mut report = fs::File::from(report);
    // The signal comes when the outer process dies from here on; if it is dead already, its end of the
    // pipe is closed and the first write fails.
    let armed = child::kill_when_parent_dies().and_then(|()| report.write_all(&[ALIVE]));
    if armed.is_err() {
        leave(1);
    }
    if let Err((step, error)) = prepare(privilege, identity) {
        let errno = error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
        let message = [&[FAILED, step], errno.as_slice()].concat();
        // If nobody listens any more, nobody needs to know.
        let _unheard = report.write_all(&message);
        leave(1);
    }
    // SAFETY: the process has one thread, so the child inherits no lock in an unknown state.
    let inner = unsafe { libc::fork() };
    if inner == 0 {
        mask.restore();
        return privilege;
    }
    if inner < 0 || report.write_all(&[READY]).is_err() {
        leave(1);
    }
    drop(report);
    leave(supervise(inner))
}

const ALIVE: u8 = 0;
const READY: u8 = 1;
const FAILED: u8 = 2;

/// What [`prepare`] does, by the number that crosses the pipe.
const STEPS: [&str; 4] = [
    "map this user to root",
    "make mounts private",
    "mount a fresh /proc",
    "give up setgroups",
];

/// Turns fresh namespaces into usable ones; the error names its entry in [`STEPS`].
fn prepare(privilege: Privilege, identity: &Identity) -> Result<(), (u8, io::Error)> {
    if privilege == Privilege::UserNamespace {
        // user_namespaces(7): without CAP_SETGID outside, the group map may only be written after
        // setgroups(2) was given up.
        fs::write("/proc/self/setgroups", "deny").map_err(|error| (3, error))?;
        fs::write("/proc/self/uid_map", format!("0 {} 1", identity.user))
            .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {} 1", identity.group)))
            .map_err(|error| (0, error))?;
    }
    child::make_mounts_private().map_err(|error| (1, error))?;
    let mounted = child::mount_proc();
    match privilege {
        Privilege::Root => mounted.map_err(|error| (2, error)),
        // Refused in containers that hide parts of /proc (`mount_too_revealing` in fs/namespace.c). The
        // old /proc serves as well: /proc/self and /proc/sys/net are seen from who asks.
        Privilege::UserNamespace => Ok(()),
    }
}

/// Who the outer process is; inside the user namespace that can no longer be asked.
struct Identity {
    user: libc::uid_t,
    group: libc::gid_t,
}

// === impl Identity ===

impl Identity {
    fn current() -> Self {
        // SAFETY: both take nothing and cannot fail.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        Self { user, group }
    }
}

/// Like fork, with the child in new PID and mount namespaces, by way of a user namespace if need be.
fn fork_into_namespaces() -> io::Result<(libc::pid_t, Privilege)> {
    let namespaces = libc::CLONE_NEWPID | libc::CLONE_NEWNS;
    match clone(namespaces) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let forked = clone(namespaces | libc::CLONE_NEWUSER)?;
            Ok((forked, Privilege::UserNamespace))
        }
        other => other.map(|forked| (forked, Privilege::Root)),
    }
}

fn clone(namespaces: libc::c_int) -> io::Result<libc::pid_t> {
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    // glibc's wrapper wants a stack; the system call without one is fork with flags.
    // SAFETY: without CLONE_VM the child has its own copy of everything, and the process has one thread
    // (checked by `isolate`), so no lock stays behind in an unknown state.
    let result = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match libc::pid_t::try_from(result) {
        Ok(pid) if pid >= 0 => Ok(pid),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits until init is ready or says why it is not.
fn read_report(reports: &mut impl Read) -> Result<(), IsolationError> {
    let watch = |source| IsolationError::Watch { source };
    let mut tag = [ALIVE];
    while tag[0] == ALIVE {
        reports.read_exact(&mut tag).map_err(watch)?;
    }
    if tag[0] == READY {
        return Ok(());
    }
    let mut step = [0; 1];
    let mut errno = [0; 4];
    reports
        .read_exact(&mut step)
        .and_then(|()| reports.read_exact(&mut errno))
        .map_err(watch)?;
    Err(IsolationError::Prepare {
        step: STEPS.get(usize::from(step[0])).copied().unwrap_or("start"),
        source: io::Error::from_raw_os_error(i32::from_ne_bytes(errno)),
    })
}

#[expect(
    clippy::exit,
    reason = "the processes around the inner one end here and must not run its code"
)]
fn leave(status: i32) -> ! {
    process::exit(status)
}

// === impl IsolationError ===

impl IsolationError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        if let Self::ThreadsRunning { .. } = self {
            return "call `isolate` before anything starts a thread".to_owned();
        }
        for (sysctl, forbidding, remedy) in RESTRICTIONS {
            let path = format!("/proc/sys/{}", sysctl.replace('.', "/"));
            if fs::read_to_string(path).is_ok_and(|value| value.trim() == forbidding) {
                return format!(
                    "run as root, or allow user namespaces: `sysctl -w {sysctl}={remedy}`"
                );
            }
        }
        "run as root, or allow this user to create user namespaces (a container may forbid both: \
         give it CAP_SYS_ADMIN and CAP_NET_ADMIN)"
            .to_owned()
    }
}

/// Sysctls that forbid user namespaces: name, forbidding value, allowing value.
const RESTRICTIONS: [(&str, &str, &str); 3] = [
    ("kernel.unprivileged_userns_clone", "0", "1"), // Debian before 11
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"), // Ubuntu from 23.10
    ("user.max_user_namespaces", "0", "10000"),
];
