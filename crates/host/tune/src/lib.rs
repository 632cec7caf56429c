//! Reads a Linux host's settings, changes them with a journal, and takes changes back.
//!
//! [`read()`] collects what crate `tuning` judges. [`apply()`] writes down what every sysctl was, on disk, before
//! it writes the first one, and reads each back; [`revert`] restores the journal's values, whenever and
//! wherever the writer stopped. A journal belongs to one boot and one network namespace: elsewhere its
//! values mean nothing, and it is refused.

mod apply;
mod device;
mod error;
mod journal;
mod live;
mod measure;
mod place;
mod read;

pub use apply::{Applied, apply, revert};
pub use error::TuneError;
pub use journal::{DropIn, Entry, Journal, Restored};
pub use measure::handshake;
pub use place::Place;
pub use read::read;
