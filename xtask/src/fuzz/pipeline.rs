//! The whole pipeline: bytes of a capture, analysis, every output.

use record::explain::Document;
use report::text::Style;

/// From the bytes of a file.
pub(super) fn file(bytes: &[u8]) {
    write(&explain::fuzz::fuzz_file(bytes));
}

/// From packets that the bytes describe.
pub(super) fn packets(bytes: &[u8]) {
    write(&explain::fuzz::fuzz_packets(bytes));
}

/// Every form in which a document is written. JSON has to give the same document again, up to what a float's
/// shortest text keeps.
fn write(document: &Document) {
    drop(report::text::explain(document, Style::Plain));
    drop(report::markdown::explain(document));
    drop(report::html::explain(document));
    for connection in &document.connections {
        drop(report::svg::sequence_graph(connection));
        drop(report::svg::in_flight_graph(connection));
    }
    for table in report::tables::explain(document) {
        drop(table.csv());
    }
    let text = serde_json::to_string(document).unwrap_or_default();
    let again: Result<Document, _> = serde_json::from_str(&text);
    assert!(again.is_ok(), "JSON does not read back: {:?}", again.err());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn corpus(folder: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../crates")
            .join(folder);
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect()
    }

    #[test]
    fn the_corpus_of_captures_goes_through_the_whole_pipeline() {
        let files = corpus("core/capture/corpus");
        assert!(files.len() >= 9);
        for bytes in &files {
            file(bytes);
        }
    }

    #[test]
    fn the_corpus_of_packets_goes_through_the_whole_pipeline() {
        let inputs = corpus("core/explain/corpus");
        assert!(!inputs.is_empty());
        for bytes in &inputs {
            packets(bytes);
        }
    }
}
