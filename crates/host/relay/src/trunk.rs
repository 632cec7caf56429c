//! Trunks: two relays, one per site, and between them a few long-lived connections that carry all streams.
//!
//! ```text
//!   client ── tunnel ── engine ── wan ══════ WAN ══════ wan ── engine ── tunnel ── target
//!            (one per   (one per  (one per                                         (as far as
//!             stream)    trunk)    connection)                                      allowed)
//! ```
//!
//! The protocol is the crate `trunk`, which does no I/O; here are the sockets, timers, keys and rules around it.
//! - `engine` shares one core among tasks; `wan` and `tunnel` carry a connection's and a stream's bytes.
//! - `near` dials and dials again; `far` lets connections join; `site` is what both ends do.
//! - `phase` says how far the process has come; `passage` leads back to the one that it has succeeded.
//! - `shield` protects WAN connections, with keys from `identity`; `admission` says what may be opened.
//!
//! # What an end of a stream becomes
//! A FIN is passed on as a FIN, after all bytes before it, and leaves the other direction open. A reset, a
//! timeout, a refused target or a lost trunk is a reset, so that nobody takes what came for the whole.

mod account;
mod admission;
mod answers;
mod config;
mod echo;
mod engine;
mod event;
mod far;
mod identity;
mod metrics;
mod near;
mod passage;
mod phase;
mod pieces;
mod run;
mod shield;
mod site;
mod status;
mod target;
mod tunnel;
mod wan;
mod watch;

pub use account::{Receipt, Sample, TrunkHistory};
pub use admission::{ParseTargetRuleError, TargetRule, TargetRules};
pub use config::{
    DEFAULT_IDENTITY, DigestOption, End, FarEnd, FarOptions, GuardOptions, ListenerOptions,
    NearEnd, NearOptions, PaddingOptions, SecurityOptions, TrunkConfig, TrunkLimitOptions,
    TrunkLimits, TrunkListener, TrunkOptions,
};
pub use echo::{Probe, ProbeEcho, ProbeTarget};
pub use event::{StreamDone, StreamHalf, TrunkEvent, WanConnection, WanLost, WanTls};
pub use identity::{Identity, IdentityError, ParsePinError, Pin};
pub use run::{Inherited, Succession, TrunkError, TrunkOrder, run};
pub use shield::{Security, SecurityError};
pub use status::{CheckReport, OneConnection, OneStream, OneTrunk, TrunkStatus};
