//! Changes and their way back, on files that stand for sysctls and on the kernel's own.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use longhaul_tune::{Place, TuneError, apply, handshake, read, revert};
use record::tune::Change;
use tempfile::TempDir;

/// A place in a folder of its own, with these sysctls.
fn place(folder: &Path, sysctls: &[(&str, &str)]) -> Place {
    for (key, value) in sysctls {
        let file = folder.join("sys").join(key.replace('.', "/"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{value}\n")).unwrap();
    }
    Place {
        sysctls: folder.join("sys"),
        journal: folder.join("state/tune.json"),
        drop_in: folder.join("sysctl.d/90-longhaul.conf"),
    }
}

fn value(place: &Place, key: &str) -> String {
    fs::read_to_string(place.sysctls.join(key.replace('.', "/"))).unwrap()
}

fn change(key: &str, to: &str) -> Change {
    Change {
        key: key.to_owned(),
        from: String::new(),
        to: to.to_owned(),
    }
}

const RMEM: &str = "net.ipv4.tcp_rmem";
const IDLE: &str = "net.ipv4.tcp_slow_start_after_idle";

#[test]
fn a_second_change_keeps_what_was_before_the_first() {
    let folder = TempDir::new().unwrap();
    let place = place(folder.path(), &[(RMEM, "4096\t131072\t6291456")]);
    apply(&place, &[change(RMEM, "4096 131072 10485760")], false).unwrap();
    apply(&place, &[change(RMEM, "4096 131072 20971520")], false).unwrap();
    assert_eq!(value(&place, RMEM), "4096 131072 20971520");
    let restored = revert(&place).unwrap();
    assert_eq!(restored.sysctls, [RMEM]);
    assert_eq!(value(&place, RMEM), "4096\t131072\t6291456");
    assert!(!place.journal.exists());
}

#[test]
fn one_refused_sysctl_takes_all_back() {
    let folder = TempDir::new().unwrap();
    let place = place(folder.path(), &[(IDLE, "1")]);
    // A folder in a sysctl's place can be neither read nor written.
    fs::create_dir_all(place.sysctls.join("net/ipv4/tcp_wmem")).unwrap();
    let error = apply(
        &place,
        &[change(IDLE, "0"), change("net.ipv4.tcp_wmem", "1 2 3")],
        false,
    )
    .unwrap_err();
    assert!(matches!(error, TuneError::Read { .. }), "{error}");
    assert_eq!(value(&place, IDLE).trim(), "1");
    assert!(!place.journal.exists());
}

#[test]
fn a_journal_left_by_a_crash_restores_everything() {
    let folder = TempDir::new().unwrap();
    let place = place(
        folder.path(),
        &[(IDLE, "1"), (RMEM, "4096\t131072\t6291456")],
    );
    apply(
        &place,
        &[change(IDLE, "0"), change(RMEM, "4096 131072 10485760")],
        true,
    )
    .unwrap();
    // As if the writer had died after the journal and the first sysctl.
    fs::write(
        place.sysctls.join("net/ipv4/tcp_rmem"),
        "4096\t131072\t6291456\n",
    )
    .unwrap();
    let restored = revert(&place).unwrap();
    assert!(restored.drop_in);
    assert_eq!(value(&place, IDLE), "1");
    assert_eq!(value(&place, RMEM), "4096\t131072\t6291456");
    assert!(!place.drop_in.exists());
}

#[test]
fn lasting_changes_are_in_a_file_and_the_file_before_comes_back() {
    let folder = TempDir::new().unwrap();
    let place = place(folder.path(), &[(IDLE, "1")]);
    fs::create_dir_all(place.drop_in.parent().unwrap()).unwrap();
    fs::write(&place.drop_in, "# by hand\n").unwrap();
    assert!(apply(&place, &[change(IDLE, "0")], true).unwrap().lasting);
    let text = fs::read_to_string(&place.drop_in).unwrap();
    assert!(
        text.ends_with("net.ipv4.tcp_slow_start_after_idle = 0\n"),
        "{text}"
    );
    revert(&place).unwrap();
    assert_eq!(fs::read_to_string(&place.drop_in).unwrap(), "# by hand\n");
}

#[test]
fn a_journal_of_another_namespace_is_refused_and_of_another_boot_is_void() {
    let folder = TempDir::new().unwrap();
    let place = place(folder.path(), &[(IDLE, "1")]);
    apply(&place, &[change(IDLE, "0")], false).unwrap();
    let journal = fs::read_to_string(&place.journal).unwrap();
    let namespace = fs::read_link("/proc/self/ns/net").unwrap();
    let elsewhere = journal.replace(&*namespace.to_string_lossy(), "net:[1]");
    fs::write(&place.journal, &elsewhere).unwrap();
    let error = revert(&place).unwrap_err();
    assert!(matches!(error, TuneError::OtherNamespace { .. }), "{error}");

    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    fs::write(&place.journal, journal.replace(boot.trim(), "an older one")).unwrap();
    let restored = revert(&place).unwrap();
    assert!(restored.rebooted && restored.sysctls.is_empty());
    assert_eq!(value(&place, IDLE), "0", "a boot has set it already");
}

#[test]
fn nothing_to_take_back_and_a_broken_journal_are_said() {
    let folder = TempDir::new().unwrap();
    let place = place(folder.path(), &[]);
    assert!(matches!(
        revert(&place).unwrap_err(),
        TuneError::NoJournal { .. }
    ));
    fs::create_dir_all(place.journal.parent().unwrap()).unwrap();
    fs::write(&place.journal, "{").unwrap();
    assert!(matches!(
        revert(&place).unwrap_err(),
        TuneError::ParseJournal { .. }
    ));
}

#[test]
fn this_host_is_read_in_full() {
    let host = read(&Place::default(), None);
    assert!(host.kernel.is_some() && host.memory.is_some());
    for key in [RMEM, IDLE, "net.ipv4.tcp_congestion_control"] {
        assert!(host.settings.text(key).is_some(), "{key}");
    }
}

#[test]
fn a_handshake_over_loopback_is_timed_and_a_closed_port_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let rtt = handshake(address, Duration::from_secs(5)).unwrap();
    assert!(rtt > Duration::ZERO);
    // A port that is taken, and at which nobody listens.
    let taken = TcpStream::connect(address).unwrap();
    handshake(taken.local_addr().unwrap(), Duration::from_secs(5)).unwrap_err();
}
