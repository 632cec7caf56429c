//! Objects of the S3 store: moved by our own client, or by another program, and proved by their digest.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use comparison::{SplitMix64, Transfer};
use scenario::{Kind, Tls, Workload};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use units::{Bytes, Span};

use super::block::{Account, Job, Seen};
use super::command::{self, Placeholders};
use super::stores::NEAR_STORE_PORT;
use super::topology::Place;
use super::{
    A_TRANSFER, ACCESS_KEY, BUCKET, Bench, BenchError, READY, SECRET_KEY, STORED, TRANSFER,
};
use crate::worker::{Worker, WorkerError};

/// What the built-in client says about a transfer.
#[derive(Deserialize)]
struct Moved {
    objects: Vec<MovedObject>,
    seconds: f64,
    error: Option<String>,
}

#[derive(Deserialize)]
struct MovedObject {
    key: String,
    bytes: u64,
    sha256: String,
}

/// An object as a file, for commands that upload files.
struct Object {
    path: PathBuf,
    name: String,
    sha256: String,
}

impl Bench {
    /// Transfers by the built-in client, one after the other. What is written is proved by the digest of
    /// what the origin stored; what is read, by the client, which knows the content beforehand.
    pub(super) fn objects(
        &mut self,
        job: &Job<'_>,
        account: &mut Account,
    ) -> Result<Vec<Seen>, BenchError> {
        let mut command = self.client_command(&self.binary, job.route)?;
        command.args(["lab", "worker", "client"]);
        let config = self.orders(job);
        let mut client = Worker::start("client", command, &config, &self.logs)?;
        let mut seen = Vec::new();
        for number in 0..job.transfers {
            self.note_beginning(job, number, account)?;
            // A client that is gone is told of, with its last words, by the wait for what it did.
            let _ = client.tell("");
            let moved = |line: &Value| serde_json::from_value::<Moved>(line.clone()).ok();
            let moved =
                client.wait_watching(A_TRANSFER, TRANSFER, moved, || self.expect_all_alive())?;
            let mut one = Seen::until_now(Transfer {
                seconds: moved.seconds,
                ..Transfer::default()
            });
            one.transfer.failure = match moved.error {
                Some(error) => {
                    self.expect_all_alive()?;
                    Some(error)
                }
                None if job.workload.kind == Kind::Download => None,
                None => self.difference_to_sent(&moved.objects)?,
            };
            if one.transfer.failure.is_none() {
                one.transfer.bytes = moved.objects.iter().map(|object| object.bytes).sum();
            }
            seen.push(one);
        }
        Ok(seen)
    }

