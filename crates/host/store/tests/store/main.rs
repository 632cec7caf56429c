//! The origin, the client and the scripts of `scenarios/field/clients` against each other, on loopback.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod client;
mod origin;
mod scripts;
mod support;
