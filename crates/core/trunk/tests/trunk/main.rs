//! Two ends of a trunk in virtual time.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]
#![allow(
    clippy::print_stdout,
    reason = "a run tells what it did under --nocapture"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the soak reads its length; the library reads nothing"
)]

extern crate longhaul_trunk as trunk;

mod app;
mod basics;
mod chaos;
mod endings;
mod leaving;
mod pipe;
mod striping;
mod width;
mod world;
