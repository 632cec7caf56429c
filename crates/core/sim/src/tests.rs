//! Closed forms and determinism; every test that simulates twice compares what happened.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use link::{LossSpec, PathSpec};
use record::LimitName;
use record::lab::{Arm, Document};
use scenario::{HostName, Scenario};
use tcp::{Config, ReceiveBuffer};
use units::{Bytes, LossRate, Rate, Time};

use crate::http::{Exchange, Programs};
use crate::lanes::{Lane, Turn};
use crate::{ConnectionId, PathId, Side, World, run, run_captured};

const FIELD_CASE_C: &str = include_str!("../../../../scenarios/field/c-uploads.toml");

const OVER_60_MS: &str = include_str!("../../../../scenarios/field/c-uploads-60ms.toml");
const OVER_120_MS: &str = include_str!("../../../../scenarios/field/c-uploads-120ms.toml");

/// Medians in seconds that the lab measured on kernel 6.18 for the same files, 2026-11-21: scenario,
/// workload, arm, median.
const KERNEL: [(&str, &str, &str, f64); 14] = [
    (FIELD_CASE_C, "100 KiB", "direct", 1.0053),
    (FIELD_CASE_C, "100 KiB", "direct-reuse", 0.2097),
    (FIELD_CASE_C, "100 KiB", "relay", 0.2105),
    (FIELD_CASE_C, "1 MiB", "direct", 1.6195),
    (FIELD_CASE_C, "1 MiB", "direct-reuse", 0.2893),
    (FIELD_CASE_C, "1 MiB", "relay", 0.2898),
    (OVER_60_MS, "100 KiB", "direct", 0.3032),
    (OVER_60_MS, "100 KiB", "relay", 0.0787),
    (OVER_60_MS, "1 MiB", "direct", 0.5245),
    (OVER_60_MS, "1 MiB", "relay", 0.2370),
    (OVER_120_MS, "100 KiB", "direct", 0.6056),
    (OVER_120_MS, "100 KiB", "relay", 0.1643),
    (OVER_120_MS, "1 MiB", "direct", 1.0972),
    (OVER_120_MS, "1 MiB", "relay", 0.5578),
];

fn field_case_c() -> Document {
    let scenario: Scenario = toml::from_str(FIELD_CASE_C).unwrap();
    run(&scenario, scenario.seed).unwrap()
}

fn arm<'a>(document: &'a Document, workload: &str, name: &str) -> &'a Arm {
    let cell = document
        .cells
        .iter()
        .find(|cell| cell.workload == workload)
        .unwrap();
    assert!(cell.valid, "{:?}", cell.why);
    cell.arms.iter().find(|arm| arm.name == name).unwrap()
}

fn path(rtt_ms: u64, rate: Option<Rate>, queue: Bytes, loss: LossSpec) -> PathSpec {
    PathSpec::symmetric(Duration::from_millis(rtt_ms), rate, queue, loss, 3)
}

/// One flow that never runs out of data, from a world with a log.
struct Flow {
    world: World,
    road: PathId,
    connection: ConnectionId,
    received: u64,
}

impl Flow {
    fn new(path: &PathSpec, near: &Config, far: &Config) -> Self {
        let mut world = World::new();
        let road = world.add_path(path).unwrap();
        let connection = world.connect(road, near, far);
        Self {
            world,
            road,
            connection,
            received: 0,
        }
    }

    /// Payload bits per second that arrive until `until`, in milliseconds.
    fn goodput(&mut self, until: u64) -> f64 {
        let started = self.world.now();
        let before = self.received;
        let until = Time::from_millis(until);
        loop {
            self.world.write(self.connection, Side::Near, u64::MAX);
            self.received += self.world.read(self.connection, Side::Far, u64::MAX);
            if self.world.next(until).is_none() {
                break;
            }
        }
        self.world.run_until(until);
        let kilobytes = u32::try_from((self.received - before) / 1_000).unwrap();
        f64::from(kilobytes) * 8_000.0 / until.since(started).as_secs_f64()
    }

    fn sender(&self) -> tcp::SenderView {
        self.world
            .end(self.connection, Side::Near)
            .unwrap()
            .sender()
    }
}

