//! Copies of memory at the speed that the processor has.
//!
//! Where a processor says that `rep movsb` is fast (ERMS, FSRM), glibc copies with it from 2,112 bytes on. On AMD's
//! Zen 3 and 4 it is up to twenty times slower than a loop of vector moves where the destination lies a little behind the source's
//! place in its page, so by chance for a buffer of any connection. glibc 2.39 leaves it be
//! (<https://sourceware.org/bugzilla/show_bug.cgi?id=30994>); before, a tunable does, which glibc reads once, before
//! `main`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::hint::black_box;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Instant;

/// Where glibc reads its tunables.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// From how many bytes on glibc copies with `rep movsb`.
const THRESHOLD: &str = "glibc.cpu.x86_rep_movsb_threshold";

/// The tunable that mends slow copies: from a number on that nobody copies at once.
pub const TUNABLE: &str = "glibc.cpu.x86_rep_movsb_threshold=0x40000000";

/// Tells a process that it was started again, whether or not that helped: glibc ignores tunables for a program with
/// privileges of its own.
const AGAIN: &str = "LONGHAUL_STARTED_AGAIN";

/// What is copied to learn how fast that is: more than glibc ever copies without `rep movsb` by itself, and little
/// enough for the first cache.
const SAMPLE: usize = 16 * 1024;

/// The fastest of so many copies counts, so that an interruption does not.
const TRIES: usize = 16;

/// A slowdown from which on it is worth to start again. Seen: 14 to 16, and 1 where glibc leaves `rep movsb` be.
pub const SLOW: f64 = 4.0;

/// Starts this program again, in this process and with all that it was given, where copies are slow and a tunable
/// mends it; then it does not return. An error where starting it again has failed.
///
/// To be called before anything is read, opened or started: memory, threads and descriptors that close on `exec`
/// are lost.
pub fn make_fast() -> io::Result<()> {
    if were_mended() {
        return Ok(());
    }
    let Some(tunables) = with_threshold(env::var_os(TUNABLES).as_deref()) else {
        return Ok(());
    };
    if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) || slowdown() < SLOW {
        return Ok(());
    }
    let program = env::current_exe()?;
    let mut words = env::args_os();
    let name = words.next().unwrap_or_else(|| program.clone().into());
    let mut command = Command::new(program);
    let command = command.arg0(name).args(words);
    Err(command.env(TUNABLES, tunables).env(AGAIN, "copies").exec())
}

/// Whether this process, or one that started it, was started again by [`make_fast`].
#[must_use]
pub fn were_mended() -> bool {
    env::var_os(AGAIN).is_some()
}

/// How many times as long a copy takes where its destination lies a byte behind the source's place in its page as where both
/// have the same.
#[must_use]
pub fn slowdown() -> f64 {
    const PAGE: usize = 4096;
    let source = vec![1; SAMPLE + PAGE];
    let mut target = vec![0; SAMPLE + 2 * PAGE];
    let place = |bytes: &[u8]| bytes.as_ptr().addr() % PAGE;
    let same = (PAGE + place(&source) - place(&target)) % PAGE;
    let mut fastest = |start: usize| {
        let copy = |_| {
            let began = Instant::now();
            let target = black_box(&mut target[start..][..SAMPLE]);
            target.copy_from_slice(black_box(&source[..SAMPLE]));
            began.elapsed()
        };
        (0..TRIES).map(copy).min().unwrap_or_default().as_secs_f64()
    };
    let (well, badly) = (fastest(same), fastest(same + 1));
    if well > 0.0 { badly / well } else { 1.0 }
}

/// The tunables with ours behind what is `given`; `None` where whoever gave them has decided on it.
fn with_threshold(given: Option<&OsStr>) -> Option<OsString> {
    let mut tunables = given.unwrap_or_default().to_owned();
    let decided = tunables
        .as_bytes()
        .windows(THRESHOLD.len())
        .any(|place| place == THRESHOLD.as_bytes());
    if decided {
        return None;
    }
    if !tunables.is_empty() {
        tunables.push(":");
    }
    tunables.push(TUNABLE);
    Some(tunables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_tune_stays() {
        assert_eq!(with_threshold(None), Some(TUNABLE.into()));
        assert_eq!(with_threshold(Some(OsStr::new(""))), Some(TUNABLE.into()));
        let more = with_threshold(Some(OsStr::new("glibc.malloc.check=1")));
        let expected = "glibc.malloc.check=1:glibc.cpu.x86_rep_movsb_threshold=0x40000000";
        assert_eq!(more, Some(expected.into()));
    }

    #[test]
    fn who_has_decided_is_left_alone() {
        let given = "a=b:glibc.cpu.x86_rep_movsb_threshold=2112";
        assert_eq!(with_threshold(Some(OsStr::new(given))), None);
    }
}
