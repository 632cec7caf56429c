//! A thread that tries one input after the other.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::input::{self, Random};

thread_local! {
    /// Where this thread panicked last, and why.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A body, its inputs, and how far they have been tried.
pub(super) struct Worker {
    body: fn(&[u8]),
    longest: usize,
    seed: u64,
    inputs: AtomicU64,
    current: Mutex<Option<Vec<u8>>>,
}

/// A new fault.
pub(super) struct Found {
    /// File, line and message of the panic.
    pub(super) place: String,
    pub(super) input: Vec<u8>,
}

/// Panics are what is looked for: they are noted instead of printed.
pub(super) fn silence_panics() {
    panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        PLACE.with(|place| place.replace(text));
    }));
}

// === impl Worker ===

impl Worker {
    pub(super) const fn new(body: fn(&[u8]), longest: usize, seed: u64, number: u64) -> Self {
        Self {
            body,
            longest,
            // Far apart, so that no two workers meet.
            seed: seed.wrapping_add(number << 48),
            inputs: AtomicU64::new(0),
            current: Mutex::new(None),
        }
    }

    /// Tries inputs until `stop`; tells what fails, each place once.
    pub(super) fn run(&self, corpus: &[Vec<u8>], stop: &AtomicBool, tell: &Sender<Found>) {
        let mut random = Random::new(self.seed);
        let mut known = BTreeSet::new();
        while !stop.load(Ordering::Acquire) {
            let input = input::make(&mut random, corpus, self.longest);
            *self.current() = Some(input.clone());
            let place = self.place_of_failure(&input);
            *self.current() = None;
            self.inputs.fetch_add(1, Ordering::Relaxed);
            if let Some(place) = place
                && known.insert(source(&place).to_owned())
            {
                let same = |input: &[u8]| {
                    let other = self.place_of_failure(input);
                    other.is_some_and(|other| source(&other) == source(&place))
                };
                let input = input::shorten(input, same);
                // Whoever listens has gone when time is up.
                let _ = tell.send(Found { place, input });
            }
        }
    }

    /// Inputs tried so far.
    pub(super) fn inputs(&self) -> u64 {
        self.inputs.load(Ordering::Relaxed)
    }

    /// The input that is being tried.
    pub(super) fn under_way(&self) -> Option<Vec<u8>> {
        self.current().clone()
    }

    fn current(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place_of_failure(&self, input: &[u8]) -> Option<String> {
        let tried = panic::catch_unwind(AssertUnwindSafe(|| (self.body)(input)));
        tried.err().map(|_| PLACE.with(RefCell::take))
    }
}

/// The first line of a panic: its file, line and column.
fn source(place: &str) -> &str {
    place.lines().next().unwrap_or(place)
}
