//! Threads that serve clients, each with a runtime of its own.
//!
//! A relayed byte stream waits for two sockets and for nothing else, so it is best served where both are watched: what
//! moves it wakes one thread and no other. So is a request; the pool gives it a connection that its thread watches, or has
//! that thread watch it from then on. With a runtime whose workers share their tasks, waking each other
//! cost a fifth of what a short connection did, and of what a small request did.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::reactor::{self, Reactor};

/// A thread looks at its timers at least this often.
///
/// With tokio, a timer that is due before all others interrupts its thread's wait for events by a system call, also where it is that thread
/// which sets it, and so does not wait. Connecting and closing set such timers, nearly always for nothing. They are due later than this.
const TICK: Duration = Duration::from_secs(5);

/// All threads. They end with this, and so does what they still serve.
pub(super) struct Crew {
    members: Vec<Member>,
}

/// A thread and its runtime, and another one for streams that need none.
struct Member {
    worker: Worker,
    /// Ended first: what it begins goes on in the runtime.
    reactor: Option<reactor::Thread>,
    /// Ends the thread when dropped.
    stay: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Where connections are served, and how many are.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) runtime: Handle,
    pub(super) reactor: Reactor,
    load: Arc<AtomicUsize>,
}

/// One connection at a worker, for as long as this lives.
pub(super) struct Burden(Arc<AtomicUsize>);

// === impl Crew ===

impl Crew {
    /// A thread for each processor that this process may use.
    pub(super) fn start() -> io::Result<Self> {
        let count = thread::available_parallelism()?.get();
        let members = (0..count).map(Member::start);
        Ok(Self {
            members: members.collect::<io::Result<_>>()?,
        })
    }

    pub(super) fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.members.iter().map(|member| &member.worker)
    }
}

// === impl Member ===

impl Member {
    fn start(index: usize) -> io::Result<Self> {
        let (stay, leave) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let thread = thread::Builder::new().name(format!("stream-{index}"));
        // Made where it ends: a runtime must not be dropped inside another one.
        let thread = thread.spawn(move || {
            let mut builder = Builder::new_current_thread();
            match builder.enable_io().enable_time().build() {
                Ok(runtime) => {
                    // Whoever started this waits for it.
                    let _ = tell.send(Ok(runtime.handle().clone()));
                    // Nothing is ever sent: the other end is dropped.
                    let _ = runtime.block_on(async {
                        tokio::select! {
                            left = leave => left,
                            () = tick() => Ok(()),
                        }
                    });
                    // A name that is being looked up may take its time.
                    runtime.shutdown_background();
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        })?;
        let runtime = told.recv().map_err(io::Error::other)??;
        let reactor = reactor::Thread::start(format!("reactor-{index}"), runtime.clone())?;
        Ok(Self {
            worker: Worker::new(runtime, reactor.reactor.clone()),
            reactor: Some(reactor),
            stay: Some(stay),
            thread: Some(thread),
        })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.reactor = None;
        self.stay = None;
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has ended as well.
            let _ = thread.join();
        }
    }
}

/// Never ends.
async fn tick() {
    loop {
        sleep(TICK).await;
    }
}

// === impl Worker ===

impl Worker {
    fn new(runtime: Handle, reactor: Reactor) -> Self {
        Self {
            runtime,
            reactor,
            load: Arc::default(),
        }
    }

    /// Whether these are one and the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.load, &other.load)
    }

    /// Connections that are served here.
    pub(super) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    pub(super) fn take_on(&self) -> Burden {
        self.load.fetch_add(1, Ordering::Relaxed);
        Burden(Arc::clone(&self.load))
    }
}

// === impl Burden ===

impl Drop for Burden {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_knows_what_it_serves_and_all_end_with_the_crew() {
        let crew = Crew::start().unwrap();
        let worker = crew.workers().next().unwrap().clone();
        let burden = worker.take_on();
        assert_eq!(worker.load(), 1);
        let (served, ended) = std::sync::mpsc::channel::<()>();
        worker.runtime.spawn(async move {
            let _held = (served, burden);
            std::future::pending::<()>().await;
        });
        drop(crew);
        assert!(
            ended.recv().is_err(),
            "its sender was dropped, nothing was sent"
        );
        assert_eq!(worker.load(), 0);
    }
}
