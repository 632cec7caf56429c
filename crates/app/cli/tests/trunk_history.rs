//! `longhaul trunk history`: why a stream that ended long ago was slow.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use common::trunk::{End, free_port};
use common::{Finished, longhaul, run};

/// More than both ends' memory and all sockets' buffers between client and target hold.
const BACKUP: u32 = 64 << 20;

/// What the other one writes before it has nothing more to say.
const QUESTION: u32 = 100_000;

/// A near end with a listener for each target, whose memory is small, and a far end.
struct Pair {
    near: End,
    _far: End,
    entrances: [SocketAddr; 2],
    status: SocketAddr,
}

impl Pair {
    fn start(directory: &Path, targets: [SocketAddr; 2]) -> Self {
        let [via, status] = [free_port(), free_port()];
        let plain = "security.plain = true\nlimits.memory = \"8 MiB\"\n";
        let [backup, question] = targets;
        let far = format!(
            "[[far]]\nlisten = \"{via}\"\nallow-targets = [\"{backup}\", \"{question}\"]\n{plain}"
        );
        let listener =
            |to| format!("[[near.listeners]]\nlisten = \"127.0.0.1:0\"\nto = \"{to}\"\n");
        let near = format!(
            "status = \"{status}\"\n[[near]]\nname = \"site-b\"\nvia = [\"{via}\"]\n{plain}{}{}",
            listener(backup),
            listener(question)
        );
        let start = |name: &str, text: String| {
            let file = directory.join(name);
            std::fs::write(&file, text).unwrap();
            End::start(longhaul().args(["trunk", "run", "--config"]).arg(file))
        };
        let mut far = start("far.toml", far);
        far.event("far-listening");
        let mut near = start("near.toml", near);
        let listening = [(); 2].map(|()| near.event("trunk-listening"));
        let entrances = targets.map(|target| {
            let mut both = listening.iter();
            let found = both.find(|event| event["to"] == target.to_string());
            found.unwrap()["address"].as_str().unwrap().parse().unwrap()
        });
        Self {
            near,
            _far: far,
            entrances,
            status,
        }
    }

    fn ask(&self, words: &[&str]) -> Finished {
        let said = run(longhaul()
            .args(["trunk"])
            .args(words)
            .args(["--status", &self.status.to_string()]));
        assert_eq!(said.code, Some(0), "{said:#?}");
        said
    }

    /// Waits until the stream to `target` has been held by `limit` so long.
    fn until_held(&self, target: SocketAddr, limit: &str, seconds: f64) {
        loop {
            let state = self.ask(&["status", "--json"]).json();
            let streams = state["streams"].as_array().unwrap();
            let is_it = |one: &&Value| one["target"] == target.to_string();
            let held = streams
                .iter()
                .find(is_it)
                .map(|one| &one["limits_s"][limit]);
            if held
                .and_then(Value::as_f64)
                .is_some_and(|held| held >= seconds)
            {
                return;
            }
        }
    }
}

/// A target that reads nothing of its first client until it is told to, and then everything.
fn reluctant() -> (SocketAddr, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (go_on, told) = mpsc::channel();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        // A test that failed tells nobody.
        if told.recv().is_ok() {
            std::io::copy(&mut client, &mut std::io::sink()).unwrap();
        }
    });
    (address, go_on)
}

fn client(entrance: SocketAddr, bytes: u32) -> TcpStream {
    let mut stream = TcpStream::connect(entrance).unwrap();
    let bytes = vec![7; usize::try_from(bytes).unwrap()];
    stream.write_all(&bytes).unwrap();
    stream
}

/// Ends a stream in order, at both ends.
fn end(mut stream: TcpStream) {
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs()
}

/// The name of the largest of `limits`.
fn most(limits: &Value) -> &str {
    let limits = limits.as_object().unwrap().iter();
    let most = limits
        .max_by(|(_, one), (_, other)| one.as_f64().unwrap().total_cmp(&other.as_f64().unwrap()));
    most.unwrap().0
}

