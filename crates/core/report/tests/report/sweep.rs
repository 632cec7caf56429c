//! Runs as a sweep over RTT and loss gives them, made by formulas.

use std::collections::BTreeMap;

use record::lab::{
    Arm, Cell, Comparison, Document, Measure, PathCheck, Rfc6349, Rivals, Series, SeriesPoint,
};
use record::{LimitName, LimitSeconds};

use crate::examples;

const RATE_BPS: f64 = 100e6;
const CEILING_BPS: f64 = RATE_BPS * 1448.0 / 1500.0;
const ARMS: [&str; 4] = ["kernel-cubic", "kernel-bbr", "relay", "ours"];
const RTTS: [&str; 5] = ["20 ms", "70 ms", "140 ms", "200 ms", "600 ms"];
const LOSSES: [&str; 4] = ["0 %", "0.01 %", "0.1 %", "1 %"];

/// Streams of 20 s over `rtts` x `losses` paths.
pub(crate) fn document(rtts: usize, losses: usize) -> Document {
    let mut document = examples::lab();
    document.scenario = "d2-loss".into();
    document.priming.clear();
    document.cells.clear();
    for (r, rtt) in RTTS.iter().enumerate().take(rtts) {
        for (l, loss) in LOSSES.iter().enumerate().take(losses) {
            let factors = BTreeMap::from([
                ("path.rtt".to_owned(), (*rtt).to_owned()),
                ("path.loss".to_owned(), (*loss).to_owned()),
            ]);
            document.cells.push(stream(r, l, factors));
        }
    }
    document
}

/// The end of any scale: a hundred cells.
pub(crate) fn hundred() -> Document {
    let mut document = document(5, 4);
    let cells = document.cells.clone();
    for profile in ["default", "wan", "lan", "bulk"] {
        for cell in &cells {
            let mut cell = cell.clone();
            cell.factors
                .insert("profile".to_owned(), profile.to_owned());
            document.cells.push(cell);
        }
    }
    for cell in document.cells.iter_mut().take(20) {
        cell.factors.insert("profile".to_owned(), "none".to_owned());
    }
    document
}

/// Twelve arms with long names: one sample, none, and failures among them.
pub(crate) fn crowded() -> Document {
    let mut document = examples::lab();
    document.cells.truncate(1);
    document.priming.clear();
    let cell = &mut document.cells[0];
    cell.predictions.clear();
    let template = cell.arms[0].clone();
    cell.arms = (0..12_u32)
        .map(|index| {
            let scale = 1.0 + f64::from(index) / 3.0;
            let mut arm = template.clone();
            arm.name = format!("upload-through-the-proxy-of-the-third-party-number-{index}");
            arm.samples_s.iter_mut().for_each(|sample| *sample *= scale);
            arm.median_s = arm.median_s.map(|median| median * scale);
            arm.by_position_s.clear();
            arm
        })
        .collect();
    let one = &mut cell.arms[2];
    one.samples_s.truncate(1);
    (one.n, one.ci95_s, one.median_s) = (1, None, one.samples_s.first().copied());
    let none = &mut cell.arms[3];
    *none = Arm {
        name: none.name.clone(),
        failed: 20,
        ..Arm::default()
    };
    let comparisons = examples::comparisons(&cell.arms);
    cell.comparisons = comparisons
        .into_iter()
        .filter(|one| !one.arm.ends_with("-3"))
        .collect();
    cell.comparisons[1].p = None;
    cell.comparisons[1].ratio_ci95 = None;
    document
}

fn stream(r: usize, l: usize, factors: BTreeMap<String, String>) -> Cell {
    let rtt = [0.02, 0.07, 0.14, 0.2, 0.6][r];
    let loss = [0.0, 1e-4, 1e-3, 1e-2][l];
    let arms: Vec<Arm> = ARMS
        .iter()
        .enumerate()
        .map(|(index, name)| arm(name, index, rtt, loss))
        .collect();
    let comparisons = arms.iter().skip(1).map(|arm| against(arm, &arms[0]));
    Cell {
        workload: "stream of 20 s".into(),
        measure: Measure::Rate,
        factors,
        valid: !(r == 1 && l == 1),
        why: (r == 1 && l == 1)
            .then(|| "the path was off 3 times: RTT 74 ms instead of 70 ms".into()),
        path: PathCheck {
            rtt_asked_s: rtt,
            rtt_achieved_s: Some(rtt + 0.0001),
            rate_asked_bps: RATE_BPS,
            rate_achieved_bps: Some(RATE_BPS * 0.999),
            checks: 12,
            invalid_checks: 0,
            ..PathCheck::default()
        },
        ceiling_bps: Some(CEILING_BPS),
        comparisons: comparisons.collect(),
        arms,
        ..Cell::default()
    }
}

