//! The corpus by hand: a line per form, or one case with its labels beside what is said of it.
//!
//! ```text
//! cargo run -p longhaul-accuracy --example corpus -- tuned 3
//! cargo run -p longhaul-accuracy --example corpus -- tuned 3 static
//! cargo run -p longhaul-accuracy --example corpus -- tuned 3 static 1 receiver out.pcapng
//! ```

#![expect(clippy::print_stdout, reason = "a program to be run by hand")]

use longhaul_accuracy::{Bars, Half, Report, Tap, Trial, cases, judge};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [half, draws, rest @ ..] = arguments.as_slice() else {
        return Err("usage: corpus tuned|held-out DRAWS [FORM [DRAW TAP FILE]]".into());
    };
    let half = match half.as_str() {
        "tuned" => Half::Tuned,
        "held-out" => Half::HeldOut,
        other => return Err(format!("`{other}` is neither `tuned` nor `held-out`").into()),
    };
    let mut all = Report::default();
    for case in cases(half, draws.parse()?) {
        if rest.first().is_some_and(|form| form != case.form) {
            continue;
        }
        if rest
            .get(1)
            .is_some_and(|draw| *draw != case.seed.to_string())
        {
            continue;
        }
        let (cause, form, seed) = (case.cause, case.form, case.seed);
        let trial = Trial::play(case)?;
        for tap in Tap::ALL {
            if rest.get(2).is_some_and(|name| name != tap.as_str()) {
                continue;
            }
            for offload in [false, true] {
                if offload && tap == Tap::Middle {
                    continue;
                }
                let judged = judge(&trial, tap, offload)?;
                let one = Report {
                    judged: vec![judged.clone()],
                };
                if one.right() < 0.97 || !rest.is_empty() || !judged.wrong_findings.is_empty() {
                    let mut confused: Vec<_> = judged
                        .confusion
                        .iter()
                        .filter(|((t, s), n)| t != s && **n > 0.01)
                        .collect();
                    confused.sort_by(|a, b| b.1.total_cmp(a.1));
                    let confused: Vec<String> = confused
                        .iter()
                        .take(4)
                        .map(|((t, s), n)| format!("{t}->{s} {n:.2}"))
                        .collect();
                    println!(
                        "{cause}/{form} {seed} {} {} {:.3} of {:.2} s dom {:?} {:?} | {}",
                        tap.as_str(),
                        if offload { "offload" } else { "" },
                        one.right(),
                        one.seconds(),
                        judged.dominant.map(record::LimitName::as_str),
                        judged.wrong_findings,
                        confused.join(", ")
                    );
                }
                all.judged.push(judged);
            }
            if let Some(file) = rest.get(3) {
                std::fs::write(file, trial.capture(tap, false))?;
                for (what, spans) in [
                    ("held", trial.labels(tap)),
                    ("said", trial.said(tap, false)?),
                ] {
                    let mut merged: Vec<(f64, f64, record::LimitName)> = Vec::new();
                    for (from, to, limit) in spans {
                        match merged.last_mut() {
                            Some(last) if last.2 == limit => last.1 = to,
                            Some(_) | None => merged.push((from, to, limit)),
                        }
                    }
                    for (from, to, limit) in merged {
                        println!("{what} {from:.4} {to:.4} {limit}");
                    }
                }
            }
        }
    }
    println!(
        "{} captures, {:.1} s, right {:.4}, unknown {:.4}",
        all.judged.len(),
        all.seconds(),
        all.right(),
        all.unknown()
    );
    for (limit, (seconds, right)) in all.recall() {
        println!("  {limit:<22} {seconds:>8.1} s {right:.4}");
    }
    let (single, wrong) = all.dominant();
    println!("dominant wrong in {} of {single}", wrong.len());
    for missed in all.missed(&Bars::PROJECT) {
        println!("  {missed}");
    }
    Ok(())
}
