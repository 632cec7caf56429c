//! What watching costs: opens connections over loopback in processes of its own, lets a part of them carry data,
//! and reads them as `longhaul top` does.
//!
//! `cargo run --release -p longhaul-watch --example cost -- 10000` opens 10,000 connections, which are 20,000
//! sockets, and prints CPU milliseconds per reading and the share of a core at one reading per second.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "an example that measures: a panic is the report"
)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use live::{Board, Filter, Order};
use longhaul_watch::{NamespaceChoice, Pace, ProcessTable, Watcher};
use sys::sock_diag::States;

/// Connections in one process: two descriptors each.
const EACH: usize = 4_000;
/// One of so many carries data.
const BUSY: usize = 20;
const READINGS: u32 = 20;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_else(|| "10000".to_owned());
    if first == "hold" {
        hold(arguments.next().unwrap().parse().unwrap());
        return;
    }
    let pairs: usize = first.parse().unwrap();
    let mut left = pairs;
    let mut children = Vec::new();
    while left > 0 {
        let count = left.min(EACH);
        children.push(child(count));
        left -= count;
    }
    measure(pairs);
    for mut child in children {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

fn child(count: usize) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["hold", &count.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0; 1])
        .unwrap();
    child
}

/// Connections until standard input ends; some of them move a kilobyte ten times a second.
fn hold(count: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut pairs: Vec<(TcpStream, TcpStream)> = (0..count)
        .map(|_| {
            let client = TcpStream::connect(address).unwrap();
            (client, listener.accept().unwrap().0)
        })
        .collect();
    std::thread::spawn(move || {
        loop {
            for (client, server) in pairs.iter_mut().step_by(BUSY) {
                client.write_all(&[7; 1000]).unwrap();
                server.read_exact(&mut [0; 1000]).unwrap();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    println!();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn measure(pairs: usize) {
    let mut watcher = Watcher::open(&NamespaceChoice::Here).unwrap();
    let mut board = Board::new(watcher.namespaces());
    let mut processes = ProcessTable::default();
    let mut pace = Pace::new(Duration::from_secs(1), 0.0);
    let mut costs = Vec::new();
    for _ in 0..READINGS {
        let next_at = Instant::now() + Duration::from_secs(1);
        let (at, seen) = watcher.read(States::WITH_LISTENERS).unwrap();
        board.take(at, seen, false);
        if board.has_unknown_processes()
            && let Some(found) = processes.look()
        {
            board.set_processes(found);
        }
        // What a screen shows.
        let summary = board.summary(&Filter::All);
        let piles = board.close_wait(&Filter::All);
        let (top, all) = board.top(&Filter::All, Order::Goodput, 2000);
        let rows: Vec<_> = top.iter().take(50).map(|one| board.row(one)).collect();
        assert!(all >= 2 * pairs && rows.len() == 50);
        assert!(piles.len() <= all && summary.connections >= 20);
        let (cost, _) = pace.after_reading();
        costs.push(cost.as_secs_f64() * 1e3);
        std::thread::sleep(next_at.saturating_duration_since(Instant::now()));
    }
    let first = costs.first().copied().unwrap_or_default();
    costs.remove(0);
    costs.sort_by(f64::total_cmp);
    let median = costs[costs.len() / 2];
    println!(
        "{} sockets: {median:.1} ms of CPU per reading (first {first:.1} ms, worst later {:.1} ms): {:.2} % of a core \
         at one per second",
        2 * pairs,
        costs.last().unwrap(),
        median / 10.0
    );
}
