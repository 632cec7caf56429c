//! A verdict for a ticket: Markdown that reads well as plain text too.

use std::fmt::Write as _;

use record::explain::{Document, Finding};

use crate::clean::for_terminal;
use crate::limits;
use crate::quantity::{grouped, percent, seconds};
use crate::sentence;

/// Frames shown per finding; the document has them all.
const EVIDENCE: usize = 6;

/// An explanation as Markdown: the findings by cost, then where the time went.
#[must_use]
pub fn explain(document: &Document) -> String {
    let mut text = String::from("## Why the transfer is slow\n");
    for capture in &document.captures {
        let _ = writeln!(
            text,
            "\n`{}`: {} packets in {}",
            code(&capture.file),
            grouped(capture.packets),
            seconds(capture.duration_s)
        );
    }
    if let Some(said) = sentence::vantage(document) {
        let _ = writeln!(text, "\n{}", plain(&said));
    }
    if let Some(said) = sentence::explained(document) {
        let _ = writeln!(text, "\n{}", plain(&said));
    }
    if document.findings.is_empty() {
        let _ = writeln!(text, "\n{}", plain(&sentence::without_findings(document)));
    }
    for finding in &document.findings {
        write_finding(&mut text, finding);
    }
    let parts = limits::by_size(&limits::total(document));
    if !parts.is_empty() {
        text.push_str(
            "\n### Where the time went\n\n| limit | time | share | meaning |\n|---|--:|--:|---|\n",
        );
        for part in parts {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} |",
                part.name,
                seconds(part.seconds),
                percent(part.share),
                limits::meaning(part.name)
            );
        }
    }
    let caveats = sentence::caveats(document);
    if !caveats.is_empty() {
        text.push_str("\n### What the capture cannot tell\n\n");
        for caveat in &caveats {
            let _ = writeln!(text, "- {}", plain(caveat));
        }
    }
    text
}

fn write_finding(text: &mut String, finding: &Finding) {
    let cost = finding
        .lost_s
        .map_or_else(String::new, |lost| format!(", costs {}", seconds(lost)));
    let _ = write!(
        text,
        "\n### `{}` ({}{cost}, {} confidence)\n\n{}\n",
        code(&finding.name),
        sentence::severity(finding.severity).to_lowercase(),
        sentence::confidence(finding),
        plain(&finding.summary)
    );
    if !finding.remedy.is_empty() {
        let _ = write!(text, "\n**Remedy:** {}\n", with_code(&finding.remedy));
    }
    for steps in &finding.steps {
        let _ = write!(
            text,
            "\nOn {}, {}: {}\n\n",
            steps.system,
            plain(&sentence::steps(steps)),
            with_code(&steps.says)
        );
        for line in &steps.commands {
            let _ = writeln!(text, "    {}", for_terminal(line));
        }
        for line in &steps.undo {
            let _ = writeln!(text, "    # undo: {}", for_terminal(line));
        }
    }
    if !finding.predicted.is_empty() {
        text.push_str("\nPredicted:\n\n");
        for prediction in &finding.predicted {
            let _ = writeln!(text, "- {}", plain(&sentence::prediction(prediction)));
        }
    }
    if !finding.evidence.is_empty() {
        text.push_str("\nEvidence:\n\n");
        for evidence in finding.evidence.iter().take(EVIDENCE) {
            let _ = writeln!(text, "- {}", plain(&sentence::evidence(evidence)));
        }
    }
    if let Some(filter) = &finding.filter {
        let _ = write!(text, "\nFilter: `{}`\n", code(filter));
    }
    if !finding.source.is_empty() {
        let _ = write!(text, "\nSource: {}\n", plain(&finding.source));
    }
}

/// Text from a capture between backticks.
fn code(text: &str) -> String {
    for_terminal(text).replace('`', "'")
}

/// A sentence of ours, in which commands stand between backticks.
fn with_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return plain(text);
    }
    let part = |(index, part): (usize, &&str)| {
        if index.is_multiple_of(2) {
            plain(part)
        } else {
            format!("`{}`", code(part))
        }
    };
    parts.iter().enumerate().map(part).collect()
}

/// Text from a capture that must not become markup.
fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in for_terminal(text).chars() {
        if matches!(
            character,
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '&' | '!'
        ) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_capture_says_stays_text() {
        assert_eq!(
            plain("GET /<script>|![x](y)"),
            "GET /\\<script\\>\\|\\!\\[x\\](y)"
        );
        assert_eq!(code("a`b"), "a'b");
        assert_eq!(with_code("run `a_b <c>`, *d*"), "run `a_b <c>`, \\*d\\*");
        assert_eq!(with_code("one ` alone_"), "one \\` alone\\_");
    }
}
