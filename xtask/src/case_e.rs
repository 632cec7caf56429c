//! `docs/case-e.md` and its pictures: field case E in virtual time, with one flow and with a group.
//!
//! Every figure of the page is computed here from what the simulator says, and what the case claims is checked: where
//! it does not hold, nothing is written.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use record::lab::{Arm, Cell, SeriesPoint};
use scenario::Scenario;

use crate::fuzz::cpu_seconds;

const SCENARIO: &str = "scenarios/simulated/e-ssthresh-10g.toml";
/// The report's peak.
const PEAK_BPS: f64 = 6e9;
/// Near all that the path carries.
const FULL_BPS: f64 = 9e9;
/// Sizes of the groups that begin together.
const GROUPS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// One arm over one duration.
struct Played {
    arm: Arm,
    cpu_s: f64,
}

/// Simulates the case and writes page and pictures.
pub(crate) fn write() -> Result<()> {
    if cfg!(debug_assertions) {
        bail!("the page tells the speed of a release build: `make case-e`");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = root.join(SCENARIO);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let scenario: Scenario =
        toml::from_str(&text).with_context(|| format!("`{SCENARIO}` is not a scenario"))?;
    let (minute, curves) = play(&scenario, "60 s")?;
    check(&minute)?;
    let (_, first_curves) = play(&scenario, "1 s")?;
    let (groups, _) = play(&in_groups(&scenario)?, "1 s")?;
    for (name, cell) in [("1s", &first_curves), ("60s", &curves)] {
        let picture = report::svg::transfer_over_time(cell).context("there is nothing to draw")?;
        let path = root.join(format!("docs/images/e-ssthresh-10g-{name}.svg"));
        fs::write(&path, picture).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    let path = root.join("docs/case-e.md");
    fs::write(&path, page(&scenario, &minute, &groups)?)
        .with_context(|| format!("cannot write `{}`", path.display()))
}

/// The scenario's first two arms, one flow each, as groups of every size.
fn in_groups(scenario: &Scenario) -> Result<Scenario> {
    let [low, infinite, ..] = scenario.arms.as_slice() else {
        bail!("`{SCENARIO}` should begin with the arms `low` and `infinite`");
    };
    let pairs = GROUPS.iter().flat_map(|&flows| {
        [low, infinite].map(|arm| scenario::Arm {
            name: format!("{flows} {}", arm.name),
            parallel: Some(flows),
            ..arm.clone()
        })
    });
    Ok(Scenario {
        arms: pairs.collect(),
        ..scenario.clone()
    })
}

/// Every arm of the scenario over `duration`, one after the other; and their cell, for pictures.
fn play(scenario: &Scenario, duration: &str) -> Result<(Vec<Played>, Cell)> {
    let mut cell: Option<Cell> = None;
    let mut played = Vec::new();
    for arm in &scenario.arms {
        let mut alone = Scenario {
            arms: vec![arm.clone()],
            ..scenario.clone()
        };
        for workload in &mut alone.workloads {
            duration.clone_into(&mut workload.name);
            workload.duration = Some(duration.parse()?);
        }
        eprintln!("{}, {duration}", arm.name);
        let before = cpu_seconds();
        let document = sim::run(&alone, alone.seed)?;
        let cpu_s = cpu_seconds() - before;
        let [one] = document.cells.as_slice() else {
            bail!("`{SCENARIO}` should have one workload");
        };
        let result = one.arms.first().context("an arm has no result")?;
        match &mut cell {
            None => cell = Some(one.clone()),
            Some(cell) => cell.arms.push(result.clone()),
        }
        played.push(Played {
            arm: result.clone(),
            cpu_s,
        });
    }
    Ok((played, cell.context("the scenario has no arm")?))
}

/// What the case says: a minute to 6 Gbit/s without a loss, or that rate in less than 0.2 s.
fn check(minute: &[Played]) -> Result<()> {
    let [low, infinite, ..] = minute else {
        bail!("`{SCENARIO}` should begin with the arms `low` and `infinite`");
    };
    let peak = first_at(&low.arm, PEAK_BPS).context("`low` never reaches 6 Gbit/s")?;
    ensure!(
        (45.0..=60.0).contains(&peak.at_s) && peak.retransmissions == Some(0),
        "`low` reaches 6 Gbit/s after {} s with {:?} segments sent again",
        peak.at_s,
        peak.retransmissions
    );
    let peak = first_at(&infinite.arm, PEAK_BPS).context("`infinite` never reaches 6 Gbit/s")?;
    ensure!(
        peak.at_s < 0.2,
        "`infinite` reaches 6 Gbit/s after {} s",
        peak.at_s
    );
    Ok(())
}

/// The first point of an arm's curve at which it has `rate`.
fn first_at(arm: &Arm, rate: f64) -> Option<&SeriesPoint> {
    let mut points = arm.series.as_ref()?.points.iter();
    points.find(|point| point.goodput_bps.is_some_and(|goodput| goodput >= rate))
}

/// Segments sent again up to the end.
fn sent_again(arm: &Arm) -> u64 {
    let last = arm.series.as_ref().and_then(|series| series.points.last());
    last.and_then(|point| point.retransmissions).unwrap_or(0)
}

fn page(scenario: &Scenario, minute: &[Played], groups: &[Played]) -> Result<String> {
    let mut page = format!(
        "# Field case E in virtual time\n\n\
         <!-- Generated by `make case-e`. -->\n\n\
         {}\n\n\
         Scenario: `{SCENARIO}`; seed {}. Made anew by `make case-e`, which fails where the low threshold does not take 45 \
         to 60 s to 6 Gbit/s without a loss, or the infinite one takes 0.2 s or more.\n\n\
         ## A minute\n\n\
         | arm | goodput | in its last half | 6 Gbit/s after | 9 Gbit/s after | segments sent again | CPU s |\n\
         |---|---|---|---|---|---|---|\n",
        scenario.description.trim(),
        scenario.seed
    );
    for Played { arm, cpu_s } in minute {
        let (goodput, steady) = rates(arm)?;
        writeln!(
            page,
            "| {} | {goodput} | {steady} | {} | {} | {} | {cpu_s:.1} |",
            arm.name,
            after(arm, PEAK_BPS),
            after(arm, FULL_BPS),
            sent_again(arm)
        )?;
    }
    page.push_str(
        "\nCPU seconds are those of a minute at 10 Gbit/s on one core, whatever else the machine did.\n\n\
         ![Goodput, window, RTT, bytes in flight and queue of the four arms over a minute]\
         (images/e-ssthresh-10g-60s.svg)\n\n\
         ## The first second, and what a group costs\n\n\
         ![The same over the first second](images/e-ssthresh-10g-1s.svg)\n\n\
         Flows that begin together: all of them together, in their first second.\n\n\
         | flows | low: goodput | in its last half | segments sent again | infinite: goodput | in its last half \
         | segments sent again |\n|---|---|---|---|---|---|---|\n",
    );
    for (flows, pair) in GROUPS.iter().zip(groups.chunks_exact(2)) {
        write!(page, "| {flows} |")?;
        for Played { arm, .. } in pair {
            let (goodput, steady) = rates(arm)?;
            write!(page, " {goodput} | {steady} | {} |", sent_again(arm))?;
        }
        page.push('\n');
    }
    page.push_str(
        "\nThe low threshold keeps a group from overwhelming the queue, and costs what stands in the second column; the \
         infinite one pays with one overshoot, whose losses are in the last. A point of a curve can lie above the \
         path's rate: when a hole is repaired, all that waited behind it is acknowledged at once.\n\n\
         ## In the simulated capture\n\n\
         `explain` names `low-initial-ssthresh` on the simulated capture of the low arm (at 100 Mbit/s and 50 ms, so \
         that the capture is small), and not on that of the infinite arm: `cargo test -p longhaul-cli --test simulate \
         -- explain_names`.\n",
    );
    Ok(page)
}

/// Goodput over the whole time and over its last half.
fn rates(arm: &Arm) -> Result<(String, String)> {
    let gigabits = |rate: Option<f64>| {
        rate.map(|rate| format!("{:.2} Gbit/s", rate / 1e9))
            .with_context(|| format!("`{}` moved nothing", arm.name))
    };
    Ok((gigabits(arm.goodput_bps)?, gigabits(arm.steady_bps)?))
}

fn after(arm: &Arm, rate: f64) -> String {
    first_at(arm, rate).map_or_else(
        || "not in this time".to_owned(),
        |point| format!("{:.2} s", point.at_s),
    )
}
