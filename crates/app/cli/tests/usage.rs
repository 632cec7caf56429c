//! Manners: exit codes, errors with a next step, help that teaches.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};

use common::{longhaul, root, run};

#[test]
fn no_command_shows_the_verbs_and_is_a_usage_error() {
    let shown = run(&mut longhaul());
    assert_eq!(shown.code, Some(2));
    for verb in [
        "explain", "relay", "lab", "profile", "top", "tune", "cc", "doctor", "schema",
    ] {
        assert!(shown.stdout.contains(verb), "{verb} is missing: {shown:#?}");
    }
}

#[test]
fn every_verb_teaches_with_examples() {
    for words in [&["explain"][..], &["relay", "http"], &["lab", "run"]] {
        let help = run(longhaul().args(words).arg("--help"));
        assert_eq!(help.code, Some(0));
        assert!(
            help.stdout.contains("Examples:"),
            "{words:?} has no example"
        );
        assert!(help.stdout.lines().count() > 15, "{words:?}");
    }
}

#[test]
fn the_version_names_its_commit() {
    let version = run(longhaul().args(["--version", "--json"])).json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        version["commit"]
            .as_str()
            .is_some_and(|commit| !commit.is_empty())
    );
    assert!(
        version["features"]
            .as_array()
            .is_some_and(|features| !features.is_empty())
    );
}

#[test]
fn schemas_describe_what_is_printed() {
    for (name, field) in [("explain", "connections"), ("lab", "cells")] {
        let schema = run(longhaul().args(["schema", name])).json();
        assert!(schema["properties"][field].is_object(), "{name}: {schema}");
    }
}

#[test]
fn doctor_says_which_verbs_run() {
    let doctor = run(longhaul().args(["doctor", "--json"])).json();
    let verbs = doctor["verbs"].as_array().expect("a list of verbs");
    for name in [
        "explain", "simulate", "relay", "trunk", "object", "lab", "flow", "profile", "top", "tune",
        "cc",
    ] {
        let verb = verbs.iter().find(|verb| verb["verb"] == name);
        let verb = verb.unwrap_or_else(|| panic!("{name} is a verb"));
        assert_eq!(
            verb["runs"], true,
            "the tests of {name} need what it needs: {verb:#}"
        );
        let checks = verb["checks"].as_array().unwrap();
        assert!(!checks.is_empty(), "{name}");
    }
}

/// A container may have no `/proc`: the relay needs sockets alone and is not said to be impossible there.
#[test]
fn doctor_says_that_a_relay_runs_where_the_host_cannot_be_read() {
    let binary = longhaul().get_program().to_owned();
    let doctor = run(Command::new("unshare")
        .args(["--mount", "sh", "-c"])
        .arg("mount -t tmpfs tmpfs /proc && exec \"$0\" doctor --json")
        .arg(binary));
    let doctor = doctor.json();
    let verb = |name: &str| {
        let verbs = doctor["verbs"].as_array().expect("a list of verbs");
        let verb = verbs.iter().find(|verb| verb["verb"] == name);
        verb.unwrap_or_else(|| panic!("{name} is a verb"))
    };
    for name in ["relay", "trunk", "explain"] {
        assert_eq!(verb(name)["runs"], true, "{name}: {:#}", verb(name));
    }
    assert_eq!(
        verb("tune")["runs"],
        false,
        "it reads what is not there: {:#}",
        verb("tune")
    );
}

#[test]
fn a_missing_file_is_named() {
    let missing = run(longhaul().args(["explain", "/nowhere/slow.pcap"]));
    assert_eq!(missing.code, Some(2));
    assert!(
        missing.stderr.contains("/nowhere/slow.pcap"),
        "{missing:#?}"
    );
    assert!(missing.stderr.contains("No such file"), "{missing:#?}");
}

#[test]
fn a_file_that_is_no_capture_is_refused_with_the_next_step() {
    let file = root().join("LICENSE");
    let refused = run(longhaul().arg("explain").arg(&file));
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("LICENSE") && refused.stderr.contains("tcpdump"),
        "{refused:#?}"
    );
}

