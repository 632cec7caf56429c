//! Two ends of a trunk in virtual time.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]

extern crate longhaul_trunk as trunk;

mod app;
mod basics;
mod chaos;
mod pipe;
mod striping;
mod world;
