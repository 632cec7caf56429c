//! `lab netem`: a scenario's path in the words of Linux's own emulator.

use std::process::{Command, ExitCode};

use lab::netem::{self, Direction, NetemError};

use crate::commands::lab::arguments::{LabNetem, Way};
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;

pub(super) fn run(arguments: &LabNetem) -> Result<ExitCode, Failure> {
    let variants = super::read(&arguments.scenario)?;
    let scenario = super::first(&arguments.scenario, &variants)?;
    let spec = scenario.path.spec(scenario.seed);
    let spec = spec.direction(match arguments.direction {
        Way::Forward => Direction::Forward,
        Way::Backward => Direction::Backward,
    });
    let device = &arguments.device;
    for line in netem::lines(spec, device).usage("this path needs the lab's own link")? {
        output::data(&format!("tc {line}\n"))?;
    }
    if arguments.apply {
        netem::apply(spec, device, || Command::new("tc")).map_err(|error| {
            let kind = match error {
                NetemError::Beyond { .. } => Kind::Usage,
                NetemError::Run(_)
                | NetemError::Missing
                | NetemError::Unreadable(_)
                | NetemError::Restless
                | NetemError::Refused { .. } => Kind::Environment,
            };
            Failure::new(kind, error)
        })?;
        output::say(&format!(
            "in effect; `tc qdisc del dev {device} root` takes it away"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
