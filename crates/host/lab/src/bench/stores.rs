//! The stores of a bench: the origin, and the one beside the client from which objects are replicated.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use scenario::{Kind, Scenario};
use serde_json::json;

use super::objects::sizes;
use super::topology::{Place, Topology};
use super::{ACCESS_KEY, BUCKET, BenchError, READY, SECRET_KEY};
use crate::worker::Worker;

/// Where the store beside the client listens.
pub(super) const NEAR_STORE_PORT: u16 = 8_333;
/// The origin's certificate among the results, for clients and relays that speak TLS. Each bench has its own.
pub(super) const CERTIFICATE: &str = "origin.pem";
/// Its key, for relays that stand in for it.
pub(super) const KEY: &str = "origin-key.pem";

/// A store, and the certificate that it shows where it speaks TLS.
pub(super) struct Store {
    pub(super) process: Worker,
    pub(super) certificate: Option<String>,
    /// SHA-256 of the objects that are there to be read, by their size.
    pub(super) made: BTreeMap<u64, String>,
}

/// The origin, with every object that some workload reads from it.
pub(super) fn start_origin(
    scenario: &Scenario,
    seed: u64,
    binary: &Path,
    topology: &Topology,
    (identity, logs): (&[PathBuf; 2], &Path),
) -> Result<Store, BenchError> {
    let with_tls = scenario
        .workloads
        .iter()
        .any(|workload| workload.tls.is_some())
        || scenario.arms.iter().any(|arm| arm.tls.is_some());
    let tls = with_tls.then(|| {
        let listen = SocketAddr::new(topology.address(Place::Origin), scenario.origin.tls_port());
        json!({ "listen": listen, "name": scenario.origin.name })
    });
    let listen = SocketAddr::new(topology.address(Place::Origin), scenario.origin.port);
    let command = topology
        .command(Place::Origin, binary, None)
        .map_err(BenchError::Topology)?;
    let made = made(scenario, Kind::Download);
    let store = start("origin", command, listen, tls.as_ref(), (seed, &made), logs)?;
    if let Some((certificate, key)) = &store.identity {
        for (path, text) in identity.iter().zip([certificate, key]) {
            fs::write(path, text).map_err(|source| BenchError::Object {
                path: path.clone(),
                source,
            })?;
        }
    }
    Ok(Store {
        process: store.process,
        certificate: store.identity.map(|(certificate, _)| certificate),
        made: store.made,
    })
}

/// The store beside the client, where a workload needs one.
pub(super) fn start_near_store(
    scenario: &Scenario,
    seed: u64,
    binary: &Path,
    topology: &Topology,
    logs: &Path,
) -> Result<Option<Worker>, BenchError> {
    let made = made(scenario, Kind::Replicate);
    if made.is_empty() {
        return Ok(None);
    }
    let listen = SocketAddr::new(topology.address(Place::Client), NEAR_STORE_PORT);
    let command = topology
        .command(Place::Client, binary, None)
        .map_err(BenchError::Topology)?;
    let store = start("near-store", command, listen, None, (seed, &made), logs)?;
    Ok(Some(store.process))
}

/// Sizes of the objects that workloads of this kind read.
fn made(scenario: &Scenario, kind: Kind) -> Vec<u64> {
    let of_kind = scenario
        .workloads
        .iter()
        .filter(|workload| workload.kind == kind);
    let mut sizes: Vec<u64> = of_kind.flat_map(sizes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// A certificate and its key, as PEM.
type Identity = (String, String);

/// A store's process and what its first line tells.
struct Started {
    process: Worker,
    identity: Option<Identity>,
    made: BTreeMap<u64, String>,
}

/// SHA-256 of objects by their size.
fn digests(made: &serde_json::Value) -> BTreeMap<u64, String> {
    let entries = made.as_object().into_iter().flatten();
    entries
        .filter_map(|(bytes, digest)| Some((bytes.parse().ok()?, digest.as_str()?.to_owned())))
        .collect()
}

fn start(
    name: &str,
    mut command: Command,
    listen: SocketAddr,
    tls: Option<&serde_json::Value>,
    (seed, made): (u64, &[u64]),
    logs: &Path,
) -> Result<Started, BenchError> {
    command.args(["lab", "worker", "origin"]);
    let config = json!({
        "listen": listen,
        "credentials": { "access-key": ACCESS_KEY, "secret-key": SECRET_KEY },
        "bucket": BUCKET,
        "tls": tls,
        "seed": seed,
        "made": made,
    });
    let mut process = Worker::start(name, command, &config, logs)?;
    let (identity, made) = process.wait_for("that it listens", READY, |line| {
        (line["event"] == "listening").then(|| {
            let text = |field: &str| line[field].as_str().map(str::to_owned);
            let identity = text("certificate").zip(text("key"));
            (identity, digests(&line["made"]))
        })
    })?;
    Ok(Started {
        process,
        identity,
        made,
    })
}
