//! What is read, what is refused, and that a script can fail.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::fuzz::fuzz_script;
use crate::{Endpoint, ReadError, Script, Setting, Switch, Tolerance, Who, play};
use tcp::AckPolicy;

const HANDSHAKE: &str = "
    +0   < S 0:0(0) win 65535 <mss 1000>
    +0   > S. 0:0(0) ack 1
    +.1  < . 1:1(0) ack 1 win 65535
";

#[track_caller]
fn read(text: &str) -> Script {
    Script::read(text).unwrap()
}

fn refusal(line: &str) -> String {
    Script::read(&format!("# a title\n\n{line}"))
        .unwrap_err()
        .to_string()
}

/// Plays the lines behind a handshake and says what was wrong.
#[track_caller]
fn failure(lines: &str) -> String {
    let script = read(&format!("set nagle off\n{HANDSHAKE}\n{lines}"));
    let play = play(&script, &mut Endpoint::new(&script), Tolerance::default());
    play.failure.unwrap().to_string()
}

#[test]
fn a_refusal_names_the_line_the_word_and_what_would_do() {
    for (line, wanted) in [
        (
            "1 < . 1:1(0)",
            "a line begins with `+SECONDS`, `set`, `[` or `#`",
        ),
        ("+x < . 1:1(0)", "`x` is no time"),
        ("+.3~.2 < R 1:1(0)", "`.3~.2` is no time"),
        (
            "+0 < . 1:2(0) ack 1",
            "the end is the first plus the length",
        ),
        ("+0 < . 1:1(0)", "the flag `.` and `ack N` go together"),
        ("+0 < Q 1:1(0)", "`Q` is unknown here"),
        ("+0 > . 1:1(0) ack 1 <wscale>", "`wscale` needs a value"),
        (
            "+0 > . 1:1(0) ack 1 <mss 70000>",
            "`70000` is no number that fits here",
        ),
        ("+0 ! jump", "connect, write N, read N"),
        ("+0 ? OPEN", "`OPEN` is unknown here"),
        ("+0 = cwnd", "`cwnd` needs a value"),
        ("set sack maybe", "known: on, off"),
        ("set tempo 3", "`tempo` is unknown here"),
        ("[kernel]", "a section is `[ours: REASON]`"),
        ("[kernel:  ]", "a section is `[ours: REASON]`"),
    ] {
        let said = refusal(line);
        assert!(said.starts_with("line 3: "), "{said}");
        assert!(said.contains(wanted), "{line}: {said}");
    }
    let late = Script::read("+0 ! connect\nset mss 500").unwrap_err();
    assert!(matches!(late, ReadError { line: 2, .. }), "{late}");
}

#[test]
fn a_setting_is_read_alone_and_whoever_misspells_one_is_told_all() {
    let misspelt = "algorithmm reno"
        .parse::<Setting>()
        .unwrap_err()
        .to_string();
    let known = misspelt.split_once("known: ").unwrap().1;
    for (text, wanted) in [
        ("sack=off", Setting::Switch(Switch::Sack, false)),
        (
            "merged-reports on",
            Setting::Switch(Switch::MergedReports, true),
        ),
        ("acks = immediate", Setting::Acks(AckPolicy::Immediate)),
        ("mss=88", Setting::Mss(88)),
        ("retries 3", Setting::Retries(3)),
    ] {
        assert_eq!(text.parse(), Ok(wanted), "{text}");
        let name = text.split(['=', ' ']).next().unwrap();
        assert!(known.contains(name), "{name} is missing: {known}");
    }
    // One value does for all that are no switches, so every name that is listed is one that is read.
    for name in known
        .replace("with on or off:", "")
        .split([',', ';'])
        .map(str::trim)
    {
        let read = ["100", "on", "reno", "linux", "rack", "off", "1s 1s 1", "1s"]
            .iter()
            .any(|value| format!("{name} {value}").parse::<Setting>().is_ok());
        assert!(read, "`{name}` is listed and not read");
    }
    // A segment without room for payload was a division by zero.
    for mss in [0, 1, 87] {
        let refused = format!("mss {mss}").parse::<Setting>();
        assert!(refused.is_err(), "{mss}: {refused:?}");
    }
}

