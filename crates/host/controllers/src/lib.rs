//! Congestion control that kernels do not ship: `HighSpeed` (RFC 3649), Westwood+ and a NewReno with a settable
//! initial ssthresh, put into the running kernel as eBPF (`struct_ops`).
//!
//! The programs are `bpf/controllers.bpf.c`, compiled where clang is present and committed for where it is not.
//! [`load`] fits them to the running kernel's own type information and registers them under a [`Name`] of
//! ours, for every namespace and beyond the life of this process; [`unload`] takes them out.
//! `docs/decisions/0009-own-loader-for-struct-ops.md` says why the loader is our own.

mod btf;
mod controller;
mod kernel;
mod object;
mod relocation;

pub use controller::{Controller, Name, NameError, Wanted};
pub use kernel::{ControllerError, Registered, list, load, probe, unload};