    /// What the built-in client is told.
    fn orders(&self, job: &Job<'_>) -> Value {
        let workload = job.workload;
        let verb = match workload.kind {
            Kind::Download => json!("get"),
            Kind::Replicate => json!({ "copy": { "endpoint": self.near_store() } }),
            Kind::Upload | Kind::Stream | Kind::Exchange | Kind::Burst | Kind::Command => {
                json!("put")
            }
        };
        let pause = workload.read_pause.map(
            |pause| json!({ "after": pause.after.get(), "for-s": pause.r#for.get().as_secs_f64() }),
        );
        let tls = job.tls().map(|version| {
            let version = match version {
                Tls::V1_2 => "1.2",
                Tls::V1_3 => "1.3",
            };
            json!({ "certificate": self.certificate, "version": version })
        });
        json!({
            "endpoint": self.endpoint(job),
            "bucket": BUCKET,
            "key-prefix": job.name,
            "credentials": { "access-key": ACCESS_KEY, "secret-key": SECRET_KEY },
            "verb": verb,
            "sizes": sizes(workload),
            "parallel": job.parallel(),
            "part": workload.part.map(Bytes::get),
            "read-pause": pause,
            "tls": tls,
            "first-index": 0,
            "transfers": job.transfers,
            "seed": self.seed,
            "reuse": job.arm.reuse,
            "timeout-s": TRANSFER.as_secs_f64(),
        })
    }

    /// One transfer by an external program.
    pub(super) fn by_command(
        &mut self,
        job: &Job<'_>,
        program: &str,
        number: u32,
    ) -> Result<Seen, BenchError> {
        let bytes = job.workload.bytes.unwrap_or_default();
        let uploads = job.workload.kind == Kind::Upload;
        let mut object = self.object_file(&format!("{}-{number}", job.name));
        match job.workload.kind {
            Kind::Upload => self.fill(&mut object, bytes)?,
            // As crate `store` calls what its origin has from the start.
            Kind::Download => object.name = format!("made/{}", bytes.get()),
            Kind::Stream | Kind::Exchange | Kind::Burst | Kind::Replicate | Kind::Command => {}
        }
        let url = self.endpoint(job);
        let placeholders = Placeholders::new([
            ("file", object.path.display().to_string()),
            ("size", bytes.get().to_string()),
            ("bucket", BUCKET.to_owned()),
            ("key", object.name.clone()),
            ("address", self.entry_of(job.route).to_string()),
            ("port", self.port(job).to_string()),
            ("url", url.clone()),
        ]);
        let line = placeholders.fill(program);
        let mut shell = self.client_command("/bin/sh", job.route)?;
        shell.args(["-c", &line]);
        command::give_credentials(&mut shell, ACCESS_KEY, SECRET_KEY, &url);
        if job.tls().is_some() {
            let [certificate, _] = &self.identity;
            shell.env("AWS_CA_BUNDLE", certificate);
            shell.env("SSL_CERT_FILE", certificate);
        }
        let fail = |source| BenchError::Command {
            command: line.clone(),
            source,
        };
        // What an earlier command left at the origin must not be taken for this one's.
        while self.origin.take(stored_digest).is_some() {}
        let files = command::Files {
            results: None,
            log: &self.logs.join("client-command.log"),
        };
        let limit = TRANSFER + job.workload.duration.map_or(Duration::ZERO, Span::get);
        let mut watch = || self.expect_all_alive();
        let ended = command::run(shell, &files, limit, &mut watch).map_err(fail)??;
        let mut seen = Seen::until_now(Transfer {
            seconds: ended.seconds,
            ..Transfer::default()
        });
        seen.transfer.failure = match (ended.failure, job.workload.kind) {
            (Some(failure), _) => {
                self.expect_all_alive()?;
                Some(failure)
            }
            (None, Kind::Upload) => self.difference_to_only_stored(&object.sha256)?,
            (None, Kind::Download) => self.difference_to_made(&object.path, bytes),
            (None, _) => None,
        };
        if seen.transfer.failure.is_none() {
            seen.transfer.bytes = bytes.get();
        }
        if object.path.exists() || uploads {
            fs::remove_file(&object.path).map_err(fail)?;
        }
        Ok(seen)
    }

    /// Waits for the origin's own report of every object that a client sent, and compares digests.
    fn difference_to_sent(&mut self, sent: &[MovedObject]) -> Result<Option<String>, BenchError> {
        let mut missing: BTreeMap<&str, &str> = sent
            .iter()
            .map(|object| (object.key.as_str(), object.sha256.as_str()))
            .collect();
        let mut wrong = None;
        if missing.is_empty() {
            return Ok(None);
        }
        // Events leave the origin before its responses do: they are here, or nearly so, in any order.
        self.origin.wait_for("what it stored", READY, |line| {
            let stored = stored_digest(line)?;
            let sent = missing.remove(line["key"].as_str()?)?;
            wrong = wrong.take().or_else(|| difference(sent, &stored));
            missing.is_empty().then_some(())
        })?;
        Ok(wrong)
    }

    /// Compares the digest of what a command stored; it chooses its keys itself, so that order must tell.
    fn difference_to_only_stored(&mut self, sent: &str) -> Result<Option<String>, BenchError> {
        let stored = match self
            .origin
            .wait_for("what it stored", STORED, stored_digest)
        {
            Ok(stored) => stored,
            Err(WorkerError::Silent { .. }) => {
                let why = "the client command ended with success, but the origin stored nothing";
                return Ok(Some(why.to_owned()));
            }
            Err(error) => return Err(error.into()),
        };
        if self.origin.take(stored_digest).is_some() {
            let why = "the client command stored more than one object; let it upload {file} once";
            return Ok(Some(why.to_owned()));
        }
        Ok(difference(sent, &stored))
    }

    /// Compares what a command has written with what the origin made.
    fn difference_to_made(&self, path: &Path, bytes: Bytes) -> Option<String> {
        let made = self.made.get(&bytes.get());
        difference_in_file(path, bytes, made.map(String::as_str))
    }

    fn object_file(&self, name: &str) -> Object {
        Object {
            path: self.out.join("objects").join(format!("{name}.data")),
            name: name.to_owned(),
            sha256: String::new(),
        }
    }

    /// Pseudo-random content, as a file for commands that upload files.
    fn fill(&self, object: &mut Object, bytes: Bytes) -> Result<(), BenchError> {
        let length = usize::try_from(bytes.get()).unwrap_or(usize::MAX);
        let mut content = vec![0; length];
        // Another seed for every object, so that no two have the same digest.
        let index = object.name.bytes().fold(self.seed, |sum, byte| {
            sum.wrapping_mul(0x0100_0000_01b3)
                .wrapping_add(u64::from(byte))
        });
        SplitMix64::new(index).fill(&mut content);
        object.sha256 = hex(&Sha256::digest(&content));
        fs::write(&object.path, &content).map_err(|source| BenchError::Object {
            path: object.path.clone(),
            source,
        })
    }

    /// The endpoint's port for a job.
    fn port(&self, job: &Job<'_>) -> u16 {
        let origin = &self.scenario.origin;
        match job.tls() {
            Some(_) => origin.tls_port(),
            None => origin.port,
        }
    }

    fn endpoint(&self, job: &Job<'_>) -> String {
        let scheme = if job.tls().is_some() { "https" } else { "http" };
        format!(
            "{scheme}://{}:{}",
            self.scenario.origin.name,
            self.port(job)
        )
    }

    /// The store beside the client, from which objects are replicated.
    fn near_store(&self) -> String {
        let address = self.topology.address(Place::Client);
        format!("http://{}", SocketAddr::new(address, NEAR_STORE_PORT))
    }
}

/// Sizes of the objects of one transfer, which go one after the other.
pub(super) fn sizes(workload: &Workload) -> Vec<u64> {
    let count = usize::try_from(workload.count()).unwrap_or(usize::MAX);
    let single = workload.bytes.into_iter();
    let repeated = single.flat_map(|bytes| std::iter::repeat_n(bytes, count));
    let sizes = repeated.chain(workload.sizes.iter().copied());
    sizes.map(Bytes::get).collect()
}

fn length_and_digest(path: &Path) -> io::Result<(u64, String)> {
    let mut file = fs::File::open(path)?;
    let (mut running, mut length) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((length, hex(&running.finalize()))),
            read => {
                running.update(&buffer[..read]);
                length += read as u64;
            }
        }
    }
}

