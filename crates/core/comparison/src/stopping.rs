//! When an experiment ends: with the asked runs, or where a precision is asked, when every median is known
//! well enough or there are enough transfers.

use std::collections::{BTreeMap, BTreeSet};

use scenario::Scenario;

use crate::schedule::{Block, round};
use crate::{Measured, cell, is_precise};

/// What is still to be done in round `number`, beyond the asked runs: the blocks of every workload that has an
/// arm whose median is not known to within the asked precision, until all of its arms' are or `max-runs` is
/// reached. An arm that is known already goes on with the others: its transfers are their partners. Arms and
/// workloads that are not in `measured` are not played at all.
///
/// Empty where nothing is left to do, and where no precision is asked.
#[must_use]
pub fn further_round(
    scenario: &Scenario,
    seed: u64,
    number: u32,
    measured: &BTreeMap<(usize, usize), Measured>,
) -> Vec<Block> {
    let Some(share) = scenario.experiment.precision else {
        return Vec::new();
    };
    let played = |block: &Block| measured.get(&(block.arm, block.workload));
    let most = usize::try_from(scenario.experiment.most_runs()).unwrap_or(usize::MAX);
    let is_unsure = |block: &Block| {
        played(block).is_some_and(|measured| {
            let measure = cell::measure(&scenario.workloads[block.workload]);
            measured.transfers.len() < most
                && !is_precise(&measured.values(measure), share.as_f64(), seed)
        })
    };
    let mut blocks = round(scenario, seed, number);
    let unsure: BTreeSet<usize> = blocks
        .iter()
        .filter(|block| is_unsure(block))
        .map(|block| block.workload)
        .collect();
    blocks.retain(|block| played(block).is_some() && unsure.contains(&block.workload));
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transfer;

    fn scenario(experiment: &str) -> Scenario {
        let text = format!(
            r#"
            name = "s"
            seed = 1
            [path]
            rtt = "10 ms"
            rate = "10 Mbit/s"
            queue = "100 kB"
            [experiment]
            runs = 10
            {experiment}
            [[workloads]]
            name = "small"
            bytes = "1 KiB"
            [[workloads]]
            name = "large"
            bytes = "1 MiB"
            [[arms]]
            name = "steady"
            [[arms]]
            name = "unsteady"
            "#
        );
        toml::from_str(&text).unwrap()
    }

    /// `count` transfers whose times differ by `spread` seconds to both sides of one.
    fn transfers(count: u32, spread: f64) -> Measured {
        let transfers = (0..count).map(|number| Transfer {
            seconds: 1.0 + spread * (f64::from(number * 31 % 21) / 10.0 - 1.0),
            ..Transfer::default()
        });
        Measured {
            transfers: transfers.collect(),
            ..Measured::default()
        }
    }

    #[test]
    fn a_workload_goes_on_with_all_of_its_arms_until_each_is_known() {
        let asked = scenario("precision = \"5 %\"\nmax-runs = 40");
        let mut measured = BTreeMap::from([
            ((0, 0), transfers(10, 0.0)),
            ((1, 0), transfers(10, 0.5)),
            ((0, 1), transfers(10, 0.0)),
            ((1, 1), transfers(10, 0.0)),
        ]);
        let cells = |measured: &BTreeMap<_, _>| -> BTreeSet<(usize, usize)> {
            let blocks = further_round(&asked, 1, 2, measured);
            blocks.iter().map(|one| (one.arm, one.workload)).collect()
        };
        assert_eq!(cells(&measured), BTreeSet::from([(0, 0), (1, 0)]));
        // As many as there may be: it gives up.
        measured.insert((1, 0), transfers(40, 0.5));
        assert!(cells(&measured).is_empty());
        // What is not played asks for nothing, and is not asked to go on.
        measured.insert((0, 1), transfers(10, 0.5));
        measured.remove(&(1, 1));
        assert_eq!(cells(&measured), BTreeSet::from([(0, 1)]));
    }

    #[test]
    fn without_an_asked_precision_nothing_follows() {
        let measured = BTreeMap::from([((0, 0), transfers(10, 0.9))]);
        assert!(further_round(&scenario(""), 1, 2, &measured).is_empty());
    }
}