/// Mathis' bound for the first, some other curve for each of the others.
fn arm(name: &str, index: usize, rtt: f64, loss: f64) -> Arm {
    let mathis = 1448.0 * 8.0 / rtt * 1.22 / loss.max(1e-9).sqrt();
    let gain = [1.0, 40.0, 12.0, 60.0][index];
    let median = (mathis * gain).min(CEILING_BPS * (0.985 - rtt * [0.5, 0.2, 0.1, 0.02][index]));
    let around = |n: u32| median * (1.0 + 0.05 * (f64::from(n * 7919 % 101) / 101.0 - 0.5));
    let limits: LimitSeconds = [
        (LimitName::SlowStart, 0.4 + rtt * 8.0),
        (
            LimitName::LossLimited,
            if loss > 0.0 { 14.0 / gain } else { 0.0 },
        ),
        (
            LimitName::Bottleneck,
            19.0 - rtt * 10.0 - if loss > 0.0 { 14.0 / gain } else { 0.0 },
        ),
        (LimitName::Handshake, rtt),
    ]
    .into_iter()
    .collect();
    Arm {
        name: name.into(),
        n: 10,
        median_s: Some(20.0),
        goodput_bps: Some(median),
        goodput_ci95_bps: Some((median * 0.98, median * 1.02)),
        steady_bps: Some(median * 1.01),
        share_of_floor: Some(median / CEILING_BPS),
        samples_s: vec![20.0; 10],
        samples_bps: (0..10).map(around).collect(),
        reported_bps: if index == 0 { vec![39e6] } else { Vec::new() },
        limits,
        retransmissions: Some(loss * 20.0 * median / 8.0 / 1448.0),
        rfc6349: Some(Rfc6349 {
            transfer_time_ratio: Some(CEILING_BPS / median),
            tcp_efficiency: Some(1.0 - loss),
            buffer_delay: Some(if loss > 0.0 { 0.02 } else { 0.8 }),
        }),
        rivals: (index == 3).then(|| Rivals {
            alone_bps: vec![90e6],
            beside_bps: vec![41e6],
            own_bps: vec![median],
            jain: Some(0.94),
            harm: Some(0.54),
        }),
        series: (index != 2).then(|| series(index, median, rtt, loss)),
        invalid_blocks: u64::from(index == 1),
        invalid_because: vec!["RTT 74.1 ms instead of 70 ms".into()],
        ..Arm::default()
    }
}

/// A sawtooth of 20 s, sampled every 50 ms, on top of slow start.
fn series(index: usize, median: f64, rtt: f64, loss: f64) -> Series {
    let period = [3.1, 8.0, 4.0, 9.7][index];
    let window = median * rtt / 8.0;
    let mut resent = 0;
    let points = (0..400_u32).map(|n| {
        let at_s = f64::from(n) * 0.05;
        let phase = (at_s / period).fract();
        let growth = (at_s / (12.0 * rtt)).min(1.0);
        let swing = (0.75 + 0.45 * phase) * growth;
        if phase < 0.05 / period && n > 0 && loss > 0.0 {
            resent += 3;
        }
        SeriesPoint {
            at_s,
            goodput_bps: Some((median * swing * 1.05).min(CEILING_BPS)),
            cwnd: Some(bytes(14_480.0 + window * swing * 1.2)),
            rtt_s: Some(rtt * (1.0 + if loss > 0.0 { 0.05 } else { 0.8 } * swing)),
            in_flight: Some(bytes(window * swing)),
            queue: (index != 3).then(|| bytes(window * 0.4 * swing * phase)),
            retransmissions: Some(resent),
        }
    });
    Series {
        interval_s: 0.05,
        points: points.collect(),
    }
}

fn bytes(value: f64) -> u64 {
    format!("{value:.0}").parse().unwrap()
}

fn against(arm: &Arm, first: &Arm) -> Comparison {
    let (one, other) = (arm.goodput_bps.unwrap(), first.goodput_bps.unwrap());
    let ratio = one / other;
    Comparison {
        arm: arm.name.clone(),
        against: first.name.clone(),
        ratio: Some(ratio),
        ratio_ci95: Some((ratio * 0.95, ratio * 1.06)),
        difference_bps: Some(one - other),
        difference_ci95_bps: Some(((one - other) * 0.9, (one - other) * 1.1)),
        shift: Some(one - other),
        paired: true,
        p: Some(0.002),
        test: "Wilcoxon signed-rank, exact".into(),
        effect: Some(1.0),
        ..Comparison::default()
    }
}
