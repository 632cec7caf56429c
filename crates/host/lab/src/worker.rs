//! Processes of a running scenario: configured by one JSON document on standard input, heard by JSON
//! lines on standard output, their talk kept in a log file.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use sys::isolation;

/// How long nothing may come before [`Worker::wait_watching`] looks at the others.
const WATCH: Duration = Duration::from_millis(200);
/// Between two looks at what a process does without saying it.
const LOOK: Duration = Duration::from_millis(5);

/// A process of the scenario. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Worker {
    name: String,
    child: Child,
    lines: Receiver<Value>,
    log: PathBuf,
}

/// A process of the scenario could not do its part.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The log file could not be made.
    #[error("cannot create the log `{}` of the {name}", path.display())]
    Log {
        /// Which process.
        name: String,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The process did not start.
    #[error("cannot start the {name}")]
    Start {
        /// Which process.
        name: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// It did not take its configuration.
    #[error("cannot configure the {name}; its log is `{}`", log.display())]
    Configure {
        /// Which process.
        name: String,
        /// Where its own words are.
        log: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// It ended before it said what was waited for.
    #[error(
        "the {name} ended ({status}) while the lab waited for {awaited}:{}",
        tail(log)
    )]
    Ended {
        /// Which process.
        name: String,
        /// How.
        status: String,
        /// What was waited for.
        awaited: String,
        /// Where its own words are.
        log: PathBuf,
    },
    /// It said nothing in time.
    #[error("the {name} did not say {awaited} within {} s:{}", limit.as_secs(), tail(log))]
    Silent {
        /// Which process.
        name: String,
        /// What was waited for.
        awaited: String,
        /// How long.
        limit: Duration,
        /// Where its own words are.
        log: PathBuf,
    },
}

