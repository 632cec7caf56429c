//! The published schema and the one that the page's types are generated from are the same.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[test]
fn the_pages_types_are_generated_from_the_schema_of_what_is_served() {
    let published = schemars::schema_for!(record::page::Answer);
    let mut published = serde_json::to_string_pretty(&published).unwrap();
    published.push('\n');
    let generated_from = include_str!("../page/schema.json");
    assert!(
        published == generated_from,
        "crates/host/dash/page/schema.json is not what `longhaul schema page` prints: run `make page`"
    );
}
