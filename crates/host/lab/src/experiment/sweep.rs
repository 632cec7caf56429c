//! Combinations of factors, one after the other, and one document of them all.

use std::sync::atomic::Ordering;

use record::explain;
use record::lab::Document;
use scenario::Variant;

use crate::experiment::finish::with_causes;
use crate::experiment::{LabError, Options, Outcome, Progress, beyond, play, slug, write_json};

/// Runs every part, each in a folder of its own where there are several. Must be called inside an isolated
/// process (`sys::isolation`).
///
/// A path that stays off is no error: the outcome then says that nothing of that part counts, and why.
/// Asked to stop, it keeps what it has.
pub fn run(
    parts: &[Variant],
    options: &Options,
    notify: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, LabError> {
    let mut problems: Vec<_> = parts
        .iter()
        .flat_map(|part| beyond::problems(&part.scenario, options.backend))
        .collect();
    problems.dedup();
    if !problems.is_empty() {
        return Err(LabError::Beyond { problems });
    }
    let mut whole = Whole::default();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 && options.stop.load(Ordering::Relaxed) {
            whole.cut_short();
            break;
        }
        let out = match parts.len() {
            1 => options.out.clone(),
            _ => options.out.join(slug(&label(part))),
        };
        notify(Progress::Part {
            index,
            parts: parts.len(),
            factors: &part.factors,
        });
        let of_part = Options {
            out,
            ..options.clone()
        };
        match play(part, &of_part, notify) {
            Ok(outcome) => whole.add(part, outcome),
            // Parts that are complete stay.
            Err(error) => match &mut whole.0 {
                Some(outcome) => outcome.document.broken = Some(with_causes(&error)),
                None => return Err(error),
            },
        }
        if whole.is_broken() {
            whole.cut_short();
            break;
        }
    }
    let outcome = whole.0.ok_or(LabError::Nothing)?;
    if parts.len() > 1 {
        write_json(&options.out.join("result.json"), &outcome.document)?;
    }
    Ok(outcome)
}

/// What the parts so far have given.
#[derive(Default)]
struct Whole(Option<Outcome>);

/// `path.rtt = 20 ms, path.loss = 0.1 %`.
fn label(part: &Variant) -> String {
    let pairs = part
        .factors
        .iter()
        .map(|(factor, value)| format!("{factor} = {value}"));
    pairs.collect::<Vec<_>>().join(", ")
}

// === impl Whole ===

impl Whole {
    fn add(&mut self, part: &Variant, outcome: Outcome) {
        let mut outcome = outcome;
        if !part.factors.is_empty() {
            mark(&mut outcome, &label(part));
        }
        let Some(known) = &mut self.0 else {
            self.0 = Some(outcome);
            return;
        };
        let Document {
            interrupted,
            broken,
            order,
            cells,
            priming,
            assertions,
            ..
        } = outcome.document;
        let document = &mut known.document;
        document.interrupted |= interrupted;
        document.broken = broken;
        document.order.extend(order);
        document.cells.extend(cells);
        document.priming.extend(priming);
        document.assertions.extend(assertions);
        known.explanations.extend(outcome.explanations);
        known.rows.extend(outcome.rows);
    }

    fn is_broken(&self) -> bool {
        let outcome = self.0.as_ref();
        outcome.is_some_and(|outcome| outcome.document.broken.is_some())
    }

    fn cut_short(&mut self) {
        if let Some(outcome) = &mut self.0 {
            outcome.document.interrupted = true;
            // Assertions speak of everything, or of nothing.
            outcome.document.assertions.clear();
        }
    }
}

/// Puts the part's label to everything that does not carry factors itself.
fn mark(outcome: &mut Outcome, label: &str) {
    let with = |text: &mut String| *text = format!("{text} ({label})");
    outcome.document.order.iter_mut().for_each(with);
    for assertion in &mut outcome.document.assertions {
        with(&mut assertion.text);
    }
    for priming in &mut outcome.document.priming {
        with(&mut priming.arm);
    }
    let named =
        |(arm, document): (String, explain::Document)| (format!("{arm} ({label})"), document);
    let explanations = std::mem::take(&mut outcome.explanations);
    outcome.explanations = explanations.into_iter().map(named).collect();
}
