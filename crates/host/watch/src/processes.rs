//! Whose a socket is: the kernel lists a socket's file, and only a look through `/proc/PID/fd` finds its
//! owner. That look costs two system calls per open file of the host, so it is taken seldom.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use record::top::Process;
use rustix::fs::{CWD, Mode, OFlags, RawDir};
use rustix::time::{ClockId, clock_gettime};

use crate::namespaces::numbers;

/// Sockets and the processes that hold them.
#[derive(Debug, Default)]
pub struct ProcessTable {
    /// When the last look began, and how much of a processor it took: a standstill of the machine is no cost.
    scanned: Option<(Instant, Duration)>,
}

/// At least this long between two looks.
const PATIENCE: Duration = Duration::from_secs(1);
/// A look may cost this part of the time between two: half a percent of a core.
const SHARE: u32 = 200;

// === impl ProcessTable ===

impl ProcessTable {
    /// All sockets of all processes that this user may look into, by the socket's file; `None` where the last
    /// look was too recent for what it cost.
    pub fn look(&mut self) -> Option<BTreeMap<u32, Process>> {
        let began = Instant::now();
        if let Some((at, cost)) = self.scanned
            && began.duration_since(at) < PATIENCE.max(cost * SHARE)
        {
            return None;
        }
        let spent = processor_time();
        let mut found = BTreeMap::new();
        for pid in numbers(Path::new("/proc")) {
            // A process that ends meanwhile, or belongs to somebody else, has no sockets to tell of.
            let _ = sockets_of(pid, &mut found);
        }
        self.scanned = Some((began, processor_time().saturating_sub(spent)));
        Some(found)
    }
}

/// Of this thread.
fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(spent.tv_sec).unwrap_or(0),
        u32::try_from(spent.tv_nsec).unwrap_or(0),
    )
}

fn sockets_of(pid: u32, found: &mut BTreeMap<u32, Process>) -> io::Result<()> {
    let folder = rustix::fs::openat(
        CWD,
        format!("/proc/{pid}/fd"),
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut process: Option<Process> = None;
    let mut buffer = Vec::with_capacity(16 * 1024);
    let mut target = [std::mem::MaybeUninit::uninit(); 64];
    let mut entries = RawDir::new(&folder, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let Ok((text, _)) = rustix::fs::readlinkat_raw(&folder, entry.file_name(), &mut target[..])
        else {
            continue;
        };
        let Some(inode) = socket(text) else {
            continue;
        };
        let process = process.get_or_insert_with(|| Process {
            pid,
            name: fs::read_to_string(format!("/proc/{pid}/comm"))
                .unwrap_or_default()
                .trim_end()
                .to_owned(),
        });
        // Of several processes that share a socket (a server's workers), the first is named.
        found.entry(inode).or_insert_with(|| process.clone());
    }
    Ok(())
}

/// `socket:[123]`.
fn socket(link: &[u8]) -> Option<u32> {
    let number = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_socket_of_this_process_is_found_and_the_next_look_waits() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
        let inode = socket(link.to_str().unwrap().as_bytes()).unwrap();
        let mut table = ProcessTable::default();
        let found = table.look().unwrap();
        assert_eq!(found[&inode].pid, std::process::id());
        assert!(!found[&inode].name.is_empty());
        let (_, cost) = table.scanned.expect("it was noted");
        // Just now, however long this machine has stood still.
        table.scanned = Some((Instant::now() + Duration::from_mins(1), cost));
        assert_eq!(table.look(), None);
    }

    #[test]
    fn other_files_are_no_sockets() {
        for link in ["pipe:[1]", "socket:[", "socket:[x]", "/dev/null", ""] {
            assert_eq!(socket(link.as_bytes()), None, "{link}");
        }
    }
}
