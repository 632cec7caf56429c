//! Our own TCP against the kernel's, over a TUN device in a namespace of the test's own, in both roles.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use connections::Tracker;
use longhaul_flow::client::{self, Control, Directions, Outcome, Plan, Workload};
use longhaul_flow::engine::{Engine, SocketOptions};
use longhaul_flow::kernel::Kernel;
use longhaul_flow::server::Server;
use longhaul_flow::stack::{Device, Stack};
use sys::namespace::NetworkNamespace;
use sys::tun::{Tun, VirtioHeader};
use tcp::{Config, Ecn, LossDetection, ReceiveBuffer};
use units::{Bytes, Time};
use wire::LinkType;

const DEVICE: &str = "ours";

/// A namespace whose kernel is the peer, and our host beside it.
struct Net {
    namespace: NetworkNamespace,
    ours: Stack,
    address: IpAddr,
    kernel: IpAddr,
}

impl Net {
    fn new(ipv6: bool, config: Config, worse: impl FnOnce(Tun) -> Box<dyn Device>) -> Self {
        let namespace = NetworkNamespace::create("flow-test").unwrap();
        let tun = Tun::create_in(&namespace, DEVICE).unwrap();
        namespace
            .ip(&format!(
                "addr add 10.77.0.1/24 dev {DEVICE}\n\
                 addr add fd77::1/64 dev {DEVICE} nodad\n\
                 link set {DEVICE} up"
            ))
            .unwrap();
        let (address, kernel): (IpAddr, IpAddr) = if ipv6 {
            ("fd77::2".parse().unwrap(), "fd77::1".parse().unwrap())
        } else {
            ("10.77.0.2".parse().unwrap(), "10.77.0.1".parse().unwrap())
        };
        let ours = Stack::start(worse(tun), address, config).unwrap();
        Self {
            namespace,
            ours,
            address,
            kernel,
        }
    }

    /// Ours asks, the kernel serves; then the other way round.
    fn both_roles(&self, direction: Directions, bytes: u64) {
        let workload = Workload::Sizes {
            direction,
            sizes: vec![Bytes::new(bytes), Bytes::new(1)],
            idle: Duration::ZERO,
            reuse: true,
        };
        for outcome in self.in_both_roles(&workload, Duration::ZERO) {
            check(&outcome, bytes);
        }
    }

    fn in_both_roles(&self, workload: &Workload, stagger: Duration) -> [Outcome; 2] {
        let at_kernel = SocketAddr::new(self.kernel, 0);
        let server = self
            .namespace
            .enter(|| Server::listen(&Kernel, at_kernel, &SocketOptions::default()))
            .unwrap()
            .unwrap();
        let ours = carry(&self.ours, &server, workload, stagger);

        let at_ours = SocketAddr::new(self.address, 7001);
        let server = Server::listen(&self.ours, at_ours, &SocketOptions::default()).unwrap();
        let theirs = self
            .namespace
            .enter(|| carry(&Kernel, &server, workload, stagger))
            .unwrap();
        [ours, theirs]
    }
}

fn plain(tun: Tun) -> Box<dyn Device> {
    Box::new(tun)
}

fn carry(engine: &dyn Engine, server: &Server, workload: &Workload, stagger: Duration) -> Outcome {
    let plan = Plan {
        server: server.local(),
        socket: SocketOptions::default(),
        seed: 7,
        interval: Duration::from_millis(10),
        lanes: 2,
        stagger,
        read_pause: None,
        sink: false,
        workload: workload.clone(),
    };
    thread::scope(|scope| {
        scope.spawn(|| server.run(&|_| {}));
        let outcome = client::run(engine, &plan, &Control::default(), &mut |_| {});
        server.stop();
        outcome
    })
}

fn check(outcome: &Outcome, bytes: u64) {
    assert_eq!(outcome.flows.len(), 2);
    for flow in &outcome.flows {
        assert_eq!(flow.error, None);
        assert_eq!(flow.data_ok, Some(true));
        for transfer in &flow.transfers {
            assert!([1, bytes].contains(&transfer.bytes), "{transfer:?}");
        }
    }
}

#[test]
fn ours_and_the_kernel_carry_data_in_both_roles() {
    for ipv6 in [false, true] {
        let net = Net::new(ipv6, Config::linux(), plain);
        for direction in [Directions::Up, Directions::Down, Directions::Both] {
            net.both_roles(direction, 3_000_000);
        }
    }
}

