//! What a running relay says: JSON lines on stdout, or log lines on stderr, one per event.
//!
//! A thread of its own writes, because whoever reads may be slow, and no request may wait for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use relay::Event;
use serde::Serialize;

use super::line::line;
use super::pen::Pen;

/// An event that can be said.
pub(super) trait Speech: Serialize + Send + 'static {
    /// In one line, for people.
    fn line(&self) -> String;

    /// Whether an operator should look.
    fn is_warning(&self) -> bool;

    /// What is said instead of events that were not.
    fn lost(events: u64, why: &str) -> Self;
}

/// Events that wait for a slow reader: at about 300 bytes each some 5 MB, and a second of a busy relay.
const QUEUE: usize = 16_384;
/// How long the last events may take to be written at the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How long events gather before they are written together.
const BATCH: Duration = Duration::from_millis(5);

/// The writing thread.
pub(super) struct Voice<S> {
    as_json: bool,
    events: SyncSender<S>,
    lost: Arc<AtomicU64>,
    finished: Receiver<()>,
}

impl<S: Speech> Voice<S> {
    /// Events go to `pen` as JSON lines, or to the log, which uses the same.
    pub(super) fn start(as_json: bool, pen: Arc<Pen>) -> Self {
        let (events, queue) = sync_channel::<S>(QUEUE);
        let (finish, finished) = sync_channel(1);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        std::thread::spawn(move || {
            while let Ok(event) = queue.recv() {
                let say = |event: &S| say(event, as_json.then_some(&pen));
                say(&event);
                while let Ok(event) = queue.try_recv() {
                    say(&event);
                }
                let lost = counted.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    say(&S::lost(lost, "their reader is too slow"));
                }
                if let Some(loss) = pen.regained() {
                    let why = format!("they could not be written: {}", loss.why);
                    say(&S::lost(loss.lines, &why));
                }
                // Woken for each event of a busy relay, this thread would cost more than the requests.
                std::thread::sleep(BATCH);
            }
            // Nobody waits any more where the end took too long.
            let _ = finish.send(());
        });
        Self {
            as_json,
            events,
            lost,
            finished,
        }
    }

    /// What the relay calls for each event; never waits.
    pub(super) fn listener(&self) -> impl Fn(S) + Send + Sync + use<S> {
        let (events, lost) = (self.events.clone(), Arc::clone(&self.lost));
        let as_json = self.as_json;
        move |event| {
            if !as_json && !is_wanted(&event) {
                return;
            }
            match events.try_send(event) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                Err(TrySendError::Full(_)) => {
                    lost.fetch_add(1, Ordering::Relaxed);
                    relay::count_lost(relay::Loss::SlowReader, 1);
                }
            }
        }
    }

    /// Whether events that are no warnings are said.
    pub(super) fn tells_all(&self) -> bool {
        self.as_json || tracing::enabled!(tracing::Level::INFO)
    }

    /// Waits until all is said, within reason. All listeners must be gone.
    pub(super) fn finish(self) {
        drop(self.events);
        match self.finished.recv_timeout(LAST_WORDS) {
            // A reader that has stopped reading does not stop the relay from ending.
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}

/// Whether the log takes events of this kind: `LONGHAUL_LOG=warn` should cost nothing per request.
fn is_wanted(event: &impl Speech) -> bool {
    if event.is_warning() {
        tracing::enabled!(tracing::Level::WARN)
    } else {
        tracing::enabled!(tracing::Level::INFO)
    }
}

/// As a JSON line with a pen, in the log without.
fn say(event: &impl Speech, pen: Option<&Arc<Pen>>) {
    if let Some(pen) = pen {
        // Events are made of texts and numbers; where one could not be JSON, there would be nothing to write.
        if let Ok(mut line) = serde_json::to_vec(event) {
            line.push(b'\n');
            pen.write(&line);
        }
    } else if event.is_warning() {
        tracing::warn!("{}", event.line());
    } else {
        tracing::info!("{}", event.line());
    }
}

impl Speech for Event {
    fn line(&self) -> String {
        line(self)
    }

    fn is_warning(&self) -> bool {
        match self {
            Self::Trunk(event) => event.is_warning(),
            Self::Warning { .. }
            | Self::PrimingFailed { .. }
            | Self::ReloadFailed { .. }
            | Self::Refused { .. } => true,
            Self::Listening { .. }
            | Self::Applied { .. }
            | Self::Connected { .. }
            | Self::Primed { .. }
            | Self::PoolReady { .. }
            | Self::Cooled { .. }
            | Self::RequestDone { .. }
            | Self::ConnectionDone(_)
            | Self::Closed { .. }
            | Self::Target { .. }
            | Self::Admin { .. }
            | Self::Ready { .. }
            | Self::Reloaded { .. }
            | Self::Draining { .. }
            | Self::Stopped { .. } => false,
        }
    }

    fn lost(events: u64, why: &str) -> Self {
        Self::Warning {
            name: "events-lost",
            text: format!("{events} events were lost: {why}"),
        }
    }
}