#[test]
fn all_problems_of_a_scenario_come_at_once() {
    let scenario = std::fs::read_to_string(root().join("scenarios/field/c-uploads.toml")).unwrap();
    let broken = scenario
        .replace("relay = \"hot\"", "relay = \"hto\"")
        .replace("explains = \"direct\"", "explains = \"dierct\"");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(broken.as_bytes()).unwrap();
    let checked = run(longhaul().args(["lab", "check"]).arg(file.path()));
    assert_eq!(checked.code, Some(2));
    assert!(
        checked.stderr.contains("`hto`") || checked.stderr.contains("hto"),
        "{checked:#?}"
    );
    assert!(checked.stderr.contains("dierct"), "{checked:#?}");
}

#[test]
fn every_scenario_of_the_house_is_sound() {
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("scenarios/field")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let checked = run(longhaul().args(["lab", "check"]).arg(&path));
            assert_eq!(checked.code, Some(0), "{checked:#?}");
            count += 1;
        }
    }
    assert!(count >= 3, "the field scenarios are gone: {count}");
}

/// `relay check` of a configuration from standard input.
fn relay_check(config: &str) -> common::Finished {
    let mut child = longhaul()
        .args(["relay", "check", "--config", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(config.as_bytes()).unwrap();
    drop(stdin);
    common::Finished::from(child.wait_with_output().unwrap())
}

#[test]
fn a_relay_configuration_with_a_typo_shows_line_and_caret() {
    let config = "[[http]]\nlisten = \"127.0.0.1:0\"\ntraget = \"store.example:80\"\n";
    let checked = relay_check(config);
    assert_eq!(checked.code, Some(2));
    assert!(
        checked
            .stderr
            .contains("-:3:1: there is no key `traget` here")
            && checked.stderr.contains("^^^^^^ did you mean `target`?"),
        "{checked:#?}"
    );
}

#[test]
fn a_relay_configuration_that_is_not_all_toml_shows_everything_at_once() {
    let config = "[[http]]\nlisten = 127.0.0.1:0\ntraget = \"store.example:80\"\nallow = [\"::/0\"\n\n\
        [http.limits\nhead = \"32 KiB\"\n";
    let checked = relay_check(config);
    assert_eq!(checked.code, Some(2));
    for part in [
        "error: 4 things are wrong with `-`\n",
        "\n\n-:2:15: invalid float",
        "\n    2 | listen = 127.0.0.1:0\n      |               ^^^^^^ a text stands between quotation marks\n",
        "\n\n-:3:1: there is no key `traget` here\n",
        "\n\n-:4:9: this list is not closed\n    4 | allow = [\"::/0\"\n      |         ^\n",
        "\n\n-:6:13: unclosed table, expected `]`\n",
    ] {
        assert!(checked.stderr.contains(part), "{part}: {checked:#?}");
    }
}

#[test]
fn a_one_liner_prints_itself_as_a_configuration() {
    let words = [
        "relay",
        "http",
        "127.0.0.1:0",
        "store.example:80",
        "--path-rate",
        "100 Mbit/s",
    ];
    let printed = run(longhaul().args(words).arg("--print-config"));
    assert_eq!(printed.code, Some(0), "{printed:#?}");
    assert!(printed.stdout.contains("[[http]]"), "{printed:#?}");
    assert!(
        printed.stdout.contains("path-rate = \"100 Mbit/s\""),
        "{printed:#?}"
    );
}

/// `relay s3` with this file, which is called `gateway.toml`.
fn gateway(text: &str, more: &[&str]) -> common::Finished {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gateway.toml"), text).unwrap();
    run(longhaul()
        .args(["relay", "s3", "--config", "gateway.toml"])
        .args(more)
        .env("LONGHAUL_S3_SECRET", "secret")
        .current_dir(folder.path()))
}

#[test]
fn what_a_gateway_s_file_says_is_not_said_beside_it() {
    for more in [
        &["--region", "eu"][..],
        &["--domain", "s3.example"],
        &["--manage-buckets"],
        &["--via", "127.0.0.1:1"],
        &["--client-secret-env", "OTHER"],
    ] {
        let refused = gateway("", more);
        assert_eq!(refused.code, Some(2), "{refused:#?}");
        let said = format!("'{}", more[0]);
        let is_named = refused.stderr.contains(&said) && refused.stderr.contains("--config");
        assert!(is_named, "{refused:#?}");
    }
}

#[test]
fn a_gateway_that_cannot_be_shows_everything_at_once() {
    let text = "listen = \"127.0.0.1\"\norigin = \"http://store.example\"\nregoin = \"eu\"\njournal = /tmp/journal\n\
        credentials = { access-key = \"owner\", secret-file = \"/nowhere/secret\" }\n\n[[client]]\naccess-key = \"c\"\n\
        secret-env = \"LONGHAUL_S3_SECRET\"\n\n[[bucket]]\nname = \"photos\"\nencrypt = \"main\"\n";
    let refused = gateway(text, &[]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    for part in [
        "error: 5 things are wrong with `gateway.toml`\n",
        "\n\ngateway.toml:1:10: `127.0.0.1` is not an address and a port\n    1 | listen = \"127.0.0.1\"\n      |          ^^^^^^^^^^^ write it like",
        "\n\ngateway.toml:3:1: there is no key `regoin` here\n    3 | regoin = \"eu\"\n      | ^^^^^^ did you mean `region`?\n",
        "\n\ngateway.toml:4:11: string values must be quoted",
        "\n\ngateway.toml:5:53: cannot read `/nowhere/secret`: No such file",
        "\n\ngateway.toml:13:11: no [[key]] has the name `main`\n",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {refused:#?}");
    }
    // Nobody's secrets are read for the file that would say the same.
    let printed = gateway(text, &["--print-config"]);
    assert_eq!(printed.code, Some(2), "{printed:#?}");
    assert!(
        printed
            .stderr
            .contains("2 things are wrong with `gateway.toml`"),
        "{printed:#?}"
    );
}

#[test]
fn a_gateway_of_one_line_that_cannot_be_names_the_key() {
    let words = ["relay", "s3", "127.0.0.1:0", "ftp://store", "--client", "c"];
    let refused = run(longhaul()
        .args(words)
        .env("LONGHAUL_S3_SECRET", "secret")
        .env_remove("AWS_ACCESS_KEY_ID"));
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    for part in [
        "origin: `ftp://store` is not http://HOST[:PORT]",
        "credentials.access-key: there is no access key for the store; set access-key, or AWS_ACCESS_KEY_ID",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {refused:#?}");
    }
}

#[test]
fn a_gateways_path_rate_is_the_files_or_the_command_lines() {
    let text =
        "listen = \"127.0.0.1:0\"\norigin = \"http://store.example\"\npath-rate = \"250 Mbit/s\"\n";
    for (more, expected) in [
        (&[][..], "path-rate = \"250 Mbit/s\"\n"),
        (&["--path-rate", "1 Gbit/s"], "path-rate = \"1 Gbit/s\"\n"),
    ] {
        let printed = gateway(text, &[more, &["--print-config"]].concat());
        assert_eq!(printed.code, Some(0), "{printed:#?}");
        assert!(printed.stdout.contains(expected), "{printed:#?}");
    }
    let words = ["relay", "s3", "127.0.0.1:0", "http://store.example"];
    let printed = run(longhaul().args(words).args([
        "--client",
        "c",
        "--path-rate",
        "1 Gbit/s",
        "--print-config",
    ]));
    assert_eq!(printed.code, Some(0), "{printed:#?}");
    assert!(
        printed.stdout.contains("path-rate = \"1 Gbit/s\"\n"),
        "{printed:#?}"
    );
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child = longhaul()
        .args(["schema", "explain"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_path_is_printed_for_netem_or_refused_by_name() {
    let scenario = |name: &str| root().join("scenarios").join(name);
    let printed = run(longhaul()
        .args(["lab", "netem", "--device", "eth7"])
        .arg(scenario("field/a-s3-loss.toml")));
    assert_eq!(printed.code, Some(0), "{printed:#?}");
    assert!(
        printed
            .stdout
            .starts_with("tc qdisc add dev eth7 root handle 1: netem limit "),
        "{printed:#?}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policed.toml");
    let policed = "name = \"p\"\nseed = 1\n[path]\nrtt = \"20 ms\"\n\
                   policer = { rate = \"10 Mbit/s\", burst = \"100 kB\" }\n\
                   [[workloads]]\nname = \"w\"\nbytes = \"1 kB\"\n[[arms]]\nname = \"direct\"\n";
    std::fs::write(&file, policed).unwrap();
    let refused = run(longhaul()
        .args(["lab", "netem", "--device", "eth7"])
        .arg(&file));
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(
        refused
            .stderr
            .contains("`policer` cannot be played by netem"),
        "{refused:#?}"
    );
}