/// Fails unless `value` is within `tolerance` of `expected`, a share.
#[track_caller]
fn assert_near(value: f64, expected: f64, tolerance: f64) {
    let error = value / expected - 1.0;
    assert!(
        error.abs() <= tolerance,
        "{value} is {:.1} % off {expected}",
        error * 100.0
    );
}

#[test]
fn field_case_c_takes_the_round_trips_of_slow_start() {
    let document = field_case_c();
    let rtt = 0.2004;
    // The handshake, then 10, 20, 40 and 2 segments of the 72: the head travels on its own.
    let direct = arm(&document, "100 KiB", "direct");
    assert_near(direct.median_s.unwrap(), 5.0 * rtt, 0.01);
    // 10, 20, 40, 80, 160, 320 and the rest of 726: the handshake and seven flights.
    let direct = arm(&document, "1 MiB", "direct");
    assert_near(direct.median_s.unwrap(), 8.0 * rtt, 0.02);
    // The report measured 1016 to 1022 ms and 1714 to 2254 ms; we have no server that thinks.
    assert!(
        document.assertions.iter().all(|a| a.holds),
        "{:?}",
        document.assertions
    );
}

#[test]
fn a_hot_pool_reaches_the_floor_and_reuse_gets_there_from_the_second_upload_on() {
    let document = field_case_c();
    for (workload, floor) in [("100 KiB", 0.2089), ("1 MiB", 0.2873)] {
        let relay = arm(&document, workload, "relay");
        assert_near(relay.median_s.unwrap(), floor, 0.01);
        let reuse = arm(&document, workload, "direct-reuse");
        assert!(
            reuse.by_position_s[0] > 4.0 * floor,
            "{:?}",
            reuse.by_position_s
        );
        assert_near(reuse.by_position_s[4], floor, 0.02);
        let unprimed = relay.first_unprimed_s.unwrap();
        assert!(
            unprimed > 3.0 * floor,
            "a connection made ahead is not enough: {unprimed}"
        );
    }
    let priming = &document.priming[0];
    assert!(priming.cwnd.unwrap() >= 2_505_000 && priming.peer_window.unwrap() >= 2_505_000);
}

#[test]
fn limits_sum_to_what_the_transfer_took_and_name_slow_start() {
    let document = field_case_c();
    for cell in &document.cells {
        for arm in &cell.arms {
            let mean = arm.samples_s.iter().sum::<f64>() / f64::from(u32::try_from(arm.n).unwrap());
            assert_near(arm.limits.values().sum(), mean, 0.001);
        }
    }
    let limits = &arm(&document, "1 MiB", "direct").limits;
    let largest = limits
        .iter()
        .max_by(|one, other| one.1.total_cmp(other.1))
        .unwrap();
    assert_eq!(*largest.0, LimitName::SlowStart);
    assert_near(limits[&LimitName::Handshake], 0.2004, 0.01);
}

#[test]
fn one_seed_gives_one_document_and_one_sequence_of_packets() {
    assert_eq!(field_case_c(), field_case_c());
    let lossy = LossSpec::Bernoulli(LossRate::per_billion(10_000_000).unwrap());
    let path = path(40, Some(Rate::mbit_per_s(20)), Bytes::kib(64), lossy);
    let run = || {
        let mut flow = Flow::new(&path, &Config::linux(), &Config::linux());
        flow.world.record();
        flow.goodput(5_000);
        flow.world.log().to_vec()
    };
    let (one, other) = (run(), run());
    assert!(
        one.len() > 2_000,
        "{} packets are too few to mean much",
        one.len()
    );
    assert!(one == other, "the same calls gave other packets");
}

