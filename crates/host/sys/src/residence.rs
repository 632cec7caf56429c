//! Keeping the running program in memory: a kernel that is short of memory, or that pages out what was not
//! used for a while (`DAMON_RECLAIM`, `memory.reclaim` of a cgroup), takes the pages of programs first, because
//! it can read them again from their file. Whoever needs the next instruction waits for the disk: the first
//! request after a quiet minute took 50 to 400 ms instead of 1 to 3 ms through a relay whose pages were gone.

use std::fs;
use std::io;

use rustix::mm::{MlockFlags, mlock_with};
use units::Bytes;

/// A part of this process's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Mapping {
    start: usize,
    length: usize,
}

/// Locks the pages of this program and of its libraries in memory from their first use on, until the process
/// ends, and returns how many bytes that may come to. Pages that are never used take no memory.
///
/// What the process allocates is not locked: its amount depends on others, and only hosts with swap write it
/// out.
///
/// # Errors
///
/// Beyond `RLIMIT_MEMLOCK` (`ulimit -l`) without `CAP_IPC_LOCK`: then nothing is locked.
pub fn keep_program() -> io::Result<Bytes> {
    let mappings = of_files(&fs::read_to_string("/proc/self/maps")?);
    for (locked, mapping) in mappings.iter().enumerate() {
        if let Err(error) = lock(*mapping) {
            for mapping in &mappings[..locked] {
                unlock(*mapping);
            }
            return Err(error);
        }
    }
    let total: usize = mappings.iter().map(|mapping| mapping.length).sum();
    Ok(Bytes::new(total.try_into().unwrap_or(u64::MAX)))
}

/// The mappings of files in a list as proc(5) describes it.
fn of_files(maps: &str) -> Vec<Mapping> {
    maps.lines().filter_map(Mapping::of_file).collect()
}

fn lock(mapping: Mapping) -> io::Result<()> {
    let start = std::ptr::with_exposed_provenance_mut(mapping.start);
    // SAFETY: locking changes neither content nor protection of memory, and the kernel refuses a range that is
    // not mapped.
    unsafe { mlock_with(start, mapping.length, MlockFlags::ONFAULT) }?;
    Ok(())
}

fn unlock(mapping: Mapping) {
    let start = std::ptr::with_exposed_provenance_mut(mapping.start);
    // SAFETY: as for locking. That a mapping is gone meanwhile is no loss.
    let _ = unsafe { rustix::mm::munlock(start, mapping.length) };
}

// === impl Mapping ===

impl Mapping {
    /// `5581c0000000-5581c0004000 r-xp 00002000 fe:00 1234  /usr/bin/longhaul`, but not what has no file.
    fn of_file(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let file = fields.nth(4)?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        let length = end.checked_sub(start)?;
        file.starts_with('/').then_some(Self { start, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mappings_of_files_count() {
        let maps = "\
5581c0000000-5581c0004000 r--p 00000000 fe:00 1234                       /usr/bin/longhaul
5581c0004000-5581c0010000 r-xp 00004000 fe:00 1234                       /usr/bin/long haul (deleted)
5581c1000000-5581c1021000 rw-p 00000000 00:00 0                          [heap]
7f3a40000000-7f3a40021000 rw-p 00000000 00:00 0
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";
        let expected = [
            Mapping {
                start: 0x5581_c000_0000,
                length: 0x4000,
            },
            Mapping {
                start: 0x5581_c000_4000,
                length: 0xc000,
            },
        ];
        assert_eq!(of_files(maps), expected);
        for odd in ["", "-", "2-1 r 0 0 0 /x", "zz-1 r 0 0 0 /x", "1-2 r 0"] {
            assert_eq!(Mapping::of_file(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_kept_program_is_locked_by_the_kernel_s_own_account() {
        // Libraries that another test's look-up loads are there before, and stay.
        let _ = crate::privilege::User::find("nobody-has-this-name");
        let kept = keep_program().expect("this test runs as root");
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
        let words = line.unwrap().trim().split(' ').next();
        let locked = Bytes::new(words.unwrap().parse::<u64>().unwrap() * 1024);
        assert_eq!(locked, kept);
        assert!(kept > Bytes::new(1_000_000), "{kept}");
    }
}
