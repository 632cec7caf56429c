//! Named descriptions of how a socket should behave.
//!
//! A [`TcpProfile`] is data: which congestion control, how much unsent data, how soon a silent peer is
//! given up. The relay attaches one to each side of itself ([`Side`]), the kernel wrapper in `sys` puts
//! it into effect and reads it back, and the lab compares them. Only what is really applied is a field
//! here; a setting that nothing obeys would be a promise nobody keeps.
//!
//! Profiles come from and go to other systems' languages by [`foreign`].
//!
//! A [`TlsProfile`] says how a side speaks TLS.
//!
//! A TCP profile inherits from another by `extends`; the built-in ones are [`builtin::NAMES`].

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod builtin;
pub mod foreign;
mod set;
mod setting;
mod side;
mod tcp;
mod tls;

pub use set::{ProfileError, ProfileSet};
pub use setting::Setting;
pub use side::Side;
pub use tcp::{KeepAlive, RawTcpProfile, TcpProfile};
pub use tls::{TlsGroup, TlsProfile, TlsVersion, UnknownTlsProfile};

#[cfg(test)]
mod tests;
