//! `docs/explain-captures.md`: captures of others, and where `explain` counts otherwise than the analyser
//! whose figures their index holds.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use connections::Tracker;
use explain::Options;
use record::LimitName;
use record::explain::{Capture, Connection, Direction, Document};
use serde::Deserialize;

const PAGE: &str = "docs/explain-captures.md";

/// What differs, and why: checked against what comes out.
const NOTES: &str = include_str!("captures/notes.toml");

/// The figures that are compared, by their keys in the notes.
const FIGURES: [&str; 6] = [
    "connections",
    "retransmissions",
    "zero-windows",
    "out-of-order",
    "handshake-ms",
    "ack-rtt-ms",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Notes {
    note: Vec<Note>,
}

/// Why one figure of a capture is another.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    file: String,
    figure: String,
    /// What comes out here, as the page prints it.
    ours: String,
    why: String,
}

/// One capture: the figure, what the index says (where it does), and what comes out.
struct Row {
    file: String,
    figures: Vec<(&'static str, Option<f64>, Option<f64>)>,
}

/// Writes the page; fails where a figure differs without a note, or a note is stale.
pub(crate) fn write() -> Result<()> {
    let folder = folder()?;
    let rows = rows(&folder)?;
    let notes = notes()?;
    let path = root().join(PAGE);
    std::fs::write(&path, page(&rows, &notes))
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    let wrong = problems(&rows, &notes);
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("wrote {PAGE}");
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn folder() -> Result<PathBuf> {
    let data = std::env::var_os("LONGHAUL_FIELD_DATA")
        .map_or_else(|| root().join("../shared"), PathBuf::from);
    let folder = data.join("captures");
    ensure!(
        folder.join("INDEX.tsv").is_file(),
        "`{}` holds no INDEX.tsv: set LONGHAUL_FIELD_DATA",
        folder.display()
    );
    Ok(folder)
}

fn notes() -> Result<Vec<Note>> {
    let notes: Notes = toml::from_str(NOTES).context("captures/notes.toml is no list of notes")?;
    for note in &notes.note {
        ensure!(
            FIGURES.contains(&note.figure.as_str()),
            "captures/notes.toml: `{}` is no figure; there are {}",
            note.figure,
            FIGURES.join(", ")
        );
    }
    Ok(notes.note)
}

fn rows(folder: &Path) -> Result<Vec<Row>> {
    let index = std::fs::read_to_string(folder.join("INDEX.tsv"))?;
    let lines = index.lines().skip(1).filter(|line| !line.is_empty());
    lines.map(|line| row(folder, line)).collect()
}

fn row(folder: &Path, line: &str) -> Result<Row> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [file, _, _, _, _, _, connections, _, _, _, counts, flow, ..] = fields.as_slice() else {
        bail!("INDEX.tsv: a line of {} fields: {line}", fields.len());
    };
    let document = explained(&folder.join(file)).with_context(|| format!("capture `{file}`"))?;
    // A count that is not there is zero, a time that is not there unknown.
    let count = |key: &str| Some(value(counts, key).unwrap_or(0.0));
    let main = main_flow(&document, flow);
    let directions = || {
        let both = document.connections.iter().map(|one| &one.directions);
        both.flat_map(|both| [&both.client_to_server, &both.server_to_client])
    };
    let sum = |of: fn(&Direction) -> u64| Some(float(directions().map(of).sum()));
    let handshake = main.as_ref().and_then(|(connection, _)| {
        let seconds = connection
            .directions
            .client_to_server
            .limits
            .get(&LimitName::Handshake);
        seconds.map(|seconds| seconds * 1000.0)
    });
    let ack_rtt = main
        .as_ref()
        .and_then(|(_, direction)| Some(direction.ack_rtt.median_s? * 1000.0));
    Ok(Row {
        file: (*file).to_owned(),
        figures: vec![
            (
                "connections",
                connections.parse().ok(),
                Some(float(u64::try_from(document.connections.len())?)),
            ),
            (
                "retransmissions",
                count("retx"),
                sum(|one| one.retransmissions),
            ),
            (
                "zero-windows",
                count("zwin"),
                sum(|one| one.counts.zero_windows),
            ),
            ("out-of-order", count("ooo"), sum(|one| one.out_of_order)),
            ("handshake-ms", value(flow, "irtt_ms"), handshake),
            ("ack-rtt-ms", value(flow, "ackrtt_p50_ms"), ack_rtt),
        ],
    })
}

/// `key=value` among words.
fn value(words: &str, key: &str) -> Option<f64> {
    let mut pairs = words.split(' ').filter_map(|word| word.split_once('='));
    pairs.find(|(name, _)| *name == key)?.1.parse().ok()
}

#[expect(clippy::cast_precision_loss, reason = "counts of packets")]
const fn float(count: u64) -> f64 {
    count as f64
}

/// The direction that starts at the sender which the index names.
fn main_flow<'a>(document: &'a Document, flow: &str) -> Option<(&'a Connection, &'a Direction)> {
    let mut pairs = flow.split(' ').filter_map(|word| word.split_once('='));
    let sender = pairs.find(|(name, _)| *name == "sender")?.1;
    let (host, port) = sender.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let both = document.connections.iter().flat_map(|one| {
        [
            (one, &one.client, &one.directions.client_to_server),
            (one, &one.server, &one.directions.server_to_client),
        ]
    });
    // Within a tunnel the index has the outer address, and we the inner one.
    let by_it = both.filter(|(_, end, _)| end.port == port);
    by_it
        .max_by_key(|(_, end, direction)| (end.host == host, direction.bytes))
        .map(|(connection, _, direction)| (connection, direction))
}

