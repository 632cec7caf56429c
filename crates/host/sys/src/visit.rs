//! Running a program inside the namespaces of another process.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, ExitStatus};

/// The namespaces of a process could not be entered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VisitError {
    /// There is no such process, or none that this user may look at.
    #[error("cannot find process {process}")]
    Find {
        /// Its number.
        process: u32,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Its namespaces are closed to this user.
    #[error("cannot enter the namespaces of process {process}")]
    Enter {
        /// Its number.
        process: u32,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The program did not start there.
    #[error("cannot run `{program}` in the namespaces of process {process}")]
    Run {
        /// Its number.
        process: u32,
        /// What should have run.
        program: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Runs `command` with the network, mounts and processes that `process` sees, and waits for its end. In a
/// namespace of another user, `command` runs as that namespace's root.
///
/// The calling process stays inside, which is why it must have one thread (`setns(2)`) and do nothing
/// else afterwards.
pub fn run(process: u32, command: &mut Command) -> Result<ExitStatus, VisitError> {
    let number = libc::pid_t::try_from(process).map_err(|error| VisitError::Find {
        process,
        source: io::Error::new(io::ErrorKind::InvalidInput, error),
    })?;
    // SAFETY: pidfd_open takes numbers only.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
    let descriptor = i32::try_from(opened).unwrap_or(-1);
    if descriptor < 0 {
        return Err(VisitError::Find {
            process,
            source: io::Error::last_os_error(),
        });
    }
    // SAFETY: the call above has just made it, and nobody else knows it.
    let target = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let worlds = libc::CLONE_NEWNET | libc::CLONE_NEWNS | libc::CLONE_NEWPID;
    // Its own user namespace cannot be entered again (EINVAL), and a foreign one opens the others.
    enter(&target, worlds | libc::CLONE_NEWUSER)
        .or_else(|_| enter(&target, worlds))
        .map_err(|source| VisitError::Enter { process, source })?;
    command.status().map_err(|source| VisitError::Run {
        process,
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })
}

fn enter(target: &OwnedFd, worlds: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open; setns takes numbers only.
    match unsafe { libc::setns(target.as_raw_fd(), worlds) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
