//! What is told of files that are wrong.

use super::told;
use crate::Config;

/// One fault of each kind, and what is told of them.
const FAULTY: &str = r#"# A relay that nobody could run.
user = 5

[[http]]
listen = "here"
traget = "store.example:80"
client-profile = "lam"
allow = ["10.10.10.0/24", "10.10.10.7/99"]
tls = { upstream = "tsl" }

[http.pool]
min-idle = 9
max-connections = 3

[[tcp]]
listen = "127.0.0.1:9901"
target = "asked"
to = ["*"]
http2 = true
limits = { idle-timeout = "0 s", connections = -1 }

[admin]
listen = "127.0.0.1:9901"

[profiles.office]
extends = "lann"
keep-alive-probes = 200
"#;

#[test]
fn everything_is_told_at_once_with_line_caret_and_next_step() {
    let error = Config::from_toml(FAULTY).unwrap_err().in_file("relay.toml");
    assert_eq!(error.to_string(), include_str!("told.txt").trim_end());
}

#[test]
fn all_of_it_fits_one_line_for_an_event() {
    let error = Config::from_toml(FAULTY).unwrap_err().in_file("relay.toml");
    let line = error.in_one_line();
    assert!(!line.contains('\n'), "{line}");
    for problem in error.problems() {
        assert!(line.contains(&problem.what), "{line}");
    }
    assert!(line.starts_with("relay.toml:2:8: "), "{line}");
}

#[test]
fn each_field_that_is_missing_is_named_once() {
    let error = Config::from_toml("[[http]]\n[[tls]]\nlisten = 5\n").unwrap_err();
    assert_eq!(
        told(&error),
        [
            (1, "http.listen"),
            (1, "http.target"),
            (2, "tls.target"),
            (3, "tls.listen")
        ]
    );
}

#[test]
fn what_only_follows_from_a_slip_is_not_told() {
    // The certificates are there, under another name; without them there is TLS on no side.
    let text = "[[tls]]\nlisten = \"127.0.0.1:1\"\ntarget = \"a:1\"\nupstream = \"plain\"\n\
        certifcates = [{ cert = \"a.pem\", key = \"a.key\" }]\n";
    let error = Config::from_toml(text).unwrap_err();
    assert_eq!(told(&error), [(5, "tls.certifcates")]);
    let hint = error.problems()[0].hint.as_deref();
    assert_eq!(hint, Some("did you mean `certificates`?"));
    // Under its own name nothing is wrong.
    Config::from_toml(&text.replace("certifcates", "certificates")).unwrap();
    // And without them that is said.
    let (bare, _) = text.split_at(text.find("certif").unwrap());
    assert_eq!(told(&Config::from_toml(bare).unwrap_err()), [(1, "tls")]);
}

#[test]
fn a_table_in_the_place_of_a_list_and_the_other_way_round_are_told() {
    let text = "[http]\nlisten = \"127.0.0.1:1\"\n";
    let error = Config::from_toml(text).unwrap_err();
    assert!(error.problems()[0].what.contains("wants a list"), "{error}");
    let text =
        "[[http]]\nlisten = \"127.0.0.1:1\"\ntarget = \"a:1\"\n[[http.pool]]\nmin-idle = 1\n";
    let error = Config::from_toml(text).unwrap_err();
    assert!(
        error.problems()[0].what.contains("wants a table"),
        "{error}"
    );
}

/// What is no TOML, in some of the ways in which that happens, beside faults of other kinds.
const ILLEGIBLE: &str = r#"user = nobody

[[http]]
listen = "127.0.0.1:8080
target: "store.example:80"
allow = ["10.10.10.0/24", "10.10.11.0/24"
deny = ["10.10.10.7/99"]
tls = { upstream = "tls", upstream-name = "store.example"
traget = "store.example:80"

[http.limits]
head = 300 KiB
streams = 100
streams = 200
head-timeout = 10

[[tcp]
listen = "nowhere"

[tcp.limits]
connections = many
idle-timeout = 10.0.0.1

[[tcp]]
listen = "127.0.0.1:9000"
target = "store.example:443"
server-profile = "office"
client-profile = "lam"

[profiles.office
extends = "lan"
"#;

#[test]
fn what_is_no_toml_is_told_beside_everything_else() {
    let error = Config::from_toml(ILLEGIBLE).unwrap_err();
    let error = error.in_file("relay.toml");
    assert_eq!(error.to_string(), include_str!("illegible.txt").trim_end());
}

#[test]
fn what_only_follows_from_what_is_no_toml_is_not_told() {
    // Each of these has one mistake, whatever of it looks like others.
    let sound =
        "[[http]]\nlisten = \"127.0.0.1:1\"\ntarget = \"a:1\"\n\n[http.pool]\nmin-idle = 1\n";
    Config::from_toml(sound).unwrap();
    for (written, instead, line) in [
        // The target would be missing.
        ("target = \"a:1\"", "target = a:1", 3),
        ("target = \"a:1\"", "target = [\"a:1\",\n\"b:1\",", 3),
        ("target = \"a:1\"", "target = \"\"\"a:1\"", 3),
        ("target = \"a:1\"", "target = { a = [1, 2 }", 3),
        (
            "target = \"a:1\"\n",
            "target = \"a:1\"\nallow = [\"::1\"",
            4,
        ),
        // There would be nothing to relay, and the pool somewhere else.
        ("[[http]]", "[[http]", 1),
        ("[[http]]", "[[]]", 1),
        // The pool's keys would be the relay's.
        ("[http.pool]", "[http.pool", 5),
        ("[http.pool]", "http.pool]", 5),
        // One key twice, and one table.
        ("min-idle = 1", "min-idle = 1\nmin-idle = 2", 7),
        ("min-idle = 1", "min-idle = 1\n[http.pool]\nmin-idle = 2", 7),
        (
            "min-idle = 1",
            "min-idle = 1\n[http]\nlisten = \"127.0.0.1:2\"",
            7,
        ),
    ] {
        let error = Config::from_toml(&sound.replace(written, instead)).unwrap_err();
        assert_eq!(told(&error), [(line, "")], "{instead}: {error}");
    }
}

#[test]
fn several_mistakes_within_one_list_are_told_at_once() {
    let text = "[[http]]\nlisten = \"127.0.0.1:1\"\ntarget = \"a:1\"\nallow = [\n  \"10.0.0.0/8\"\n  \"127.0.0.1\",\n          here,\n]\n";
    let error = Config::from_toml(text).unwrap_err();
    assert_eq!(told(&error), [(6, ""), (7, "")], "{error}");
}

#[test]
fn a_profile_whose_table_cannot_be_read_is_not_said_to_be_missing() {
    let text = "[[tcp]]\nlisten = \"127.0.0.1:1\"\ntarget = \"a:1\"\nserver-profile = \"office\"\n        client-profile = \"offfice\"\n[profiles.office\nextends = \"lan\"\n";
    let error = Config::from_toml(text).unwrap_err();
    assert_eq!(told(&error), [(5, "tcp.client-profile"), (6, "")]);
}
