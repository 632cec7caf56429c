//! Every form a capture comes in, explained by the binary: one small upload, written in each of them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Stdio;

use common::{Finished, longhaul, run};
use serde_json::Value;
use units::{SeqNum, Time};
use wire::{Endpoint, Host, Segment, TcpFlags, TcpOptions};

const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 1), 40_000);
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(203, 0, 113, 2), 80);
/// Request and response heads, and a body of two full segments.
const REQUEST: &[u8] = b"PUT /bucket/key HTTP/1.1\r\nHost: s\r\nContent-Length: 2896\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// An IP packet and its time after the first in microseconds.
struct Packet {
    at_us: u32,
    bytes: Vec<u8>,
}

/// One upload over a path of 100 ms, as its client sees it.
fn upload() -> Vec<Packet> {
    let head = u32::try_from(REQUEST.len()).unwrap();
    let response = u32::try_from(RESPONSE.len()).unwrap();
    let (c0, s0) = (1_000_u32, 9_000_u32);
    let body = [b'x'; 1448];
    let (all, answered) = (c0 + 1 + head + 2896, s0 + 1 + response);
    let (syn, ack, push, fin) = (
        TcpFlags::SYN,
        TcpFlags::ACK,
        TcpFlags::ACK.union(TcpFlags::PSH),
        TcpFlags::ACK.union(TcpFlags::FIN),
    );
    vec![
        packet(0, true, syn, c0, 0, b""),
        packet(100_000, false, syn.union(ack), s0, c0 + 1, b""),
        packet(100_020, true, ack, c0 + 1, s0 + 1, b""),
        packet(100_100, true, push, c0 + 1, s0 + 1, REQUEST),
        packet(100_120, true, ack, c0 + 1 + head, s0 + 1, &body),
        packet(100_130, true, push, c0 + 1 + head + 1448, s0 + 1, &body),
        packet(200_150, false, ack, s0 + 1, all, b""),
        packet(205_000, false, push, s0 + 1, all, RESPONSE),
        packet(205_030, true, ack, all, answered, b""),
        packet(205_100, true, fin, all, answered, b""),
        packet(305_200, false, fin, answered, all + 1, b""),
        packet(305_220, true, ack, all + 1, answered + 1, b""),
    ]
}

fn packet(
    at_us: u32,
    from_client: bool,
    flags: TcpFlags,
    seq: u32,
    ack: u32,
    payload: &[u8],
) -> Packet {
    let end = |(host, port): (Ipv4Addr, u16)| Endpoint {
        host: Host::Ip(IpAddr::V4(host)),
        port,
    };
    let (source, destination) = if from_client {
        (end(CLIENT), end(SERVER))
    } else {
        (end(SERVER), end(CLIENT))
    };
    let segment = Segment {
        at: Time::default(),
        frame: 0,
        source,
        destination,
        flags,
        seq: SeqNum::new(seq),
        ack: flags.contains(TcpFlags::ACK).then(|| SeqNum::new(ack)),
        window: 0xffff,
        payload_len: u32::try_from(payload.len()).unwrap(),
        payload,
        options: TcpOptions {
            mss: flags.contains(TcpFlags::SYN).then_some(1448),
            ..TcpOptions::default()
        },
        ip_id: None,
        ttl: None,
        ecn: None,
        header_len: 0,
    };
    let mut bytes = Vec::new();
    wire::write::segment(&mut bytes, &segment).unwrap();
    Packet { at_us, bytes }
}

/// How a file writes its numbers.
#[derive(Clone, Copy)]
enum Order {
    Big,
    Little,
}

impl Order {
    fn u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }

    fn u16(self, value: u16) -> [u8; 2] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }
}

/// A pcap file of raw IP packets.
fn pcap(order: Order, nanoseconds: bool, packets: &[Packet]) -> Vec<u8> {
    const SECONDS: u32 = 1_700_000_000;
    const RAW: u32 = 101;
    let magic = if nanoseconds {
        0xa1b2_3c4d
    } else {
        0xa1b2_c3d4
    };
    let mut file = order.u32(magic).to_vec();
    file.extend_from_slice(&order.u16(2));
    file.extend_from_slice(&order.u16(4));
    for field in [0, 0, 65_535, RAW] {
        file.extend_from_slice(&order.u32(field));
    }
    for packet in packets {
        let length = u32::try_from(packet.bytes.len()).unwrap();
        let fraction = packet.at_us * if nanoseconds { 1000 } else { 1 };
        for field in [SECONDS, fraction, length, length] {
            file.extend_from_slice(&order.u32(field));
        }
        file.extend_from_slice(&packet.bytes);
    }
    file
}

