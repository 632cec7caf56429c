//! Records of field case C as the lab and `explain` write them, from a small model of slow start.

use std::collections::BTreeMap;

use record::explain::{
    self, Capture, Close, Confidence, Connection, DataPoint, Direction, Directions, Echo, Endpoint,
    Evidence, Finding, Icmp, Negotiated, Prediction, Rtt, Series, Severity, Transfer,
};
use record::lab::{self, Arm, Assertion, Cell, Comparison, PathCheck, PredictedArm, Priming};
use record::{LimitName, LimitSeconds, Manifest};

const RTT: f64 = 0.2004;
const SEGMENT: u64 = 1448;
/// Seconds that one full packet takes at 100 Mbit/s.
const PACKET_S: f64 = 1500.0 * 8.0 / 100e6;

pub(crate) fn manifest() -> Manifest {
    Manifest {
        longhaul: "0.1.0 (3a52d31)".into(),
        started_at: Some("2026-11-21T21:40:00Z".into()),
        command: Some("longhaul lab run scenarios/field/c-uploads.toml --seed 20230613".into()),
        kernel: Some("6.18.0".into()),
        machine: Some("2 x AMD EPYC".into()),
        facts: BTreeMap::from([
            (
                "client: net.ipv4.tcp_congestion_control".into(),
                "cubic".into(),
            ),
            (
                "origin: net.ipv4.tcp_rmem".into(),
                "4096 131072 6291456".into(),
            ),
            (
                "origin: net.ipv4.tcp_congestion_control".into(),
                "cubic".into(),
            ),
            ("link: real-time priority".into(), "SCHED_FIFO 50".into()),
        ]),
    }
}

fn limits(parts: &[(LimitName, f64)]) -> LimitSeconds {
    parts.iter().copied().collect()
}

/// `n` values around `middle`, spread by a fixed pattern.
fn around(middle: f64, spread: f64, n: u32) -> Vec<f64> {
    (0..n)
        .map(|index| middle + spread * (f64::from(index * 7919 % 101) / 101.0 - 0.4))
        .collect()
}

fn arm(name: &str, samples: Vec<f64>, floor: f64, bytes: u32, limits: LimitSeconds) -> Arm {
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    let at = |share: usize| sorted.get((sorted.len() - 1) * share / 100).copied();
    let median = at(50).unwrap();
    Arm {
        name: name.into(),
        n: u64::try_from(samples.len()).unwrap(),
        failed: 0,
        median_s: Some(median),
        p05_s: at(5),
        p95_s: at(95),
        max_s: at(100),
        ci95_s: Some((median * 0.998, median * 1.003)),
        goodput_bps: Some(f64::from(bytes) * 8.0 / median),
        share_of_floor: Some(floor / median),
        limits,
        samples_s: samples,
        ..Arm::default()
    }
}

fn reused(first: [f64; 5], n: u32) -> Vec<f64> {
    (0..n)
        .map(|index| {
            let place = usize::try_from(index % 5).unwrap();
            first[place] + 0.002 * f64::from(index * 31 % 17) / 17.0
        })
        .collect()
}

fn cell(name: &str, bytes: u32, floor: f64, derivation: &str, arms: Vec<Arm>) -> Cell {
    let relay = arms.iter().find(|arm| arm.name == "relay").unwrap();
    let measured = relay.median_s;
    let predicted = floor * 1.01;
    Cell {
        workload: name.into(),
        bytes: u64::from(bytes),
        valid: true,
        path: PathCheck {
            rtt_asked_s: RTT,
            rtt_achieved_s: Some(0.2006),
            rate_asked_bps: 100e6,
            rate_achieved_bps: Some(99.8e6),
            checks: 24,
            invalid_checks: 1,
            ..PathCheck::default()
        },
        floor_s: floor,
        floor_derivation: derivation.into(),
        comparisons: comparisons(&arms),
        predictions: vec![PredictedArm {
            arm: "relay".into(),
            predicted_s: predicted,
            measured_s: measured,
            error: measured.map(|measured| predicted / measured - 1.0),
            derivation: "1 x RTT 200.4 ms + serialisation + server 1.9 ms".into(),
        }],
        arms,
        ..Cell::default()
    }
}

