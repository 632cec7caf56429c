//! Experiments on real kernels: namespaces, the link emulator, workloads and their statistics.

pub mod emulator;
pub mod probe;
