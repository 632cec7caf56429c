//! Our own TCP against the kernel's, over a TUN device in a namespace of the test's own, in both roles.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use longhaul_flow::client::{self, Control, Directions, Outcome, Plan, Workload};
use longhaul_flow::engine::{Engine, SocketOptions};
use longhaul_flow::kernel::Kernel;
use longhaul_flow::server::Server;
use longhaul_flow::stack::{Device, Stack};
use sys::namespace::NetworkNamespace;
use sys::tun::{Tun, VirtioHeader};
use tcp::{Config, LossDetection};
use units::Bytes;

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
        let at_kernel = SocketAddr::new(self.kernel, 0);
        let server = self
            .namespace
            .enter(|| Server::listen(&Kernel, at_kernel, &SocketOptions::default()))
            .unwrap()
            .unwrap();
        check(&carry(&self.ours, &server, direction, bytes), bytes);

        let at_ours = SocketAddr::new(self.address, 7001);
        let server = Server::listen(&self.ours, at_ours, &SocketOptions::default()).unwrap();
        let outcome = self
            .namespace
            .enter(|| carry(&Kernel, &server, direction, bytes))
            .unwrap();
        check(&outcome, bytes);
    }
}

fn plain(tun: Tun) -> Box<dyn Device> {
    Box::new(tun)
}

fn carry(engine: &dyn Engine, server: &Server, direction: Directions, bytes: u64) -> Outcome {
    let plan = Plan {
        server: server.local(),
        socket: SocketOptions::default(),
        seed: 7,
        interval: Duration::from_millis(10),
        lanes: 2,
        stagger: Duration::ZERO,
        read_pause: None,
        workload: Workload::Sizes {
            direction,
            sizes: vec![Bytes::new(bytes), Bytes::new(1)],
            idle: Duration::ZERO,
            reuse: true,
        },
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

/// Loses, repeats and swaps packets by their number.
#[derive(Debug)]
struct Bad {
    tun: Tun,
    out: AtomicU64,
    back: AtomicU64,
    held: Mutex<Option<(VirtioHeader, Vec<u8>)>>,
    again: Mutex<Option<(VirtioHeader, Vec<u8>)>>,
}

impl Device for Bad {
    fn read(&self, packet: &mut [u8]) -> io::Result<Option<(VirtioHeader, usize)>> {
        let mut give = |(header, bytes): (VirtioHeader, Vec<u8>)| {
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

#[test]
fn loss_repetition_and_reordering_change_no_byte() {
    let net = Net::new(false, Config::linux(), |tun| {
        Box::new(Bad {
            tun,
            out: AtomicU64::new(0),
            back: AtomicU64::new(0),
            held: Mutex::new(None),
            again: Mutex::new(None),
        })
    });
    net.both_roles(Directions::Up, 1_500_000);
    net.both_roles(Directions::Down, 1_500_000);
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
    let refused = net
        .ours
        .connect(SocketAddr::new(net.kernel, 9), &SocketOptions::default());
    let error = refused.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("refused"), "{cause}");
}
