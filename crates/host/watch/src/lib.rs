//! Reads what `longhaul top` shows: the TCP sockets of one or several network namespaces
//! ([`Watcher`]), whose they are ([`ProcessTable`]), and what relays say of themselves ([`relays()`]) and of their
//! sockets ([`sockets()`]).
//!
//! Nothing is judged here; that is `core/live`.

mod namespaces;
mod pace;
mod processes;
mod relayed;
mod relays;
mod watcher;

pub use namespaces::{Namespace, NamespaceChoice};
pub use pace::Pace;
pub use processes::ProcessTable;
pub use relayed::sockets;
pub use relays::{RelayError, relays};
pub use watcher::{WatchError, Watcher};
