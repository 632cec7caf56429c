//! The whole relay between raw clients and origins, on loopback.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(
    clippy::float_cmp,
    clippy::single_match,
    clippy::too_many_lines,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests fail by panicking, and look only for the events that they are about"
)]

mod admin;
mod asked;
mod balance;
mod chaos;
mod forwarding;
mod harness;
mod hot_pool;
mod http2;
mod https;
mod life;
mod openssl;
mod page;
mod refusals;
mod reload;
mod slow;
mod srv;
mod tcp;
mod throttle;
mod tls;
mod traces;
#[expect(dead_code, reason = "tests beside the resolver use the rest of it")]
#[path = "../../src/upstream/zone.rs"]
mod zone;