#[test]
fn sections_hold_for_one_host_until_the_next() {
    let script = read(
        "# A title.
         set mss 500
         [kernel: it cannot]
         set mss 600
         +0 ! connect
         [ours: it can]
         +0 ! nothing
         +0 ! nothing  # says why
         [both]
         +0 ! nothing",
    );
    assert_eq!(script.title, "A title.");
    let count = |who| {
        (
            script.settings_for(who).count(),
            script.lines_for(who).count(),
        )
    };
    assert_eq!((count(Who::Ours), count(Who::Kernel)), ((1, 3), (2, 2)));
}

#[test]
fn every_way_not_to_do_what_a_line_says_is_seen() {
    for (lines, wanted) in [
        ("+0 > . 1:1(0) ack 1", "nothing was sent"),
        (
            "+0 ! write 100\n+0 > . 1:101(100) ack 7",
            "the acknowledgement differs",
        ),
        (
            "+0 ! write 100\n+0 > . 2:102(100) ack 1",
            "the first byte differs",
        ),
        (
            "+0 ! write 100\n+0 > . 1:51(50) ack 1",
            "the length differs",
        ),
        ("+0 ! write 100\n+0 > F. 1:101(100) ack 1", "a flag differs"),
        (
            "+0 ! write 2000\n+0 > P. 1:1001(1000) ack 1",
            "the flag P differs",
        ),
        (
            "+0 ! write 100\n+0 > . 1:101(100) ack 1 win 1",
            "the window differs",
        ),
        (
            "+0 ! write 100\n+0 > . 1:101(100) ack 1 ecn ect0",
            "the ECN field differs",
        ),
        (
            "+0 ! write 100\n+0 > . 1:101(100) ack 1 <sack 5:6>",
            "a SACK block differs",
        ),
        (
            "+0 ! write 100\n+.1 > . 1:101(100) ack 1",
            "99.0ms too early",
        ),
        (
            "+0 ! write 100",
            "after the last line: seen `> P. 1:101(100)",
        ),
        ("+0 ! write 100\n+0 ! nothing", "seen `> P. 1:101(100)"),
        ("+0 ? SYN-SENT", "the state is ESTABLISHED"),
        ("+0 = cwnd 3", "it is 10"),
        ("+0 = ssthresh 3", "it is infinite"),
        ("+0 = error reset", "it is none"),
        ("+0 ! read 1", "only 0 bytes could be read"),
        ("+0 ! connect", "there is a connection already"),
    ] {
        let said = failure(lines);
        assert!(said.contains(wanted), "{lines}: {said}");
    }
}

#[test]
fn a_failure_names_its_line() {
    let script = read("+0 ! connect\n# SYN\n+0 > S. 0:0(0) ack 1");
    let play = play(&script, &mut Endpoint::new(&script), Tolerance::default());
    let said = play.failure.unwrap().to_string();
    assert!(
        said.starts_with("line 3: expected `+0 > S. 0:0(0) ack 1`: seen `> S 0:0(0)"),
        "{said}"
    );
}

/// Text that has some chance of being a script.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "+0 ",
        "+.1 ",
        "+1~2 ",
        "< ",
        "> ",
        "! ",
        "? ",
        "= ",
        "S ",
        ". ",
        "F. ",
        "0:0(0) ",
        "1:101(100) ",
        "ack 1 ",
        "win 500 ",
        "ecn ce ",
        "<mss 500>",
        "<sack 5:9,TS val 1 ecr 2>",
        "connect",
        "write 50",
        "close",
        "abort",
        "\n",
        "\n",
        "set mss 90",
        "cwnd 1",
        "<no TS,wscale 15>",
        "path-mtu 90",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..60)
        .prop_map(|words| words.concat().into_bytes())
}

proptest! {
    #[test]
    fn arbitrary_text_is_read_or_refused_and_what_is_read_can_be_played(
        words in pieces(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        fuzz_script(&words);
        fuzz_script(&bytes);
        fuzz_script(&[HANDSHAKE.as_bytes(), &words].concat());
    }
}

/// What once failed stays here: `cargo xtask fuzz` puts it there.
#[test]
fn what_fuzzing_found_stays_found() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let mut replayed = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        fuzz_script(&std::fs::read(file.unwrap().path()).unwrap());
        replayed += 1;
    }
    assert!(replayed >= 3, "{folder} lost its files");
}

#[test]
fn who_is_left_out_and_why() {
    let script = read("[ours: the kernel cannot]\n+0 ! connect\n+0 > S 0:0(0)");
    assert_eq!(script.excludes(Who::Kernel), Some("the kernel cannot"));
    assert_eq!(script.excludes(Who::Ours), None);
}
