//! The endpoint against itself and against scripts.

mod conformance;
mod marks_and_doubts;
mod properties;
mod script;
mod transfers;
mod window;
