//! Records as one self-contained page.
//!
//! A page fetches nothing: styles, pictures and the little script (values under the pointer) are inside,
//! and a content security policy forbids the rest. Without the script everything is still there.

mod explain;
mod flow;
mod lab;
mod page;
mod what_if;

pub use explain::explain;
pub use flow::flow;
pub use lab::lab;
pub use what_if::what_if;
