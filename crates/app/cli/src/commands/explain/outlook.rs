//! What the findings' remedies would bring, played on the rebuilt path by every core.

use outlook::Outlook;
use record::explain::Document;

use super::arguments::Predict;
use crate::commands::simulate::cores;
use crate::failure::{Blame as _, Failure};
use crate::output;

/// What may be simulated without being asked for, in bytes: a quarter of a second of one core.
const MOMENT: u64 = 1_000_000_000;

/// Adds the simulator's predictions to the document's findings. A capture that can't be rebuilt has none,
/// which is an error only for whoever insists.
pub(super) fn predict(wanted: Predict, document: &mut Document) -> Result<(), Failure> {
    let insists = wanted == Predict::Always;
    if wanted == Predict::Never {
        return Ok(());
    }
    let outlook = match Outlook::of(document) {
        Ok(outlook) => outlook,
        Err(error) if insists => return Err(error).usage("remedies can't be predicted"),
        Err(_) => return Ok(()),
    };
    if outlook.payload() > MOMENT && !insists {
        output::say(
            "Remedies are not predicted, since it takes more than a moment here: `--predict always` does it.",
        );
        return Ok(());
    }
    let trials: Vec<_> = outlook.trials().collect();
    let played = cores::each(&trials, |trial| trial.play(outlook.seed()), |_| ());
    match played.into_iter().collect() {
        Ok(played) => outlook.predict(document, played),
        Err(error) if insists => return Err(error).usage("remedies can't be predicted"),
        Err(_) => {}
    }
    Ok(())
}
