//! A draw of every form from the half that no rule was tuned on, held to the bars that a small set can bear;
//! `cargo xtask accuracy` judges the whole corpus and writes docs/accuracy.md.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use longhaul_accuracy::{Bars, Half, Report, Tap, Trial, cases, judge};
use record::LimitName;

fn judged(half: Half, draws: u64) -> Report {
    let mut report = Report::default();
    for case in cases(half, draws) {
        let trial = Trial::play(case).unwrap();
        for tap in Tap::ALL {
            report.judged.push(judge(&trial, tap, false).unwrap());
        }
        report
            .judged
            .push(judge(&trial, Tap::Sender, true).unwrap());
    }
    report
}

#[test]
fn what_explain_says_holds_to_the_bars_on_captures_that_no_rule_was_tuned_on() {
    let report = judged(Half::HeldOut, 2);
    let missed = report.missed(&Bars::PROJECT);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_limit_that_costs_time_has_its_finding_in_a_capture_at_its_sender() {
    let named = [
        (LimitName::Policer, "policer"),
        (LimitName::LossLimited, "loss-limited"),
        (LimitName::SendBuffer, "send-buffer"),
        (LimitName::NagleDelayedAck, "nagle-delayed-ack"),
        (LimitName::Bottleneck, "path-full"),
        (LimitName::CongestionAvoidance, "low-initial-ssthresh"),
    ];
    let mut seen = 0;
    for case in cases(Half::HeldOut, 1) {
        let judged = judge(&Trial::play(case).unwrap(), Tap::Sender, false).unwrap();
        for (limit, finding) in named {
            if judged.dominant == Some(limit) && judged.cause == limit {
                seen += 1;
                let found = judged.findings.iter().any(|name| name == finding);
                assert!(found, "{}: {:?}", judged.form, judged.findings);
            }
        }
    }
    assert!(seen >= 10, "{seen} cases");
}

#[test]
fn labels_leave_no_gap_and_the_same_seed_gives_the_same_capture() {
    for case in cases(Half::Tuned, 1) {
        let (one, other) = (
            Trial::play(case.clone()).unwrap(),
            Trial::play(case).unwrap(),
        );
        for tap in Tap::ALL {
            assert_eq!(one.capture(tap, true), other.capture(tap, true));
            for pair in one.labels(tap).windows(2) {
                assert!((pair[0].1 - pair[1].0).abs() < 1e-9, "{pair:?}");
            }
        }
    }
}

#[test]
fn what_stands_beside_a_limit_is_found_too() {
    let named = [
        ("tls-1.2", "tls-extra-round-trips"),
        ("static", "one-connection-too-few"),
        ("no-scaling", "no-window-scaling"),
        ("syn-lost", "syn-loss"),
        ("zero-window", "zero-window-stalls"),
        ("outage", "loss-recovery"),
        ("burst-without-sack", "loss-recovery"),
        ("half-closed", "half-closed-by-peer"),
    ];
    for (form, finding) in named {
        let cases = cases(Half::Tuned, 2);
        let mut of_form = cases.into_iter().filter(|case| case.form == form);
        let found = |case| {
            let judged = judge(&Trial::play(case).unwrap(), Tap::Sender, false).unwrap();
            judged.findings.iter().any(|name| name == finding)
        };
        assert!(of_form.any(found), "{finding} is not found in `{form}`");
    }
}
