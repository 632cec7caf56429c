//! `docs/field-results.md`, from what the lab and the simulator wrote for every field scenario.
//!
//! `make field` runs them; this only lays the results beside the reports' figures, so that the page
//! can't say anything that was not measured.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use record::lab::{Arm, Cell, Document, Measure};
use serde::Deserialize;

/// What the page needs of a scenario file.
#[derive(Deserialize)]
struct Scenario {
    name: String,
    title: String,
    description: String,
}

/// Writes the page from the results under `folder`, one subfolder per scenario. What was not measured anew stays as it
/// stands there: every section says when and with what it was measured.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path_of_page = root.join("docs/field-results.md");
    let old = std::fs::read_to_string(&path_of_page).unwrap_or_default();
    let mut scenarios: Vec<PathBuf> = std::fs::read_dir(root.join("scenarios/field"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    scenarios.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    });
    scenarios.sort();

    let mut page = String::from(
        "# Field results\n\n\
         <!-- Generated from the lab's and the simulator's results by `make field`. -->\n\n\
         The field reports' cases rebuilt on real kernels over the emulated path, and in virtual time: what the \
         report measured, what we measured, what the simulator says. Medians, with the 95 % bootstrap \
         interval where there are five samples or more, else the range. Repeat with `make field`, or one of \
         them with `longhaul lab run scenarios/field/NAME.toml`.\n\n\
         Limits are those of the payload's hop across the long path, explained from its sender's capture.\n",
    );
    let mut missing = Vec::new();
    for path in scenarios {
        let text = std::fs::read_to_string(&path)?;
        let scenario: Scenario = toml::from_str(&text)
            .with_context(|| format!("`{}` is not a scenario", path.display()))?;
        let results = folder.join(&scenario.name);
        let simulated = read(&results.join("simulated.json"))?;
        if let Some(measured) = read(&results.join("result.json"))? {
            section(&mut page, &scenario, &measured, simulated.as_ref());
        } else if let Some(section) = standing(&old, &scenario.name) {
            let _ = write!(page, "\n{section}\n");
        } else {
            let _ = write!(
                page,
                "\n## {}: {}\n\n{}\n\nNot measured yet.\n",
                scenario.name,
                scenario.title,
                scenario.description.trim()
            );
            missing.push(scenario.name);
        }
    }
    std::fs::write(&path_of_page, page)
        .with_context(|| format!("cannot write `{}`", path_of_page.display()))?;
    ensure!(
        missing.is_empty(),
        "no results in `{}` for {}: the page says so; `make field` measures them",
        folder.display(),
        missing.join(", ")
    );
    Ok(())
}

/// The section of a scenario in the page as it was, if it holds a measurement.
fn standing<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let start = page.find(&format!("## {name}: "))?;
    let rest = &page[start..];
    let end = rest.find("\n## ").unwrap_or(rest.len());
    let section = rest[..end].trim_end();
    (!section.ends_with("Not measured yet.")).then_some(section)
}

fn read(path: &Path) -> Result<Option<Document>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path)?;
    let document = serde_json::from_str(&text)
        .with_context(|| format!("`{}` is no result of the lab", path.display()))?;
    Ok(Some(document))
}

fn section(
    page: &mut String,
    scenario: &Scenario,
    measured: &Document,
    simulated: Option<&Document>,
) {
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "\n## {}: {}\n\n{}\n",
        scenario.name,
        scenario.title,
        scenario.description.trim()
    );
    for (index, cell) in measured.cells.iter().enumerate() {
        // Both went through the same scenario, so cells stand in the same order.
        let twin = simulated
            .and_then(|document| document.cells.get(index))
            .filter(|twin| twin.workload == cell.workload);
        table(page, cell, twin);
    }
    if !measured.assertions.is_empty() {
        page.push('\n');
        for assertion in &measured.assertions {
            let mark = if assertion.holds {
                "holds"
            } else {
                "**fails**"
            };
            let _ = writeln!(
                page,
                "- `{}`: {mark} ({})",
                assertion.text, assertion.detail
            );
        }
    }
    let manifest = &measured.manifest;
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
    let _ = write!(
        page,
        "\nSeed {}; {}; {}; Linux {}; {}.\n",
        measured.seed,
        manifest.longhaul,
        known(&manifest.started_at),
        known(&manifest.kernel),
        known(&manifest.machine),
    );
}

