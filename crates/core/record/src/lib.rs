//! The versioned result schema. Producers (`explain`, `lab`, `relay`) and consumers (`report`, the
//! command line) meet only here.
//!
//! Rules of the schema: a number that leaves the type system carries its unit in its name (`_s` seconds,
//! `_bps` bits per second of IP bytes, otherwise bytes); what is not known is `null` with a reason beside
//! it; names of limits and findings never change meaning; readers ignore fields that they don't know,
//! and a document's version rises when a field changes.

pub mod change;
pub mod explain;
pub mod flow;
pub mod lab;
mod limits;
mod manifest;
pub mod page;
pub mod play;
mod tally;
pub mod top;
pub mod tune;
pub mod what_if;

pub use limits::{LimitName, LimitSeconds};
pub use manifest::Manifest;
pub use tally::Tally;

/// The version of [`explain::Document`]; [`lab::VERSION`] is that of the other.
pub const VERSION: u32 = 1;

#[cfg(test)]
mod tests;
