//! Results of the lab below a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use record::lab::Document;
use record::page::{Overview, Report, Reports, Serves, Unreadable, VERSION};

use crate::Source;
use crate::routes::RESULT;

/// How deep results are looked for: `out/field/c-uploads/part-1` is three.
const DEPTH: usize = 4;
/// Folders that are looked into at most, should somebody point at the root of a disk.
const FOLDERS: usize = 10_000;

/// The folder below which the lab has written results.
#[derive(Debug)]
pub struct ReportFolder {
    root: PathBuf,
    longhaul: String,
    started: (Instant, SystemTime),
    /// By file.
    known: Mutex<BTreeMap<PathBuf, Known>>,
}

/// A result as it was read.
#[derive(Debug)]
struct Known {
    of: Stamp,
    report: Result<Report, String>,
}

/// Which version of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stamp {
    written: SystemTime,
    bytes: u64,
}

// === impl ReportFolder ===

impl ReportFolder {
    /// `longhaul` is the program's name and version, for the page.
    #[must_use]
    pub fn new(root: PathBuf, longhaul: String) -> Self {
        Self {
            root,
            longhaul,
            started: (Instant::now(), SystemTime::now()),
            known: Mutex::default(),
        }
    }

    /// Every folder with a result, by the name that the page has for it.
    fn results(&self) -> BTreeMap<String, PathBuf> {
        let mut found = BTreeMap::new();
        let mut left = FOLDERS;
        let mut waiting = vec![(self.root.clone(), 0)];
        while let Some((folder, depth)) = waiting.pop() {
            if left == 0 {
                break;
            }
            left -= 1;
            let result = folder.join(RESULT);
            if result.is_file()
                && let Some(id) = self.id(&folder)
            {
                found.insert(id, result);
            }
            if depth == DEPTH {
                continue;
            }
            // A folder that cannot be read, or has gone meanwhile, has nothing to show.
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                // `file_type` does not follow links, so no loop is walked and nothing outside is shown.
                let hidden = entry.file_name().to_string_lossy().starts_with('.');
                if !hidden && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    waiting.push((entry.path(), depth + 1));
                }
            }
        }
        found
    }

    fn id(&self, folder: &Path) -> Option<String> {
        let below = folder.strip_prefix(&self.root).ok()?;
        let id = below.to_str()?;
        Some(if id.is_empty() { "." } else { id }.to_owned())
    }

    fn read(&self, id: &str, path: &Path) -> Result<Report, String> {
        let stamp = Stamp::of(path).map_err(|error| error.to_string())?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(path)
            && known.of == stamp
        {
            return known.report.clone();
        }
        let read = Known {
            of: stamp,
            report: summary(id, path, stamp),
        };
        let report = read.report.clone();
        known.insert(path.to_owned(), read);
        report
    }
}

impl Source for ReportFolder {
    fn overview(&self) -> Overview {
        let (steady, wall) = self.started;
        Overview {
            schema: "longhaul.page".into(),
            version: VERSION,
            longhaul: self.longhaul.clone(),
            serves: Serves::Lab,
            host: None,
            started_unix_s: unix(wall),
            at_s: steady.elapsed().as_secs_f64(),
            ..Overview::default()
        }
    }

    fn reports(&self) -> Reports {
        let mut reports = Reports::default();
        for (id, path) in self.results() {
            match self.read(&id, &path) {
                Ok(report) => reports.reports.push(report),
                Err(why) => reports.unreadable.push(Unreadable { id, why }),
            }
        }
        let newest_first = |one: &Report, other: &Report| {
            let by_time = other.written_unix_s.total_cmp(&one.written_unix_s);
            by_time.then_with(|| one.id.cmp(&other.id))
        };
        reports.reports.sort_by(newest_first);
        reports
    }

    /// Only what [`Source::reports`] lists is served, whatever a name looks like.
    fn report_file(&self, id: &str, file: &str) -> Option<PathBuf> {
        let result = self.results().remove(id)?;
        let path = result.parent()?.join(file);
        let is_file = fs::symlink_metadata(&path).is_ok_and(|entry| entry.is_file());
        is_file.then_some(path)
    }
}

