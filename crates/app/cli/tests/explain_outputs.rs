//! What `explain` writes beside its report, and what it must not let out: whole binary.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{longhaul, run};
use tempfile::TempDir;
use units::{SeqNum, Time};
use wire::{Endpoint, Host, LinkType, Observation, Segment, TcpFlags, TcpOptions};

const CLIENT: ([u8; 4], u16) = ([198, 51, 100, 77], 40_000);
const SERVER: ([u8; 4], u16) = ([203, 0, 113, 88], 80);
/// Everything in a request that no output may show: names of fields and parameters may.
const SECRETS: [&str; 5] = [
    "5ecretT0ken",
    "5ecretSignature",
    "5ecretC00kie",
    "AKIDEXAMPLE",
    "5ecretBody",
];
const REQUEST: &[u8] =
    b"PUT /payroll/2026.csv?X-Amz-Credential=AKIDEXAMPLE&X-Amz-Signature=5ecretSignature \
    HTTP/1.1\r\nHost: s3.customer.example\r\nAuthorization: Bearer 5ecretT0ken\r\n\
    Cookie: a=5ecretC00kie\r\nContent-Length: 10\r\n\r\n5ecretBody";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A signed upload of one packet over 100 ms.
fn capture_file(folder: &TempDir) -> PathBuf {
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    let (push, fin) = (ack.union(TcpFlags::PSH), ack.union(TcpFlags::FIN));
    let sent = 101 + u32::try_from(REQUEST.len()).unwrap();
    let answered = 901 + u32::try_from(RESPONSE.len()).unwrap();
    let packets = [
        (0, true, syn, 100, 0, &b""[..]),
        (100_000, false, syn.union(ack), 900, 101, b""),
        (100_020, true, ack, 101, 901, b""),
        (100_100, true, push, 101, 901, REQUEST),
        (200_300, false, ack, 901, sent, b""),
        (203_000, false, push, 901, sent, RESPONSE),
        (203_020, true, ack, sent, answered, b""),
        (203_100, true, fin, sent, answered, b""),
        (303_200, false, fin, answered, sent + 1, b""),
    ];
    let section = capture::Section::default();
    let mut file = Vec::new();
    let mut writer = capture::Writer::new(&mut file, &section);
    let interface = writer.interface(
        &mut file,
        &capture::Interface {
            name: String::new(),
            link: LinkType::RAW,
            snaplen: 0,
        },
    );
    for (micros, from_client, flags, seq, ack, payload) in packets {
        let end = |(address, port): ([u8; 4], u16)| Endpoint {
            host: Host::Ip(address.into()),
            port,
        };
        let (from, to) = if from_client {
            (CLIENT, SERVER)
        } else {
            (SERVER, CLIENT)
        };
        let segment = Segment {
            at: Time::from_micros(1_700_000_000_000_000 + micros),
            frame: 0,
            source: end(from),
            destination: end(to),
            flags,
            seq: SeqNum::new(seq),
            ack: flags.contains(TcpFlags::ACK).then(|| SeqNum::new(ack)),
            window: 60_000,
            payload_len: u32::try_from(payload.len()).unwrap(),
            payload,
            options: TcpOptions::default(),
            ip_id: None,
            ttl: None,
            ecn: None,
            header_len: 0,
        };
        let mut packet = Vec::new();
        let len = wire::write::segment(&mut packet, &segment).unwrap();
        writer.packet(&mut file, interface, segment.at, &packet, len);
    }
    let path = folder.path().join("customer-upload.pcapng");
    fs::write(&path, file).unwrap();
    path
}

/// Everything that is in a folder, files of its folders too.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            all.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    all
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes
        .windows(word.len())
        .any(|window| window == word.as_bytes())
}

