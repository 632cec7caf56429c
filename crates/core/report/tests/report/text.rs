use longhaul_report::text::{Style, explain, lab};
use record::lab::Conduct;

use crate::{examples, sweep};

#[test]
fn the_end_of_a_lab_run() {
    insta::assert_snapshot!(lab(&examples::lab(), Style::Plain));
}

/// A relay that took 0.2 % longer was told to be "1 times slower".
#[test]
fn arms_that_take_the_same_time_are_as_fast() {
    for (share, words) in [
        (1.002, "That is as fast and"),
        (0.998, "That is as fast and"),
        (1.02, "That is 1.02 times slower and"),
        (0.5, "That is 2 times faster and"),
    ] {
        let mut document = examples::lab();
        let arms = &mut document.cells[0].arms;
        let direct = arms
            .iter()
            .find(|arm| arm.name == "direct")
            .unwrap()
            .median_s;
        let relay = arms.iter_mut().find(|arm| arm.name == "relay").unwrap();
        relay.median_s = direct.map(|median| median * share);
        let told = lab(&document, Style::Plain).replace('\n', " ");
        assert!(told.contains(words), "{share}: {told}");
    }
}

#[test]
fn the_end_of_a_sweep_of_streams() {
    insta::assert_snapshot!(lab(&sweep::document(1, 2), Style::Plain));
}

#[test]
fn many_arms_with_long_names_and_missing_values() {
    insta::assert_snapshot!(lab(&sweep::crowded(), Style::Plain));
}

#[test]
fn an_explanation_of_many_uploads() {
    insta::assert_snapshot!(explain(&examples::explained(), Style::Plain));
}

#[test]
fn an_explanation_without_a_finding() {
    insta::assert_snapshot!(explain(&examples::explained_hot(), Style::Plain));
}

#[test]
fn the_top_finding_and_its_remedy_are_on_the_first_screen() {
    let text = explain(&examples::explained(), Style::Plain);
    let screen: Vec<&str> = text.lines().take(24).collect();
    let screen = screen.join("\n");
    for words in [
        "no-connection-reuse",
        "16.0 s",
        "remedy",
        "frame 1",
        "slow-start",
    ] {
        assert!(screen.contains(words), "{words} is not in\n{screen}");
    }
}

