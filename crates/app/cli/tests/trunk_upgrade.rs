//! `longhaul trunk` with newer binaries in the places of both ends, one after the other, while streams carry data.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::longhaul;
use common::trunk::{End, echo, far, free_port, identities, near_at, ping};

/// A WAN of one hop, on which all connections can be cut.
struct Wan {
    address: SocketAddr,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wan {
    fn to(far: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::<Mutex<Vec<TcpStream>>>::default();
        let held = Arc::clone(&open);
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                let Ok(far) = TcpStream::connect(far) else {
                    continue;
                };
                let copies = [near.try_clone().unwrap(), far.try_clone().unwrap()];
                held.lock().unwrap().extend(copies);
                for (mut from, mut to) in [
                    (near.try_clone().unwrap(), far.try_clone().unwrap()),
                    (far, near),
                ] {
                    thread::spawn(move || {
                        // Connections that are cut end with an error, which is what is wanted.
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        Self { address, open }
    }

    /// Ends all connections; what is on its way is lost.
    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            // One side may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

const BLOCK: usize = 64 << 10;

/// Between two blocks of a stream: always something on its way, and processors left for those who carry it.
const PAUSE: Duration = Duration::from_millis(10);

/// The block with this number of a stream, other bytes for each.
fn block(stream: u64, number: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (stream << 40) ^ number.wrapping_add(1);
    let words = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    });
    words.take(BLOCK / 8).flat_map(u64::to_le_bytes).collect()
}

/// A stream that carries blocks to an echo and back until it is told to end.
struct Load {
    writer: JoinHandle<u64>,
    reader: JoinHandle<u64>,
}

impl Load {
    fn start(entrance: SocketAddr, stream: u64, end: &Arc<AtomicBool>) -> Self {
        let mut read = TcpStream::connect(entrance).unwrap();
        let mut write = read.try_clone().unwrap();
        let end = Arc::clone(end);
        let writer = thread::spawn(move || {
            let mut number = 0;
            while !end.load(Ordering::Relaxed) {
                write.write_all(&block(stream, number)).unwrap();
                number += 1;
                thread::sleep(PAUSE);
            }
            write.shutdown(Shutdown::Write).unwrap();
            number
        });
        let reader = thread::spawn(move || {
            let mut came = vec![0; BLOCK];
            let mut number = 0;
            loop {
                // The end comes between two blocks.
                let first = read.read(&mut came).unwrap();
                if first == 0 {
                    return number;
                }
                read.read_exact(&mut came[first..]).unwrap();
                assert!(came == block(stream, number), "block {number} differs");
                number += 1;
            }
        });
        Self { writer, reader }
    }

    /// What was sent has come back, all of it and nothing else.
    fn finish(self) -> u64 {
        let (written, read) = (self.writer.join().unwrap(), self.reader.join().unwrap());
        assert_eq!(written, read);
        read
    }
}

/// Processes that take over, which nobody but this ends.
#[derive(Default)]
struct Successors(Vec<u32>);

impl Successors {
    /// The process that `parent` has started.
    fn child_of(&mut self, parent: u32) -> u32 {
        let parent = parent.to_string();
        let child = fs::read_dir("/proc").unwrap().find_map(|entry| {
            let process: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            // After the name in parentheses: state, parent.
            let fields = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
            (fields == parent).then_some(process)
        });
        let child = child.expect("it has started one");
        self.0.push(child);
        child
    }
}

impl Drop for Successors {
    fn drop(&mut self) {
        for process in &self.0 {
            let _ = Command::new("kill")
                .args(["-s", "KILL", &process.to_string()])
                .status();
        }
    }
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// Has `process`, which tells of itself through `end`, start a successor that serves.
fn upgrade(end: &mut End, process: u32, successors: &mut Successors) -> u32 {
    signal(process, "USR2");
    // The successor says the one and its predecessor the other, into the same stream.
    end.events(&["ready", "draining"]);
    successors.child_of(process)
}

#[test]
fn both_ends_are_upgraded_under_load_and_no_stream_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let (near_identity, far_identity) = identities(directory.path());
    let (target, place, entrance) = (echo(), free_port(), free_port());
    let mut successors = Successors::default();
    let mut far_end = far(&far_identity, place, target);
    far_end.event("ready");
    let wan = Wan::to(place);
    let mut near_end = near_at(entrance, &near_identity, wan.address, target, &[]);
    let session = near_end.event("wan-connected")["session"].clone();
    let end = Arc::new(AtomicBool::new(false));
    let loads: Vec<_> = (0..4)
        .map(|stream| Load::start(entrance, stream, &end))
        .collect();
    let mut quiet = TcpStream::connect(entrance).unwrap();
    ping(&mut quiet);
    let new_client = || ping(&mut TcpStream::connect(entrance).unwrap());

    // The far end first: the near one goes on with the old process and begins anew with the other.
    let far_first = far_end.child.id();
    let far_second = upgrade(&mut far_end, far_first, &mut successors);
    let left = near_end.event_where("session-left", |left| left["session"] == session);
    assert_eq!(left["streams"], 5, "{left:#}");
    let other = near_end.event_where("wan-connected", |new| new["session"] != session);
    new_client();
    // Connections are made again to the newer process, which has to pass those back that are not its own.
    wan.cut();
    near_end.event_where("wan-connected", |again| again["session"] == session);
    ping(&mut quiet);
    new_client();

    // Once more, while the first process still has its streams: the way back has two stages.
    upgrade(&mut far_end, far_second, &mut successors);
    near_end.event_where("session-left", |left| left["session"] == other["session"]);
    wan.cut();
    near_end.event_where("wan-connected", |again| again["session"] == session);
    ping(&mut quiet);
    new_client();

    // The near end: who comes now comes to its successor.
    let near_first = near_end.child.id();
    upgrade(&mut near_end, near_first, &mut successors);
    new_client();
    wan.cut();
    near_end.event_where("wan-connected", |again| again["session"] == session);
    ping(&mut quiet);
    new_client();

    end.store(true, Ordering::Relaxed);
    for load in loads {
        assert!(load.finish() > 0);
    }
    ping(&mut quiet);
    drop(quiet);
    let stopped = near_end.event("stopped");
    assert_eq!(stopped["aborted"], 0, "{stopped:#}");
    assert!(near_end.child.wait().unwrap().success());
    let stopped = far_end.event("stopped");
    assert_eq!(stopped["aborted"], 0, "{stopped:#}");
    assert!(far_end.child.wait().unwrap().success());
    new_client();
}

#[test]
fn a_reload_reads_the_file_again_and_one_that_is_wrong_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (near_identity, far_identity) = identities(directory.path());
    let (first, second) = (named(b"1"), named(b"2"));
    let (place, entrance) = (free_port(), free_port());
    let mut far_end = End::start(
        longhaul()
            .args([
                "trunk",
                "far",
                &place.to_string(),
                "--identity",
                &far_identity,
            ])
            .args(["--allow-target", &first.to_string()])
            .args(["--allow-target", &second.to_string()]),
    );
    far_end.event("ready");
    let file = directory.path().join("trunk.toml");
    let write = |to: &str| {
        let text = format!(
            "[[near]]\nvia = [\"{place}\"]\n[near.security]\nidentity = \"{near_identity}\"\n\
             [[near.listeners]]\nlisten = \"{entrance}\"\nto = {to}\n"
        );
        fs::write(&file, text).unwrap();
    };
    write(&format!("\"{first}\""));
    let mut successors = Successors::default();
    let mut near_end = End::start(longhaul().args(["trunk", "run", "--config"]).arg(&file));
    near_end.event("ready");
    let ask = || {
        let mut answer = [0];
        let mut client = TcpStream::connect(entrance).unwrap();
        client.read_exact(&mut answer).unwrap();
        (client, answer)
    };
    let (mut before, answer) = ask();
    assert_eq!(&answer, b"1");

    write("0");
    signal(near_end.child.id(), "HUP");
    let warning = near_end.event("warning");
    assert_eq!(warning["name"], "upgrade-failed", "{warning:#}");
    assert_eq!(&ask().1, b"1");

    write(&format!("\"{second}\""));
    signal(near_end.child.id(), "HUP");
    near_end.events(&["ready", "draining"]);
    successors.child_of(near_end.child.id());
    assert_eq!(&ask().1, b"2");
    // Who was there before goes on.
    ping(&mut before);
    drop(before);
    assert_eq!(near_end.event("stopped")["aborted"], 0);
    assert!(near_end.child.wait().unwrap().success());
    assert_eq!(&ask().1, b"2");
}

/// A target that says its name first and then gives back all it gets.
fn named(name: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut copy = stream.try_clone().unwrap();
                // Clients that have heard enough go away in between.
                let _ = copy.write_all(name);
                let _ = std::io::copy(&mut stream, &mut copy);
                let _ = copy.shutdown(Shutdown::Write);
            });
        }
    });
    address
}