#[test]
fn each_host_s_capture_holds_what_passes_it_and_reads_back() {
    let mut scenario: Scenario = toml::from_str(FIELD_CASE_C).unwrap();
    scenario.experiment.runs = scenario.experiment.block;
    let hosts = [HostName::Client, HostName::Relay, HostName::Origin];
    let mut files = Vec::new();
    run_captured(&scenario, 1, &hosts, &mut |file| files.push(file)).unwrap();
    files.retain(|file| file.arm == "relay" && file.workload == "100 KiB");
    assert_eq!(files.len(), 3);
    let observed: Vec<BTreeSet<String>> = files
        .iter()
        .map(|file| {
            let mut capture = capture::Capture::new();
            capture.feed(&file.pcapng);
            let mut conversations = BTreeSet::new();
            let mut payload = 0;
            while let Some(observation) = capture.next_observation().unwrap() {
                let wire::Observation::Tcp(segment) = observation else {
                    panic!("{observation:?}");
                };
                conversations.insert(format!("{} {}", segment.source, segment.destination));
                payload += u64::from(segment.payload_len);
            }
            assert!(capture.summary().segments > 100);
            // All uploads of the block pass each of the three.
            assert!(payload > 5 * 102_400, "{payload}");
            conversations
        })
        .collect();
    let (client, relay, origin) = (&observed[0], &observed[1], &observed[2]);
    assert!(client.is_disjoint(origin));
    assert_eq!(&(client | origin), relay);
    assert!(client.iter().any(|pair| pair.starts_with("192.0.2.1:")));
    assert!(
        origin
            .iter()
            .any(|pair| pair.starts_with("203.0.113.1:80 "))
    );
}

#[test]
fn a_fixed_window_gives_window_over_rtt() {
    let far = Config {
        window_scaling: false,
        receive_buffer: ReceiveBuffer::Fixed(Bytes::new(65_535)),
        ..Config::linux()
    };
    let path = path(
        100,
        Some(Rate::mbit_per_s(1_000)),
        Bytes::mib(1),
        LossSpec::None,
    );
    let mut flow = Flow::new(&path, &Config::linux(), &far);
    flow.goodput(2_000);
    // 45 segments of 1448 B fit, of which the odd one waits for its delayed ACK.
    let goodput = flow.goodput(12_000);
    let per_window = 1448.0 * 8.0 / 0.1;
    assert!(
        (43.9 * per_window..=45.0 * per_window).contains(&goodput),
        "{goodput}"
    );
}

#[test]
fn a_send_buffer_gives_buffer_over_rtt() {
    // Field case D: 256 KiB over 63 ms are 4.16 MB/s; the report measured 3.6 MB/s.
    let near = Config {
        send_buffer: Bytes::kib(256),
        ..Config::linux()
    };
    let path = path(
        63,
        Some(Rate::mbit_per_s(10_000)),
        Bytes::mib(8),
        LossSpec::None,
    );
    let mut flow = Flow::new(&path, &near, &Config::linux());
    flow.goodput(2_000);
    assert_near(flow.goodput(12_000), 262_144.0 * 8.0 / 0.063, 0.05);
}

#[test]
fn every_algorithm_fills_a_path_and_none_exceeds_it() {
    let rate = Rate::mbit_per_s(20);
    let wire = 20e6 * 1448.0 / 1500.0;
    for name in [
        "reno",
        "cubic",
        "cubic-hystart++",
        "highspeed",
        "westwood",
        "bbr",
    ] {
        let near = Config {
            algorithm: name.parse().unwrap(),
            ..Config::linux()
        };
        let path = path(40, Some(rate), Bytes::kib(100), LossSpec::None);
        let mut flow = Flow::new(&path, &near, &Config::linux());
        flow.goodput(10_000);
        let goodput = flow.goodput(40_000);
        assert!(
            goodput <= wire * 1.001,
            "{name}: {goodput} is more than the path carries"
        );
        assert!(goodput >= wire * 0.93, "{name}: {goodput} of {wire}");
        let counters = flow.world.counters(flow.road);
        assert_eq!(counters.forward.lost.packets, 0);
        counters.forward.check().unwrap();
        counters.backward.check().unwrap();
    }
}

#[test]
fn reno_under_random_loss_follows_the_square_root() {
    // Mathis and others 1997: MSS/RTT * sqrt(3/2) / sqrt(p), the window growing by one segment per RTT.
    for (per_billion, p) in [(1_000_000, 1e-3), (100_000, 1e-4)] {
        let loss = LossSpec::Bernoulli(LossRate::per_billion(per_billion).unwrap());
        let mut path = path(50, None, Bytes::mib(1), LossSpec::None);
        path.forward.loss = loss;
        let near = Config {
            algorithm: "reno".parse().unwrap(),
            ..Config::linux()
        };
        let mut flow = Flow::new(&path, &near, &Config::linux());
        flow.goodput(20_000);
        let goodput = flow.goodput(320_000);
        let expected = 1448.0 * 8.0 / 0.05 * (1.5_f64 / p).sqrt();
        assert_near(goodput, expected, 0.15);
    }
}