fn table(page: &mut String, cell: &Cell, twin: Option<&Cell>) {
    let factors: Vec<String> = cell
        .factors
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let mut heading = cell.workload.clone();
    if !factors.is_empty() {
        let _ = write!(heading, " ({})", factors.join(", "));
    }
    let _ = write!(page, "\n**{heading}.**");
    if !cell.floor_derivation.is_empty() {
        let _ = write!(page, " Floor {}.", cell.floor_derivation);
    }
    if let Some(why) = &cell.why {
        let _ = write!(page, " **Not valid: {why}.**");
    }
    page.push_str(
        "\n\n| arm | reported | measured | n | share of floor | simulated | limits, as explained |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for arm in &cell.arms {
        let simulated = twin
            .and_then(|twin| twin.arms.iter().find(|other| other.name == arm.name))
            .and_then(|arm| value(cell.measure, arm));
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {} |",
            arm.name,
            reported(cell.measure, arm),
            measured(cell.measure, arm),
            arm.n,
            arm.share_of_floor
                .map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            simulated.map_or_else(|| "-".to_owned(), |value| quantity(cell.measure, value)),
            limits(arm),
        );
    }
    for arm in cell.arms.iter().filter(|arm| is_a_sequence(arm)) {
        let simulated = twin.and_then(|twin| twin.arms.iter().find(|other| other.name == arm.name));
        by_place(page, arm, simulated);
    }
}

/// Whether the report gives as many transfers in their order as a block of ours has.
fn is_a_sequence(arm: &Arm) -> bool {
    arm.by_position_s.len() > 1 && arm.reported_s.len() == arm.by_position_s.len()
}

/// What reuse brings from one transfer of a connection to the next.
fn by_place(page: &mut String, arm: &Arm, simulated: Option<&Arm>) {
    let places = arm.by_position_s.len();
    let mut head = String::new();
    for place in 1..=places {
        // Writing to a String cannot fail.
        let _ = write!(head, " {place}. |");
    }
    let _ = write!(
        page,
        "\n| {}, in order |{head}\n|---|{}\n",
        arm.name,
        "---|".repeat(places)
    );
    let rows = [
        ("reported", Some(&arm.reported_s)),
        ("measured, medians", Some(&arm.by_position_s)),
        ("simulated", simulated.map(|arm| &arm.by_position_s)),
    ];
    for (name, values) in rows {
        let Some(values) = values.filter(|values| !values.is_empty()) else {
            continue;
        };
        let cells: Vec<String> = values
            .iter()
            .map(|seconds| quantity(Measure::Time, *seconds))
            .collect();
        let _ = writeln!(page, "| {name} | {} |", cells.join(" | "));
    }
}

fn value(measure: Measure, arm: &Arm) -> Option<f64> {
    match measure {
        Measure::Time => arm.median_s,
        Measure::Rate => arm.goodput_bps,
    }
}

fn measured(measure: Measure, arm: &Arm) -> String {
    let (samples, interval) = match measure {
        Measure::Time => (&arm.samples_s, arm.ci95_s),
        Measure::Rate => (&arm.samples_bps, arm.goodput_ci95_bps),
    };
    let Some(median) = value(measure, arm) else {
        return "-".to_owned();
    };
    let range = samples
        .iter()
        .copied()
        .filter(|sample| sample.is_finite())
        .fold(None, |range: Option<(f64, f64)>, sample| {
            let (low, high) = range.unwrap_or((sample, sample));
            Some((low.min(sample), high.max(sample)))
        });
    let mut text = quantity(measure, median);
    if let Some((low, high)) = interval.or(range) {
        let _ = write!(
            text,
            " ({} to {})",
            quantity(measure, low),
            quantity(measure, high)
        );
    }
    if let (Measure::Rate, Some(steady)) = (measure, arm.steady_bps) {
        let _ = write!(text, "; last half {}", quantity(measure, steady));
    }
    text
}

fn reported(measure: Measure, arm: &Arm) -> String {
    let figures = match measure {
        Measure::Time => &arm.reported_s,
        Measure::Rate => &arm.reported_bps,
    };
    if figures.is_empty() {
        return "-".to_owned();
    }
    let texts: Vec<String> = figures
        .iter()
        .map(|figure| quantity(measure, *figure))
        .collect();
    texts.join(", ")
}

fn limits(arm: &Arm) -> String {
    let total: f64 = arm.limits.values().sum();
    if total <= 0.0 {
        return "-".to_owned();
    }
    let mut shares: Vec<(String, f64)> = arm
        .limits
        .iter()
        .map(|(name, seconds)| (name.to_string(), seconds / total))
        .filter(|(_, share)| *share >= 0.05)
        .collect();
    shares.sort_by(|left, right| right.1.total_cmp(&left.1));
    let texts: Vec<String> = shares
        .iter()
        .take(3)
        .map(|(name, share)| format!("{name} {:.0} %", share * 100.0))
        .collect();
    texts.join(", ")
}

fn quantity(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Time if value < 1.0 => format!("{:.1} ms", value * 1e3),
        Measure::Time => format!("{value:.2} s"),
        Measure::Rate if value < 8e5 => format!("{:.2} kB/s", value / 8e3),
        Measure::Rate => format!("{:.2} MB/s", value / 8e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_holds_a_measurement_stays() {
        let page = "# Field\n\n## a: One\n\n| 1 |\n\nSeed 1.\n\n## a-b: Two\n\nNot measured yet.\n";
        assert_eq!(standing(page, "a"), Some("## a: One\n\n| 1 |\n\nSeed 1."));
        assert_eq!(standing(page, "a-b"), None);
        assert_eq!(standing(page, "c"), None);
    }
}
