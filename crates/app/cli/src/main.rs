//! The `longhaul` binary: arguments, commands, output. No decision about networks is made here.

mod arguments;
mod commands;
mod failure;
mod input;
mod output;

use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Arguments, Command};
use failure::Failure;

fn main() -> ExitCode {
    // The standard library ignores SIGPIPE; a closed pipe then shows as an error on write, which
    // `output` treats as success: `longhaul explain … | head` is not a failure.
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::usage(&error),
    };
    let result = run(arguments);
    match result {
        Ok(code) => code,
        Err(failure) => output::failure(&failure),
    }
}

fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    if arguments.version {
        return commands::version::run(arguments.json);
    }
    let Some(command) = arguments.command else {
        return Ok(output::help());
    };
    match command {
        Command::Cc(cc) => commands::cc::run(&cc),
        Command::Doctor(doctor) => commands::doctor::run(&doctor),
        Command::Explain(explain) => commands::explain::run(&explain),
        Command::Flow(flow) => commands::flow::run(flow),
        Command::Lab(lab) => commands::lab::run(lab),
        Command::Object(object) => commands::object::run(&object),
        Command::Completions { shell } => commands::paper::completions(shell),
        Command::Manual { folder } => commands::paper::manual(&folder),
        Command::Profile(profile) => commands::profile::run(&profile),
        Command::Relay(relay) => commands::relay::run(relay),
        Command::Schema(schema) => commands::schema::run(&schema),
        Command::Simulate(simulate) => commands::simulate::run(&simulate),
        Command::Tune(tune) => commands::tune::run(&tune),
        Command::Top(top) => commands::top::run(&top),
        Command::Trunk(trunk) => commands::trunk::run(&trunk),
    }
}