#[test]
fn credentials_are_in_no_output_whatever_is_asked_for() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = capture_file(&source);
    let into = |name: &str| out.path().join(name);
    let ways: [&[&str]; 4] = [
        &[],
        &["--json", "--series"],
        &["--markdown"],
        &["--json", "--anonymize"],
    ];
    for way in ways {
        let shown = run(longhaul().arg("explain").arg(&file).args(way));
        assert_eq!(shown.code, Some(0), "{shown:#?}");
        for secret in SECRETS {
            assert!(
                !shown.stdout.contains(secret) && !shown.stderr.contains(secret),
                "{secret} by {way:?}"
            );
        }
    }
    let shown = run(longhaul()
        .arg("explain")
        .arg(&file)
        .args(["--html".as_ref(), into("page.html").as_os_str()])
        .args(["--svg".as_ref(), into("svg").as_os_str()])
        .args(["--csv".as_ref(), into("csv").as_os_str()])
        .args(["--parquet".as_ref(), into("parquet").as_os_str()])
        .args([
            "--emit-scenario".as_ref(),
            into("scenario.toml").as_os_str(),
        ]));
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    let written = contents(out.path());
    assert_eq!(written.len(), 2 + 2 + 4 + 4, "{shown:#?}");
    for (path, bytes) in written {
        for secret in SECRETS {
            assert!(!holds(&bytes, secret), "{secret} in {}", path.display());
        }
    }
    // The path itself is no secret, and the request is named by its operation.
    let document = run(longhaul().arg("explain").arg(&file).arg("--json")).json();
    let transfer = &document["connections"][0]["transfers"][0];
    assert_eq!(transfer["request"], "PUT /payroll/2026.csv");
    assert_eq!(transfer["operation"], "PutObject");
}

#[test]
fn an_anonymous_report_and_capture_hold_the_times_and_nobody_s_names() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = capture_file(&source);
    let copy = out.path().join("copy.pcapng");
    let shown = run(longhaul()
        .arg("explain")
        .arg(&file)
        .args(["--anonymize", "--json", "--anonymized-capture"])
        .arg(&copy)
        .args(["--html".as_ref(), out.path().join("page.html").as_os_str()]));
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    let mut everything = contents(out.path());
    everything.push(("stdout".into(), shown.stdout.clone().into_bytes()));
    for (path, bytes) in everything {
        for word in ["198.51.100.77", "203.0.113.88", "customer", "payroll"]
            .iter()
            .chain(&SECRETS)
        {
            assert!(!holds(&bytes, word), "{word} in {}", path.display());
        }
        let address: [u8; 4] = CLIENT.0;
        assert!(
            !bytes.windows(4).any(|window| window == address),
            "{}",
            path.display()
        );
    }
    // A page needs the points, so every document here has them.
    let explained = |file: &Path| {
        run(longhaul()
            .arg("explain")
            .arg(file)
            .args(["--json", "--series"]))
        .json()
    };
    let original = explained(&file);
    for document in [shown.json(), explained(&copy)] {
        let (one, other) = (&original["connections"][0], &document["connections"][0]);
        for same in [
            "/duration_s",
            "/rtt",
            "/directions",
            "/transfers/0/complete_s",
            "/transfers/0/operation",
            "/close",
        ] {
            assert_eq!(one.pointer(same), other.pointer(same), "{same}");
        }
        assert_ne!(one["client"]["host"], other["client"]["host"]);
    }
    // Every packet is whole again: lengths as they were, checksums of what stands there now.
    let bytes = fs::read(&copy).unwrap();
    let mut packets = capture::Packets::new(&bytes);
    let mut count = 0;
    while let Some(packet) = packets.next_packet().unwrap() {
        let Ok(Observation::Tcp(segment)) = packet.decode() else {
            panic!("{packet:?}");
        };
        let mut again = Vec::new();
        let len = wire::write::segment(&mut again, &segment).unwrap();
        assert_eq!(
            (len, again.as_slice()),
            (packet.original_len, packet.captured)
        );
        count += 1;
    }
    assert_eq!(count, 9);
}

#[test]
fn the_same_key_replaces_alike_and_no_key_twice_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = capture_file(&folder);
    let key = folder.path().join("key");
    fs::write(&key, [7; 16]).unwrap();
    let host = |more: &[&std::ffi::OsStr]| {
        let shown = run(longhaul()
            .arg("explain")
            .arg(&file)
            .args(["--json", "--anonymize"])
            .args(more));
        shown.json()["connections"][0]["client"]["host"].to_string()
    };
    let keyed = ["--anonymize-key".as_ref(), key.as_os_str()];
    assert_eq!(host(&keyed), host(&keyed));
    assert_ne!(host(&[]), host(&[]));
    fs::write(&key, [7; 3]).unwrap();
    let short = run(longhaul()
        .arg("explain")
        .arg(&file)
        .arg("--anonymize")
        .args(keyed));
    assert_eq!(short.code, Some(2));
    assert!(short.stderr.contains("16 are needed"), "{}", short.stderr);
}