#[test]
fn cubic_under_random_loss_follows_its_response_function() {
    // RFC 9438 section 5.2 with C 0.4: window 1.17 (RTT/p^3... )^(1/4) = 1.054 (RTT^3/p^3)^(1/4) segments.
    let p: f64 = 1e-5;
    let rtt: f64 = 0.1;
    let mut path = path(100, None, Bytes::mib(1), LossSpec::None);
    path.forward.loss = LossSpec::Bernoulli(LossRate::per_billion(10_000).unwrap());
    let mut flow = Flow::new(
        &path,
        &Config::linux(),
        &Config {
            receive_buffer: ReceiveBuffer::Fixed(Bytes::mib(64)),
            ..Config::linux()
        },
    );
    flow.goodput(60_000);
    let goodput = flow.goodput(660_000);
    let expected = 1448.0 * 8.0 / rtt * 1.054 * (rtt / p).powf(0.75);
    assert_near(goodput, expected, 0.25);
}

#[test]
fn bbr_keeps_its_rate_where_reno_loses_it() {
    // Field case A on a kernel: 8.7 s with BBR, 26 to 31 s with Reno (10 MB, 10 Mbit/s, 70 ms, 0.5 %).
    let loss = LossSpec::Bernoulli(LossRate::per_billion(5_000_000).unwrap());
    let path = path(70, Some(Rate::mbit_per_s(10)), Bytes::new(100_000), loss);
    let goodput = |name: &str| {
        let near = Config {
            algorithm: name.parse().unwrap(),
            ..Config::linux()
        };
        let mut flow = Flow::new(&path, &near, &Config::linux());
        flow.goodput(30_000)
    };
    let (bbr, reno) = (goodput("bbr"), goodput("reno"));
    assert!(bbr > 8.2e6, "BBR: {bbr}");
    assert!(reno < 0.5 * bbr, "Reno: {reno}, BBR: {bbr}");
}

#[test]
fn what_answers_the_repairs_of_one_recovery_takes_nothing_back_in_the_next() {
    // Startup overflows the short queue so far that one recovery follows the other. A repair of the first
    // that was answered in the second passed for an original once: the holes were believed filled, and
    // a timeout repaired them two seconds later. The kernel takes 2.235 s.
    let path = path(
        40,
        Some(Rate::mbit_per_s(20)),
        Bytes::new(50_000),
        LossSpec::None,
    );
    let near = Config {
        algorithm: "bbr".parse().unwrap(),
        ..Config::linux()
    };
    let mut flow = Flow::new(&path, &near, &Config::linux());
    flow.goodput(2_400);
    let sender = flow.sender();
    assert!(sender.retransmissions > 100, "{sender:?}");
    assert_eq!((sender.timeouts, sender.spurious), (0, 0));
    assert!(sender.acknowledged > 5_000_000, "{sender:?}");
}

#[test]
fn a_low_initial_ssthresh_grows_by_one_segment_per_round_trip() {
    // Field case E in small: from 65,535 B on, 45 segments, the window grows linearly.
    let near = Config {
        initial_ssthresh: Some(Bytes::new(65_535)),
        algorithm: "reno".parse().unwrap(),
        ..Config::linux()
    };
    let path = path(
        10,
        Some(Rate::mbit_per_s(1_000)),
        Bytes::mib(4),
        LossSpec::None,
    );
    let mut flow = Flow::new(&path, &near, &Config::linux());
    flow.goodput(1_000);
    let before = f64::from(flow.sender().cwnd);
    flow.goodput(3_000);
    let grown = f64::from(flow.sender().cwnd) - before;
    // 200 round trips, each longer by what the ACKs wait for a second segment.
    assert_near(grown, 200.0, 0.05);
    assert_eq!(flow.sender().retransmissions, 0);
}

#[test]
fn what_is_wrong_with_a_scenario_is_said_before_anything_runs() {
    let mut scenario: Scenario = toml::from_str(FIELD_CASE_C).unwrap();
    let client = scenario.hosts.get_mut(&HostName::Client).unwrap();
    client.congestion_control = Some("vegas".to_owned());
    let error = run(&scenario, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the client asks for a congestion control that is not simulated"
    );
    scenario.arms.clear();
    let error = run(&scenario, 1).unwrap_err().to_string();
    assert!(error.contains("`arms`"), "{error}");
}

