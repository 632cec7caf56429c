//! Records to text, Markdown, SVG, HTML and tables.
//!
//! The input is what `--json` prints, such as [`record::lab::Document`] and [`record::explain::Document`]. The
//! output says nothing that the record does not say. Names, paths and requests in a record come from
//! captures and are hostile until shown: [`text`] never lets a control character through to a terminal,
//! and [`html`] and [`svg`] escape everything that is not their own markup.

pub mod html;
pub mod markdown;
pub mod svg;
pub mod tables;
pub mod text;

mod alike;
mod clean;
mod excerpt;
mod headline;
mod limits;
mod measure;
mod quantity;
mod sentence;
mod statistics;
mod sweep;
mod what_if;

pub use excerpt::{Explained, largest};
pub use quantity::{bytes, rate, short_seconds};
