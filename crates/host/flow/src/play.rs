//! Packet scripts against the kernel's TCP: the same ones that our endpoint has to pass, to show that
//! they are right themselves.
//!
//! The kernel listens or connects in a namespace of its own, at a TUN device; the script is everything
//! beyond that device. The clock is the real one, so a run in which this thread came late says nothing:
//! it is repeated, as the lab does with its blocks, and never because of what the kernel did.

mod host;
mod settings;

use std::io;
use std::thread;
use std::time::Duration;

use script::{Play, Script, Tolerance, Who};
use sys::namespace::NamespaceError;
use sys::realtime::{self, Priority};
use sys::tcp_info::TcpInfoError;
use sys::tun::TunError;

use host::KernelHost;

/// How a script went against the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The last run.
    pub play: Play,
    /// How late this thread was in it, at worst: where that is more than half of the tolerance, a failure
    /// says nothing about the kernel.
    pub late: Duration,
    /// Whether the last run can be judged.
    pub is_valid: bool,
    /// Runs that were made.
    pub runs: u32,
}

/// A script could not be played against the kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The namespace was refused.
    #[error("cannot make a network namespace for the kernel; this needs root")]
    Namespace(#[source] NamespaceError),
    /// The kernel has no such congestion control.
    #[error("this kernel has no congestion control `{name}`; `longhaul cc load` puts ours into it")]
    CongestionControl {
        /// As the kernel would call it.
        name: String,
        /// What it said.
        #[source]
        source: NamespaceError,
    },
    /// The device was refused.
    #[error("cannot make a TUN device for the kernel")]
    Device(#[source] TunError),
    /// The kernel cannot be made so; the script should say `[ours: REASON]`.
    #[error("the kernel cannot be told `{setting}`; put the line into a section `[ours: REASON]`")]
    Setting {
        /// What was set.
        setting: String,
    },
    /// A socket call failed.
    #[error("cannot {operation}")]
    Socket {
        /// What was tried.
        operation: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The state cannot be read.
    #[error("cannot read the connection's state")]
    Info(#[source] TcpInfoError),
    /// A packet of the script cannot be written.
    #[error("cannot write a packet: {0}")]
    Packet(String),
    /// The device failed.
    #[error("cannot {operation} the TUN device")]
    Wire {
        /// What was tried.
        operation: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The script wants something at a point at which the kernel cannot.
    #[error("{0}")]
    Impossible(&'static str),
    /// The application could not write or read all.
    #[error("only {done} of {asked} bytes could be {what}")]
    Short {
        /// `written` or `read`.
        what: &'static str,
        /// Bytes done.
        done: u64,
        /// Bytes asked for.
        asked: u64,
    },
}

/// Runs of one script at most, where this thread was late in those before.
const MOST_RUNS: u32 = 3;

/// Plays `script` against the kernel, over IPv6 or IPv4.
pub fn against_kernel(
    script: &Script,
    ipv6: bool,
    tolerance: Tolerance,
) -> Result<Verdict, PlayError> {
    let mut runs = 0;
    loop {
        runs += 1;
        let (play, late) = run(script, ipv6, tolerance)?;
        let is_valid = play.failure.is_none() || late <= tolerance.fixed / 2;
        if is_valid || runs == MOST_RUNS {
            return Ok(Verdict {
                play,
                late,
                is_valid,
                runs,
            });
        }
    }
}

fn run(script: &Script, ipv6: bool, tolerance: Tolerance) -> Result<(Play, Duration), PlayError> {
    let mut host = KernelHost::new(script.settings_for(Who::Kernel), ipv6)?;
    // A thread of its own, because punctuality cannot be given back.
    thread::scope(|scope| {
        let played = scope.spawn(|| {
            // Refused, it costs runs that have to be repeated.
            realtime::request(Priority::Low, false);
            let play = script::play(script, &mut host, tolerance);
            (play, host.late())
        });
        played
            .join()
            .map_err(|_| PlayError::Impossible("the player panicked; its message stands above"))
    })
}
