use crate::trunk::TrunkConfig;
use crate::{Config, ConfigError, ConfigOptions};

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

/// Lines of a file that are said to be wrong, and the keys there.
fn told(error: &ConfigError) -> Vec<(usize, &str)> {
    let problems = error.problems().iter();
    problems
        .map(|problem| {
            let line = problem.position.as_ref().map_or(0, |at| at.line);
            (line, problem.key.as_str())
        })
        .collect()
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

#[test]
fn what_is_no_toml_is_told_alone_and_with_its_place() {
    let error = Config::from_toml("[[http]]\nlisten = \"127.0.0.1:1\ntarget = 5\n").unwrap_err();
    assert_eq!(error.problems().len(), 1, "{error}");
    assert_eq!(
        error.problems()[0].position.as_ref().unwrap().line,
        2,
        "{error}"
    );
}

#[test]
fn wide_letters_and_tabs_do_not_move_the_caret() {
    let text = "[[http]]\n\tlisten = \"ä\" # ö\n";
    let error = Config::from_toml(text).unwrap_err();
    let shown = error.to_string();
    assert!(
        shown.contains("    2 | \tlisten = \"ä\" # ö\n      | \t         ^^^"),
        "{shown}"
    );
}

#[test]
fn profiles_alone_are_read_by_the_same_reader() {
    let text = "[profiles.office]\nextend = \"lan\"\nnagle = \"no\"\n";
    let error = ConfigOptions::from_toml(text).unwrap_err();
    assert_eq!(
        told(&error),
        [(2, "profiles.office.extend"), (3, "profiles.office.nagle")]
    );
}

#[test]
fn the_same_goes_for_trunks() {
    let text = "[[near]]\nvia = [\"site-b\"]\n[[near.listeners]]\nlisten = \"6000\"\nto = \"aix\"\nallw = []\n";
    let error = TrunkConfig::from_toml(text).unwrap_err();
    assert_eq!(
        told(&error),
        [
            (2, "near.via"),
            (4, "near.listeners.listen"),
            (5, "near.listeners.to"),
            (6, "near.listeners.allw"),
        ]
    );
}

#[test]
fn two_listeners_on_one_address_are_told_of_and_port_0_is_not() {
    let relay = |kind: &str, port: u16| {
        format!("[[{kind}]]\nlisten = \"127.0.0.1:{port}\"\ntarget = \"a:1\"\n")
    };
    let error = Config::from_toml(&(relay("tcp", 8080) + &relay("http", 8080))).unwrap_err();
    assert_eq!(told(&error), [(2, "tcp.listen")]);
    Config::from_toml(&(relay("tcp", 0) + &relay("http", 0))).unwrap();
}

#[test]
fn a_file_of_nothing_but_slips_is_not_read_for_ever() {
    let keys: Vec<String> = (0..1_000)
        .map(|number| format!("key-{number} = 1"))
        .collect();
    let text = keys.join("\n");
    let error = Config::from_toml(&text).unwrap_err();
    assert_eq!(error.problems().len(), super::MOST);
}