#[test]
fn medians_are_those_of_the_kernel_in_the_lab() {
    let mut errors = Vec::new();
    for (file, workload, name, kernel) in KERNEL {
        let scenario: Scenario = toml::from_str(file).unwrap();
        let document = run(&scenario, scenario.seed).unwrap();
        let simulated = arm(&document, workload, name).median_s.unwrap();
        let error = simulated / kernel - 1.0;
        errors.push(error.abs());
    }
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    assert!(
        median <= 0.02,
        "in the median cell {:.1} % off",
        median * 100.0
    );
    assert!(
        errors[errors.len() - 1] <= 0.05,
        "in the worst cell {:.1} % off",
        errors[errors.len() - 1] * 100.0
    );
}

#[test]
fn field_case_a_separates_the_algorithms_as_a_kernel_does() {
    // 10 MB over 70 ms and 10 Mbit/s with 0.5 % lost each way. Kernel 6.18, from the first to the last
    // byte: BBR 8.65 to 8.70 s, CUBIC 25.9 to 32.8 s, Reno 25.8 to 31.3 s, Westwood+ (eBPF) 14.8 s. Ours
    // count the handshake and the answer too, 0.14 s. HighSpeed is left out: at windows below 38
    // segments it is Reno.
    let ranges = [
        ("bbr", 8.4..9.5),
        ("cubic", 22.0..33.0),
        ("reno", 22.0..33.0),
        ("westwood", 13.0..17.0),
    ];
    for (algorithm, range) in ranges {
        let text = format!(
            r#"
            name = "a"
            seed = 7
            [path]
            rtt = "70 ms"
            rate = "10 Mbit/s"
            queue = "100 kB"
            loss = "0.5 %"
            [hosts.client]
            congestion-control = "{algorithm}"
            [[workloads]]
            name = "10 MB"
            bytes = "10 MB"
            [[arms]]
            name = "direct"
            [experiment]
            runs = 20
            block = 1
            "#
        );
        let scenario: Scenario = toml::from_str(&text).unwrap();
        let document = run(&scenario, scenario.seed).unwrap();
        let median = arm(&document, "10 MB", "direct").median_s.unwrap();
        assert!(
            range.contains(&median),
            "{algorithm}: {median} s is outside {range:?}"
        );
    }
}

/// Uploads of 100 KiB over one connection of field case C's path that begins at `start`.
fn uploads_from(start: Duration) -> Vec<Duration> {
    let mut world = World::new();
    let path = PathSpec::symmetric(
        Duration::from_micros(200_400),
        Some(Rate::mbit_per_s(100)),
        Bytes::mib(2),
        LossSpec::None,
        1,
    );
    let road = world.add_path(&path).unwrap();
    let mut programs = Programs::new(world);
    programs.pass(Time::ZERO + start);
    let config = Config {
        nagle: false,
        restart_after_idle: false,
        ..Config::linux()
    };
    let connection = programs.connect(road, &config, &config);
    let mut took = Vec::new();
    for _ in 0..5 {
        let began = programs.world.now();
        let turn = Turn {
            idle: Duration::ZERO,
            pieces: vec![600, 102_400],
            exchanges: vec![Exchange {
                request: 103_000,
                response: 230,
            }],
        };
        let mut lanes = [Lane::new(connection, [turn])];
        programs.drive(&mut lanes, &mut VecDeque::new()).unwrap();
        took.push(lanes[0].busy(began));
        let pause = programs.world.now() + Duration::from_millis(2);
        programs.pass(pause);
    }
    took
}

/// On the kernel the second upload takes one round trip or two from run to run. That its clocks count
/// whole milliseconds is not enough to explain it: wherever the connection begins between two of their
/// ticks, every upload after the first takes one round trip.
#[test]
fn the_phase_of_millisecond_clocks_alone_delays_no_upload() {
    for tenth in 0..10 {
        let took = uploads_from(Duration::from_micros(100 * tenth + 13));
        assert!(took[0] > Duration::from_secs(1), "{took:?}");
        for one in &took[1..] {
            assert!(*one < Duration::from_millis(210), "{tenth}: {took:?}");
        }
    }
}
