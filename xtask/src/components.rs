//! What the binary is made of: every crate that is linked into it, with its licence, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

/// The package whose binary is shipped.
const ROOT: &str = "longhaul-cli";

/// A crate in the binary.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Component {
    name: String,
    version: String,
    /// As its manifest says, in SPDX.
    licence: String,
    /// One of this workspace.
    is_ours: bool,
}

/// A `CycloneDX` 1.5 bill of materials, in JSON.
pub(crate) fn bill() -> Result<String> {
    let components = components()?;
    let described: Vec<Value> = components
        .iter()
        .map(|one| {
            let reference = format!("pkg:cargo/{}@{}", one.name, one.version);
            json!({
                "type": "library",
                "bom-ref": reference,
                "purl": reference,
                "name": one.name,
                "version": one.version,
                "licenses": [{ "expression": one.licence }],
            })
        })
        .collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "longhaul",
                "name": "longhaul",
                "version": env!("CARGO_PKG_VERSION"),
                "licenses": [{ "expression": "Apache-2.0" }],
            },
        },
        "components": described,
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

/// Every foreign crate by licence, in Markdown.
pub(crate) fn licences() -> Result<String> {
    let mut by_licence: BTreeMap<String, Vec<Component>> = BTreeMap::new();
    for one in components()? {
        if !one.is_ours {
            by_licence.entry(one.licence.clone()).or_default().push(one);
        }
    }
    let mut text = String::from(
        "# Crates of others in this program\n\nBy licence, as their manifests say (SPDX).\n",
    );
    for (licence, components) in by_licence {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "\n## {licence}\n");
        for one in components {
            let _ = writeln!(text, "- {} {}", one.name, one.version);
        }
    }
    Ok(text)
}

/// Crates that normal dependencies reach from the binary's package. Build scripts' and tests' own are not in it.
fn components() -> Result<BTreeSet<Component>> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .output()
        .context("cannot start `cargo metadata`")?;
    ensure!(
        output.status.success(),
        "`cargo metadata` failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let reached = reached(&metadata).context("cargo metadata has an unknown shape")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let mut components = BTreeSet::new();
    for package in packages {
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        if !reached.contains(&text("id")) {
            continue;
        }
        let licence = text("license");
        ensure!(
            !licence.is_empty(),
            "{} names no licence in its manifest",
            text("name")
        );
        components.insert(Component {
            name: text("name"),
            version: text("version"),
            // An older way to write OR.
            licence: licence.replace('/', " OR "),
            is_ours: package["source"].is_null(),
        });
    }
    Ok(components)
}

fn reached(metadata: &Value) -> Option<BTreeSet<String>> {
    let packages = metadata["packages"].as_array()?;
    let root = packages.iter().find(|one| one["name"] == ROOT)?["id"].as_str()?;
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()?
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let mut reached = BTreeSet::new();
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        if !reached.insert(id.to_owned()) {
            continue;
        }
        for dependency in nodes.get(id)?["deps"].as_array()? {
            let kinds = dependency["dep_kinds"].as_array()?;
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                open.push(dependency["pkg"].as_str()?);
            }
        }
    }
    Some(reached)
}
