//! Captures that others made of other people's networks, explained by the binary: each in `INDEX.tsv`, with
//! the counts that tshark 4.0 gave there.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use common::{field_data, longhaul, run};
use serde_json::Value;

/// A capture in which our count of retransmissions differs from tshark's, and why.
struct Differs {
    file: &'static str,
    retransmissions: u64,
    why: &'static str,
}

/// Ours count data segments sent again. Elsewhere they equal tshark's flags to the segment.
const DIFFERENT: &[Differs] = &[
    Differs {
        file: "blitz-sack_nasa_sim.dump.gz",
        retransmissions: 7,
        why: "tshark calls four of them out of order: they fill the hole within 3 ms of a fast retransmission, \
              but the capture had seen the same bytes before",
    },
    Differs {
        file: "blitz-dsack.dmp.gz",
        retransmissions: 7,
        why: "the twin of blitz-sack_nasa_sim in the other byte order",
    },
    Differs {
        file: "blitz-urgent.dmp.gz",
        retransmissions: 5,
        why: "four segments of one repair, of which tshark calls three out of order, and a window probe that \
              crossed the ACK which opened the window (frame 5747)",
    },
    Differs {
        file: "blitz-discard.solaris.dmp.gz",
        retransmissions: 74,
        why: "the last connection is in the capture twice: 44 packets with the IP identification of the one \
              before are copies, not sent again",
    },
    Differs {
        file: "blitz-hardware_dups.dmp.gz",
        retransmissions: 0,
        why: "all 470 are copies: same IP identification, one hop later",
    },
    Differs {
        file: "blitz-http.dmp.gz",
        retransmissions: 0,
        why: "it is a FIN without data",
    },
    Differs {
        file: "zeek-206_example_a.pcap",
        retransmissions: 17,
        why: "14 flags are 12 of data and two SYNs; the five that tshark calls out of order came at least \
              an RTT after the hole",
    },
    Differs {
        file: "zeek-no_crlf.pcap",
        retransmissions: 0,
        why: "it is a FIN without data",
    },
    Differs {
        file: "zeek-m57-long-49583-80.pcap",
        retransmissions: 0,
        why: "every packet is in the capture twice, 2 us apart",
    },
    Differs {
        file: "zeek-ssh.pcap",
        retransmissions: 0,
        why: "SYNs, SYN-ACKs and FINs, no data",
    },
    Differs {
        file: "OISF-http-body-hook-01.pcap",
        retransmissions: 3,
        why: "the one that tshark calls out of order came an RTT after the hole, behind duplicate ACKs",
    },
    Differs {
        file: "OISF-tls-subjectaltname.pcap",
        retransmissions: 42,
        why: "tshark calls more of the late segments of a connection sent again, although one packet overtook \
              them: they fill the hole from its first moment on, in order",
    },
    Differs {
        file: "ntop-fix2.pcap",
        retransmissions: 156,
        why: "the server's packets are in the capture twice and more; the client's 67 agree",
    },
    Differs {
        file: "ntop-ultrasurf.pcap",
        retransmissions: 49,
        why: "tshark flags three segments that follow in sequence (frames 139, 173 and 223), and calls two out \
              of order that carry bytes again",
    },
];

/// One line of the index.
struct Case<'a> {
    file: &'a str,
    packets: u64,
    connections: usize,
    retransmissions: u64,
}

fn case(line: &str) -> Case<'_> {
    let fields: Vec<&str> = line.split('\t').collect();
    let number = |index: usize| fields[index].parse().unwrap();
    let retransmissions = fields[10]
        .split(' ')
        .find_map(|count| count.strip_prefix("retx="))
        .map_or(0, |count| count.parse().unwrap());
    Case {
        file: fields[0],
        packets: number(5),
        connections: usize::try_from(number(6)).unwrap(),
        retransmissions,
    }
}

fn sum(document: &Value, field: &str) -> u64 {
    directions(document)
        .map(|(_, direction)| direction[field].as_u64().unwrap())
        .sum()
}

/// Every direction with the duration of its connection.
fn directions(document: &Value) -> impl Iterator<Item = (f64, &Value)> {
    let connections = document["connections"].as_array().unwrap();
    connections.iter().flat_map(|connection| {
        let duration = connection["duration_s"].as_f64().unwrap();
        let directions = connection["directions"].as_object().unwrap();
        directions
            .values()
            .map(move |direction| (duration, direction))
    })
}

#[test]
fn captures_of_others_are_explained_as_their_index_says() {
    let Some(folder) = field_data() else { return };
    let folder = folder.join("captures");
    let index = std::fs::read_to_string(folder.join("INDEX.tsv")).expect("the index can be read");
    let scratch = tempfile::tempdir().unwrap();
    let page = scratch.path().join("report.html");
    let mut seen = 0;
    let mut wrong = Vec::new();
    for line in index.lines().skip(1).filter(|line| !line.is_empty()) {
        let case = case(line);
        let finished = run(longhaul()
            .args(["explain", "--json", "--html"])
            .arg(&page)
            .arg(folder.join(case.file)));
        assert_eq!(finished.code, Some(0), "{}: {finished:#?}", case.file);
        let document = finished.json();
        let html = std::fs::read_to_string(&page).unwrap();
        assert!(
            html.ends_with("</html>\n"),
            "{}: a page without end",
            case.file
        );
        seen += 1;
        if let Err(difference) = judge(&case, &document) {
            wrong.push(format!("{}: {difference}", case.file));
        }
    }
    assert!(seen >= 32, "only {seen} captures in the index");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn judge(case: &Case<'_>, document: &Value) -> Result<(), String> {
    for (duration, direction) in directions(document) {
        let limits = direction["limits"].as_object().unwrap();
        let sum: f64 = limits.values().filter_map(Value::as_f64).sum();
        if (sum - duration).abs() > 1e-6 * duration.max(1.0) {
            return Err(format!("limits sum to {sum} of {duration}: {limits:?}"));
        }
    }
    let capture = &document["captures"][0];
    if capture["packets"] != case.packets {
        return Err(format!(
            "{} packets, not {}",
            capture["packets"], case.packets
        ));
    }
    let connections = document["connections"].as_array().unwrap().len();
    if connections != case.connections {
        return Err(format!(
            "{connections} connections, not {}",
            case.connections
        ));
    }
    let retransmissions = sum(document, "retransmissions");
    let (expected, why) = DIFFERENT
        .iter()
        .find(|differs| differs.file == case.file)
        .map_or((case.retransmissions, "as tshark"), |differs| {
            (differs.retransmissions, differs.why)
        });
    if retransmissions != expected {
        return Err(format!(
            "{retransmissions} retransmissions, not {expected} ({why}); tshark {}, copies {}, out of order {}",
            case.retransmissions,
            sum(document, "capture_copies"),
            sum(document, "out_of_order")
        ));
    }
    Ok(())
}
