//! The page that is embedded is the one whose sources stand beside it, without npm to build it again.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

const ADVICE: &str = "run `make page`, and commit crates/host/dash/assets";

/// What `make page` noted: digests by path.
fn noted() -> BTreeMap<String, String> {
    let notes = fs::read_to_string(here().join("assets/sources.sha256")).unwrap();
    let lines = notes.lines().map(|line| line.split_once("  ").unwrap());
    lines
        .map(|(digest, path)| (path.to_owned(), digest.to_owned()))
        .collect()
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            let below = path.strip_prefix(here()).unwrap();
            found.push(below.to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn the_bundle_was_built_from_these_sources_and_not_edited_since() {
    let noted = noted();
    assert!(noted.len() > 20, "{noted:?}");
    for (path, digest) in noted {
        let file = fs::read(here().join(&path));
        let file = file.unwrap_or_else(|error| panic!("`{path}`: {error}; {ADVICE}"));
        let mut now = String::new();
        for byte in Sha256::digest(file) {
            write!(now, "{byte:02x}").unwrap();
        }
        assert_eq!(
            now, digest,
            "`{path}` is not what the page was built with: {ADVICE}"
        );
    }
}

#[test]
fn no_source_is_left_out_of_the_notes() {
    let mut sources = Vec::new();
    files_below(&here().join("page/src"), &mut sources);
    files_below(&here().join("assets"), &mut sources);
    sources.retain(|path| path != "assets/sources.sha256");
    let noted = noted();
    for source in sources {
        assert!(noted.contains_key(&source), "`{source}` is new: {ADVICE}");
    }
}

#[test]
fn the_page_names_no_other_host() {
    for name in ["index.html", "page.js", "page.css", "icon.svg"] {
        let text = fs::read_to_string(here().join("assets").join(name)).unwrap();
        for scheme in ["http://", "https://", "ws://", "wss://"] {
            for (at, _) in text.match_indices(scheme) {
                let url: String = text[at..].chars().take(60).collect();
                // Names of XML vocabularies are never asked for; licences name their project's home.
                let harmless = ["http://www.w3.org/", "https://github.com/leeoniya/uPlot"];
                assert!(
                    harmless.iter().any(|one| url.starts_with(one)),
                    "{name}: {url}"
                );
            }
        }
    }
}
