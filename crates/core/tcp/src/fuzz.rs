//! Bodies of fuzz targets: plain functions of bytes, so that `cargo test` replays what once failed.

mod choices;
mod exchange;
pub(crate) mod pair;
mod segments;

pub use exchange::fuzz_exchange;
pub use segments::fuzz_segments;
