//! The order of blocks. Arms alternate in blocks of consecutive transfers, so that a drift of the
//! machine meets all of them alike, and blocks are long enough to show what reuse brings.

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

/// Every block of a scenario, in an order drawn from `seed`.
///
/// Drawn uniformly from the orders in which each workload's first block of the explained arm comes
/// before any block of the predicted arm: a prediction that is not written before is none. Without a
/// prediction, every order is as likely.
#[must_use]
pub fn draw(scenario: &Scenario, seed: u64) -> Vec<Block> {
    let per_cell = scenario.experiment.runs / scenario.experiment.block.max(1);
    let mut blocks = Vec::new();
    for arm in 0..scenario.arms.len() {
        for workload in 0..scenario.workloads.len() {
            blocks.extend((0..per_cell).map(|_| Block { arm, workload }));
        }
    }
    let mut random = SplitMix64::new(seed);
    // Rejection keeps the draw uniform. With four blocks per cell about one order in four passes per
    // workload; the last order is repaired below, should chance ever refuse thousands.
    for _ in 0..10_000 {
        random.shuffle(&mut blocks);
        if predicts_in_time(scenario, &blocks) {
            return blocks;
        }
    }
    blocks.sort_by_key(|block| {
        Some(&scenario.arms[block.arm].name) != scenario.experiment.explains.as_ref()
    });
    blocks
}

fn predicts_in_time(scenario: &Scenario, blocks: &[Block]) -> bool {
    let experiment = &scenario.experiment;
    let (Some(explains), Some(predicts)) = (&experiment.explains, &experiment.predicts) else {
        return true;
    };
    let first_predicted = blocks
        .iter()
        .position(|block| &scenario.arms[block.arm].name == predicts)
        .unwrap_or(usize::MAX);
    (0..scenario.workloads.len()).all(|workload| {
        blocks
            .iter()
            .take(first_predicted)
            .any(|block| block.workload == workload && &scenario.arms[block.arm].name == explains)
    })
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
            assert!(predicts_in_time(&scenario, &blocks), "seed {seed}");
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
}
