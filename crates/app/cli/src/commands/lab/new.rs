//! `longhaul lab new`: a commented scenario to begin with.

use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use scenario::networks::{NETWORKS, Network, network};
use scenario::{Kind, Template};

use crate::failure::{Failure, Kind as FailureKind};
use crate::output;

/// Write a commented scenario for a path that people know by name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul lab new --list
  longhaul lab new transpacific > transpacific.toml
  longhaul lab new office --network transatlantic > office.toml
  longhaul lab new backup --network leo --workload upload,replicate > backup.toml

From a capture instead, with the path and the transfers that it shows:
  longhaul explain slow.pcapng --emit-scenario slow.toml")]
pub(crate) struct LabNew {
    /// Name of the scenario: letters, digits, `-`, `_` and `.` [default: the network's].
    #[arg(value_name = "NAME", required_unless_present_any = ["list", "network"])]
    name: Option<String>,

    /// The path [default: the one that NAME names, else coast-to-coast].
    #[arg(
        long,
        value_parser = PossibleValuesParser::new(NETWORKS.map(|network| network.name))
    )]
    network: Option<String>,

    /// Kinds of workloads, one of each.
    #[arg(
        long,
        default_value = "upload",
        value_delimiter = ',',
        value_name = "KIND",
        value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::as_str))
    )]
    workload: Vec<String>,

    /// Print the networks with their figures, and nothing else.
    #[arg(long)]
    list: bool,
}

pub(super) fn run(arguments: &LabNew) -> Result<ExitCode, Failure> {
    if arguments.list {
        output::data(&list())?;
        return Ok(ExitCode::SUCCESS);
    }
    let named = |word: &String| Kind::ALL.into_iter().find(|kind| kind.as_str() == word);
    let workloads: Vec<Kind> = arguments.workload.iter().filter_map(named).collect();
    let (name, network) = subject(arguments.name.as_deref(), arguments.network.as_deref());
    if arguments.network.is_none() && network.name != name {
        output::say(&format!(
            "the path is {}'s: choose another with --network, see them with --list",
            network.name
        ));
    }
    let text = Template {
        name,
        network,
        workloads: &workloads,
    }
    .text();
    // A name that no scenario can have is found where scenarios are read.
    scenario::read(&text).map_err(|error| Failure::new(FailureKind::Usage, error))?;
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The path of who names neither one nor a scenario after it.
const DEFAULT: &str = "coast-to-coast";

/// What the scenario is called, and its path. Each can stand for the other.
fn subject<'a>(name: Option<&'a str>, path: Option<&'a str>) -> (&'a str, &'static Network) {
    let words = [path, name, Some(DEFAULT)].into_iter().flatten();
    let chosen = words.into_iter().find_map(network).unwrap_or(&NETWORKS[0]);
    (name.unwrap_or(chosen.name), chosen)
}

fn list() -> String {
    let mut text = String::new();
    for network in &NETWORKS {
        let loss = network.loss.unwrap_or("none");
        let line = format!(
            "{:<15} RTT {:<9} rate {:<11} queue {:<8} loss {:<7} {}\n{:<15} {}\n",
            network.name,
            network.rtt,
            network.rate,
            network.queue,
            loss,
            network.title,
            "",
            network.source,
        );
        text.push_str(&line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_network_is_enough() {
        let named = |name, path| {
            let (name, network) = subject(name, path);
            (name, network.name)
        };
        let geo = "geo-satellite";
        assert_eq!(named(Some(geo), None), (geo, geo));
        assert_eq!(named(None, Some(geo)), (geo, geo));
        assert_eq!(named(Some("lan"), Some(geo)), ("lan", geo));
        assert_eq!(named(Some("office"), None), ("office", DEFAULT));
    }

    #[test]
    fn every_network_is_listed_with_its_source() {
        let text = list();
        for network in &NETWORKS {
            assert!(
                text.contains(network.name) && text.contains(network.source),
                "{text}"
            );
        }
    }
}
