//! Both ends of a trunk on loopback: raw clients, a WAN that tests can cut, raw targets.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests fail by panicking, and look only for the events that they are about"
)]

mod harness;
mod refusals;
mod streams;
mod survival;
