//! The accelerator: forwards between a near client and a far service, with a TCP profile on each side.
//! HTTP/1.1 goes over connections that were made, and made fast, before the first request came; any other
//! byte stream goes over a connection of its own.
//!
//! ```text
//!   client ── session ── exchange ── pool ── origin       client ── tcp ── service
//!             (one per    (one per    (hot upstream                 (one connection
//!              client)     request)    connections)                  on each side)
//! ```
//!
//! TLS can be ended on either side, or on both: of HTTP (`transport`), and of byte streams (`tls`).
//!
//! - [`Config`] says what to listen on and how; [`check()`] tells what the kernel makes of it.
//! - [`run`] serves until it is told to stop, and reports everything as [`Event`]s.
//!
//! # What passes unchanged, and what does not
//! Start line, `Host`, header bytes, body bytes, chunk boundaries and trailers reach the other side as they
//! came, so that signatures over them (`SigV4`) stay valid. Exactly these bytes are changed:
//! - A `Connection` field that says anything but `keep-alive` is removed, together with `Keep-Alive`,
//!   `Proxy-Connection` and the fields it names (RFC 9110 §7.6.1): a client's `close` ends the client's
//!   connection, never the hot one. Where an upgrade is asked for, `Connection` and `Upgrade` stay.
//! - `Connection: close` is added to the last response on a client's connection (RFC 9112 §9.6).
//!
//! # When a request is sent a second time
//! See the `exchange` module: never one that may have had an effect.
//!
//! # What is refused
//! Every message whose end two implementations could see in different places: see `http::head` and
//! `http::chunked`. The answer is 400 and the connection is closed.

mod admin;
mod alarm;
mod buffer;
mod check;
mod cidr;
mod config;
mod door;
mod ending;
mod event;
mod exchange;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod host;
mod http;
mod http2;
mod looks;
mod lost;
mod meter;
mod pool;
mod proxy_protocol;
mod reactor;
mod relayed;
mod server;
mod session;
mod stream;
mod tcp;
mod throttle;
mod tls;
mod traces;
mod transport;
pub mod trunk;
mod upstream;
mod watch;

pub use check::{CheckError, RelayReport, Report, check};
use cidr::Admission;
pub use cidr::{Cidr, ParseCidrError};
pub use config::{
    Admin, AdminOptions, Asking, Balance, BalanceOptions, Balancing, Check, Config, ConfigOptions,
    Destination, Endpoint, Expect, Front, HttpOptions, HttpRelay, LimitOptions, Limits, PoolLimits,
    PoolOptions, PrimeOptions, Priming, Reach, Target, TcpLimitOptions, TcpLimits, TcpOptions,
    TcpRelay, TlsCertificate, TlsClients, TlsLimitOptions, TlsLimits, TlsOptions, TlsRelay,
    TlsRoute, TlsRouteOptions, TlsServer, TlsSideOptions, TlsSides, TraceOptions, Tracing,
    Transparency, Upstream,
};
pub use document::{ConfigError, Position, Problem};
pub use event::{
    AppliedOption, Audience, ConnectionDone, EndedBy, Event, Missing, Phase, SideReport, Stage,
    Step, TlsReport,
};
pub use lost::{Loss, count_lost};
pub use proxy_protocol::Version as ProxyVersion;
pub use server::{Order, RunError, run};
pub use tcp::users::UsersError;
pub use tls::authority::{Authority, AuthorityError};
pub use tls::handshakes::TlsError;
pub use traces::TraceParent;

/// An error and its sources in one line, for events: they have no place for a chain.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