#[test]
fn remedies_come_in_the_terms_that_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = capture_file(&folder);
    let steps = |system: &str| {
        let finished = run(longhaul()
            .args(["explain", "--json", "--for", system])
            .arg(&file));
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        let document = finished.json();
        let findings = document["findings"].as_array().unwrap();
        let steps = findings
            .iter()
            .filter_map(|finding| finding["steps"].as_array());
        let all: Vec<serde_json::Value> = steps.flatten().cloned().collect();
        assert!(!all.is_empty(), "{system}: {findings:#?}");
        for one in &all {
            assert_eq!(one["system"], system);
            let none = |lines: &str| one[lines].as_array().unwrap().is_empty();
            let says = one["says"].as_str().unwrap();
            assert_eq!(none("commands"), none("undo"), "{one}");
            assert!(!none("commands") || says.contains("o setting of"), "{one}");
        }
        let commands = |one: &&serde_json::Value| !one["commands"].as_array().unwrap().is_empty();
        all.iter().filter(commands).count()
    };
    assert!(steps("linux") > 0);
    assert!(steps("aix") > 0);
    let unknown = run(longhaul().args(["explain", "--for", "cpm"]).arg(&file));
    assert_eq!(unknown.code, Some(2), "{unknown:#?}");
    assert!(unknown.stderr.contains("haproxy"), "{}", unknown.stderr);
}

#[test]
fn tables_have_a_row_per_direction_and_columns_that_stay() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = capture_file(&source);
    let shown = run(longhaul()
        .arg("explain")
        .arg(&file)
        .arg("--csv")
        .arg(out.path()));
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    let table = |name: &str| fs::read_to_string(out.path().join(name)).unwrap();
    let connections = table("connections.csv");
    let head = connections.lines().next().unwrap();
    assert!(
        head.starts_with("connection,direction,client_host,client_port,server_host,server_port,start_s,duration_s,"),
        "{head}"
    );
    // Columns are only added at the end.
    assert!(
        head.contains(",limit_unknown_s,fast_retransmissions,"),
        "{head}"
    );
    assert!(
        head.ends_with(",slow_start_exit,slow_start_exit_s,vantage_confidence"),
        "{head}"
    );
    assert_eq!(connections.lines().count(), 3);
    assert!(table("transfers.csv").contains("PUT /payroll/2026.csv,PutObject,200,"));
    assert!(table("series.csv").lines().count() > 10);
}

#[test]
fn rotated_files_are_one_timeline_in_whatever_order_they_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(capture_file(&folder)).unwrap();
    let other = tempfile::tempdir().unwrap();
    // The same blocks in two files: the header, then some of the packets.
    let mut packets = capture::Packets::new(&whole);
    let mut files = [Vec::new(), Vec::new()];
    let mut writers = files.each_mut().map(|file| {
        let mut writer = capture::Writer::new(file, &capture::Section::default());
        let interface = capture::Interface {
            name: String::new(),
            link: LinkType::RAW,
            snaplen: 0,
        };
        let id = writer.interface(file, &interface);
        (writer, id)
    });
    while let Some(packet) = packets.next_packet().unwrap() {
        let part = usize::from(packet.frame > 4);
        let (writer, id) = &mut writers[part];
        writer.packet(
            &mut files[part],
            *id,
            packet.at,
            packet.captured,
            packet.original_len,
        );
    }
    // Named against their order in time, one compressed.
    fs::write(other.path().join("a.pcapng"), &files[1]).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(&files[0]).unwrap();
    fs::write(other.path().join("b.pcapng.lz4"), lz4.finish().unwrap()).unwrap();
    fs::write(other.path().join("README"), "Monday's\n").unwrap();
    let whole = run(longhaul().arg("explain").arg(folder.path()).arg("--json")).json();
    let parts = run(longhaul().arg("explain").arg(other.path()).arg("--json")).json();
    assert_eq!(whole["connections"], parts["connections"]);
    assert_eq!(parts["captures"].as_array().unwrap().len(), 2);
    assert_eq!(parts["captures"][0]["compression"], "lz4");
    let pattern = format!("{}/*.pcapng*", other.path().display());
    let matched = run(longhaul().arg("explain").arg(pattern).arg("--json")).json();
    assert_eq!(whole["connections"], matched["connections"]);
}

