//! A page in the making: our markup as literals, everything else escaped.

use std::collections::BTreeMap;

use record::Manifest;
use record::explain::Finding;

use crate::clean::{for_markup, with_units_bound};
use crate::quantity::{bytes, seconds, seconds_or_dash};
use crate::sentence;
use crate::svg;

/// The body of a page. Only [`Page::markup`] takes markup, and only literals of this crate fit into it.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    /// Our own markup.
    pub(super) fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text from anywhere, escaped.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.0.push_str(&for_markup(&with_units_bound(text)));
        self
    }

    /// Text in an element.
    pub(super) fn element(
        &mut self,
        open: &'static str,
        text: &str,
        close: &'static str,
    ) -> &mut Self {
        self.markup(open).text(text).markup(close)
    }

    /// Text in an element, every space as it was.
    fn verbatim(&mut self, open: &'static str, text: &str, close: &'static str) -> &mut Self {
        self.markup(open);
        self.0.push_str(&for_markup(text));
        self.markup(close)
    }

    /// Lines to copy.
    fn lines(&mut self, lines: &[String]) -> &mut Self {
        self.markup("<pre><code>");
        for line in lines {
            self.verbatim("", line, "\n");
        }
        self.markup("</code></pre>\n")
    }

    /// A picture with what it shows, unless that was said before; the picture comes from [`svg`], which escapes.
    pub(super) fn figure(&mut self, picture: &str, caption: &str) -> &mut Self {
        self.markup("<figure>\n<div class=\"picture\">");
        self.0.push_str(picture);
        self.markup("</div>");
        if !caption.is_empty() {
            self.element("<figcaption>", caption, "</figcaption>\n");
        }
        self.markup("</figure>\n")
    }

    /// Data for a script, in a place of its class. Within JSON a `<` can only stand in a string, so that its
    /// escape keeps the element closed.
    pub(super) fn data(&mut self, class: &'static str, json: &str) {
        self.markup("<div class=\"").markup(class);
        self.markup("\"><script type=\"application/json\">");
        self.0.push_str(&json.replace('<', "\\u003c"));
        self.markup("</script></div>\n");
    }

    /// A table; columns beyond `left` hold numbers.
    pub(super) fn table(&mut self, heads: &[&str], rows: &[Vec<String>], left: &[usize]) {
        self.markup("<div class=\"scroll\"><table>\n<thead><tr>");
        for (index, head) in heads.iter().enumerate() {
            let open = if left.contains(&index) {
                "<th scope=\"col\">"
            } else {
                "<th scope=\"col\" class=\"number\">"
            };
            self.element(open, head, "</th>");
        }
        self.markup("</tr></thead>\n<tbody>\n");
        for row in rows {
            self.markup("<tr>");
            for (index, cell) in row.iter().enumerate() {
                let open = if left.contains(&index) {
                    "<td>"
                } else {
                    "<td class=\"number\">"
                };
                self.element(open, cell, "</td>");
            }
            self.markup("</tr>\n");
        }
        self.markup("</tbody></table></div>\n");
    }

    /// A finding: what, its cost, the remedy, what it would bring, and the frames.
    pub(super) fn finding(&mut self, finding: &Finding) {
        self.markup("<article class=\"finding\">\n<h3>");
        self.element(
            "<span class=\"severity\">",
            sentence::severity(finding.severity),
            "</span> ",
        );
        self.verbatim("<code>", &finding.name, "</code>");
        let cost = finding
            .lost_s
            .map_or_else(String::new, |lost| format!("costs {}, ", seconds(lost)));
        let cost = format!("{cost}{} confidence", sentence::confidence(finding));
        self.element("<span class=\"cost\">", &cost, "</span></h3>\n");
        self.element("<p>", &finding.summary, "</p>\n");
        if !finding.remedy.is_empty() {
            self.element("<p><strong>Remedy.</strong> ", &finding.remedy, "</p>\n");
        }
        for steps in &finding.steps {
            self.element("<p><strong>On ", &steps.system, "</strong>, ");
            self.element("", &sentence::steps(steps), ". ");
            self.element("", &steps.says, "</p>\n");
            if !steps.commands.is_empty() {
                self.lines(&steps.commands);
            }
            if !steps.undo.is_empty() {
                self.markup("<p>Undo:</p>\n").lines(&steps.undo);
            }
        }
        if !finding.predicted.is_empty() {
            let rows: Vec<Vec<String>> = finding
                .predicted
                .iter()
                .map(|prediction| {
                    vec![
                        bytes(prediction.bytes),
                        prediction.remedy.clone(),
                        prediction.transfers.to_string(),
                        seconds(prediction.now_s),
                        seconds(prediction.predicted_s),
                        prediction.derivation.clone(),
                    ]
                })
                .collect();
            let heads = [
                "transfer",
                "remedy",
                "seen",
                "now",
                "predicted",
                "computed from",
            ];
            self.table(&heads, &rows, &[0, 1, 5]);
        }
        if !finding.evidence.is_empty() {
            self.markup("<details><summary>Evidence</summary>\n<ul>\n");
            for evidence in &finding.evidence {
                self.element("<li>", &sentence::evidence(evidence), "</li>\n");
            }
            self.markup("</ul></details>\n");
        }
        if !finding.source.is_empty() {
            self.element("<p class=\"quiet\">", &finding.source, "</p>\n");
        }
        self.markup("</article>\n");
    }

    /// Where the result comes from, and how to repeat it.
    pub(super) fn manifest(&mut self, manifest: &Manifest) {
        self.markup("<section>\n<h2>Repeat it</h2>\n");
        match &manifest.command {
            // A command is copied, so its spaces stay as they are.
            Some(command) => self.verbatim("<pre><code>", command, "</code></pre>\n"),
            None => self.markup("<p>The command line was not recorded.</p>\n"),
        };
        self.markup("<details><summary>Manifest</summary>\n");
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "not recorded".into());
        let mut facts = vec![
            vec!["longhaul".into(), manifest.longhaul.clone()],
            vec!["started".into(), known(&manifest.started_at)],
            vec!["kernel".into(), known(&manifest.kernel)],
            vec!["machine".into(), known(&manifest.machine)],
        ];
        facts.extend(rows(&manifest.facts));
        self.table(&["fact", "value"], &facts, &[0, 1]);
        self.markup("</details>\n</section>\n");
    }

    /// A list of sentences under a heading of ours, where there are any.
    pub(super) fn list(&mut self, heading: &'static str, sentences: &[String]) {
        if sentences.is_empty() {
            return;
        }
        self.markup("<section>\n").markup(heading).markup("<ul>\n");
        for sentence in sentences {
            self.element("<li>", sentence, "</li>\n");
        }
        self.markup("</ul>\n</section>\n");
    }

    /// The whole document.
    pub(super) fn finish(self, title: &str) -> String {
        self.finish_with(title, "", include_str!("page.js"))
    }

    /// The whole document with styles after the usual ones, and with this script.
    pub(super) fn finish_with(
        self,
        title: &str,
        more_style: &'static str,
        script: &'static str,
    ) -> String {
        let title = for_markup(title);
        let (page_style, picture_style) = (include_str!("page.css"), svg::STYLE);
        let body = self.0;
        format!(
            r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{title}</title>
<style>
{picture_style}{page_style}{more_style}</style>
</head>
<body class="lh">
<main>
{body}</main>
<script>
{script}</script>
</body>
</html>
"#
        )
    }
}

fn rows(facts: &BTreeMap<String, String>) -> Vec<Vec<String>> {
    let row = |(name, value): (&String, &String)| vec![name.clone(), value.clone()];
    facts.iter().map(row).collect()
}

/// An RTT's figures in one cell.
pub(super) fn rtt(rtt: &record::explain::Rtt) -> String {
    seconds_or_dash(rtt.handshake_s.or(rtt.min_s))
}
