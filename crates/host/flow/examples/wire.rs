//! Our own TCP on a wire, to the kernel's at a TUN device in a namespace of its own: how much it carries per
//! CPU second, and how well it keeps a pace. Needs root:
//!
//! ```text
//! cargo run --release -p longhaul-flow --example wire -- [SECONDS] [RATE...]
//! ```
//!
//! `SECONDS` per flow (3), `RATE` in Mbit/s of payload. Without rates: both directions as fast as they go,
//! then paces from 1 to 2000 Mbit/s. CPU time is this process's, both ends and the comparison of every byte
//! included. Prints a table in Markdown.

#![expect(clippy::print_stdout, reason = "a program to be run by hand")]

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use longhaul_flow::client::{self, Control, Directions, Plan, Workload};
use longhaul_flow::engine::SocketOptions;
use longhaul_flow::kernel::Kernel;
use longhaul_flow::server::Server;
use longhaul_flow::stack::Stack;
use rustix::time::{ClockId, clock_gettime};
use sys::namespace::NetworkNamespace;
use sys::tun::Tun;
use tcp::Config;
use units::Rate;

const DEVICE: &str = "ours";
const KERNEL: &str = "10.77.0.1";
const OURS: &str = "10.77.0.2";
const PACES: [u64; 6] = [1, 10, 100, 500, 1_000, 2_000];

/// A namespace whose kernel is the peer, and our host beside it.
struct Wire {
    namespace: NetworkNamespace,
    ours: Stack,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(3.0), |text| text.parse())?;
    let duration = Duration::from_secs_f64(seconds);
    let asked: Vec<u64> = arguments
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    let wire = Wire::new()?;
    println!("| from | pace, Mbit/s | goodput, Mbit/s | error | CPU s | Gbit per CPU second |");
    println!("|---|---|---|---|---|---|");
    if asked.is_empty() {
        wire.measure(Directions::Up, None, duration)?;
        wire.measure(Directions::Down, None, duration)?;
    }
    let paces = if asked.is_empty() {
        PACES.to_vec()
    } else {
        asked
    };
    for pace in paces {
        wire.measure(Directions::Up, Some(pace), duration)?;
    }
    Ok(())
}

// === impl Wire ===

impl Wire {
    fn new() -> Result<Self, Box<dyn Error>> {
        let namespace = NetworkNamespace::create("flow-wire")?;
        let tun = Tun::create_in(&namespace, DEVICE)?;
        namespace.ip(&format!(
            "addr add {KERNEL}/24 dev {DEVICE}\nlink set {DEVICE} up"
        ))?;
        let ours = Stack::start(Box::new(tun), OURS.parse()?, Config::linux())?;
        Ok(Self { namespace, ours })
    }

    /// One flow between ours, the client, and the kernel; prints a row.
    fn measure(
        &self,
        direction: Directions,
        pace: Option<u64>,
        duration: Duration,
    ) -> Result<(), Box<dyn Error>> {
        let kernel: IpAddr = KERNEL.parse()?;
        let nothing = SocketOptions::default();
        let server = self
            .namespace
            .enter(|| Server::listen(&Kernel, SocketAddr::new(kernel, 0), &nothing))??;
        let plan = Plan {
            server: server.local(),
            socket: SocketOptions {
                pace: pace.map(Rate::mbit_per_s),
                ..nothing
            },
            seed: 7,
            interval: Duration::from_millis(100),
            lanes: 1,
            stagger: Duration::ZERO,
            read_pause: None,
            sink: false,
            workload: Workload::Duration {
                direction,
                duration,
            },
        };
        let before = cpu_seconds();
        let outcome = thread::scope(|scope| {
            scope.spawn(|| server.run(&|_| {}));
            let outcome = client::run(&self.ours, &plan, &Control::default(), &mut |_| {});
            server.stop();
            outcome
        });
        let used = cpu_seconds() - before;
        let flow = outcome.flows.first().ok_or("no flow")?;
        if let Some(error) = &flow.error {
            return Err(error.clone().into());
        }
        let transfer = flow.transfers.first().ok_or("no transfer")?;
        if !transfer.data_ok {
            return Err("bytes came out wrong".into());
        }
        let mbit = transfer.goodput_bps.ok_or("no goodput")? / 1e6;
        let asked = pace.map(u32::try_from).transpose()?.map(f64::from);
        println!(
            "| {} | {} | {mbit:.3} | {} | {used:.2} | {:.1} |",
            if direction == Directions::Up {
                "ours"
            } else {
                "kernel"
            },
            pace.map_or_else(|| "-".to_owned(), |pace| pace.to_string()),
            asked.map_or_else(
                || "-".to_owned(),
                |asked| format!("{:+.2} %", (mbit / asked - 1.0) * 100.0)
            ),
            mbit / 1e3 * transfer.receiver_s / used,
        );
        Ok(())
    }
}

/// CPU time of this process.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
    .as_secs_f64()
}