/// A pcapng file: packets of the client from an interface with Ethernet, those of the server from one
/// with raw IP, as a capture on `any` of two cards would hold them.
fn pcapng(order: Order, packets: &[Packet]) -> Vec<u8> {
    const SECTION: u32 = 0x0a0d_0d0a;
    const INTERFACE: u32 = 1;
    const PACKET: u32 = 6;
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let padding = body.len().next_multiple_of(4) - body.len();
        let length = order.u32(u32::try_from(12 + body.len() + padding).unwrap());
        file.extend_from_slice(&order.u32(kind));
        file.extend_from_slice(&length);
        file.extend_from_slice(body);
        file.extend_from_slice(&[0; 3][..padding]);
        file.extend_from_slice(&length);
    };
    let version = [order.u16(1), order.u16(0)].concat();
    block(
        SECTION,
        &[&order.u32(0x1a2b_3c4d)[..], &version, &[0xff; 8]].concat(),
    );
    for link in [1_u16, 101] {
        block(
            INTERFACE,
            &[&order.u16(link)[..], &[0; 2], &order.u32(0)].concat(),
        );
    }
    for packet in packets {
        let from_client = packet.bytes[12..16] == CLIENT.0.octets();
        let (interface, mut bytes) = if from_client {
            (0, [&[2; 12][..], &[0x08, 0x00]].concat())
        } else {
            (1, Vec::new())
        };
        bytes.extend_from_slice(&packet.bytes);
        let length = order.u32(u32::try_from(bytes.len()).unwrap());
        let at = 1_700_000_000_000_000 + u64::from(packet.at_us);
        let (high, low) = (at >> 32, at & 0xffff_ffff);
        let body = [
            &order.u32(interface)[..],
            &order.u32(u32::try_from(high).unwrap()),
            &order.u32(u32::try_from(low).unwrap()),
            &length,
            &length,
            &bytes,
        ]
        .concat();
        block(PACKET, &body);
    }
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn file(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Explains one file and checks that it is the upload of [`upload`].
fn assert_upload(name: &str, bytes: &[u8]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let finished = run(longhaul()
        .args(["explain", "--json"])
        .arg(file(&folder, name, bytes)));
    assert_eq!(finished.code, Some(0), "{name}: {finished:#?}");
    let document = finished.json();
    assert_is_upload(name, &document);
    document
}

fn assert_is_upload(name: &str, document: &Value) {
    assert_eq!(document["captures"][0]["packets"], 12, "{name}");
    let connections = document["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 1, "{name}");
    let connection = &connections[0];
    assert_eq!(connection["client"]["host"], "198.51.100.1", "{name}");
    assert_eq!(connection["server"]["port"], 80, "{name}");
    assert!(
        (connection["rtt"]["handshake_s"].as_f64().unwrap() - 0.1).abs() < 1e-9,
        "{name}: {}",
        connection["rtt"]
    );
    assert!((connection["duration_s"].as_f64().unwrap() - 0.305_22).abs() < 1e-9);
    let transfer = &connection["transfers"][0];
    assert_eq!(transfer["request"], "PUT /bucket/key", "{name}");
    assert_eq!(transfer["status"], 200, "{name}");
    assert_eq!(
        transfer["request_bytes"],
        REQUEST.len() + 2896,
        "{name}: {transfer}"
    );
}

#[test]
fn pcap_reads_in_both_byte_orders_and_resolutions() {
    let packets = upload();
    for (order, order_name) in [(Order::Big, "big"), (Order::Little, "little")] {
        for nanoseconds in [false, true] {
            let name = format!("{order_name}, nanoseconds {nanoseconds}");
            let document = assert_upload(&name, &pcap(order, nanoseconds, &packets));
            assert_eq!(document["captures"][0]["format"], "pcap");
        }
    }
}

#[test]
fn pcapng_reads_in_both_byte_orders_and_from_several_interfaces() {
    let packets = upload();
    for (order, name) in [(Order::Big, "big.pcapng"), (Order::Little, "little.pcapng")] {
        let document = assert_upload(name, &pcapng(order, &packets));
        assert_eq!(document["captures"][0]["format"], "pcapng");
    }
}

#[test]
fn compression_is_seen_by_content_not_by_name() {
    let plain = pcap(Order::Little, false, &upload());
    let document = assert_upload("gzip.pcap", &gzip(&plain));
    assert_eq!(document["captures"][0]["compression"], "gzip");
    let zstd = zstd::encode_all(plain.as_slice(), 1).unwrap();
    let document = assert_upload("zstd.pcap", &zstd);
    assert_eq!(document["captures"][0]["compression"], "zstd");
    assert_upload("gzip.pcapng", &gzip(&pcapng(Order::Big, &upload())));
}

#[test]
fn standard_input_is_read_for_a_dash() {
    let mut child = longhaul()
        .args(["explain", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let bytes = gzip(&pcap(Order::Big, true, &upload()));
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let finished = Finished::from(child.wait_with_output().unwrap());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    assert_is_upload("stdin", &finished.json());
}

#[test]
fn a_truncated_file_is_explained_up_to_its_end_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let whole = pcap(Order::Little, false, &upload());
    let cut = &whole[..whole.len() - 7];
    let gzipped = gzip(&whole);
    let gzip_cut = &gzipped[..gzipped.len() - 12];
    for (name, bytes, packets) in [("cut.pcap", cut, 11), ("cut.pcap.gz", gzip_cut, 1)] {
        let finished = run(longhaul()
            .args(["explain", "--json"])
            .arg(file(&folder, name, bytes)));
        assert_eq!(finished.code, Some(0), "{name}: {finished:#?}");
        let document = finished.json();
        let capture = &document["captures"][0];
        assert!(
            capture["packets"].as_u64().unwrap() >= packets,
            "{name}: {capture}"
        );
        assert!(
            capture["caveats"].to_string().contains("cut short"),
            "{name}: {capture}"
        );
    }
}

#[test]
fn what_is_no_capture_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let garbage: Vec<u8> = (0..4096_u32)
        .map(|n| u8::try_from(n * 167 % 251).unwrap())
        .collect();
    for (name, bytes) in [
        ("garbage.bin", garbage.as_slice()),
        ("empty.pcap", b""),
        ("letter.txt", b"Dear Sir,\n\nthe network is slow.\n"),
    ] {
        let finished = run(longhaul().arg("explain").arg(file(&folder, name, bytes)));
        assert_eq!(finished.code, Some(2), "{name}: {finished:#?}");
        assert!(finished.stderr.contains(name), "{finished:#?}");
        assert!(finished.stdout.is_empty(), "{finished:#?}");
    }
    let missing = run(longhaul().args(["explain", "/nonexistent/some.pcap"]));
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("/nonexistent/some.pcap"));
}

#[test]
fn evidence_names_the_capture_where_there_are_several() {
    let folder = tempfile::tempdir().unwrap();
    let zero_window = |mut packets: Vec<Packet>| {
        // The server's ACK of the body closes its window; the checksum is not judged.
        packets[6].bytes[34..36].copy_from_slice(&[0, 0]);
        packets
    };
    let first = file(
        &folder,
        "first.pcap",
        &pcap(Order::Little, false, &upload()),
    );
    let mut later = zero_window(upload());
    for packet in &mut later {
        packet.at_us += 500_000;
        // Another client port.
        let port = if packet.bytes[12..16] == CLIENT.0.octets() {
            20
        } else {
            22
        };
        packet.bytes[port..port + 2].copy_from_slice(&40_001_u16.to_be_bytes());
    }
    let second = file(&folder, "second.pcap", &pcap(Order::Big, true, &later));
    let finished = run(longhaul()
        .args(["explain", "--json"])
        .args([&first, &second]));
    let document = finished.json();
    assert_eq!(document["connections"].as_array().unwrap().len(), 2);
    let findings = document["findings"].as_array().unwrap();
    let closed = findings
        .iter()
        .find(|finding| finding["name"] == "zero-window-stalls")
        .unwrap_or_else(|| panic!("no zero-window-stalls in {findings:#?}"));
    assert_eq!(closed["evidence"][0]["frame"], 7, "{closed:#?}");
    assert_eq!(
        closed["evidence"][0]["capture"],
        second.display().to_string()
    );
    let text = run(longhaul().arg("explain").args([&first, &second])).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains(&format!("frame 7 of {}", second.display())),
        "{text}"
    );
}

