//! The processes of a running scenario: link, origin, client. Each takes its configuration from the
//! first line of standard input and ends when that closes.

use std::net::SocketAddr;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::json;
use store::client::Series;
use store::credentials::Credentials;
use store::origin;
use tokio::io::AsyncReadExt as _;

use crate::arguments::WorkerRole;
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;

pub(super) fn run(role: WorkerRole) -> Result<ExitCode, Failure> {
    match role {
        WorkerRole::Link => lab::emulator::worker().environment("the link emulator failed")?,
        WorkerRole::Origin => on_runtime(origin())?,
        WorkerRole::Client => on_runtime(client())?,
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
}

/// The embedded S3 origin; prints a line for every object it has stored.
async fn origin() -> Result<(), Failure> {
    let setup: OriginSetup = super::configuration()?;
    let listener = tokio::net::TcpListener::bind(setup.listen)
        .await
        .environment(format!("cannot listen at {}", setup.listen))?;
    output::json_line(&json!({ "event": "listening", "address": setup.listen }))?;
    let config = origin::Config {
        buckets: vec![setup.bucket.clone()],
        form_bucket: setup.bucket,
        ..origin::Config::new(setup.credentials)
    };
    let (sender, mut stored) = tokio::sync::mpsc::unbounded_channel();
    let serving = origin::run(&config, listener, sender, closed_input());
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

/// The built-in client; prints a line for every upload.
async fn client() -> Result<(), Failure> {
    let series: Series = super::configuration()?;
    let mut printed = Ok(());
    store::client::upload(&series, |upload| {
        if printed.is_ok() {
            printed = output::json_line(upload);
        }
    })
    .await
    .environment("the client could not begin")?;
    printed
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
