//! External client programs: a shell command per transfer, with the lab's names put in.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sys::isolation;

/// How often a running command is looked at. Its own time is not what counts, the wire's is.
const LOOK: Duration = Duration::from_millis(5);

/// A command that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// From its start to its end, the program's own start included.
    pub(super) seconds: f64,
    /// How it failed, with its last words.
    pub(super) failure: Option<String>,
}

/// Where a command's output goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files<'a> {
    /// What it prints on standard output, where that is not just talk.
    pub(super) results: Option<&'a Path>,
    /// Everything else.
    pub(super) log: &'a Path,
}

/// Runs `command` to its end or for `limit`. `watch` is called meanwhile; an error from it ends the command.
pub(super) fn run<E>(
    mut command: Command,
    files: &Files<'_>,
    limit: Duration,
    watch: &mut dyn FnMut() -> Result<(), E>,
) -> io::Result<Result<Ended, E>> {
    let log = files.log;
    let output = File::create(log)?;
    let results = match files.results {
        Some(path) => File::create(path)?,
        None => output.try_clone()?,
    };
    command
        .stdin(Stdio::null())
        .stdout(results)
        .stderr(output)
        // Ctrl-C is meant for the lab, which lets the transfer under way end.
        .process_group(0);
    let began = Instant::now();
    let mut child = command.spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        let watched = watch();
        if watched.is_err() || began.elapsed() > limit {
            isolation::kill_group(&child);
            child.wait()?;
            if let Err(error) = watched {
                return Ok(Err(error));
            }
            break None;
        }
        std::thread::sleep(LOOK);
    };
    let seconds = began.elapsed().as_secs_f64();
    let failure = match status {
        Some(status) if status.success() => None,
        Some(status) => Some(format!(
            "the client command ended with {status}: {}",
            last_words(log)
        )),
        None => Some(format!(
            "the client command did not end within {} s and was killed: {}",
            limit.as_secs(),
            last_words(log)
        )),
    };
    Ok(Ok(Ended { seconds, failure }))
}

fn last_words(log: &Path) -> String {
    let said = std::fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    // A progress display overwrites its line by `\r`; what follows the last one was meant to stay.
    let last = said
        .rsplit(['\n', '\r'])
        .map(str::trim)
        .find(|line| !line.is_empty());
    last.unwrap_or("it said nothing").to_owned()
}

/// What S3 programs read from their environment: the lab's own keys and endpoint, and nothing that the
/// caller has set for another store.
pub(super) fn give_credentials(command: &mut Command, access: &str, secret: &str, endpoint: &str) {
    for foreign in [
        "AWS_CA_BUNDLE",
        "AWS_CONFIG_FILE",
        "AWS_ENDPOINT_URL_S3",
        "AWS_PROFILE",
        "AWS_SECURITY_TOKEN",
        "AWS_SESSION_TOKEN",
        "AWS_SHARED_CREDENTIALS_FILE",
    ] {
        command.env_remove(foreign);
    }
    command
        .env("AWS_ACCESS_KEY_ID", access)
        .env("AWS_SECRET_ACCESS_KEY", secret)
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .env("AWS_EC2_METADATA_DISABLED", "true");
}

/// What stands for what in a client command.
#[derive(Clone, Debug)]
pub(super) struct Placeholders(BTreeMap<&'static str, String>);

impl Placeholders {
    pub(super) fn new<const N: usize>(values: [(&'static str, String); N]) -> Self {
        Self(values.into())
    }

    /// `command` with every `{name}` replaced by its value, quoted for the shell. Unknown names and
    /// other braces stay as they are: they may mean something to the command.
    pub(super) fn fill(&self, command: &str) -> String {
        let mut filled = String::with_capacity(command.len());
        let mut rest = command;
        while let Some(start) = rest.find('{') {
            let (before, braced) = rest.split_at(start);
            filled.push_str(before);
            let name = braced[1..].split('}').next().unwrap_or_default();
            match self.0.get(name) {
                Some(value) if braced.len() > name.len() + 1 => {
                    filled.push_str(&quoted(value));
                    rest = &braced[name.len() + 2..];
                }
                _ => {
                    filled.push('{');
                    rest = &braced[1..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }
}

/// As one word for a POSIX shell. Plain words stay plain, so that a value can be part of a larger word.
#[must_use]
pub fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_shell_reads_words_as_they_were_given() {
        let words = ["lab", "a b", "", "$(reboot)", "it's", "a;b", "*", "x=1\n2"];
        let line: Vec<String> = words.into_iter().map(quoted).collect();
        assert_eq!(line[0], "lab");
        let shell = shell(&format!(r"printf '%s\0' {}", line.join(" ")))
            .output()
            .unwrap();
        let read = String::from_utf8(shell.stdout).unwrap();
        let read: Vec<&str> = read.split_terminator('\0').collect();
        assert_eq!(read, words);
    }

    fn run_for(script: &str, name: &str, limit: Duration) -> Ended {
        let log = std::env::temp_dir().join(format!("longhaul-{name}-{}.log", std::process::id()));
        let calm = &mut || Ok::<(), ()>(());
        let files = Files {
            results: None,
            log: &log,
        };
        let ended = run(shell(script), &files, limit, calm).unwrap().unwrap();
        std::fs::remove_file(log).unwrap();
        ended
    }

    #[test]
    fn a_failing_command_is_quoted() {
        let ended = run_for(
            "echo first; echo 'NoSuchBucket' >&2; exit 9",
            "failing",
            UNHURRIED,
        );
        assert_eq!(
            ended.failure.unwrap(),
            "the client command ended with exit status: 9: NoSuchBucket"
        );
        assert_eq!(run_for("true", "succeeding", UNHURRIED).failure, None);
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_its_children() {
        // The pipe's reading end is closed by the last of them: `run` returning is not enough.
        let (mut reader, writer) = io::pipe().unwrap();
        let mut hanging = shell("sleep 1000 & wait");
        let writer = isolation::pass_descriptor(&mut hanging, std::os::fd::OwnedFd::from(writer));
        assert!(writer > 2);
        let log = std::env::temp_dir().join(format!("longhaul-hang-{}.log", std::process::id()));
        let calm = &mut || Ok::<(), ()>(());
        let files = Files {
            results: None,
            log: &log,
        };
        let ended = run(hanging, &files, Duration::from_millis(50), calm)
            .unwrap()
            .unwrap();
        std::fs::remove_file(log).unwrap();
        assert!(ended.failure.unwrap().contains("did not end within"));
        assert_eq!(
            io::Read::read(&mut reader, &mut [0]).unwrap(),
            0,
            "a child lives on"
        );
    }

    const UNHURRIED: Duration = Duration::from_mins(1);

    #[test]
    fn placeholders_are_filled_and_quoted() {
        let placeholders = Placeholders::new([
            ("file", "/tmp/it's here/1".to_owned()),
            ("bucket", "lab".to_owned()),
            ("key", "a/0".to_owned()),
        ]);
        assert_eq!(
            placeholders.fill("aws s3 cp {file} s3://{bucket}/{key}"),
            r"aws s3 cp '/tmp/it'\''s here/1' s3://lab/a/0"
        );
        assert_eq!(
            placeholders.fill("awk '{print $1}' {unknown} {"),
            "awk '{print $1}' {unknown} {"
        );
        assert_eq!(placeholders.fill("{bucket"), "{bucket");
    }
}