#[test]
fn history_tells_what_held_streams_that_are_over() {
    let directory = tempfile::tempdir().unwrap();
    let (backup, read_backup) = reluctant();
    let (question, read_question) = reluctant();
    let began = unix_now();
    let mut pair = Pair::start(directory.path(), [backup, question]);
    // One whose program has nothing to say for most of its time, and one whose target does not read.
    let [to_backup, to_question] = pair.entrances;
    let quiet = client(to_question, QUESTION);
    let busy = thread::spawn(move || client(to_backup, BACKUP));
    read_question.send(()).unwrap();
    pair.until_held(question, "application", 2.0);
    pair.until_held(backup, "receive-window", 4.0);
    end(quiet);
    read_backup.send(()).unwrap();
    end(busy.join().unwrap());
    for _ in 0..2 {
        pair.near.event("stream-done");
    }

    let history = pair.ask(&["history", "--json"]).json();
    receipts_tell(&history, began, [backup, question]);
    minutes_tell(&history);
    lines_tell(&pair, &history, [backup, question]);
}

fn receipts_tell(history: &Value, began: u64, [backup, question]: [SocketAddr; 2]) {
    let receipts = history["receipts"].as_array().unwrap();
    assert_eq!(receipts.len(), 2, "{history:#}");
    for (target, limit, bytes, least) in [
        (backup, "receive-window", BACKUP, 4.0),
        (question, "application", QUESTION, 2.0),
    ] {
        let is_it = |one: &&Value| one["target"] == target.to_string();
        let receipt = receipts.iter().find(is_it).unwrap();
        assert_eq!(most(&receipt["limits_s"]), limit, "{receipt:#}");
        assert_eq!(receipt["sent"]["bytes"], bytes, "{receipt:#}");
        assert_eq!(receipt["sent"]["confirmed"], true, "{receipt:#}");
        assert_eq!(receipt["received"]["bytes"], 0, "{receipt:#}");
        assert_eq!(receipt["ended_by"], "completed", "{receipt:#}");
        let seconds = receipt["seconds"].as_f64().unwrap();
        let limits = receipt["limits_s"].as_object().unwrap();
        let sum: f64 = limits.values().filter_map(Value::as_f64).sum();
        assert!(seconds >= least, "{receipt:#}");
        assert!((sum - seconds).abs() <= 0.01 * seconds, "{receipt:#}");
        let at = receipt["at_unix_s"].as_u64().unwrap();
        assert!((began..=unix_now()).contains(&at), "{receipt:#}");
    }
}

/// What the trunk did as a whole: in this minute, or in two.
fn minutes_tell(history: &Value) {
    let trunks = history["trunks"].as_object().unwrap();
    let (name, minutes) = trunks.iter().next().unwrap();
    assert!(name.starts_with("site-b via "), "{history:#}");
    let minutes = minutes.as_array().unwrap();
    let sum = |name: &str| -> f64 {
        let limits = minutes
            .iter()
            .filter_map(|one| one["limits_s"][name].as_f64());
        limits.sum()
    };
    assert!(
        sum("receive-window") >= 4.0 && sum("application") >= 2.0,
        "{history:#}"
    );
    let carried = minutes
        .iter()
        .map(|one| one["sent_bps"].as_f64().unwrap() * one["seconds"].as_f64().unwrap() / 8.0);
    let (carried, sent) = (carried.sum::<f64>(), f64::from(BACKUP + QUESTION));
    assert!(
        (carried - sent).abs() <= 0.01 * sent,
        "{carried} B of {sent}: {history:#}"
    );
}

/// The same for people.
fn lines_tell(pair: &Pair, history: &Value, [backup, question]: [SocketAddr; 2]) {
    let receipts = history["receipts"].as_array().unwrap();
    let line = |words: &[&str], target: SocketAddr| {
        let said = pair.ask(words).stdout;
        let to = format!(" to {target} in ");
        said.lines()
            .find(|line| line.contains(&to))
            .map(str::to_owned)
    };
    let slow = line(&["history"], backup).unwrap();
    assert!(
        slow.contains("; sending held back by receive-window"),
        "{slow}"
    );
    assert!(slow.contains("sent 67.1 MB ("), "{slow}");
    let idle = line(&["history", "--since", "1 h"], question).unwrap();
    assert!(
        idle.contains("; sending held back by application"),
        "{idle}"
    );
    let only = ["history", "--target", &format!(":{}", backup.port())];
    assert!(line(&only, backup).is_some() && line(&only, question).is_none());
    let slowest = ["history", "--slowest", "--last", "1"];
    let seconds = |one: &&Value| one["seconds"].as_f64().unwrap();
    let longest = receipts
        .iter()
        .max_by(|one, other| seconds(one).total_cmp(&seconds(other)));
    let longest: SocketAddr = longest.unwrap()["target"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let other = if longest == backup { question } else { backup };
    assert!(line(&slowest, longest).is_some() && line(&slowest, other).is_none());
}