/// Every arm against the first, with the figures that a reader expects beside them.
pub(crate) fn comparisons(arms: &[Arm]) -> Vec<Comparison> {
    let first = &arms[0];
    let median = |arm: &Arm| arm.median_s.unwrap_or(1.0);
    let of = |arm: &Arm| {
        let (ratio, difference) = (median(arm) / median(first), median(arm) - median(first));
        Comparison {
            arm: arm.name.clone(),
            against: first.name.clone(),
            ratio: Some(ratio),
            ratio_ci95: Some((ratio * 0.99, ratio * 1.01)),
            difference_s: Some(difference),
            difference_ci95_s: Some((difference - 0.002, difference + 0.003)),
            shift: Some(difference),
            paired: true,
            p: Some(0.000_001_9),
            test: "Wilcoxon signed-rank, exact".into(),
            effect: Some(-0.95),
            ..Comparison::default()
        }
    };
    arms.iter().skip(1).map(of).collect()
}

/// A run of case C with figures as measured and as the report gives them.
pub(crate) fn lab() -> lab::Document {
    lab::Document {
        schema: "longhaul.lab".into(),
        version: lab::VERSION,
        manifest: manifest(),
        scenario: "c-uploads".into(),
        seed: 20_230_613,
        interrupted: false,
        broken: None,
        conduct: None,
        order: vec!["direct 102400 B".into(), "relay 102400 B".into()],
        cells: vec![small(), large()],
        priming: vec![Priming {
            arm: "relay".into(),
            connections: 2,
            requests: 514,
            bytes: 4_112_000,
            seconds: 1.84,
            cwnd: Some(2_612_000),
            peer_window: Some(3_145_728),
        }],
        assertions: vec![
            Assertion {
                text: "max(relay) <= 1.15 * floor".into(),
                holds: true,
                detail: "216.0 ms <= 240.2 ms".into(),
            },
            Assertion {
                text: "median(direct) >= 1600 ms".into(),
                holds: true,
                detail: "1.752 s >= 1.600 s".into(),
            },
        ],
    }
}

fn small() -> Cell {
    let floor = 0.2089;
    let mut direct = arm(
        "direct",
        around(1.0174, 0.006, 20),
        floor,
        102_400,
        limits(&[
            (LimitName::Handshake, 0.2004),
            (LimitName::SlowStart, 0.6012),
            (LimitName::Propagation, 0.2062),
            (LimitName::Application, 0.0096),
        ]),
    );
    direct.reported_s = vec![1.017, 1.022, 1.017, 1.016, 1.016];
    let mut reuse = arm(
        "direct-reuse",
        reused([1.018, 0.438, 0.268, 0.254, 0.2535], 20),
        floor,
        102_400,
        limits(&[
            (LimitName::Handshake, 0.0401),
            (LimitName::SlowStart, 0.1804),
            (LimitName::ReceiveWindow, 0.0421),
            (LimitName::Propagation, 0.1806),
        ]),
    );
    reuse.by_position_s = vec![1.018, 0.438, 0.268, 0.254, 0.2535];
    reuse.reported_s = vec![1.020, 0.439, 0.268, 0.253, 0.254];
    let mut relay = arm(
        "relay",
        around(0.2141, 0.003, 20),
        floor,
        102_400,
        limits(&[
            (LimitName::Bottleneck, 0.0085),
            (LimitName::Propagation, 0.2026),
            (LimitName::Application, 0.003),
        ]),
    );
    relay.first_unprimed_s = Some(0.8152);
    cell(
        "upload 102400 B",
        102_400,
        floor,
        "1 x 200.4 ms + 106176 B at 100 Mbit/s (8.5 ms) = 208.9 ms",
        vec![direct, reuse, relay],
    )
}

