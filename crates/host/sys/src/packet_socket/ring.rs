//! The memory that the kernel writes frames into.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::packet_socket::CapturedFrame;

/// Bytes per block: one of the largest frames (64 KiB) fits, if not cut.
const BLOCK: u32 = 1 << 17;
/// Blocks, 16 MiB of them. One with a frame in it is handed over every 10 ms, however empty it is: their number, not
/// their size, outlasts a reader that is late by a second.
const BLOCKS: u32 = 128;
/// What `TPACKET_V3` wants to hear though frames have no fixed size; divides [`BLOCK`].
const NOMINAL_FRAME: u32 = 1 << 11;

// linux/if_packet.h
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VERSION: libc::c_int = 10;
const TPACKET_V3: libc::c_int = 2;
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1;
const PACKET_OUTGOING: u8 = 4;

/// `struct tpacket_req3`.
#[repr(C)]
struct RingRequest {
    block_size: u32,
    block_count: u32,
    frame_size: u32,
    frame_count: u32,
    retire_timeout_ms: u32,
    private_size: u32,
    features: u32,
}

/// `struct tpacket_block_desc` with `struct tpacket_hdr_v1`, as far as it is read.
#[repr(C)]
struct BlockHeader {
    version: u32,
    offset_to_private: u32,
    status: AtomicU32,
    frame_count: u32,
    offset_to_first_frame: u32,
    length: u32,
}

/// `struct tpacket3_hdr`.
#[derive(Clone, Copy)]
#[repr(C)]
struct FrameHeader {
    next_offset: u32,
    seconds: u32,
    nanos: u32,
    captured_length: u32,
    length: u32,
    status: u32,
    data_offset: u16,
    network_offset: u16,
    // A union of VLAN fields and padding follow, then the sockaddr_ll, at a multiple of 16.
    rest: [u8; 20],
}

/// `struct tpacket_stats_v3`.
#[derive(Default)]
#[repr(C)]
struct Statistics {
    frames: u32,
    dropped: u32,
    freezes: u32,
}

/// A packet socket with its ring.
#[derive(Debug)]
pub(super) struct Ring {
    socket: OwnedFd,
    memory: NonNull<u8>,
    /// The block to be read next.
    next: u32,
}

// SAFETY: the mapping belongs to this value alone and has no tie to a thread.
unsafe impl Send for Ring {}

// === impl Ring ===

impl Ring {
    pub(super) fn new(socket: OwnedFd, retire: Duration) -> io::Result<Self> {
        let request = RingRequest {
            block_size: BLOCK,
            block_count: BLOCKS,
            frame_size: NOMINAL_FRAME,
            frame_count: BLOCK / NOMINAL_FRAME * BLOCKS,
            retire_timeout_ms: u32::try_from(retire.as_millis()).unwrap_or(u32::MAX),
            private_size: 0,
            features: 0,
        };
        set_option(&socket, libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V3)?;
        set_option(&socket, libc::SOL_PACKET, PACKET_RX_RING, &request)?;
        // SAFETY: a new shared mapping of the ring that was just made, of exactly its size.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            socket,
            memory,
            next: 0,
        })
    }

    /// Hands over the frames of every block that the kernel has finished; returns their number.
    pub(super) fn drain(&mut self, on_frame: &mut impl FnMut(CapturedFrame<'_>)) -> u64 {
        let mut frames = 0;
        loop {
            let offset = self.next as usize * BLOCK as usize;
            // SAFETY: `next` is below BLOCKS, so the block lies inside the mapping, and the kernel aligns
            // blocks to pages.
            let block = unsafe { self.memory.add(offset) };
            // SAFETY: every block starts with its header; what others write in it is atomic or, as the
            // rest, only read after the status says that the kernel is done (Acquire).
            let status = unsafe { &(*block.cast::<BlockHeader>().as_ptr()).status };
            if status.load(Ordering::Acquire) & TP_STATUS_USER == 0 {
                return frames;
            }
            // SAFETY: the block is ours until the status is given back below.
            frames += unsafe { read_block(block, on_frame) };
            status.store(TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % BLOCKS;
        }
    }

    /// Frames put into the ring, and frames dropped, since the last call (`packet(7)`, `PACKET_STATISTICS`).
    pub(super) fn statistics(&self) -> io::Result<(u64, u64)> {
        let mut statistics = Statistics::default();
        let mut length = length_of(&statistics);
        // SAFETY: both outlive the call, and `length` is the structure's size.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // The kernel counts those it dropped among its frames.
        let kept = statistics.frames.saturating_sub(statistics.dropped);
        Ok((kept.into(), statistics.dropped.into()))
    }
}

const SIZE: usize = BLOCK as usize * BLOCKS as usize;

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this size and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), SIZE) };
    }
}

