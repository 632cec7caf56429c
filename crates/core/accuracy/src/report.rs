use std::collections::BTreeMap;

use record::LimitName;

use crate::judge::{Confusion, Judged};

/// All captures of a set.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One for each capture.
    pub judged: Vec<Judged>,
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bars {
    /// Least share of seconds that are named right.
    pub seconds: f64,
    /// Least share within each class.
    pub class: f64,
    /// Least share of single-cause captures whose dominant limit is right.
    pub dominant: f64,
    /// Largest share of seconds called `unknown`.
    pub unknown: f64,
}

impl Bars {
    /// Those of the project: issue 5, "Correct, and shown to be".
    pub const PROJECT: Self = Self {
        seconds: 0.95,
        class: 0.85,
        dominant: 0.99,
        unknown: 0.05,
    };
}

impl Report {
    /// Seconds by what held and what was said, over all captures.
    ///
    /// Each capture counts as one, whatever its length: otherwise a few long ones would decide.
    #[must_use]
    pub fn confusion(&self) -> Confusion {
        let mut confusion = Confusion::new();
        for judged in &self.judged {
            for (key, seconds) in &judged.confusion {
                *confusion.entry(*key).or_default() += seconds;
            }
        }
        confusion
    }

    /// Seconds in all.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.confusion().values().sum()
    }

    /// Share of the seconds that were named right.
    #[must_use]
    pub fn right(&self) -> f64 {
        let confusion = self.confusion();
        let right: f64 = confusion
            .iter()
            .filter(|((truth, said), _)| truth == said)
            .map(|(_, seconds)| seconds)
            .sum();
        share(right, confusion.values().sum())
    }

    /// Per limit that held: its seconds, and the share that was named right.
    #[must_use]
    pub fn recall(&self) -> BTreeMap<LimitName, (f64, f64)> {
        let mut recall: BTreeMap<LimitName, (f64, f64)> = BTreeMap::new();
        for ((truth, said), seconds) in self.confusion() {
            let (all, right) = recall.entry(truth).or_default();
            *all += seconds;
            if truth == said {
                *right += seconds;
            }
        }
        recall
            .into_iter()
            .map(|(limit, (all, right))| (limit, (all, share(right, all))))
            .collect()
    }

    /// Share of the seconds that were called `unknown`.
    #[must_use]
    pub fn unknown(&self) -> f64 {
        let confusion = self.confusion();
        let unknown: f64 = confusion
            .iter()
            .filter(|((_, said), _)| *said == LimitName::Unknown)
            .map(|(_, seconds)| seconds)
            .sum();
        // A sum of nothing is -0.
        share(unknown + 0.0, confusion.values().sum())
    }

    /// Single-cause captures: how many there are, and those whose dominant limit is not their cause.
    #[must_use]
    pub fn dominant(&self) -> (usize, Vec<&Judged>) {
        let single: Vec<&Judged> = self.judged.iter().filter(|judged| judged.single).collect();
        let wrong = single
            .iter()
            .filter(|judged| judged.dominant != Some(judged.cause))
            .copied()
            .collect();
        (single.len(), wrong)
    }

    /// Captures with a finding of high confidence that is wrong.
    #[must_use]
    pub fn confidently_wrong(&self) -> Vec<&Judged> {
        self.judged
            .iter()
            .filter(|judged| !judged.wrong_findings.is_empty())
            .collect()
    }

    /// What of `bars` does not hold, one sentence each.
    #[must_use]
    pub fn missed(&self, bars: &Bars) -> Vec<String> {
        let mut missed = Vec::new();
        let mut at_least = |what: String, is: f64, least: f64| {
            if is < least {
                missed.push(format!(
                    "{what}: {:.2} %, not {:.0} %",
                    is * 100.0,
                    least * 100.0
                ));
            }
        };
        at_least("seconds named right".into(), self.right(), bars.seconds);
        for (limit, (_, right)) in self.recall() {
            at_least(format!("{limit} named right"), right, bars.class);
        }
        let (single, wrong) = self.dominant();
        let right = share(count(single - wrong.len()), count(single));
        at_least("dominant limit right".into(), right, bars.dominant);
        at_least(
            "seconds not unknown".into(),
            1.0 - self.unknown(),
            1.0 - bars.unknown,
        );
        for judged in self.confidently_wrong() {
            missed.push(format!(
                "high confidence and wrong: {} in `{}`, draw {}, at the {}",
                judged.wrong_findings.join(", "),
                judged.form,
                judged.seed,
                judged.tap.as_str()
            ));
        }
        missed
    }
}

pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 1.0 }
}

#[expect(clippy::cast_precision_loss, reason = "captures are thousands")]
pub(crate) const fn count(number: usize) -> f64 {
    number as f64
}