#[test]
fn every_workload_runs_with_either_engine_over_either_ip() {
    const STAGGER: Duration = Duration::from_millis(30);
    let workloads = [
        Workload::Duration {
            direction: Directions::Both,
            duration: Duration::from_millis(200),
        },
        // The same size again and again, with a pause between.
        Workload::Sizes {
            direction: Directions::Up,
            sizes: vec![Bytes::new(100_000); 3],
            idle: Duration::from_millis(20),
            reuse: true,
        },
        Workload::Sizes {
            direction: Directions::Down,
            sizes: vec![Bytes::new(40_000); 3],
            idle: Duration::ZERO,
            reuse: false,
        },
        Workload::Exchanges {
            request: Bytes::new(200),
            response: Bytes::new(40_000),
            count: 20,
            idle: Duration::ZERO,
        },
    ];
    for ipv6 in [false, true] {
        let net = Net::new(ipv6, Config::linux(), plain);
        for workload in &workloads {
            for outcome in net.in_both_roles(workload, STAGGER) {
                for flow in &outcome.flows {
                    assert_eq!(flow.error, None, "{workload:?}");
                    assert_eq!(flow.data_ok, Some(true), "{workload:?}");
                    let lane = u32::try_from(flow.lane).unwrap();
                    let begin = (STAGGER * lane).as_secs_f64();
                    assert!(flow.started_s >= begin, "{workload:?}: {flow:?}");
                    let timed = flow.exchanges.as_ref().map(|all| all.samples_s.len());
                    let wanted = matches!(workload, Workload::Exchanges { .. }).then_some(20);
                    assert_eq!(timed, wanted);
                }
            }
        }
    }
}

#[test]
fn old_stacks_speak_with_the_kernel_too() {
    let no_options = Config {
        timestamps: false,
        sack: false,
        loss_detection: LossDetection::DuplicateAcks,
        ..Config::linux()
    };
    for config in [Config::old(Bytes::new(65_535)), no_options] {
        let net = Net::new(false, config, plain);
        net.both_roles(Directions::Up, 500_000);
        net.both_roles(Directions::Down, 500_000);
    }
}

/// Loses, repeats and swaps packets by their number; what our host sends and gets is tracked.
#[derive(Debug)]
struct Bad {
    tun: Tun,
    seen: Trace,
    out: AtomicU64,
    back: AtomicU64,
    held: Mutex<Option<(VirtioHeader, Vec<u8>)>>,
    again: Mutex<Option<(VirtioHeader, Vec<u8>)>>,
}

/// What a capture at our host would have shown.
#[derive(Clone, Debug)]
struct Trace {
    start: Instant,
    frames: Arc<AtomicU64>,
    tracker: Arc<Mutex<Tracker>>,
}

impl Trace {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            frames: Arc::default(),
            tracker: Arc::new(Mutex::new(Tracker::new())),
        }
    }

    fn note(&self, packet: &[u8]) {
        let at = u64::try_from(self.start.elapsed().as_nanos()).unwrap();
        let frame = self.frames.fetch_add(1, Ordering::Relaxed) + 1;
        let length = u32::try_from(packet.len()).unwrap();
        let decoded = wire::decode(LinkType::RAW, Time::from_nanos(at), frame, packet, length);
        self.tracker.lock().unwrap().observe(&decoded.unwrap());
    }

    /// What `explain` finds in it, by name.
    fn findings(self) -> Vec<String> {
        let tracker = Arc::into_inner(self.tracker).unwrap();
        let tracked = tracker.into_inner().unwrap().finish();
        assert!(tracked.connections.len() >= 4, "both roles, two lanes each");
        let document = explain::explain(&tracked, explain::Options::default());
        let findings = document.findings.into_iter();
        findings.map(|finding| finding.name).collect()
    }
}

impl Bad {
    fn at(tun: Tun, seen: &Trace) -> Box<dyn Device> {
        Box::new(Self {
            tun,
            seen: seen.clone(),
            out: AtomicU64::new(0),
            back: AtomicU64::new(0),
            held: Mutex::new(None),
            again: Mutex::new(None),
        })
    }
}

impl Device for Bad {
    fn read(&self, packet: &mut [u8]) -> io::Result<Option<(VirtioHeader, usize)>> {
        let mut give = |(header, bytes): (VirtioHeader, Vec<u8>)| {
            self.seen.note(&bytes);
            packet[..bytes.len()].copy_from_slice(&bytes);
            Ok(Some((header, bytes.len())))
        };
        if let Some(again) = self.again.lock().unwrap().take() {
            return give(again);
        }
        let mut fresh = vec![0; 65_536];
        loop {
            let Some((header, length)) = self.tun.read(&mut fresh)? else {
                return Ok(None);
            };
            let came = (header, fresh[..length].to_vec());
            let number = self.back.fetch_add(1, Ordering::Relaxed) + 1;
            if number.is_multiple_of(31) {
                continue;
            }
            let mut held = self.held.lock().unwrap();
            if number.is_multiple_of(23) && held.is_none() {
                *held = Some(came);
                continue;
            }
            if number.is_multiple_of(17) {
                *self.again.lock().unwrap() = Some(came.clone());
            } else if let Some(late) = held.take() {
                *self.again.lock().unwrap() = Some(late);
            }
            return give(came);
        }
    }

