//! Readers against captures that others made, and against the traces of the field report.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "this whole crate is a test: helpers may fail it, and it says what did not run"
)]

mod captures;
mod report;

use std::path::PathBuf;

/// The folder of field data; `None` where the environment says that there is none.
#[expect(
    clippy::disallowed_methods,
    reason = "the library takes configuration as values, its tests find their data by a variable"
)]
fn field_data() -> Option<PathBuf> {
    let folder = std::env::var("LONGHAUL_FIELD_DATA");
    if folder.as_deref() == Ok("none") {
        return None;
    }
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared");
    let folder = PathBuf::from(folder.unwrap_or_else(|_| beside.to_owned()));
    assert!(
        folder.is_dir(),
        "no field data at `{}`: set LONGHAUL_FIELD_DATA to its folder, or to `none` to do without",
        folder.display()
    );
    Some(folder)
}
