//! Two ends of a trunk, a target, and what they say.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::Value;

use super::{longhaul, run};

/// A running end that prints JSON lines; killed with the test that started it.
pub struct End {
    pub child: Child,
    events: BufReader<ChildStdout>,
}

impl End {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .arg("--json")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        Self { child, events }
    }

    /// The next event of this name.
    pub fn event(&mut self, name: &str) -> Value {
        self.event_where(name, |_| true)
    }

    /// The next event of this name for which `is_it` holds.
    pub fn event_where(&mut self, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = self.next();
            let event = event.unwrap_or_else(|| panic!("the end has stopped before `{name}`"));
            if event["event"] == name && is_it(&event) {
                return event;
            }
        }
    }

    /// One event of each name, in whatever order they come.
    pub fn events(&mut self, names: &[&str]) {
        let mut missing = names.to_vec();
        while !missing.is_empty() {
            let event = self.next();
            let event = event.unwrap_or_else(|| panic!("the end has stopped before {missing:?}"));
            missing.retain(|name| event["event"] != *name);
        }
    }

    /// The next event; `None` once nobody could tell of another.
    pub fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let count = self.events.read_line(&mut line).unwrap();
        (count > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    pub fn address(&mut self, name: &str) -> SocketAddr {
        self.event(name)["address"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    }

    /// How many of the process's threads have this name.
    pub fn threads(&self, name: &str) -> usize {
        let tasks = format!("/proc/{}/task", self.child.id());
        let tasks = std::fs::read_dir(tasks).unwrap();
        // A thread may end between two looks.
        tasks
            .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
            .filter(|comm| comm.trim_end() == name)
            .count()
    }

    pub fn kill(&mut self) {
        // SIGKILL: nothing can be tidied up.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A target that gives back all it gets.
pub fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut copy = stream.try_clone().unwrap();
                // Ends with the test that uses it.
                let _ = std::io::copy(&mut stream, &mut copy);
                let _ = copy.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    address
}

/// A port of loopback that was free a moment ago, for what is started twice at the same place.
pub fn free_port() -> SocketAddr {
    // Below the range from which the kernel takes ports of its own, each for one test: between now and its
    // use nobody else comes upon it.
    static NEXT: AtomicU16 = AtomicU16::new(21_000);
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener.local_addr().unwrap();
        }
    }
}

/// Makes two identities that trust each other, with the lines that `init` prints.
pub fn identities(directory: &Path) -> (String, String) {
    let name = |end: &str| directory.join(end).to_str().unwrap().to_owned();
    let (near, far) = (name("near"), name("far"));
    let init = |words: &[&str]| {
        run(longhaul()
            .args(["trunk", "init", "--json", "--identity"])
            .args(words))
        .json()
    };
    let near_pin = init(&[&near])["pin"].as_str().unwrap().to_owned();
    let far_pin = init(&[&far, "--trust", &near_pin])["pin"]
        .as_str()
        .unwrap()
        .to_owned();
    let near_again = init(&[&near, "--trust", &far_pin]);
    assert_eq!(near_again["kept"], true);
    assert_eq!(near_again["peers"][0], far_pin);
    (near, far)
}

pub fn far(identity: &str, listen: SocketAddr, target: SocketAddr) -> End {
    End::start(
        longhaul()
            .args(["trunk", "far", &listen.to_string()])
            .args([
                "--allow-target",
                &target.to_string(),
                "--identity",
                identity,
            ]),
    )
}

pub fn near(identity: &str, via: SocketAddr, target: SocketAddr, more: &[&str]) -> End {
    near_at((Ipv4Addr::LOCALHOST, 0).into(), identity, via, target, more)
}

pub fn near_at(
    listen: SocketAddr,
    identity: &str,
    via: SocketAddr,
    target: SocketAddr,
    more: &[&str],
) -> End {
    End::start(
        longhaul()
            .args(["trunk", "near", &listen.to_string()])
            .args(["--via", &via.to_string(), "--to", &target.to_string()])
            .args(["--identity", identity])
            .args(more),
    )
}

pub fn ping(client: &mut TcpStream) {
    client.write_all(b"ping").unwrap();
    let mut got = [0; 4];
    client.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"ping");
}