fn large() -> Cell {
    let floor = 0.2874;
    let mut direct = arm(
        "direct",
        around(1.752, 0.3, 20),
        floor,
        1 << 20,
        limits(&[
            (LimitName::Handshake, 0.2004),
            (LimitName::SlowStart, 1.2024),
            (LimitName::ReceiveWindow, 0.1402),
            (LimitName::Propagation, 0.209),
        ]),
    );
    direct.reported_s = vec![1.919, 1.716, 2.254, 1.714, 2.153];
    let mut reuse = arm(
        "direct-reuse",
        reused([1.76, 0.562, 0.371, 0.372, 0.371], 20),
        floor,
        1 << 20,
        limits(&[
            (LimitName::Handshake, 0.0401),
            (LimitName::SlowStart, 0.28),
            (LimitName::ReceiveWindow, 0.12),
            (LimitName::Bottleneck, 0.04),
            (LimitName::Propagation, 0.2),
        ]),
    );
    reuse.by_position_s = vec![1.76, 0.562, 0.371, 0.372, 0.371];
    reuse.reported_s = vec![2.589, 0.563, 0.371, 0.372, 0.371];
    let relay = arm(
        "relay",
        around(0.2952, 0.006, 20),
        floor,
        1 << 20,
        limits(&[
            (LimitName::Bottleneck, 0.0871),
            (LimitName::Propagation, 0.2024),
            (LimitName::Application, 0.0057),
        ]),
    );
    cell(
        "upload 1 MiB",
        1 << 20,
        floor,
        "1 x 200.4 ms + 1087036 B at 100 Mbit/s (87.0 ms) = 287.4 ms",
        vec![direct, reuse, relay],
    )
}

/// One upload as a capture at the client sees it. `flight` is how many segments may be on their way
/// in each round.
fn series(bytes: u64, begin: f64, flights: &[u64], window: u64) -> (Series, f64) {
    let mut series = Series {
        direction: "client-to-server".into(),
        ..Series::default()
    };
    let (mut at, mut from) = (begin, 0);
    for flight in flights {
        let round = at;
        for _ in 0..*flight {
            if from >= bytes {
                break;
            }
            let to = (from + SEGMENT).min(bytes);
            series.data.push(DataPoint {
                t: at,
                from,
                to,
                retransmission: false,
            });
            series.acks.push((at + RTT, to));
            at += PACKET_S;
            from = to;
        }
        at = (round + RTT).max(at);
    }
    series.window_edge.push((begin, window));
    let acks = series.acks.clone();
    series
        .window_edge
        .extend(acks.iter().map(|(t, ack)| (*t, ack + window)));
    let mut events: Vec<(f64, i64)> = series
        .data
        .iter()
        .map(|point| (point.t, i64::try_from(point.to - point.from).unwrap()))
        .collect();
    let mut acked = 0;
    for (t, ack) in &acks {
        events.push((*t, -i64::try_from(ack - acked).unwrap()));
        acked = *ack;
    }
    events.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut in_flight = 0;
    for (t, change) in events {
        in_flight += change;
        series
            .in_flight
            .push((t, u64::try_from(in_flight).unwrap()));
    }
    series.receive_window = vec![(begin, window), (at + RTT, window)];
    let end = acks.last().unwrap().0;
    (series, end)
}

