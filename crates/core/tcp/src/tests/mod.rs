//! The endpoint against itself and against scripts.

mod pair;
mod properties;
mod transfers;
