//! The processes of a running scenario: link, origin, client. Each takes its configuration from the
//! first line of standard input and ends when that closes.

use std::net::SocketAddr;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::client::{Client, Series};
use store::credentials::Credentials;
use store::digest::sha256_hex;
use store::origin::{self, Listeners, Origin};
use store::payload;
use store::tls::Identity;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::arguments::WorkerRole;
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;

pub(super) fn run(role: WorkerRole) -> Result<ExitCode, Failure> {
    // Waiting for the disk is no part of the path that is measured. Where it is refused, the machine is as good
    // as it is.
    let _ = sys::residence::keep_program();
    match role {
        WorkerRole::Link => lab::emulator::worker().environment("the link emulator failed")?,
        WorkerRole::Origin => on_runtime(origin())?,
        WorkerRole::Client => on_runtime(client())?,
        WorkerRole::Hold => hold()?,
        WorkerRole::Probe => probe()?,
    }
    Ok(ExitCode::SUCCESS)
}

fn on_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .environment("cannot start the runtime")?
        .block_on(work)
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct OriginSetup {
    listen: SocketAddr,
    credentials: Credentials,
    bucket: String,
    /// Where it speaks TLS, with a certificate for `name`; only plain text where absent.
    #[serde(default)]
    tls: Option<TlsSetup>,
    /// Seed and sizes of the objects that are there to be read.
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    made: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct TlsSetup {
    listen: SocketAddr,
    name: String,
}

/// The embedded S3 origin. Its first line says where it listens, and with TLS carries `certificate` and
/// `key` (PEM), for clients and relays, and `made`, the SHA-256 of every object that is there to be read by
/// its size; then it prints a line for every object it has stored.
async fn origin() -> Result<(), Failure> {
    let setup: OriginSetup = super::configuration()?;
    let mut listening = json!({ "event": "listening", "address": setup.listen });
    let mut listeners = Listeners {
        plain: listen(setup.listen).await?,
        tls: None,
    };
    if let Some(tls) = &setup.tls {
        let identity = Identity::make(std::slice::from_ref(&tls.name))
            .environment("cannot make the origin's certificate")?;
        listening["tls-address"] = json!(tls.listen);
        listening["certificate"] = json!(identity.certificate_pem());
        listening["key"] = json!(identity.key_pem());
        listeners.tls = Some((listen(tls.listen).await?, identity));
    }
    let seed = setup.seed;
    let digests = setup.made.iter().map(|bytes| made_digest(seed, *bytes));
    listening["made"] = digests
        .collect::<Result<Map<String, Value>, Failure>>()?
        .into();
    let config = origin::Config {
        buckets: vec![setup.bucket.clone()],
        form_bucket: setup.bucket,
        seed: setup.seed,
        made: setup.made,
        ..origin::Config::new(setup.credentials)
    };
    let (sender, mut stored) = tokio::sync::mpsc::unbounded_channel();
    let origin = Origin::prepare(&config, sender).environment("the origin could not begin")?;
    let serving = origin.serve(listeners, closed_input());
    output::json_line(&listening)?;
    let printing = async {
        while let Some(object) = stored.recv().await {
            output::json_line(&object)?;
        }
        Ok(())
    };
    let (served, printed) = tokio::join!(serving, printing);
    served.environment("the origin failed")?;
    printed
}

/// The size of an object that the origin makes, and its SHA-256.
fn made_digest(seed: u64, bytes: u64) -> Result<(String, Value), Failure> {
    let length = usize::try_from(bytes).environment("the origin can't make its objects")?;
    let digest = sha256_hex(&payload::made(seed, length));
    Ok((bytes.to_string(), digest.into()))
}

async fn listen(address: SocketAddr) -> Result<tokio::net::TcpListener, Failure> {
    tokio::net::TcpListener::bind(address)
        .await
        .environment(format!("cannot listen at {address}"))
}

/// The built-in client; for every line that comes it does a transfer, and prints a line about it. Whoever
/// measures looks at what he wants to compare in between.
async fn client() -> Result<(), Failure> {
    let series: Series = super::configuration()?;
    let mut client = Client::new(&series).environment("the client could not begin")?;
    let mut words = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(_)) = words.next_line().await {
        let transfer = client.next().await;
        match transfer.environment("the client could not go on")? {
            Some(transfer) => output::json_line(&transfer)?,
            None => break,
        }
    }
    Ok(())
}

/// Stays where it was started until the lab ends.
fn hold() -> Result<(), Failure> {
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        .map(|_| ())
        .environment("cannot wait for the lab's end")
}

/// Isolates this process as `lab run` would, makes a network namespace, and says by which privilege.
fn probe() -> Result<(), Failure> {
    let privilege = sys::isolation::isolate().map_err(|error| {
        let hint = error.hint();
        Failure::new(Kind::Environment, error).hint(hint)
    })?;
    sys::namespace::NetworkNamespace::create("probe").environment("cannot use namespaces")?;
    output::data(match privilege {
        sys::isolation::Privilege::Root => "as root\n",
        sys::isolation::Privilege::UserNamespace => {
            "in a user namespace; without real-time priority delays are less exact\n"
        }
    })
}

/// Ready when standard input has been closed: the lab has ended, or asks this process to.
async fn closed_input() {
    let mut buffer = [0; 64];
    let mut stdin = tokio::io::stdin();
    while stdin.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}
