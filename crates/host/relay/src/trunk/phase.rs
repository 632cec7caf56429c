//! Whether a process serves, has been succeeded, or is to stop.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// How far the life of all ends of this process has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// Clients come in.
    Serving,
    /// Another process lets clients in; what is open here goes on to its end.
    Succeeded,
    /// What is open may take the drain timeout.
    Stopping,
}

/// Resolves when what is still open is to be cut off: `patience` after the order to stop. A process that was succeeded
/// waits for the last stream, however long that takes.
pub(super) async fn over(mut phase: watch::Receiver<Phase>, patience: Duration) {
    // Where nobody could order it any more, it is to stop.
    let _ = phase.wait_for(|phase| *phase == Phase::Stopping).await;
    sleep(patience).await;
}
