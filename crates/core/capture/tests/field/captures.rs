//! Every capture of the collection: packet counts as an independent tool (tshark 4.0) counted them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use longhaul_capture::{Capture, Ending, Observations, Packets, Reader, Summary};
use wire::Observation;

/// A line of the index.
struct Entry {
    name: String,
    packets: u64,
    duration_s: f64,
    flow: Option<Flow>,
}

/// The flow that sent most, if it sent nothing twice.
struct Flow {
    sender: String,
    bytes: u64,
}

fn collection() -> Option<Vec<(Entry, Vec<u8>)>> {
    let folder = crate::field_data()?.join("captures");
    let index = fs::read_to_string(folder.join("INDEX.tsv")).unwrap();
    let mut lines = index.lines();
    let header: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let column = |name| header.iter().position(|title| *title == name).unwrap();
    let (file, packets, duration) = (column("file"), column("packets"), column("duration_s"));
    let main_flow = column("main_flow");
    let entries = lines.map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let entry = Entry {
            name: columns[file].to_owned(),
            packets: columns[packets].parse().unwrap(),
            duration_s: columns[duration].parse().unwrap(),
            flow: flow(columns[main_flow]),
        };
        let bytes = read(&folder.join(&entry.name));
        (entry, bytes)
    });
    Some(entries.collect())
}

fn flow(text: &str) -> Option<Flow> {
    let field = |name| {
        let mut fields = text.split(' ').filter_map(|field| field.split_once('='));
        fields.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    (field("retx") == Some("0")).then_some(Flow {
        sender: field("sender")?.to_owned(),
        bytes: field("bytes")?.parse().ok()?,
    })
}

fn read(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes.as_slice())
        .read_to_end(&mut plain)
        .unwrap();
    plain
}

#[test]
fn every_capture_has_the_packets_and_the_duration_of_its_index() {
    let Some(collection) = collection() else {
        println!("not run: no field data");
        return;
    };
    assert_eq!(collection.len(), 32, "captures in the index");
    for (entry, bytes) in collection {
        let mut packets = Packets::new(&bytes);
        let (mut count, mut first, mut last) = (0, u64::MAX, 0);
        while let Some(packet) = packets.next_packet().expect(&entry.name) {
            count += 1;
            assert_eq!(packet.frame, count);
            first = first.min(packet.at.as_nanos());
            last = last.max(packet.at.as_nanos());
        }
        assert_eq!(count, entry.packets, "{}", entry.name);
        let micros = (last - first) / 1_000;
        let duration_s = f64::from(u32::try_from(micros / 1_000_000).unwrap())
            + f64::from(u32::try_from(micros % 1_000_000).unwrap()) / 1e6;
        assert!(
            (duration_s - entry.duration_s).abs() < 0.002,
            "{}: {duration_s} s, the index says {} s",
            entry.name,
            entry.duration_s
        );
    }
}

#[test]
fn no_capture_reads_differently_in_pieces() {
    let Some(collection) = collection() else {
        println!("not run: no field data");
        return;
    };
    for (entry, bytes) in collection {
        let whole = summary(&bytes);
        for chunk in [61, 4096] {
            let mut capture = Capture::new();
            for piece in bytes.chunks(chunk) {
                capture.feed(piece);
                while capture.next_observation().unwrap().is_some() {}
            }
            capture.finish();
            assert!(capture.next_observation().unwrap().is_none());
            assert_eq!(capture.summary(), whole, "{} by {chunk}", entry.name);
        }
    }
}

fn summary(bytes: &[u8]) -> Summary {
    let mut observations = Observations::new(bytes);
    while observations.next_observation().unwrap().is_some() {}
    observations.summary()
}

#[test]
fn every_frame_of_the_collection_is_decoded_and_accounted_for() {
    let Some(collection) = collection() else {
        println!("not run: no field data");
        return;
    };
    let summaries: BTreeMap<String, Summary> = collection
        .into_iter()
        .map(|(entry, bytes)| (entry.name, summary(&bytes)))
        .collect();
    for (name, summary) in &summaries {
        // Snapshot lengths of the collection cut payloads, never headers.
        assert_eq!(summary.cut, BTreeMap::new(), "{name}");
        assert_eq!(summary.malformed, BTreeMap::new(), "{name}");
        let others = summary.others.values().sum::<u64>();
        assert_eq!(summary.segments + others, summary.frames, "{name}");
    }
    let others = |name: &str, kind: &str| summaries[name].others[kind];
    assert_eq!(summaries["blitz-single_byte_rexmit.dmp.gz"].segments, 27);
    // 802.11 frames inside GRE inside a VLAN.
    assert_eq!(summaries["zeek-gre-aruba.pcap"].segments, 2407);
    assert_eq!(others("ntop-netflix.pcap", "DNS"), 28);
    assert_eq!(summaries["OISF-decode-sll2-02.pcap"].segments, 159);
    assert_eq!(summaries["wireshark-many_interfaces.pcapng.1"].segments, 32);
}

/// The index names the sender of each capture's main flow and the bytes it sent, as another analyser
/// counted them. Where nothing was sent twice, the payload lengths must add up to just that, although
/// most of these captures are cut by their snapshot length.
#[test]
fn payload_lengths_add_up_to_the_bytes_that_another_analyser_counted() {
    let Some(collection) = collection() else {
        println!("not run: no field data");
        return;
    };
    // The first is hundreds of connections on the same two ports, which only an analysis tells apart;
    // for the second, which runs inside GRE, the index gives the tunnel's address.
    let not_comparable = ["blitz-fast_reuse.dmp.gz", "zeek-gre-aruba.pcap"];
    let mut compared = 0;
    for (entry, bytes) in collection {
        let Some(flow) = entry.flow else { continue };
        if not_comparable.contains(&entry.name.as_str()) {
            continue;
        }
        let sent = sent_by(&bytes, &flow.sender);
        let most = sent.values().copied().max();
        assert_eq!(most, Some(flow.bytes), "{}: {sent:?}", entry.name);
        compared += 1;
    }
    assert_eq!(compared, 15);
}

/// Payload bytes that `sender` sent to each of its peers.
fn sent_by(bytes: &[u8], sender: &str) -> BTreeMap<String, u64> {
    let mut sent = BTreeMap::new();
    let mut observations = Observations::new(bytes);
    while let Some(observation) = observations.next_observation().unwrap() {
        if let Observation::Tcp(segment) = observation
            && segment.source.to_string().replace(['[', ']'], "") == sender
        {
            *sent.entry(segment.destination.to_string()).or_default() +=
                u64::from(segment.payload_len);
        }
    }
    sent
}

#[test]
fn reader_and_slice_give_the_same_packets() {
    let Some(collection) = collection() else {
        println!("not run: no field data");
        return;
    };
    for (entry, bytes) in collection {
        let mut packets = Packets::new(&bytes);
        let mut reader = Reader::new();
        for piece in bytes.chunks(1000) {
            reader.feed(piece);
            while let Some(packet) = reader.next_packet().unwrap() {
                assert_eq!(
                    Some(packet),
                    packets.next_packet().unwrap(),
                    "{}",
                    entry.name
                );
            }
        }
        assert_eq!(packets.next_packet(), Ok(None));
        assert_eq!(reader.finish(), packets.finish());
        let cut_short = entry.name.starts_with("OISF-pgsql-5000");
        assert_eq!(
            matches!(packets.finish(), Ending::CutShort { .. }),
            cut_short,
            "{}",
            entry.name
        );
    }
}
