//! Profiles in the languages of other systems: read from `tmsh list ltm profile tcp`, written for BIG-IP, Linux,
//! Windows and `HAProxy`. What one of them cannot say is told, never left out in silence.

mod export;
mod import;
mod tmsh;

pub use export::{Exported, Language, UnknownLanguage, export};
pub use import::{Fate, Field, Imported, import};
pub use tmsh::TmshError;

#[cfg(test)]
mod tests;
