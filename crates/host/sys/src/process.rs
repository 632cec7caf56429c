//! What this process costs its host: `clock_gettime(2)`, `proc_pid_status(5)`, `proc_pid_fd(5)`.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What a process has used and holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Usage {
    /// CPU time of all its threads since it began, in user and kernel mode.
    pub cpu: Duration,
    /// Bytes of its memory that are in RAM.
    pub resident: u64,
    /// Descriptors that are open.
    pub descriptors: usize,
}

impl Usage {
    /// This process, now.
    pub fn now() -> io::Result<Self> {
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(spent.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(spent.tv_nsec).unwrap_or(0);
        let status = fs::read_to_string("/proc/self/status")?;
        Ok(Self {
            cpu: Duration::new(seconds, nanos),
            resident: resident(&status).ok_or(io::ErrorKind::InvalidData)?,
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
        })
    }
}

/// `VmRSS`, which the kernel gives in KiB and calls kB.
fn resident(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_the_kernels_unit() {
        let status = "Name:\ta\nVmPeak:\t  9 kB\nVmRSS:\t   12 kB\n";
        assert_eq!(resident(status), Some(12_288));
        assert_eq!(resident("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn this_process_holds_memory_and_descriptors() {
        let usage = Usage::now().unwrap();
        assert!(
            usage.resident > 100_000 && usage.descriptors >= 3,
            "{usage:?}"
        );
    }
}
