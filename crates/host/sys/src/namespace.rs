//! Network namespaces without a name.
//!
//! A [`NetworkNamespace`] is a file descriptor, not an entry below `/run/netns`: when the last descriptor
//! and the last process in it are gone, the kernel removes it together with its devices. Nothing has to
//! be cleaned up after a crash, and two labs on one machine can't meet.
//!
//! Devices, addresses and routes are made by iproute2 (`ip -batch -`) and not by netlink of our own: what
//! the lab did can be read, repeated by hand, and uses words the reader knows (`congctl cubic`).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use crate::isolation;

/// A network namespace that lives as long as this handle, its clones, and the processes in it.
#[derive(Clone, Debug)]
pub struct NetworkNamespace {
    name: Arc<str>,
    handle: Arc<OwnedFd>,
}

/// A namespace could not be made, entered or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The kernel refused a new namespace.
    #[error("cannot create network namespace `{namespace}`")]
    Create {
        /// Our name for it.
        namespace: Arc<str>,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// No thread could be started to work in the namespace.
    #[error("cannot start a thread for network namespace `{namespace}`")]
    Thread {
        /// Our name for it.
        namespace: Arc<str>,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A thread could not move into the namespace.
    #[error("cannot enter network namespace `{namespace}`")]
    Enter {
        /// Our name for it.
        namespace: Arc<str>,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// iproute2 could not be run.
    #[error("cannot run `ip` (package iproute2) in network namespace `{namespace}`")]
    RunIp {
        /// Our name for it.
        namespace: Arc<str>,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// iproute2 refused a line.
    #[error("`ip {line}` in network namespace `{namespace}` failed: {stderr}")]
    Ip {
        /// Our name for it.
        namespace: Arc<str>,
        /// The line that failed, or all of them where `ip` does not say which.
        line: String,
        /// What `ip` wrote.
        stderr: String,
    },
    /// A sysctl cannot be read.
    #[error("cannot read sysctl `{key}` in network namespace `{namespace}`")]
    ReadSysctl {
        /// Our name for it.
        namespace: Arc<str>,
        /// As given.
        key: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A sysctl cannot be written.
    #[error("cannot set sysctl `{key}` to `{value}` in network namespace `{namespace}`")]
    WriteSysctl {
        /// Our name for it.
        namespace: Arc<str>,
        /// As given.
        key: String,
        /// As given.
        value: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

// === impl NetworkNamespace ===

impl NetworkNamespace {
    /// Makes a new namespace with its loopback device up. `name` appears in messages only.
    pub fn create(name: &str) -> Result<Self, NamespaceError> {
        let name: Arc<str> = name.into();
        // A thread of its own changes its namespace and ends; the caller stays where it is.
        let created = thread::scope(|scope| {
            thread::Builder::new()
                .spawn_scoped(scope, || {
                    // SAFETY: unshare takes no pointer, and CLONE_NEWNET affects this thread only.
                    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                        return Err(io::Error::last_os_error());
                    }
                    File::open("/proc/thread-self/ns/net")
                })?
                .join()
                .unwrap_or_else(|panicked| panic::resume_unwind(panicked))
        });
        let handle = match created {
            Ok(file) => Arc::new(OwnedFd::from(file)),
            Err(source) => {
                return Err(NamespaceError::Create {
                    namespace: name,
                    source,
                });
            }
        };
        let namespace = Self { name, handle };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// The namespace that the calling thread is in. `name` appears in messages only.
    pub fn current(name: &str) -> Result<Self, NamespaceError> {
        let name: Arc<str> = name.into();
        match File::open("/proc/thread-self/ns/net") {
            Ok(file) => Ok(Self {
                name,
                handle: Arc::new(OwnedFd::from(file)),
            }),
            Err(source) => Err(NamespaceError::Enter {
                namespace: name,
                source,
            }),
        }
    }

    /// The namespace whose file is `path`, such as `/proc/1/ns/net` or `/run/netns/site`. `name` appears in
    /// messages only.
    pub fn open(path: &Path, name: &str) -> Result<Self, NamespaceError> {
        let name: Arc<str> = name.into();
        match File::open(path) {
            Ok(file) => Ok(Self {
                name,
                handle: Arc::new(OwnedFd::from(file)),
            }),
            Err(source) => Err(NamespaceError::Enter {
                namespace: name,
                source,
            }),
        }
    }

    /// The name given to [`create`](Self::create).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` on a thread inside the namespace and waits for it. Sockets that it opens and returns
    /// stay in the namespace; so do threads and processes that it starts.
    ///
    /// # Panics
    /// When `work` panics, with its message.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, NamespaceError> {
        thread::scope(|scope| {
            let inside = || {
                join_network(self.handle.as_fd()).map_err(|source| NamespaceError::Enter {
                    namespace: self.name.clone(),
                    source,
                })?;
                Ok(work())
            };
            let thread = thread::Builder::new()
                .name(self.name.to_string())
                .spawn_scoped(scope, inside)
                .map_err(|source| NamespaceError::Thread {
                    namespace: self.name.clone(),
                    source,
                })?;
            thread
                .join()
                .unwrap_or_else(|panicked| panic::resume_unwind(panicked))
        })
    }

    /// A command whose process will run inside the namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let handle = Arc::clone(&self.handle);
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe { command.pre_exec(move || join_network(handle.as_fd())) };
        command
    }

    /// Runs lines of `ip`, without the word `ip`, in order; the first that fails ends it.
    pub fn ip(&self, lines: &str) -> Result<(), NamespaceError> {
        self.ip_passing(lines, None)
    }

    /// Makes a pair of veth devices, one end in this namespace and one in `other`. Both are down.
    pub fn veth(&self, name: &str, other: &Self, other_name: &str) -> Result<(), NamespaceError> {
        // The other end is born where it belongs: a move would need a name that is free in both.
        let line = format!(
            "link add {name} type veth peer name {other_name} netns /proc/self/fd/{}",
            other.handle.as_raw_fd()
        );
        self.ip_passing(&line, Some(other))
    }

    /// The value of a sysctl such as `net.ipv4.tcp_rmem`, as this namespace sees it.
    pub fn sysctl(&self, key: &str) -> Result<String, NamespaceError> {
        let text = self.enter(|| fs::read_to_string(sysctl_path(key)))?;
        match text {
            Ok(text) => Ok(text.trim_end().replace('\t', " ")),
            Err(source) => Err(NamespaceError::ReadSysctl {
                namespace: self.name.clone(),
                key: key.to_owned(),
                source,
            }),
        }
    }

    /// Sets a sysctl inside the namespace and returns what it reads back as, which the kernel may have
    /// rounded.
    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<String, NamespaceError> {
        let written = self.enter(|| fs::write(sysctl_path(key), value))?;
        written.map_err(|source| NamespaceError::WriteSysctl {
            namespace: self.name.clone(),
            key: key.to_owned(),
            value: value.to_owned(),
            source,
        })?;
        self.sysctl(key)
    }

    /// `ip -batch -`; lines may name the namespace `passed` as `/proc/self/fd/N`.
    fn ip_passing(&self, lines: &str, passed: Option<&Self>) -> Result<(), NamespaceError> {
        let mut command = self.command("ip");
        command
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(namespace) = passed {
            isolation::pass_descriptor(&mut command, Arc::clone(&namespace.handle));
        }
        let mut run = || {
            let mut child = command.spawn()?;
            let written = child
                .stdin
                .take()
                .map_or(Ok(()), |mut stdin| stdin.write_all(lines.as_bytes()));
            let output = child.wait_with_output()?;
            // `ip` stops reading where a line fails; then its own words are the better error.
            if output.status.success() {
                written?;
            }
            Ok(output)
        };
        let output = run().map_err(|source| NamespaceError::RunIp {
            namespace: self.name.clone(),
            source,
        })?;
        if output.status.success() {
            return Ok(());
        }
        let (line, stderr) = explain_failure(lines, &String::from_utf8_lossy(&output.stderr));
        Err(NamespaceError::Ip {
            namespace: self.name.clone(),
            line,
            stderr,
        })
    }
}

impl AsFd for NetworkNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Moves the calling thread. Async-signal-safe: it also runs between fork and exec.
fn join_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open, and CLONE_NEWNET affects this thread only.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `net.ipv4.tcp_rmem` as a path. A key with a slash is taken as a path already, for names of devices
/// that hold a dot (sysctl(8) does the same).
fn sysctl_path(key: &str) -> PathBuf {
    let relative = if key.contains('/') {
        key.to_owned()
    } else {
        key.replace('.', "/")
    };
    PathBuf::from("/proc/sys").join(relative.trim_start_matches('/'))
}

/// Finds the line meant by `Command failed -:N` and what `ip` said about it.
fn explain_failure(lines: &str, stderr: &str) -> (String, String) {
    let mut number = None;
    let mut said = Vec::new();
    for line in stderr.lines() {
        match line.strip_prefix("Command failed -:") {
            Some(rest) => number = rest.trim().parse::<usize>().ok(),
            None if !line.trim().is_empty() => said.push(line.trim()),
            None => {}
        }
    }
    let failed = number
        .and_then(|number| lines.lines().nth(number.checked_sub(1)?))
        .unwrap_or(lines);
    (failed.trim().to_owned(), said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_batch_names_its_line() {
        let stderr = "Error: any valid prefix is expected rather than \"nonsense\".\n\
                      Command failed -:2\n";
        let (line, said) = explain_failure("link set lo up\n  addr add nonsense dev lo\n", stderr);
        assert_eq!(line, "addr add nonsense dev lo");
        assert_eq!(
            said,
            "Error: any valid prefix is expected rather than \"nonsense\"."
        );
    }

    #[test]
    fn a_key_with_a_slash_may_hold_a_dot() {
        assert_eq!(
            sysctl_path("net.ipv4.tcp_rmem"),
            PathBuf::from("/proc/sys/net/ipv4/tcp_rmem")
        );
        assert_eq!(
            sysctl_path("net/ipv6/conf/eth0.5/disable_ipv6"),
            PathBuf::from("/proc/sys/net/ipv6/conf/eth0.5/disable_ipv6")
        );
    }
}