    fn write(&self, header: VirtioHeader, headers: &[u8], payload: &[u8]) -> io::Result<()> {
        self.seen.note(&[headers, payload].concat());
        // What is larger is lost on the first Ethernet, which a TUN device is not.
        let each = match header.gso_size {
            0 => payload.len(),
            size => usize::from(size),
        };
        assert!(
            headers.len() + each <= 1500,
            "{} bytes of headers, {each} of payload",
            headers.len()
        );
        let number = self.out.fetch_add(1, Ordering::Relaxed) + 1;
        if number.is_multiple_of(29) {
            return Ok(());
        }
        self.tun.write(header, headers, payload)?;
        if number.is_multiple_of(19) {
            self.tun.write(header, headers, payload)?;
        }
        Ok(())
    }

    fn ready(&self) -> BorrowedFd<'_> {
        self.tun.ready()
    }
}

/// Both roles and directions over a bad path; returns what `explain` finds.
fn over_a_bad_path(ipv6: bool, config: Config, bytes: u64) -> Vec<String> {
    let trace = Trace::new();
    let net = Net::new(ipv6, config, |tun| Bad::at(tun, &trace));
    net.namespace.set_sysctl("net.ipv4.tcp_ecn", "1").unwrap();
    net.both_roles(Directions::Up, bytes);
    net.both_roles(Directions::Down, bytes);
    drop(net);
    trace.findings()
}

/// Findings that speak of an endpoint which does not do what TCP asks for, or offers less than was set. A
/// SYN that the path loses is none, nor a window that closes because an application reads slowly.
const FAULTS: [&str; 5] = [
    "half-closed-by-peer",
    "no-sack",
    "no-timestamps",
    "no-window-scaling",
    "small-mss",
];

#[test]
fn loss_repetition_and_reordering_change_no_byte_and_explain_finds_no_fault() {
    for ipv6 in [false, true] {
        for ecn in [Ecn::Accept, Ecn::Request] {
            let config = Config {
                ecn,
                ..Config::linux()
            };
            let findings = over_a_bad_path(ipv6, config, 1_000_000);
            let faults = findings.iter().any(|name| FAULTS.contains(&name.as_str()));
            assert!(!faults, "{findings:?} (IPv6: {ipv6}, {ecn:?})");
        }
    }
}

#[test]
fn windows_of_a_few_segments_carry_every_byte_over_a_bad_path() {
    for ipv6 in [false, true] {
        let config = Config {
            window_scaling: false,
            receive_buffer: ReceiveBuffer::Fixed(Bytes::new(6_000)),
            send_buffer: Bytes::new(8_000),
            ..Config::linux()
        };
        over_a_bad_path(ipv6, config, 150_000);
    }
}

#[test]
fn a_port_where_nobody_listens_refuses_on_either_side() {
    let net = Net::new(false, Config::linux(), plain);
    let refused = net
        .namespace
        .enter(|| TcpStream::connect(SocketAddr::new(net.address, 9)))
        .unwrap();
    assert_eq!(
        refused.unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );
    let refused = net.ours.connect(
        SocketAddr::new(net.kernel, 9),
        &SocketOptions::default(),
        &|| false,
    );
    let error = refused.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("refused"), "{cause}");
}

/// A client whose SYN nobody answered went on for two minutes after Ctrl-C.
#[test]
fn a_connection_that_nobody_answers_is_given_up_when_the_run_is_stopped() {
    let net = Net::new(false, Config::linux(), plain);
    // Addresses of the device's network where nobody is: neither refuses.
    let nobody = SocketAddr::from(([10, 77, 0, 99], 7001));
    let stopped = |engine: &dyn Engine| {
        let plan = Plan {
            server: nobody,
            socket: SocketOptions::default(),
            seed: 1,
            interval: Duration::from_millis(10),
            lanes: 2,
            stagger: Duration::ZERO,
            read_pause: None,
            sink: false,
            workload: Workload::Duration {
                direction: Directions::Up,
                duration: Duration::from_secs(1),
            },
        };
        let control = Control::default();
        client::run(engine, &plan, &control, &mut |_| control.stop())
    };
    let ours = stopped(&net.ours);
    let kernel = net.namespace.enter(|| stopped(&Kernel)).unwrap();
    for outcome in [ours, kernel] {
        assert!(outcome.interrupted);
        assert_eq!(outcome.totals.bytes, 0);
        for flow in &outcome.flows {
            let error = flow.error.as_deref().unwrap();
            assert!(error.contains("interrupted"), "{error}");
        }
    }
}