/// Why the file that a command has written is not the object of which the origin knows this digest.
fn difference_in_file(path: &Path, bytes: Bytes, made: Option<&str>) -> Option<String> {
    match length_and_digest(path) {
        Ok((length, _)) if length != bytes.get() => {
            Some(format!("the command wrote {length} bytes, not {bytes}"))
        }
        Ok((_, read)) if Some(read.as_str()) == made => None,
        Ok((_, read)) => Some(format!(
            "the command wrote other bytes than the origin holds: SHA-256 {read}, not {}",
            made.unwrap_or("known")
        )),
        Err(error) => Some(format!("the command left no file: {error}")),
    }
}

/// The digest in an origin's report of an object.
fn stored_digest(line: &Value) -> Option<String> {
    line["sha256"].as_str().map(str::to_owned)
}

fn difference(sent: &str, stored: &str) -> Option<String> {
    (stored != sent).then(|| {
        format!("the origin stored other bytes than were sent: SHA-256 {stored}, not {sent}")
    })
}

fn hex(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    digest
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_was_asked_for_only_where_its_digest_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("object");
        let content = vec![7; 100_000];
        let made = hex(&Sha256::digest(&content));
        let compare = |made| difference_in_file(&path, Bytes::new(100_000), made);
        assert!(compare(Some(&made)).unwrap().contains("left no file"));
        fs::write(&path, &content).unwrap();
        assert_eq!(compare(Some(&made)), None);
        assert!(compare(None).is_some(), "nobody knows what it should be");
        let other = hex(&Sha256::digest(b"another"));
        assert!(compare(Some(&other)).unwrap().contains("other bytes"));
        fs::write(&path, &content[1..]).unwrap();
        let short = compare(Some(&made)).unwrap();
        assert!(short.contains("wrote 99999 bytes"), "{short}");
    }
}
