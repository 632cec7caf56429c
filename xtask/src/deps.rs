//! Dependency directions, proved from `cargo metadata`: imports go down only.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// Crates that do I/O or need an operating system; none may be reached from the core.
const IMPURE: [&str; 8] = [
    "tokio",
    "mio",
    "libc",
    "rustix",
    "socket2",
    "hyper",
    "reqwest",
    "tracing-subscriber",
];

/// Edges inside one floor that the house forbids, with the reason.
const FORBIDDEN: [(&str, &str, &str); 4] = [
    (
        "longhaul-lab",
        "longhaul-relay",
        "the lab drives the real binary as a process",
    ),
    (
        "longhaul-lab",
        "longhaul-explain",
        "the lab drives the real binary as a process",
    ),
    (
        "longhaul-report",
        "longhaul-explain",
        "producers and consumers meet only in `record`",
    ),
    (
        "longhaul-relay",
        "longhaul-lab",
        "the relay is a product, not a part of the lab",
    ),
];

/// Edges outside the workspace that reach an impure crate for something pure, with the reason.
const EXCUSED: [(&str, &str, &str); 3] = [
    (
        "cpufeatures",
        "libc",
        "on other processors than x86 it asks the C library what the processor can do, and nothing else",
    ),
    (
        "ring",
        "libc",
        "on other processors than x86 it asks the C library what the processor can do, and nothing else",
    ),
    (
        "getrandom",
        "libc",
        "ring has it for who asks for random bytes; `envelope` is given them",
    ),
];

/// Checks every edge of the workspace.
pub(crate) fn check() -> Result<()> {
    let metadata = metadata()?;
    let graph = Graph::read(&metadata)?;
    let mut problems = Vec::new();
    let mut edges = 0;
    for (name, floor) in &graph.floors {
        let reached = graph.reachable(name);
        edges += reached.len();
        for other in &reached {
            if let Some(below) = graph.floors.get(other)
                && below > floor
            {
                problems.push(format!(
                    "{name} ({floor:?}) imports {other} ({below:?}), which is above"
                ));
            }
            if *floor == Floor::Core && IMPURE.contains(&other.as_str()) {
                problems.push(format!(
                    "{name} is core and reaches {other}, which does I/O"
                ));
            }
        }
        for (from, to, reason) in FORBIDDEN {
            if from == name && reached.contains(to) {
                problems.push(format!("{from} reaches {to}: {reason}"));
            }
        }
    }
    ensure!(
        edges > 0,
        "no dependency was found: the check itself is broken"
    );
    if !problems.is_empty() {
        bail!("dependency directions:\n  {}", problems.join("\n  "));
    }
    println!(
        "> dependency directions: {} crates, {edges} edges, all downwards",
        graph.floors.len()
    );
    Ok(())
}

/// The floors of the house, lowest first; the order is the rule.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Floor {
    Core,
    Host,
    App,
    Tool,
}

struct Graph {
    floors: BTreeMap<String, Floor>,
    normal: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn read(metadata: &Value) -> Result<Self> {
        let mut names = BTreeMap::new();
        let mut floors = BTreeMap::new();
        for package in array(metadata, "packages")? {
            let (id, name) = (text(package, "id")?, text(package, "name")?);
            names.insert(id, name.to_owned());
            if package.get("source").is_some_and(Value::is_null) {
                let path = text(package, "manifest_path")?;
                let floor = match path {
                    path if path.contains("/crates/core/") => Floor::Core,
                    path if path.contains("/crates/host/") => Floor::Host,
                    path if path.contains("/crates/app/") => Floor::App,
                    path if path.contains("/xtask/") => Floor::Tool,
                    path => bail!("{name} at {path} lies on no floor"),
                };
                floors.insert(name.to_owned(), floor);
            }
        }
        let mut normal: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let resolve = metadata
            .get("resolve")
            .context("cargo metadata has no `resolve`")?;
        for node in array(resolve, "nodes")? {
            let from = names
                .get(text(node, "id")?)
                .context("a node without a package")?;
            for dependency in array(node, "deps")? {
                // Tests may reach up (the capture reader in the tests of connections); products may not.
                let is_normal = array(dependency, "dep_kinds")?
                    .iter()
                    .any(|kind| kind.get("kind").is_some_and(Value::is_null));
                if is_normal {
                    let to = names
                        .get(text(dependency, "pkg")?)
                        .context("an edge to nowhere")?;
                    if EXCUSED
                        .iter()
                        .any(|(a, b, _)| (a, b) == (&from.as_str(), &to.as_str()))
                    {
                        continue;
                    }
                    normal.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        Ok(Self { floors, normal })
    }

    fn reachable(&self, from: &str) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(name) = open.pop() {
            for next in self.normal.get(name).into_iter().flatten() {
                if reached.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        reached
    }
}

fn metadata() -> Result<Value> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .context("cannot start `cargo metadata`")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`cargo metadata --locked` failed: {errors}"
    );
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}

fn array<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>> {
    value
        .get(field)
        .and_then(Value::as_array)
        .with_context(|| format!("no array `{field}`"))
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value
        .get(field)
        .and_then(Value::as_str)
        .with_context(|| format!("no text `{field}`"))
}
