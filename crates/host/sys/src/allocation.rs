//! What the allocator does with memory that was given back.

/// Up to this size an allocation comes from memory that was used before; the most that glibc takes (half of `HEAP_MAX_SIZE`).
#[cfg(target_env = "gnu")]
const REUSED: libc::c_int = 32 << 20;

/// What stays with the process of what it gives back, for each of glibc's arenas.
#[cfg(target_env = "gnu")]
const KEPT: libc::c_int = 64 << 20;

/// Keeps memory that was given back for what comes next, instead of returning it to the kernel.
///
/// Buffers of some hundred KiB are mapped anew each time otherwise, and each of their pages is a fault that the kernel answers
/// with a page of zeroes: a seventh of the processor time of a trunk over loopback. What a process holds at its
/// peak it then keeps, some of it.
///
/// Other C libraries than glibc are left as they are (mallopt(3)).
pub fn keep_freed() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, REUSED),
        (libc::M_TRIM_THRESHOLD, KEPT),
    ] {
        // SAFETY: it changes two numbers of the allocator under its own lock, and refuses what it cannot do.
        unsafe { libc::mallopt(parameter, value) };
    }
}
