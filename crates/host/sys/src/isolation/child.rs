//! What a process does between fork and exec, or right after it became init.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Child, Command};
use std::ptr;
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process_group};

/// The command's process is killed when the *thread* that spawns it ends (`prctl(2)`,
/// `PR_SET_PDEATHSIG`): spawn it from a thread that lasts.
pub fn die_with_parent(command: &mut Command) {
    let parent = process::id();
    let arm = move || {
        kill_when_parent_dies()?;
        // SAFETY: getppid takes nothing and cannot fail.
        let now = unsafe { libc::getppid() };
        // Died before the signal was armed: nobody would ever send it.
        if u32::try_from(now).is_ok_and(|now| now == parent) {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(arm) };
}

/// Gives the command's process a descriptor, under the number returned. The command keeps it open.
pub fn pass_descriptor(command: &mut Command, descriptor: impl Into<Arc<OwnedFd>>) -> RawFd {
    let descriptor: Arc<OwnedFd> = descriptor.into();
    let number = descriptor.as_raw_fd();
    let keep_on_exec = move || {
        // SAFETY: the closure holds the descriptor open; F_SETFD takes a number.
        match unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(keep_on_exec) };
    number
}

/// Shows the command's process, and nobody else, other files: each `(source, target)` bind-mounts `source`
/// over `target`, which must exist. With `/etc/hosts` that is name resolution per process.
///
/// Needs root, or to be inside [`isolate`](super::isolate). An error is a path with a zero byte in it; what
/// the kernel refuses comes back from `spawn`.
pub fn bind_files(command: &mut Command, files: &[(&Path, &Path)]) -> io::Result<()> {
    let files = files
        .iter()
        .map(|(source, target)| Ok((c_path(source)?, c_path(target)?)))
        .collect::<io::Result<Vec<_>>>()?;
    let bind = move || {
        // SAFETY: takes no pointer; the process between fork and exec has one thread.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        make_mounts_private()?;
        files
            .iter()
            .try_for_each(|(source, target)| mount(Some(source), target, None, libc::MS_BIND))
    };
    // SAFETY: between fork and exec the closure makes system calls on paths made before, and allocates
    // nothing.
    unsafe { command.pre_exec(bind) };
    Ok(())
}

/// Kills a process that was started with `process_group(0)`, and whatever it started that stayed in its
/// group. A group that has ended already is no error: then nothing is left to do.
pub fn kill_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ended_already = kill_process_group(group, Signal::KILL);
    }
}

pub(super) fn kill_when_parent_dies() -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a number.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// From here on, mounts of this namespace are seen here only.
pub(super) fn make_mounts_private() -> io::Result<()> {
    mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE)
}

pub(super) fn mount_proc() -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(Some(c"proc"), c"/proc", Some(c"proc"), flags)
}

/// Async-signal-safe.
fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let source = source.map_or(ptr::null(), CStr::as_ptr);
    let kind = kind.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: strings are zero-terminated and outlive the call; mount(2) takes null for what is unused.
    match unsafe { libc::mount(source, target.as_ptr(), kind, flags, ptr::null()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}
