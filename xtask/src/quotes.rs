//! Quotations of standards in code: `//= URL#section`, then the words behind `//#`.
//!
//! Checked here are the form, and that every section cited is one of [`SECTIONS`], which were looked up by
//! hand. With the texts at hand (`LONGHAUL_RFC_TEXTS` names a folder of `rfcNNNN.txt`, as rfc-editor.org
//! has them) every quotation is also looked for in its RFC, word by word.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

/// Sections that are cited, by document. One that is missing here has to be looked up first.
const SECTIONS: [(&str, &[&str]); 32] = [
    ("rfc768", &[""]),
    ("rfc1928", &["3"]),
    ("rfc2018", &["3", "4", "8"]),
    ("rfc2516", &["6"]),
    ("rfc2883", &["4"]),
    ("rfc3042", &["2"]),
    ("rfc3168", &["6.1.1", "6.1.2", "6.1.3", "6.1.5"]),
    ("rfc3649", &["5", "7"]),
    ("rfc4253", &["4.2"]),
    ("rfc5246", &["6.2.3"]),
    ("rfc5681", &["2", "3.1", "3.2", "4.1", "4.2"]),
    ("rfc5682", &["2.1", "3.1"]),
    ("rfc5869", &["2.2", "2.3"]),
    ("rfc5961", &["3.2", "4.2", "5.2"]),
    ("rfc6298", &["2", "3", "5"]),
    ("rfc6582", &["3.2"]),
    ("rfc6675", &["4", "5"]),
    ("rfc6928", &["2"]),
    ("rfc6937", &["3"]),
    ("rfc7323", &["2.2", "2.3", "4.3", "5.3", "5.5"]),
    ("rfc7348", &["5"]),
    ("rfc8446", &["4.1.3", "6.1"]),
    ("rfc8985", &["6.2", "6.3", "7.2", "7.3", "7.4.2"]),
    ("rfc9000", &["17.2"]),
    ("rfc9110", &["6.5.1", "15.2", "15.2.1"]),
    ("rfc9112", &["2.2", "3.2", "6.1", "6.3", "9.3.2"]),
    ("rfc9113", &["3.3", "8.2.3", "8.3.1"]),
    (
        "rfc9293",
        &[
            "3.1",
            "3.4",
            "3.7.1",
            "3.7.4",
            "3.8.4",
            "3.8.6",
            "3.8.6.1",
            "3.8.6.2.1",
            "3.8.6.2.2",
            "3.8.6.3",
            "3.10.7.1",
            "3.10.7.3",
            "3.10.7.4",
        ],
    ),
    ("rfc9406", &["4.2", "4.3"]),
    ("rfc9438", &["4.2", "4.3", "4.6", "4.7", "5", "5.8"]),
    ("draft-ietf-ccwg-bbr", &["4.1", "5.3"]),
    ("draft-ietf-opsawg-pcapng", &["3.1", "4.2"]),
];

/// Where documents lie on the web; what follows is the document's name.
const PLACES: [&str; 2] = [
    "https://www.rfc-editor.org/rfc/",
    "https://datatracker.ietf.org/doc/html/",
];

/// A quotation and where it stands.
#[derive(Debug, PartialEq)]
struct Quotation {
    line: usize,
    document: String,
    section: String,
    /// With single spaces.
    words: String,
}

/// Checks every source file of the workspace.
pub(crate) fn check() -> Result<()> {
    let texts = std::env::var_os("LONGHAUL_RFC_TEXTS").map(PathBuf::from);
    let mut library = Library::new(texts);
    let mut problems = Vec::new();
    let mut count = 0;
    for path in sources(&root().join("crates"))? {
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let shown = path
            .strip_prefix(root())
            .unwrap_or(&path)
            .display()
            .to_string();
        let (quotations, mut wrong) = quotations(&text);
        count += quotations.len();
        for quotation in &quotations {
            let found = cited(quotation).and_then(|()| library.holds(quotation));
            wrong.extend(found.err().map(|why| (quotation.line, why)));
        }
        problems.extend(
            wrong
                .iter()
                .map(|(line, why)| format!("{shown}:{line}: {why}")),
        );
    }
    ensure!(
        count > 0,
        "no quotation was found: the check itself is broken"
    );
    if !problems.is_empty() {
        bail!("quotations:\n  {}", problems.join("\n  "));
    }
    println!("> quotations: {count} of standards, {}", library.said());
    Ok(())
}

