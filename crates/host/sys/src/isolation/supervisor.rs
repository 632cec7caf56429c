//! A process that only waits for another: passes signals on, reaps, and takes over its status.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Signals that a user sends to the process he knows and means for the one that works.
const FORWARDED: [libc::c_int; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// The signal mask from before, to be given back to the process that works.
pub(super) struct SignalMask {
    before: libc::sigset_t,
}

// === impl SignalMask ===

impl SignalMask {
    /// Blocks the forwarded signals and SIGCHLD, to be taken by [`supervise`]. A blocked signal also
    /// reaches an init process, which otherwise gets only those it handles (`sig_task_ignored` in
    /// kernel/signal.c).
    pub(super) fn block_forwarded() -> io::Result<Self> {
        let mut before = MaybeUninit::uninit();
        let blocked = supervised_signals();
        // SAFETY: both sets outlive the call, which fills `before` when it succeeds. SIGCHLD gets its
        // default disposition, because one that is ignored would never be reported.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            match libc::sigprocmask(libc::SIG_BLOCK, &raw const blocked, before.as_mut_ptr()) {
                0 => Ok(Self {
                    before: before.assume_init(),
                }),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    pub(super) fn restore(&self) {
        // SAFETY: the set is valid and outlives the call, which cannot fail for a valid `how`.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}

/// Waits until `child` ends, forwarding signals and reaping whatever else ends. Returns the exit status, or
/// 128 + n after signal n, as shells do.
pub(super) fn supervise(child: libc::pid_t) -> i32 {
    let signals = supervised_signals();
    loop {
        if let Some(status) = reap(child) {
            return status;
        }
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: both outlive the call.
        let signal = unsafe { libc::sigwaitinfo(&raw const signals, info.as_mut_ptr()) };
        // SAFETY: all zeroes is a valid siginfo_t, and sigwaitinfo writes only valid ones.
        let info = unsafe { info.assume_init() };
        // What the terminal sends (code SI_KERNEL) has gone to the whole foreground group already.
        if FORWARDED.contains(&signal) && info.si_code <= libc::SI_USER {
            // SAFETY: takes numbers; `child` was not reaped yet, so it cannot be somebody else.
            unsafe { libc::kill(child, signal) };
        }
    }
}

/// Reaps everything that has ended; the status once `child` is among it.
fn reap(child: libc::pid_t) -> Option<i32> {
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if ended <= 0 {
            return None;
        }
        if ended == child {
            return Some(if libc::WIFSIGNALED(status) {
                128 + libc::WTERMSIG(status)
            } else {
                libc::WEXITSTATUS(status)
            });
        }
    }
}

fn supervised_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set; every signal number is valid.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in FORWARDED.into_iter().chain([libc::SIGCHLD]) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}