#[test]
fn fail_on_exits_with_1_from_its_severity_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(
        &folder,
        "plain.pcap",
        &pcap(Order::Little, false, &upload()),
    );
    let worst = |severity: &str| {
        run(longhaul()
            .args(["explain", "--fail-on", severity])
            .arg(&path))
        .code
    };
    // Neither SACK nor timestamps: worth knowing, no more.
    assert_eq!(worst("info"), Some(1));
    assert_eq!(worst("warning"), Some(0));
    assert_eq!(worst("critical"), Some(0));
}

#[test]
fn what_is_printed_is_what_the_schema_describes() {
    let schema = run(longhaul().args(["schema", "explain"])).json();
    let document = assert_upload("plain.pcap", &pcap(Order::Little, false, &upload()));
    assert_described(&schema, &schema, &document, "$");
}

/// Every required field is there, no undescribed one is, and types fit: what `schemars` generates needs
/// no more of JSON Schema than this.
fn assert_described(root: &Value, schema: &Value, value: &Value, path: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).unwrap();
        return assert_described(root, target, value, path);
    }
    if let Some(choices) = schema["anyOf"]
        .as_array()
        .or_else(|| schema["oneOf"].as_array())
    {
        let null = |choice: &&Value| choice["type"] == "null";
        match choices.iter().find(|choice| !null(choice)) {
            Some(choice) if !value.is_null() && choices.len() == 2 => {
                assert_described(root, choice, value, path);
            }
            _ => {}
        }
        return;
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    assert!(
        allowed.is_empty()
            || allowed.contains(&kind)
            || kind == "integer" && allowed.contains(&"number"),
        "{path}: {kind} is none of {allowed:?}"
    );
    for required in schema["required"].as_array().into_iter().flatten() {
        let name = required.as_str().unwrap();
        assert!(value.get(name).is_some(), "{path}.{name} is missing");
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        let described = &schema["properties"][name];
        let described = if described.is_null() {
            &schema["additionalProperties"]
        } else {
            described
        };
        assert!(!described.is_null(), "{path}.{name} is not in the schema");
        assert_described(root, described, inner, &format!("{path}.{name}"));
    }
    for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
        assert_described(root, &schema["items"], inner, &format!("{path}[{index}]"));
    }
}
