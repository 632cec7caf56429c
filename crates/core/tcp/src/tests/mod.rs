//! The endpoint against itself and against scripts.

mod conformance;
mod pair;
mod properties;
mod script;
mod transfers;