impl Worker {
    /// Starts `command`, hands it `config` as JSON and keeps its standard input open: its end tells
    /// the process to stop.
    pub(crate) fn start(
        name: &str,
        mut command: Command,
        config: &impl Serialize,
        logs: &Path,
    ) -> Result<Self, WorkerError> {
        let log = logs.join(format!("{name}.log"));
        let stderr = File::create(&log).map_err(|source| WorkerError::Log {
            name: name.to_owned(),
            path: log.clone(),
            source,
        })?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            // Ctrl-C goes to every process of the terminal's group. It is meant for the lab, which lets
            // the transfer under way end; without its link and origin it could not.
            .process_group(0);
        let mut child = command.spawn().map_err(|source| WorkerError::Start {
            name: name.to_owned(),
            source,
        })?;
        let configured = configure(&mut child, config);
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines() {
                    let Ok(line) = line else { break };
                    // A line that is no JSON is talk on the wrong stream; it cannot be an answer.
                    if let Ok(value) = serde_json::from_str(&line)
                        && sender.send(value).is_err()
                    {
                        break;
                    }
                }
            });
        }
        let worker = Self {
            name: name.to_owned(),
            child,
            lines,
            log,
        };
        match configured {
            Ok(()) => Ok(worker),
            Err(source) => Err(WorkerError::Configure {
                name: worker.name.clone(),
                log: worker.log.clone(),
                source,
            }),
        }
    }

    /// Waits until `pick` finds what it wants in a line, for `limit` at most; other lines are passed
    /// over. `awaited` names it in the error.
    pub(crate) fn wait_for<T>(
        &mut self,
        awaited: &str,
        limit: Duration,
        pick: impl FnMut(&Value) -> Option<T>,
    ) -> Result<T, WorkerError> {
        self.wait_watching(awaited, limit, pick, || Ok(()))
    }

    /// Like [`wait_for`](Self::wait_for), and calls `watch` while nothing comes: an error from it, such
    /// as the end of another process that the answer depends on, ends the wait.
    pub(crate) fn wait_watching<T>(
        &mut self,
        awaited: &str,
        limit: Duration,
        mut pick: impl FnMut(&Value) -> Option<T>,
        mut watch: impl FnMut() -> Result<(), WorkerError>,
    ) -> Result<T, WorkerError> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(WATCH)) {
                Ok(value) => {
                    if let Some(found) = pick(&value) {
                        return Ok(found);
                    }
                }
                Err(RecvTimeoutError::Timeout) if left > WATCH => watch()?,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(WorkerError::Silent {
                        name: self.name.clone(),
                        awaited: awaited.to_owned(),
                        limit,
                        log: self.log.clone(),
                    });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended(awaited)),
            }
        }
    }

    /// The next line in which `pick` finds what it wants, if it is here already.
    pub(crate) fn take<T>(&mut self, mut pick: impl FnMut(&Value) -> Option<T>) -> Option<T> {
        self.lines.try_iter().find_map(|value| pick(&value))
    }

    /// An error with its last words where the process has ended, which none should while the lab
    /// `awaited` something that depends on it.
    pub(crate) fn expect_alive(&mut self, awaited: &str) -> Result<(), WorkerError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(_)) | Err(_) => Err(self.ended(awaited)),
        }
    }

    /// As [`expect_alive`](Self::expect_alive), for when something that the process holds is gone already:
    /// a dying process lets go of its devices before it counts as ended. Waits for `limit` at most.
    pub(crate) fn expect_not_dying(
        &mut self,
        awaited: &str,
        limit: Duration,
    ) -> Result<(), WorkerError> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                // Its standard output is closed: it has ended, or is about to.
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended(awaited)),
            }
        }
    }

    fn ended(&mut self, awaited: &str) -> WorkerError {
        let status = self.child.wait().map(|status| status.to_string());
        WorkerError::Ended {
            name: self.name.clone(),
            status: status.unwrap_or_else(|error| error.to_string()),
            awaited: awaited.to_owned(),
            log: self.log.clone(),
        }
    }

    /// Sends a line, which some processes take as a command; an answer comes by
    /// [`wait_for`](Self::wait_for).
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), WorkerError> {
        let Some(stdin) = self.child.stdin.as_mut() else {
            return Ok(());
        };
        writeln!(stdin, "{line}")
            .and_then(|()| stdin.flush())
            .map_err(|source| WorkerError::Configure {
                name: self.name.clone(),
                log: self.log.clone(),
                source,
            })
    }

    /// Waits until `holds` does, for `limit` at most; for what a process does without saying it.
    pub(crate) fn wait_until(
        &mut self,
        awaited: &str,
        limit: Duration,
        mut holds: impl FnMut() -> bool,
    ) -> Result<(), WorkerError> {
        let deadline = Instant::now() + limit;
        while !holds() {
            self.expect_alive(awaited)?;
            if Instant::now() > deadline {
                return Err(WorkerError::Silent {
                    name: self.name.clone(),
                    awaited: awaited.to_owned(),
                    limit,
                    log: self.log.clone(),
                });
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // With whatever it has started. Either it has ended already, or nobody needs it any more; a wait may
        // fail harmlessly.
        isolation::kill_group(&self.child);
        let _ = self.child.wait();
    }
}

fn configure(child: &mut Child, config: &impl Serialize) -> io::Result<()> {
    let Some(stdin) = child.stdin.as_mut() else {
        return Ok(());
    };
    let mut line = serde_json::to_string(config)?;
    line.push('\n');
    stdin.write_all(line.as_bytes())?;
    stdin.flush()
}

/// The last words of a process, for the error that it caused.
fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(5)..];
    if last.is_empty() {
        return format!(" it said nothing in `{}`", log.display());
    }
    format!(
        " it said (`{}`):\n    {}",
        log.display(),
        last.join("\n    ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_worker_takes_its_configuration_and_answers() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path();
        let script = "read line; echo noise; echo \"{\\\"got\\\": $line}\"; read line; echo '{\"asked\": 1}'";
        let mut worker = Worker::start("echo-worker", shell(script), &42, logs).unwrap();
        let limit = Duration::from_secs(10);
        let got = worker
            .wait_for("an answer", limit, |value| value["got"].as_i64())
            .unwrap();
        assert_eq!(got, 42);
        worker.tell("").unwrap();
        let answered = worker.wait_for("a second answer", limit, |value| value["asked"].as_i64());
        assert_eq!(answered.unwrap(), 1);
    }

    #[test]
    fn a_worker_that_dies_leaves_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path();
        let script = "read line; echo 'no such thing' >&2; exit 3";
        let mut worker = Worker::start("dying-worker", shell(script), &(), logs).unwrap();
        let limit = Duration::from_secs(10);
        let error = worker
            .wait_for("an answer", limit, |_| Some(()))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.contains("no such thing"),
            "{error}"
        );
        let noticed = worker.expect_alive("an upload").unwrap_err().to_string();
        assert!(noticed.contains("no such thing"), "{noticed}");
    }

    #[test]
    fn a_wait_ends_with_the_process_that_the_answer_depends_on() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path();
        let waiting = "read line; read line";
        let mut client = Worker::start("waiting-worker", shell(waiting), &(), logs).unwrap();
        let mut link =
            Worker::start("broken-worker", shell("read line; exit 7"), &(), logs).unwrap();
        let error = client
            .wait_watching(
                "the end of an upload",
                Duration::from_mins(1),
                |_| Some(()),
                || link.expect_alive("the end of an upload"),
            )
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("the broken-worker ended (exit status: 7)"),
            "{error}"
        );
    }
}
