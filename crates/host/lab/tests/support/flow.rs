//! Kernel TCP over the bench: one transfer checked by its digest, or one flow for some time.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use sys::tcp_info::TcpInfo;

use crate::support::{Bench, Family, Outcome};

/// A transfer of a given size.
pub(crate) struct Transfer {
    pub(crate) intact: bool,
    /// Payload rate at the receiver over the last two thirds of the transfer.
    pub(crate) steady_bps: f64,
}

/// A flow of a given duration.
pub(crate) struct Flow {
    /// Payload rate at the receiver, after the warm-up.
    pub(crate) goodput_bps: f64,
    /// What the sender's kernel knows at the end.
    pub(crate) info: TcpInfo,
}

const HASHED: usize = 100_000_000;
/// What one call reads or writes, as applications that care do.
const BUFFER: usize = 1 << 20;

impl Bench {
    /// Sends pseudo-random bytes forward over one connection.
    pub(crate) fn transfer(&self, family: Family, bytes: usize) -> Outcome<Transfer> {
        let (mut sender, mut receiver) = self.connect(family)?;
        let block = noise();
        let expected = digest_of(&block, bytes);
        let feeder = thread::spawn(move || {
            let mut left = bytes;
            while left > 0 {
                let part = left.min(block.len());
                sender.write_all(&block[..part])?;
                left -= part;
            }
            io::Result::Ok(())
        });
        let mut digest = Sha256::new();
        let mut buffer = vec![0; BUFFER];
        let (mut received, mut steady) = (0, None);
        // Hashing gigabytes would measure the hash; there the first 100 MB stand for all.
        loop {
            let length = receiver.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            if received < HASHED {
                digest.update(&buffer[..length.min(HASHED - received)]);
            }
            received += length;
            if received > bytes / 3 && steady.is_none() {
                steady = Some((Instant::now(), received));
            }
        }
        let (since, already) = steady.ok_or("nothing arrived")?;
        let seconds = since.elapsed().as_secs_f64();
        feeder.join().map_err(|_| "the sender panicked")??;
        let steady_bytes = u32::try_from(received - already)?;
        Ok(Transfer {
            intact: received == bytes && digest.finalize().as_slice() == expected,
            steady_bps: f64::from(steady_bytes) * 8.0 / seconds,
        })
    }

    /// Lets one connection send forward without an end, and measures it for `window` after `warm_up`;
    /// calls `at_window` at its beginning.
    pub(crate) fn flow(
        &mut self,
        family: Family,
        warm_up: Duration,
        window: Duration,
        mut at_window: impl FnMut(&mut Self) -> Outcome,
    ) -> Outcome<Flow> {
        let (mut sender, mut receiver) = self.connect(family)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let feeder = thread::spawn(move || {
            let block = noise();
            while !stopped.load(Ordering::Relaxed) {
                sender.write_all(&block[..BUFFER])?;
            }
            TcpInfo::of(&sender).map_err(io::Error::other)
        });
        let mut buffer = vec![0; BUFFER];
        let started = Instant::now();
        let (mut counted, mut window_began) = (0, None);
        loop {
            let length = receiver.read(&mut buffer)?;
            if length == 0 {
                return Err("the flow ended before its time".into());
            }
            match window_began {
                None if started.elapsed() >= warm_up => {
                    at_window(self)?;
                    window_began = Some(Instant::now());
                }
                None => {}
                Some(began) => {
                    counted += u64::try_from(length)?;
                    if began.elapsed() >= window {
                        break;
                    }
                }
            }
        }
        let began = window_began.ok_or("no window")?;
        #[expect(clippy::cast_precision_loss, reason = "bytes of some seconds")]
        let goodput_bps = counted as f64 * 8.0 / began.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        // What is on its way must arrive, or the sender would wait for ever.
        while receiver.read(&mut buffer)? > 0 {}
        let info = feeder.join().map_err(|_| "the sender panicked")??;
        Ok(Flow { goodput_bps, info })
    }

    fn connect(&self, family: Family) -> Outcome<(TcpStream, TcpStream)> {
        let listener = self.far.enter(|| TcpListener::bind((family.far(), 0)))??;
        let address = listener.local_addr()?;
        let sender = self.near.enter(|| TcpStream::connect(address))??;
        let (receiver, _) = listener.accept()?;
        Ok((sender, receiver))
    }
}

/// A megabyte and a bit of xorshift noise: its period is no multiple of any segment size.
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(131_101).flatten().collect()
}

fn digest_of(block: &[u8], bytes: usize) -> Vec<u8> {
    let mut digest = Sha256::new();
    let mut left = bytes.min(HASHED);
    while left > 0 {
        let part = left.min(block.len());
        digest.update(&block[..part]);
        left -= part;
    }
    digest.finalize().to_vec()
}
