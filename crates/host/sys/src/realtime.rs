//! Punctuality: real-time scheduling for the calling thread, as much of it as this process may have, and
//! waiting with the timer's full resolution.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Which real-time thread comes first where two are ready: both come before every ordinary thread and
/// after the kernel's own real-time threads (50).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Priority {
    /// For who carries packets.
    High,
    /// For who measures what is carried.
    Low,
}

/// What a thread asked for and got.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Granted {
    /// `SCHED_FIFO`: without it, queueing behind other threads adds to every delay.
    pub scheduling: Outcome,
    /// Timers that fire within a nanosecond instead of 50 us.
    pub timer_slack: Outcome,
    /// Memory of the process, as it is at the moment, that never waits for a page.
    pub locked_memory: Outcome,
}

/// One privilege.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// In effect.
    Granted,
    /// Not asked for.
    NotAsked,
    /// Refused, with the reason and what would help.
    Refused {
        /// In words.
        why: String,
    },
}

/// Waits until one of `descriptors` is readable (or its other end is gone), at most for `timeout`, which is
/// honoured to the timer's resolution. Says which; all `false` after the timeout or a signal.
pub fn wait_readable<const N: usize>(
    descriptors: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut polled = descriptors
        .each_ref()
        .map(|descriptor| PollFd::new(descriptor, PollFlags::IN));
    // A span too long for a timespec is for ever.
    let timeout = timeout.and_then(|span| Timespec::try_from(span).ok());
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.map(|one| !one.revents().is_empty()))
}

/// Asks for everything that makes the calling thread punctual, and memory locked for the whole process
/// if `lock_memory`. Nothing here is required: the caller says what accuracy a refusal costs.
pub fn request(priority: Priority, lock_memory: bool) -> Granted {
    Granted {
        scheduling: first_in_first_out(priority),
        timer_slack: least_timer_slack(),
        locked_memory: if lock_memory {
            locked_memory()
        } else {
            Outcome::NotAsked
        },
    }
}

fn first_in_first_out(priority: Priority) -> Outcome {
    let parameters = libc::sched_param {
        sched_priority: match priority {
            Priority::High => 10,
            Priority::Low => 5,
        },
    };
    // Children of this thread start as ordinary ones.
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread, and `parameters` outlives the call.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    Outcome::of(
        result,
        "SCHED_FIFO was refused; run as root, grant CAP_SYS_NICE, or raise RLIMIT_RTPRIO (ulimit -r)",
    )
}

fn least_timer_slack() -> Outcome {
    let one_nanosecond: libc::c_ulong = 1;
    // SAFETY: PR_SET_TIMERSLACK takes a number and concerns the calling thread.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, one_nanosecond) };
    Outcome::of(result, "a timer slack of 1 ns was refused")
}

fn locked_memory() -> Outcome {
    // Not MCL_FUTURE: below RLIMIT_MEMLOCK it would make later allocations fail instead of this call.
    // SAFETY: mlockall takes flags only.
    let result = unsafe { libc::mlockall(libc::MCL_CURRENT) };
    Outcome::of(
        result,
        "locking memory was refused; run as root, grant CAP_IPC_LOCK, or raise RLIMIT_MEMLOCK (ulimit -l)",
    )
}

// === impl Granted ===

impl Granted {
    /// Whether the thread comes before every ordinary one.
    #[must_use]
    pub fn is_realtime(&self) -> bool {
        self.scheduling == Outcome::Granted
    }
}

// === impl Outcome ===

impl Outcome {
    /// Reads a system call's result; must follow it immediately.
    fn of(result: libc::c_int, refusal: &str) -> Self {
        if result == 0 {
            return Self::Granted;
        }
        let error = io::Error::last_os_error();
        Self::Refused {
            why: format!("{refusal} ({error})"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::NotAsked => f.write_str("not asked for"),
            Self::Refused { why } => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_slack_needs_no_privilege_and_what_is_not_asked_for_is_not_claimed() {
        let granted = request(Priority::Low, false);
        assert_eq!(granted.timer_slack, Outcome::Granted);
        assert_eq!(granted.locked_memory, Outcome::NotAsked);
    }

    #[test]
    fn a_refusal_says_what_would_help() {
        // SAFETY: an unknown option number; prctl reads nothing and fails.
        let result = unsafe { libc::prctl(-1) };
        let Outcome::Refused { why } = Outcome::of(result, "run as root") else {
            panic!("prctl(-1) succeeded");
        };
        assert!(why.starts_with("run as root (Invalid argument"), "{why}");
    }
}
