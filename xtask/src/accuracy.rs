//! `docs/accuracy.md`, from the labelled corpus of crate `accuracy`.

use std::path::Path;

use accuracy::{Bars, Half, Report, Tap, Trial, cases, judge, page};
use anyhow::{Context as _, Result};

/// Cases of every form in each half.
const DRAWS: u64 = 6;

/// Judges both halves of the corpus, writes the page and says which bars are missed.
pub(crate) fn write() -> Result<()> {
    let tuned = report("tuned", Half::Tuned)?;
    let held_out = report("held out", Half::HeldOut)?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join("docs/accuracy.md");
    std::fs::write(&path, page(&tuned, &held_out))
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    for (half, report) in [("tuned", &tuned), ("held out", &held_out)] {
        for sentence in report.missed(&Bars::PROJECT) {
            println!("{half}: {sentence}");
        }
    }
    println!("wrote docs/accuracy.md");
    Ok(())
}

fn report(name: &str, half: Half) -> Result<Report> {
    let cases = cases(half, DRAWS);
    println!("{name}: {} cases", cases.len());
    let mut report = Report::default();
    for case in cases {
        let trial = Trial::play(case)?;
        for tap in Tap::ALL {
            report.judged.push(judge(&trial, tap, false)?);
            // Nothing joins segments half-way.
            if tap != Tap::Middle {
                report.judged.push(judge(&trial, tap, true)?);
            }
        }
    }
    Ok(report)
}
