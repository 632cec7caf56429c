//! The order of blocks. They come in rounds, each of which has one block of every arm and workload in an
//! order of its own (a randomised complete block design: Fisher, *The Design of Experiments*, 1935), so
//! that a drift of the machine meets all arms alike and the n-th block of one arm ran near the n-th of
//! another. Blocks are long enough to show what reuse brings.

use record::lab::Conduct;
use scenario::Scenario;

use crate::SplitMix64;

/// Consecutive transfers of one workload in one arm.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Block {
    /// Index of the arm in the scenario.
    pub arm: usize,
    /// Index of the workload in the scenario.
    pub workload: usize,
}

/// Every block of a scenario's asked runs, in an order drawn from `seed`: its rounds, one after another.
#[must_use]
pub fn draw(scenario: &Scenario, seed: u64) -> Vec<Block> {
    (0..rounds(scenario))
        .flat_map(|number| round(scenario, seed, number))
        .collect()
}

/// How the scenario asks for transfers to be repeated, for the document.
#[must_use]
pub fn conduct(scenario: &Scenario) -> Conduct {
    let experiment = &scenario.experiment;
    Conduct {
        runs: experiment.runs.into(),
        block: experiment.block.into(),
        warm_up: experiment.warm_up.into(),
        precision: experiment.precision.map(scenario::Share::as_f64),
        max_runs: experiment.precision.map(|_| experiment.most_runs().into()),
    }
}

/// Rounds that the asked runs make.
#[must_use]
pub fn rounds(scenario: &Scenario) -> u32 {
    scenario.experiment.runs / scenario.experiment.block.max(1)
}

/// Round `number` (from zero) alone; those beyond the asked runs serve an asked precision.
///
/// Every order is as likely, but in the first round: there, with a prediction, all blocks of the explained
/// arm come before any of the predicted one, because a prediction that is not written before is none.
#[must_use]
pub fn round(scenario: &Scenario, seed: u64, number: u32) -> Vec<Block> {
    let mut blocks: Vec<Block> = (0..scenario.arms.len())
        .flat_map(|arm| {
            let workloads = 0..scenario.workloads.len();
            workloads.map(move |workload| Block { arm, workload })
        })
        .collect();
    // Each round has a generator of its own, so that it is the same whether or not others were drawn.
    let mut seeds = SplitMix64::new(seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut random = SplitMix64::new(seeds.bits());
    random.shuffle(&mut blocks);
    if number == 0 {
        predict_in_time(scenario, &mut blocks);
    }
    blocks
}

/// Of the places that explained and predicted blocks have, the explained get the first ones. All else
/// stays, and so does the order within either, which leaves every order that is allowed as likely.
fn predict_in_time(scenario: &Scenario, blocks: &mut [Block]) {
    let experiment = &scenario.experiment;
    let (Some(explains), Some(predicts)) = (&experiment.explains, &experiment.predicts) else {
        return;
    };
    let is = |block: &Block, name: &String| &scenario.arms[block.arm].name == name;
    let concerned = |block: &Block| is(block, explains) || is(block, predicts);
    let mut ordered: Vec<Block> = blocks.iter().copied().filter(concerned).collect();
    // Stable: only the arm decides.
    ordered.sort_by_key(|block| is(block, predicts));
    let places = blocks.iter_mut().filter(|block| concerned(block));
    for (place, block) in places.zip(ordered) {
        *place = block;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        toml::from_str(
            r#"
            name = "s"
            seed = 1
            [path]
            rtt = "10 ms"
            rate = "10 Mbit/s"
            queue = "100 kB"
            [relays.hot]
            [experiment]
            explains = "direct"
            predicts = "relay"
            [[workloads]]
            name = "small"
            bytes = "1 KiB"
            [[workloads]]
            name = "large"
            bytes = "1 MiB"
            [[arms]]
            name = "direct"
            [[arms]]
            name = "relay"
            relay = "hot"
            "#,
        )
        .unwrap()
    }

    #[test]
    fn every_cell_gets_its_blocks_and_predictions_come_first() {
        let scenario = scenario();
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let blocks = draw(&scenario, seed);
            assert_eq!(blocks.len(), 2 * 2 * 4);
            for arm in 0..2 {
                for workload in 0..2 {
                    let count = blocks
                        .iter()
                        .filter(|b| **b == Block { arm, workload })
                        .count();
                    assert_eq!(count, 4);
                }
            }
            let arms: Vec<usize> = blocks[..4].iter().map(|block| block.arm).collect();
            assert_eq!(arms, [0, 0, 1, 1], "seed {seed}");
            assert_eq!(blocks, draw(&scenario, seed), "one seed, one order");
            orders.insert(
                blocks
                    .iter()
                    .map(|b| (b.arm, b.workload))
                    .collect::<Vec<_>>(),
            );
        }
        assert!(
            orders.len() > 45,
            "seeds must differ: {} orders of 50",
            orders.len()
        );
    }

    #[test]
    fn every_round_has_each_block_once_in_an_order_of_its_own() {
        let scenario = scenario();
        let blocks = draw(&scenario, 7);
        let mut first = std::collections::BTreeMap::new();
        for (number, round) in blocks.chunks(4).enumerate() {
            let places = round.iter().map(|b| (b.arm, b.workload));
            let distinct: std::collections::BTreeSet<_> = places.clone().collect();
            assert_eq!(distinct.len(), 4, "round {number}");
            *first.entry(places.collect::<Vec<_>>()).or_insert(0) += 1;
        }
        assert!(first.len() > 1, "rounds must differ: {first:?}");
        // Rounds beyond the asked ones can be drawn alone.
        assert_eq!(round(&scenario, 7, 2), blocks[8..12]);
        assert_eq!(round(&scenario, 7, 40).len(), 4);
    }

    #[test]
    fn without_a_prediction_every_order_is_as_likely() {
        let mut scenario = scenario();
        scenario.experiment.predicts = None;
        let mut counts = [0_u32; 4];
        for seed in 0..4_000 {
            let first = round(&scenario, seed, 0)[0];
            counts[first.arm * 2 + first.workload] += 1;
        }
        // 1000 expected; 5 standard deviations are 137.
        let even = counts.iter().all(|count| (863..=1137).contains(count));
        assert!(even, "{counts:?}");
    }
}
