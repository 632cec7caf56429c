//! Experiments on real kernels: any WAN on one machine, and results that can be believed.
//!
//! [`experiment::run`] plays a scenario on a [bench](mod@bench): hosts in namespaces, the [`emulator`] between
//! them, relays, clients and captures as processes of the real binary. [`probe`] measures the path where
//! it counts, at its ends; crate [`comparison`] mixes the arms and makes cells of what was measured.

pub mod bench;
pub mod emulator;
pub mod experiment;
pub mod netem;
pub mod probe;
mod tap;
mod worker;
