//! The endpoint against itself. Crate `script` plays packet scripts against it.

mod properties;
mod transfers;
mod window;