#[test]
fn a_live_capture_sees_its_filter_s_connection_and_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut live = longhaul()
        .args([
            "explain",
            "-i",
            "lo",
            "--json",
            "--follow",
            "--filter",
            &format!("tcp port {port}"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(live.stdout.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
        serde_json::from_str::<serde_json::Value>(&line).unwrap()
    };
    // The first line says that the capture is under way.
    assert_eq!(line()["connections"].as_array().unwrap().len(), 0);
    for listener in [&other, &listener] {
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 5000]).unwrap();
        drop(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 5000);
    }
    let seen = loop {
        let document = line();
        let connections = document["connections"].as_array().unwrap();
        if connections.iter().any(|one| one["close"]["how"] == "fin") {
            break connections.clone();
        }
    };
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0]["server"]["port"], port);
    assert_eq!(seen[0]["directions"]["client_to_server"]["bytes"], 5000);
    let interrupt = Command::new("kill")
        .args(["-INT", &live.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupt.success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(live.wait().unwrap().success());
    // The last one is a line as well.
    assert!(rest.ends_with('\n'), "{rest}");
    for line in rest.lines() {
        let document: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(document["connections"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_filter_that_is_wrong_is_a_usage_error_that_names_the_word() {
    let wrong = run(longhaul().args([
        "explain",
        "-i",
        "lo",
        "--filter",
        "port https",
        "--duration",
        "1s",
    ]));
    assert_eq!(wrong.code, Some(2), "{wrong:#?}");
    assert!(
        wrong
            .stderr
            .contains("`https` in the filter: expected a port number")
    );
    let nowhere = run(longhaul().args(["explain", "-i", "nosuch0", "--duration", "1s"]));
    assert_eq!(nowhere.code, Some(3), "{nowhere:#?}");
    assert!(nowhere.stderr.contains("nosuch0"), "{}", nowhere.stderr);
}

/// A pipe has its bytes once: looking at the first of them would take them away.
#[test]
fn a_pipe_is_explained_as_its_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = capture_file(&folder);
    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let bytes = fs::read(&file).unwrap();
    let writing = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::write(pipe, bytes).unwrap())
    };
    let piped = run(longhaul().args(["explain", "--json"]).arg(&pipe)).json();
    writing.join().unwrap();
    let read = run(longhaul().args(["explain", "--json"]).arg(&file)).json();
    assert_eq!(piped["connections"], read["connections"]);
    assert_eq!(piped["captures"][0]["packets"], 9, "{piped:#}");
}

/// The newest of rotated files has its head and no packet yet, or not even that.
#[test]
fn rotated_files_are_explained_although_the_newest_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let file = capture_file(&folder);
    let place = |number: u32| folder.path().join(format!("rotated.pcapng{number}"));
    let bytes = fs::read(&file).unwrap();
    fs::write(place(0), &bytes).unwrap();
    // A section header without an interface.
    fs::write(place(1), &bytes[..28]).unwrap();
    fs::write(place(2), b"").unwrap();
    let pattern = folder.path().join("rotated.pcapng*");
    let report = run(longhaul().args(["explain", "--json"]).arg(pattern)).json();
    assert_eq!(
        report["captures"].as_array().unwrap().len(),
        1,
        "{report:#}"
    );
    assert_eq!(report["connections"].as_array().unwrap().len(), 1);

    let named = run(longhaul().arg("explain").arg(place(0)).arg(place(1)));
    assert!(named.stdout.contains("it holds no packet"), "{named:#?}");
    let alone = run(longhaul().arg("explain").arg(place(1)));
    assert_eq!(alone.code, Some(2));
    assert!(alone.stderr.contains("holds no packet"), "{alone:#?}");
}