fn explained(path: &Path) -> Result<Document> {
    let mut bytes = std::fs::read(path)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked)?;
        bytes = unpacked;
    }
    let mut observations = capture::Observations::new(&bytes);
    let mut tracker = Tracker::new();
    while let Some(observation) = observations.next_observation()? {
        tracker.observe(&observation);
    }
    let options = Options {
        captures: vec![Capture::default()],
        ..Options::default()
    };
    Ok(explain::explain(&tracker.finish(), options))
}

/// Counts have to be equal; times to a twentieth, or half of what the analyser's median steps by.
fn agrees(figure: &str, theirs: f64, ours: f64) -> bool {
    if figure.ends_with("-ms") {
        (theirs - ours).abs() <= (theirs / 20.0).max(0.05)
    } else {
        (theirs - ours).abs() < 0.5
    }
}

fn shown(figure: &str, value: Option<f64>) -> String {
    match value {
        Some(value) if figure.ends_with("-ms") => format!("{value:.2}"),
        Some(value) => format!("{value:.0}"),
        None => "-".to_owned(),
    }
}

/// Differences without a note, and notes that say something else than what comes out.
fn problems(rows: &[Row], notes: &[Note]) -> Vec<String> {
    let mut problems = Vec::new();
    for row in rows {
        for (figure, theirs, ours) in &row.figures {
            let differs = match (theirs, ours) {
                (Some(theirs), Some(ours)) => !agrees(figure, *theirs, *ours),
                (Some(_), None) => true,
                (None, _) => false,
            };
            let text = shown(figure, *ours);
            let mut of_this = notes
                .iter()
                .filter(|note| note.file == row.file && note.figure == *figure);
            match of_this.next() {
                None if differs => problems.push(format!(
                    "{}: {figure} is {text}, not {}, and no note says why",
                    row.file,
                    shown(figure, *theirs)
                )),
                Some(_) if !differs => {
                    problems.push(format!("{}: a note on {figure}, which agrees", row.file));
                }
                Some(note) if note.ours != text => problems.push(format!(
                    "{}: {figure} is {text}, and the note speaks of {}",
                    row.file, note.ours
                )),
                None | Some(_) => {}
            }
        }
    }
    for note in notes
        .iter()
        .filter(|note| rows.iter().all(|row| row.file != note.file))
    {
        problems.push(format!(
            "a note on `{}`, which the index does not name",
            note.file
        ));
    }
    problems
}

fn page(rows: &[Row], notes: &[Note]) -> String {
    let mut page = String::from(
        "# `longhaul explain` on captures of others\n\n\
         <!-- Generated from the captures and xtask/src/captures/notes.toml by `cargo xtask captures`. -->\n\n\
         Captures from public repositories, with the figures that tshark 4.0 gives for them. Where two figures \
         stand, the first is tshark's, the second ours, and a note below says why they differ; everything else \
         agrees: counts exactly, times within a twentieth. `handshake` is from SYN to the third packet, `ACK RTT` \
         the median from a segment of the largest flow to its ACK, at the place of the capture.\n\n\
         | capture | connections | retransmissions | zero windows | out of order | handshake (ms) | ACK RTT (ms) |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let _ = write!(page, "| {} |", row.file);
        for (figure, theirs, ours) in &row.figures {
            let noted = notes
                .iter()
                .any(|note| note.file == row.file && note.figure == *figure);
            let (theirs, ours) = (shown(figure, *theirs), shown(figure, *ours));
            let cell = if noted {
                format!("{theirs}, {ours}")
            } else {
                ours
            };
            let _ = write!(page, " {cell} |");
        }
        page.push('\n');
    }
    page.push_str("\n## Why figures differ\n\n");
    for note in notes {
        let _ = writeln!(page, "- **{}**, {}: {}", note.file, note.figure, note.why);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::print_stderr, reason = "says that it did not run")]
    fn every_difference_from_the_index_has_its_reason_and_the_page_says_so() {
        if std::env::var_os("LONGHAUL_FIELD_DATA").is_some_and(|data| data == "none") {
            eprintln!("did not run: LONGHAUL_FIELD_DATA is `none`");
            return;
        }
        let rows = rows(&folder().unwrap()).unwrap();
        assert!(rows.len() >= 32, "{} captures", rows.len());
        let notes = notes().unwrap();
        let problems = problems(&rows, &notes);
        assert!(problems.is_empty(), "{}", problems.join("\n"));
        let written = std::fs::read_to_string(root().join(PAGE)).unwrap();
        assert_eq!(written, page(&rows, &notes), "run `cargo xtask captures`");
    }

    #[test]
    fn a_difference_without_a_note_and_a_note_without_one_are_told() {
        let row = |ours| Row {
            file: "a.pcap".into(),
            figures: vec![("retransmissions", Some(3.0), Some(ours))],
        };
        assert_eq!(problems(&[row(4.0)], &[]).len(), 1);
        assert!(problems(&[row(3.0)], &[]).is_empty());
        let note = |ours: &str| Note {
            file: "a.pcap".into(),
            figure: "retransmissions".into(),
            ours: ours.into(),
            why: "because".into(),
        };
        assert!(problems(&[row(4.0)], &[note("4")]).is_empty());
        assert_eq!(problems(&[row(4.0)], &[note("5")]).len(), 1);
        assert_eq!(problems(&[row(3.0)], &[note("3")]).len(), 1);
    }
}
