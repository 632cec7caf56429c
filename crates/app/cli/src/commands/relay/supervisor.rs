//! What systemd, or whoever else started the relay, is told: `sd_notify(3)`.

use std::time::Duration;

use relay::Event;
use sys::supervision;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// A listener for events that tells the supervisor of those that are its business, and then `next` of all.
pub(super) fn told_as_well(
    next: impl Fn(Event) + Send + Sync + 'static,
) -> impl Fn(Event) + Send + Sync + 'static {
    move |event| {
        if matches!(
            event,
            Event::Ready { .. } | Event::Reloaded { .. } | Event::ReloadFailed { .. }
        ) {
            ready();
        }
        next(event);
    }
}

pub(super) fn ready() {
    if let Err(error) = supervision::succeed() {
        tracing::warn!("cannot tell the process before this one: {error}");
    }
    tell("READY=1");
}

pub(super) fn reloading() {
    // `Type=notify-reload` wants to know which signal this answers.
    match supervision::monotonic_us() {
        Some(now) => tell(&format!("RELOADING=1\nMONOTONIC_USEC={now}")),
        None => tell("RELOADING=1"),
    }
}

/// Another process serves from now on, and is the one to watch. It has told of itself before, so nothing is to be
/// said of this one's end.
pub(super) fn succeeded_by(process: u32) {
    tell(&format!("MAINPID={process}"));
}

pub(super) fn stopping() {
    tell("STOPPING=1");
}

/// Says that the runtime still runs tasks, twice per interval of `WatchdogSec=`, where one is set.
pub(super) fn feed_watchdog() -> Option<JoinHandle<()>> {
    let every = supervision::watchdog_interval()? / 2;
    Some(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(every.max(Duration::from_millis(1)));
        // One after a standstill says as much as all that were missed.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            tell("WATCHDOG=1");
        }
    }))
}

/// A supervisor that cannot be reached is no reason to stop serving.
fn tell(state: &str) {
    if let Err(error) = supervision::notify(state) {
        tracing::warn!("cannot notify the supervisor: {error}");
    }
}