pub(crate) fn connection(id: u32, start_s: f64, bytes: u64) -> Connection {
    let (mut series, end) = series(bytes, RTT, &[10, 20, 40, 80, 160, 320, 640], 62_643);
    let last = series.data.last().unwrap().t;
    let duration = end + 0.0019;
    series.limits = vec![
        (0.0, RTT, LimitName::Handshake),
        (RTT, last, LimitName::SlowStart),
        (last, end, LimitName::Propagation),
        (end, duration, LimitName::Application),
    ];
    let up = limits(&[
        (LimitName::Handshake, RTT),
        (LimitName::SlowStart, last - RTT),
        (LimitName::Propagation, end - last),
        (LimitName::Application, 0.0019),
    ]);
    Connection {
        id,
        client: Endpoint {
            host: "10.1.0.2".into(),
            port: 40_000 + u16::try_from(id).unwrap(),
        },
        server: Endpoint {
            host: "storage.example".into(),
            port: 80,
        },
        start_s,
        duration_s: duration,
        rtt: Rtt {
            handshake_s: Some(0.2005),
            min_s: Some(0.2004),
            median_s: Some(0.2007),
            max_s: Some(0.2093),
            samples: 72,
            ..Rtt::default()
        },
        negotiated: Negotiated {
            client_mss: Some(1460),
            server_mss: Some(1460),
            client_window_scale: Some(7),
            server_window_scale: Some(7),
            sack: Some(true),
            timestamps: Some(true),
            ..Negotiated::default()
        },
        vantage: "client".into(),
        vantage_confidence: Some(Confidence::High),
        directions: Directions {
            client_to_server: Direction {
                bytes,
                segments: 72,
                limits: up.clone(),
                dominant: Some(LimitName::SlowStart),
                initial_window_segments: Some(10),
                max_in_flight: Some(57_920),
                receive_window_min: Some(62_643),
                receive_window_max: Some(62_643),
                ..Direction::default()
            },
            server_to_client: Direction {
                bytes: 149,
                segments: 1,
                limits: up,
                ..Direction::default()
            },
        },
        tls: None,
        ssh: None,
        transfers: vec![Transfer {
            request: format!("PUT /lab/direct/{id:06}"),
            status: Some(200),
            start_s: start_s + RTT,
            sent_s: last - RTT,
            first_byte_s: Some(duration - RTT),
            complete_s: Some(duration - RTT),
            with_handshake_s: Some(duration),
            server_s: Some(0.0019),
            request_bytes: bytes,
            response_bytes: 149,
            ..Transfer::default()
        }],
        icmp: Vec::new(),
        close: Close {
            how: "fin".into(),
            first: Some("client".into()),
            close_wait: Some("server".into()),
            close_wait_s: Some(0.0003),
        },
        caveats: Vec::new(),
        series: Some(Box::new(series)),
    }
}

/// A primed connection of the relay that carries one upload in one flight.
pub(crate) fn hot_connection(bytes: u64) -> Connection {
    let mut hot = connection(1, 0.0, bytes);
    let begin = 3.0;
    let (mut series, end) = series(bytes, begin, &[2000], 3_145_728);
    let last = series.data.last().unwrap().t;
    let duration = end + 0.003;
    series.limits = vec![
        (0.0, begin, LimitName::Application),
        (begin, last, LimitName::Bottleneck),
        (last, end, LimitName::Propagation),
        (end, duration, LimitName::Application),
    ];
    hot.duration_s = duration;
    hot.transfers[0].start_s = begin;
    hot.transfers[0].complete_s = Some(duration - begin);
    hot.transfers[0].with_handshake_s = None;
    hot.directions.client_to_server.limits = limits(&[
        (LimitName::Application, begin + 0.003),
        (LimitName::Bottleneck, last - begin),
        (LimitName::Propagation, end - last),
    ]);
    hot.directions.client_to_server.dominant = Some(LimitName::Bottleneck);
    hot.series = Some(Box::new(series));
    hot.icmp = [0.2, 0.4]
        .map(|at_s| Icmp {
            at_s,
            from: "10.1.0.254".into(),
            about: "client".into(),
            reason: "packet too big".into(),
            mtu: Some(1400),
        })
        .into();
    hot
}

