//! A gateway between an ordinary S3 library and the embedded origin, on loopback.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod arriving;
mod encryption;
mod passing;
mod posting;
mod streaming;
mod support;
