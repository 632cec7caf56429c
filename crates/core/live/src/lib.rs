//! Connections while they live.
//!
//! A [`Board`] takes one reading of a kernel after the other ([`Seen`]: a socket at a moment) and knows
//! what lies between them: goodput, the limit that held and for how long, time in a state, piles of
//! `CLOSE_WAIT` and a short history of each connection. [`Filter`] and [`Order`] choose what is shown.
//! [`explain`] turns recorded readings into the document that `longhaul explain` prints.
//!
//! No clock and no socket here: who reads the kernel says when.

mod board;
mod explained;
mod filter;
mod history;
mod order;
mod seen;
mod watched;

pub use board::Board;
pub use explained::explain;
pub use filter::{Block, Comparison, End, Filter, FilterError};
pub use history::{History, Point};
pub use order::Order;
pub use seen::{Divided, Key, Seen, Told, join};
pub use watched::Watched;

#[cfg(test)]
mod tests;