pub(crate) fn document(connections: Vec<Connection>, findings: Vec<Finding>) -> explain::Document {
    explain::Document {
        schema: "longhaul.explain".into(),
        version: record::VERSION,
        manifest: manifest(),
        captures: vec![Capture {
            file: "direct.pcapng".into(),
            format: "pcapng".into(),
            compression: None,
            packets: 3412,
            other: BTreeMap::from([("ARP".into(), 4), ("ICMP".into(), 2)]),
            duration_s: 42.7,
            caveats: vec![
                "segments of up to 65160 bytes were captured before the network card split them"
                    .into(),
            ],
        }],
        connections,
        census: explain::Census::default(),
        echoes: vec![Echo {
            from: "10.1.0.2".into(),
            to: "storage.example".into(),
            requests: 1,
            replies: 1,
            resolved: 0,
            rtt: Rtt {
                median_s: Some(0.2004),
                ..Rtt::default()
            },
        }],
        findings,
        explained: Some(explain::Explained {
            held_s: 17.2,
            findings: 1,
            share: 0.93,
        }),
        servers: Vec::new(),
        pairs: Vec::new(),
    }
}

pub(crate) fn finding() -> Finding {
    Finding {
        name: "no-connection-reuse".into(),
        severity: Severity::Critical,
        confidence: Confidence::High,
        summary:
            "Each of 20 uploads to storage.example:80 opened a connection of its own: 200.4 ms of \
                  handshake and 601 ms of slow start each time, 16.0 s in all."
                .into(),
        connections: (1..=20).collect(),
        evidence: (0..6_u64)
            .map(|index| Evidence {
                capture: None,
                frame: 1 + index * 85,
                shows: format!(
                    "SYN of connection {}, to storage.example:80 again",
                    index + 1
                ),
            })
            .collect(),
        lost_s: Some(16.03),
        remedy:
            "Keep connections open and ready: one client or session for all uploads, or a relay \
                 with a primed pool, which also saves the first upload's slow start."
                .into(),
        steps: vec![explain::Steps {
            system: "haproxy".into(),
            at: "the client 10.1.0.2".into(),
            because: "by `--for haproxy`".into(),
            says: "In the backend: connections that stay open.".into(),
            commands: vec!["http-reuse always".into()],
            undo: vec!["take the line out again and reload".into()],
        }],
        profile: Some("s3".into()),
        filter: Some("tcp.port == 80 && tcp.flags.syn == 1".into()),
        predicted: vec![
            Prediction {
                bytes: 102_400,
                transfers: 20,
                remedy: "hot-pool".into(),
                now_s: 1.0174,
                predicted_s: 0.2110,
                derivation: "1 x RTT 200.4 ms + 106176 B at 100 Mbit/s (8.5 ms) + server 1.9 ms"
                    .into(),
            },
            Prediction {
                bytes: 102_400,
                transfers: 20,
                remedy: "connection-reuse".into(),
                now_s: 1.0174,
                predicted_s: 0.254,
                derivation: "from the fourth upload on".into(),
            },
        ],
        source: "RFC 5681 section 3.1; RFC 6928".into(),
    }
}

/// What `explain` says about the direct arm.
pub(crate) fn explained() -> explain::Document {
    let connections = (1..=20)
        .map(|id| connection(id, f64::from(id - 1) * 1.1, 102_871))
        .chain([connection(21, 30.0, 1_049_047)])
        .collect();
    let mut other = finding();
    other.name = "half-closed-by-peer".into();
    other.severity = Severity::Info;
    other.confidence = Confidence::Medium;
    other.summary = "The server stayed in CLOSE_WAIT for 0.3 ms.".into();
    other.evidence.truncate(1);
    other.lost_s = None;
    other.predicted.clear();
    document(connections, vec![finding(), other])
}

/// What `explain` says about the relay's arm.
pub(crate) fn explained_hot() -> explain::Document {
    let mut large = hot_connection(1_049_047);
    large.id = 2;
    document(vec![hot_connection(102_871), large], Vec::new())
}