impl Stamp {
    fn of(path: &Path) -> std::io::Result<Self> {
        let about = fs::metadata(path)?;
        Ok(Self {
            written: about.modified()?,
            bytes: about.len(),
        })
    }
}

fn summary(id: &str, path: &Path, stamp: Stamp) -> Result<Report, String> {
    let text = fs::read(path).map_err(|error| error.to_string())?;
    let document: Document = serde_json::from_slice(&text)
        .map_err(|error| format!("`{RESULT}` is no result of the lab: {error}"))?;
    let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
    let broken = document.assertions.iter().filter(|one| !one.holds).count();
    let invalid = document.cells.iter().filter(|cell| !cell.valid).count();
    Ok(Report {
        id: id.to_owned(),
        scenario: document.scenario,
        started_at: document.manifest.started_at,
        written_unix_s: unix(stamp.written),
        interrupted: document.interrupted,
        cells: count(document.cells.len()),
        invalid_cells: count(invalid),
        assertions: count(document.assertions.len()),
        broken_assertions: count(broken),
        has_page: path.with_file_name("report.html").is_file(),
    })
}

fn unix(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT_TEXT: &str = r#"{"schema": "longhaul.lab", "version": 2, "manifest": {"longhaul": "0.1.0",
        "started_at": null, "command": null, "kernel": null, "machine": null, "facts": {}},
        "scenario": "NAME", "seed": 1, "interrupted": false, "order": [], "cells": [], "priming": [],
        "assertions": [{"text": "a", "holds": true, "detail": ""}, {"text": "b", "holds": false, "detail": ""}]}"#;

    fn folder() -> (tempfile::TempDir, ReportFolder) {
        let root = tempfile::tempdir().unwrap();
        let reports = ReportFolder::new(root.path().to_owned(), "longhaul".into());
        (root, reports)
    }

    fn put(root: &Path, folder: &str, text: &str) {
        fs::create_dir_all(root.join(folder)).unwrap();
        fs::write(root.join(folder).join(RESULT), text).unwrap();
    }

    #[test]
    fn results_are_found_in_folders_below_and_read_again_when_they_change() {
        let (root, folder) = folder();
        assert_eq!(folder.reports(), Reports::default());
        put(
            root.path(),
            "field/one",
            &RESULT_TEXT.replace("NAME", "first"),
        );
        put(root.path(), "", &RESULT_TEXT.replace("NAME", "top"));
        let reports = folder.reports().reports;
        let mut named: Vec<_> = reports
            .iter()
            .map(|report| (report.id.as_str(), report.scenario.as_str()))
            .collect();
        named.sort_unstable();
        assert_eq!(named, [(".", "top"), ("field/one", "first")]);
        assert_eq!(
            (reports[0].assertions, reports[0].broken_assertions),
            (2, 1)
        );

        put(
            root.path(),
            "field/one",
            &RESULT_TEXT.replace("NAME", "another"),
        );
        let reports = folder.reports().reports;
        assert!(reports.iter().any(|report| report.scenario == "another"));
    }

    #[test]
    fn a_result_that_cannot_be_read_is_named_with_the_reason() {
        let (root, folder) = folder();
        put(root.path(), "half", "{\"schema\": ");
        let reports = folder.reports();
        assert_eq!(reports.reports, []);
        assert_eq!(reports.unreadable[0].id, "half");
        assert!(reports.unreadable[0].why.contains("no result of the lab"));
    }

    #[test]
    fn nothing_but_the_files_of_results_below_the_folder_is_served() {
        let (root, folder) = folder();
        let outside = tempfile::tempdir().unwrap();
        put(outside.path(), "secret", RESULT_TEXT);
        put(root.path(), "run", RESULT_TEXT);
        std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.path().join("run/report.html")).unwrap();
        assert!(folder.report_file("run", RESULT).is_some());
        assert_eq!(folder.report_file("run", "report.html"), None);
        let up = format!(
            "../{}",
            outside.path().file_name().unwrap().to_str().unwrap()
        );
        for id in [
            "link/secret",
            &format!("{up}/secret"),
            "run/../run",
            "/etc",
            "",
            "run/",
        ] {
            assert_eq!(folder.report_file(id, RESULT), None, "{id}");
        }
        assert_eq!(folder.reports().reports.len(), 1);
    }
}