/// What is quoted in a file, and lines that are neither.
fn quotations(text: &str) -> (Vec<Quotation>, Vec<(usize, String)>) {
    let mut found: Vec<Quotation> = Vec::new();
    let mut wrong = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        let (line, number) = (line.trim_start(), index + 1);
        if let Some(place) = line.strip_prefix("//=") {
            open = false;
            match place_of(place) {
                Some((document, section)) => {
                    found.push(Quotation {
                        line: number,
                        document,
                        section,
                        words: String::new(),
                    });
                    open = true;
                }
                None => wrong.push((number, format!("`{place}` is no place in a standard"))),
            }
        } else if let Some(words) = line.strip_prefix("//#") {
            match found.last_mut().filter(|_| open) {
                Some(quotation) => {
                    for word in words.split_whitespace() {
                        if !quotation.words.is_empty() {
                            quotation.words.push(' ');
                        }
                        quotation.words.push_str(word);
                    }
                }
                None => wrong.push((number, "words without a `//=` line above".to_owned())),
            }
        } else {
            open = false;
        }
    }
    let empty = found.iter().filter(|quotation| quotation.words.is_empty());
    wrong.extend(empty.map(|quotation| (quotation.line, "nothing is quoted".to_owned())));
    (found, wrong)
}

/// Document and section of ` https://www.rfc-editor.org/rfc/rfc9293#section-3.4`.
fn place_of(text: &str) -> Option<(String, String)> {
    let text = text.strip_prefix(' ')?.trim_end();
    let name = PLACES.iter().find_map(|place| text.strip_prefix(place))?;
    let (document, section) = match name.split_once('#') {
        Some((document, anchor)) => (document, anchor.strip_prefix("section-")?),
        None => (name, ""),
    };
    Some((document.to_owned(), section.to_owned()))
}

fn cited(quotation: &Quotation) -> Result<(), String> {
    let Quotation {
        document, section, ..
    } = quotation;
    let known = SECTIONS.iter().find(|(name, _)| name == document);
    let (_, sections) =
        known.ok_or_else(|| format!("{document} is not in the list of xtask/src/quotes.rs"))?;
    if sections.contains(&section.as_str()) {
        Ok(())
    } else {
        Err(format!(
            "section {section} of {document} is not in the list of xtask/src/quotes.rs"
        ))
    }
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// The texts of standards, where somebody has them.
struct Library {
    folder: Option<PathBuf>,
    /// With single spaces and without page breaks; `None` where there is no such file.
    texts: BTreeMap<String, Option<String>>,
    compared: usize,
}

// === impl Library ===

impl Library {
    const fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            texts: BTreeMap::new(),
            compared: 0,
        }
    }

    /// Whether a document has the words; also where its text is not at hand.
    fn holds(&mut self, quotation: &Quotation) -> Result<(), String> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let document = &quotation.document;
        let text = self.texts.entry(document.clone()).or_insert_with(|| {
            let path = folder.join(format!("{document}.txt"));
            fs::read_to_string(path).ok().map(|text| plain(&text))
        });
        let Some(text) = text else { return Ok(()) };
        self.compared += 1;
        if text.contains(&quotation.words) {
            Ok(())
        } else {
            Err(format!("{document} does not say `{}`", quotation.words))
        }
    }

    fn said(&self) -> String {
        match self.folder {
            Some(_) => format!("{} compared with its text", self.compared),
            None => "forms and sections checked (LONGHAUL_RFC_TEXTS names no texts)".to_owned(),
        }
    }
}

/// Running text: without the footers, headers and form feeds that part pages.
fn plain(text: &str) -> String {
    let is_furniture = |line: &&str| {
        let footer = line.contains("[Page ") && line.trim_end().ends_with(']');
        !(footer || line.starts_with("RFC ") || line.contains('\u{c}'))
    };
    let lines: Vec<&str> = text.lines().filter(is_furniture).collect();
    let words: Vec<&str> = lines
        .iter()
        .flat_map(|line| line.split_whitespace())
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_has_a_place_and_words() {
        let text = "code();\n    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.4\n    \
                    //# one  two\n    //# three\n    more();\n";
        let (found, wrong) = quotations(text);
        assert!(wrong.is_empty(), "{wrong:?}");
        let expected = Quotation {
            line: 2,
            document: "rfc9293".to_owned(),
            section: "3.4".to_owned(),
            words: "one two three".to_owned(),
        };
        assert_eq!(found, [expected]);
        assert_eq!(cited(&found[0]), Ok(()));
    }

    #[test]
    fn what_is_no_quotation_is_told() {
        for (text, why) in [
            ("//# words\n", "without"),
            (
                "//= https://www.rfc-editor.org/rfc/rfc9293#section-3.4\ncode();\n",
                "nothing",
            ),
            ("//= rfc9293 3.4\n//# words\n", "no place"),
        ] {
            let (_, wrong) = quotations(text);
            assert!(
                wrong.iter().any(|(_, said)| said.contains(why)),
                "{text}: {wrong:?}"
            );
        }
        let unknown = |document: &str, section: &str| {
            let quotation = Quotation {
                line: 1,
                document: document.to_owned(),
                section: section.to_owned(),
                words: "words".to_owned(),
            };
            cited(&quotation).is_err()
        };
        assert!(unknown("rfc9293", "3.99") && unknown("rfc1", "1"));
    }

    #[test]
    fn a_text_s_pages_do_not_part_its_sentences() {
        let text = "one two\n\nPostel          Standard       [Page 3]\n\u{c}\nRFC 793   September 1981\n\n   three\n";
        assert_eq!(plain(text), "one two three");
    }
}