#[test]
fn lines_stay_within_their_columns() {
    for text in [
        lab(&examples::lab(), Style::Plain),
        lab(&sweep::document(2, 2), Style::Plain),
        lab(&sweep::crowded(), Style::Plain),
        explain(&examples::explained(), Style::Plain),
    ] {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

/// With long numbers in every cell, the shares at the end made lines of 85 columns.
#[test]
fn wide_cells_leave_out_shares_and_keep_the_limit_s_name() {
    let crowd = (0..10_000).map(|number| {
        let mut one = examples::connection(number, 0.0, 1_048_576);
        one.id = 123_456 + number;
        one.client.host = "2001:db8:1:2:3:4:5:6".into();
        one.server.host = "2001:db8:aaaa:bbbb:cccc:dddd:eeee:1".into();
        one.rtt.handshake_s = Some(0.73456);
        for way in [
            &mut one.directions.client_to_server,
            &mut one.directions.server_to_client,
        ] {
            way.dominant = Some(record::LimitName::CongestionAvoidance);
        }
        one
    });
    let mut other = examples::connection(1, 0.0, 20);
    other.client.host = "192.0.2.99".into();
    let document = examples::document(crowd.chain([other]).collect(), Vec::new());
    let text = explain(&document, Style::Plain);
    let rows = || text.lines().filter(|line| line.contains("  10000  "));
    assert_eq!(rows().count(), 1, "{text}");
    assert!(rows().all(|row| row.ends_with("congestion-avoidance")));
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    let coloured =
        lab(&examples::lab(), Style::Colour) + &explain(&examples::explained(), Style::Colour);
    let plain =
        lab(&examples::lab(), Style::Plain) + &explain(&examples::explained(), Style::Plain);
    assert_ne!(coloured, plain);
    let mut without = String::new();
    for (index, piece) in coloured.split('\u{1b}').enumerate() {
        let kept = if index == 0 {
            piece
        } else {
            piece.split_once('m').unwrap().1
        };
        without.push_str(kept);
    }
    assert_eq!(without, plain);
}

#[test]
fn a_hostile_capture_cannot_write_to_the_terminal() {
    let mut document = examples::explained();
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\r\n";
    document.captures[0].file = hostile.into();
    document.captures[0].caveats = vec![hostile.into()];
    document.findings[0].name = hostile.into();
    document.findings[0].summary = hostile.into();
    document.findings[0].evidence[0].shows = hostile.into();
    for connection in &mut document.connections {
        connection.client.host = hostile.into();
        connection.server.host = hostile.into();
        connection.transfers[0].request = hostile.into();
        connection.caveats = vec![hostile.into()];
    }
    document.echoes[0].from = hostile.into();
    let text = explain(&document, Style::Plain);
    assert!(text.contains("owned"));
    assert!(
        text.chars()
            .all(|character| character == '\n' || !character.is_control())
    );
}

/// A ticket left out what a capture cannot tell of its connections.
#[test]
fn a_ticket_says_what_connections_cannot_tell() {
    let mut document = examples::explained();
    for connection in &mut document.connections {
        connection.caveats = vec!["only the client's packets are in the capture".into()];
    }
    let ticket = longhaul_report::markdown::explain(&document);
    let (_, caveats) = ticket
        .split_once("### What the capture cannot tell")
        .unwrap_or_else(|| panic!("{ticket}"));
    for words in [
        "segments of up to 65160 bytes",
        ": only the client's packets are in the capture",
    ] {
        assert_eq!(caveats.matches(words).count(), 1, "{words} in {caveats}");
    }
}

#[test]
fn a_failed_assertion_and_an_invalid_cell_are_said_in_words() {
    let mut document = examples::lab();
    document.assertions[0].holds = false;
    document.cells[0].valid = false;
    document.cells[0].why = Some("RTT off by 3.1 %".into());
    document.interrupted = true;
    document.cells[1].arms[0].failed = 2;
    let text = lab(&document, Style::Plain);
    for words in [
        "FAILS",
        "1 of 2 hold",
        "not valid: RTT off by 3.1 %",
        "Interrupted",
        "(2 failed)",
    ] {
        assert!(text.contains(words), "{words}");
    }
}

#[test]
fn an_empty_run_is_still_a_report() {
    let mut document = examples::lab();
    document.cells.clear();
    document.priming.clear();
    document.assertions.clear();
    assert_eq!(lab(&document, Style::Plain), "c-uploads  seed 20230613\n");
}

#[test]
fn how_it_was_repeated_and_what_was_not_checked_is_said() {
    let mut document = examples::lab();
    document.conduct = Some(Conduct {
        runs: 20,
        block: 5,
        warm_up: 2,
        precision: Some(0.05),
        max_runs: Some(60),
    });
    let path = &mut document.cells[0].path;
    path.backward_rate_asked_bps = Some(5e6);
    path.backward_rate_achieved_bps = Some(4.98e6);
    path.unchecked = vec!["forward: the queue's size".into()];
    document.broken = Some("the link ended".into());
    let text = lab(&document, Style::Plain);
    let in_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = in_one_line(&text);
    let html = in_one_line(&longhaul_report::html::lab(&document, &[]));
    for wanted in [
        "20 transfers of each arm and workload, in blocks of 5, 2 more at the start of each as a warm-up that \
         does not count; further rounds until the 95 % interval of every median lies within 5.0 % of it, at most \
         60.",
        "the link ended",
        "5 Mbit/s back asked, measured 4.98 Mbit/s",
    ] {
        assert!(said.contains(wanted), "`{wanted}` in\n{text}");
        assert!(html.contains(wanted), "`{wanted}` in the page");
    }
    assert!(said.contains("not checked: forward: the queue's size"));
}
