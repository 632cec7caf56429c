//! The web page: its files, the JSON interface behind it, and reports of the lab.
//!
//! Knows [`record`] and nothing of relays: whoever has something to show is a [`Source`]. Everything is
//! read-only, and nothing on the page asks another host for anything.
//!
//! - [`converse`] answers one client on a connection that the caller has let in; [`serve`] also lets them in.
//! - [`ReportFolder`] is a [`Source`] of its own: results below a folder.
//! - What a browser must not be talked into is in `guard`: requests under foreign names, frames, other origins.
//!
//! The page's TypeScript is in `page/`, and what was built of it in `assets/`; a test holds both together
//! by their digests, so that a build of this crate needs no npm.

mod answer;
mod assets;
mod guard;
mod question;
mod reports;
mod routes;
mod server;
mod source;

pub use answer::Answer;
pub use guard::is_plain_host;
pub use question::Question;
pub use reports::ReportFolder;
pub use server::{converse, serve};
pub use source::{OtherAnswer, Source};
