//! A newer binary in this one's place: it gets copies of all listening sockets, and once it serves, this process
//! finishes what is under way and ends. Clients in the kernel's queues are accepted by whichever is there.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::Context as _;
use relay::Order;
use relay::trunk::{Succession, TrunkOrder};
use sys::supervision::Successor;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

/// Where this program was at its start: what lies there later is the newer one.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Remembers where this program is. Asked later, the kernel would name a file that has been replaced.
pub(super) fn remember_program() {
    if let Ok(path) = std::env::current_exe() {
        PROGRAM.get_or_init(|| path);
    }
}

/// Starts a successor to a relay and waits until it serves; its process.
pub(super) async fn of_relay(orders: &Sender<Order>) -> anyhow::Result<u32> {
    let (reply, listeners) = oneshot::channel();
    orders
        .send(Order::Listeners(reply))
        .await
        .context("the relay has ended")?;
    let listeners = listeners.await.context("the relay has ended")?;
    start(listeners, None).await
}

/// Starts a successor to ends of trunks and waits until it serves; its process.
pub(super) async fn of_trunk(orders: &Sender<TrunkOrder>) -> anyhow::Result<u32> {
    let (reply, succession) = oneshot::channel();
    orders
        .send(TrunkOrder::Succession(reply))
        .await
        .context("the trunk has ended")?;
    let Succession { listeners, passage } = succession
        .await
        .context("the trunk has ended")?
        .context("cannot copy its sockets")?;
    start(listeners, Some(passage)).await
}

async fn start(listeners: Vec<OwnedFd>, passage: Option<OwnedFd>) -> anyhow::Result<u32> {
    let program = PROGRAM
        .get()
        .context("the kernel did not tell where this program is")?;
    let successor = Successor::start(program, listeners, passage);
    let mut successor =
        successor.with_context(|| format!("cannot start `{}`", program.display()))?;
    let process = successor.id();
    // It blocks for as long as the other takes to start.
    let waiting = tokio::task::spawn_blocking(move || successor.wait());
    waiting
        .await
        .context("nobody waits for the successor")?
        .with_context(|| format!("process {process}, started to take over, does not serve"))?;
    Ok(process)
}