/// # Safety
/// `block` must be a block of the ring that the kernel has handed over.
unsafe fn read_block(block: NonNull<u8>, on_frame: &mut impl FnMut(CapturedFrame<'_>)) -> u64 {
    // SAFETY: the caller's promise: block and header are valid and nobody writes them now.
    let (bytes, header) = unsafe {
        let bytes = std::slice::from_raw_parts(block.as_ptr(), BLOCK as usize);
        (bytes, &*block.cast::<BlockHeader>().as_ptr())
    };
    let mut offset = header.offset_to_first_frame as usize;
    for _ in 0..header.frame_count {
        let Some((frame, next)) = read_frame(bytes, offset) else {
            break;
        };
        on_frame(frame);
        offset += next;
    }
    // As the kernel counts them, to whom its account is compared.
    header.frame_count.into()
}

/// The frame at `offset` and the distance to the next one. `None` where the kernel contradicts itself.
fn read_frame(block: &[u8], offset: usize) -> Option<(CapturedFrame<'_>, usize)> {
    let rest = block.get(offset..)?;
    if rest.len() < size_of::<FrameHeader>() {
        return None;
    }
    // SAFETY: the bytes are there, and every bit pattern is a valid header of integers.
    let header: FrameHeader = unsafe { ptr::read_unaligned(rest.as_ptr().cast()) };
    // sockaddr_ll: family, protocol, index, hardware type, then one byte of packet type.
    let packet_type = *rest.get(size_of::<FrameHeader>() + 10)?;
    let start = usize::from(header.data_offset);
    let data = rest.get(start..start + header.captured_length as usize)?;
    let frame = CapturedFrame {
        timestamp_ns: u64::from(header.seconds) * 1_000_000_000 + u64::from(header.nanos),
        original_length: header.length,
        data,
        outgoing: packet_type == PACKET_OUTGOING,
    };
    Some((frame, header.next_offset as usize))
}

pub(super) fn set_option<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: `value` outlives the call and is as long as said.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            ptr::from_ref(value).cast(),
            length_of(value),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn length_of<T>(value: &T) -> libc::socklen_t {
    // Structures of a few dozen bytes.
    libc::socklen_t::try_from(size_of_val(value)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernel_s() {
        assert_eq!(size_of::<RingRequest>(), 28);
        assert_eq!(size_of::<FrameHeader>(), 48);
        assert_eq!(size_of::<Statistics>(), 12);
    }

    #[test]
    fn a_frame_that_points_outside_its_block_is_not_read() {
        let mut block = vec![0; 128];
        block[12..16].copy_from_slice(&1000_u32.to_ne_bytes());
        block[24..26].copy_from_slice(&82_u16.to_ne_bytes());
        assert!(read_frame(&block, 0).is_none());
        block[12..16].copy_from_slice(&40_u32.to_ne_bytes());
        assert_eq!(
            read_frame(&block, 0).map(|(frame, _)| frame.data.len()),
            Some(40)
        );
        assert!(read_frame(&block, 100).is_none());
        assert!(read_frame(&block, 1000).is_none());
    }
}
