//! `longhaul flow`: a TCP load generator.

pub(crate) mod arguments;
mod client;
mod engine;
mod play;
mod server;
mod table;
mod ticker;

use std::process::ExitCode;
use std::sync::Arc;

use flow::engine::EngineError;

use crate::failure::{Blame as _, Failure, Kind};
use arguments::{Flow, FlowCommand};

pub(crate) fn run(arguments: Flow) -> Result<ExitCode, Failure> {
    match arguments.command {
        FlowCommand::Server(arguments) => server::run(&arguments),
        FlowCommand::Client(arguments) => client::run(&arguments),
        FlowCommand::Play(arguments) => play::run(&arguments),
    }
}

/// Calls `stop` at the first SIGINT or SIGTERM; the second one ends the process.
#[expect(
    clippy::exit,
    reason = "whoever asks twice does not want to wait for threads that wait for the network"
)]
pub(crate) fn on_signal(stop: Arc<dyn Fn() + Send + Sync>) -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .environment("cannot start the runtime")?;
    let inside = runtime.enter();
    let signals = signal(SignalKind::interrupt())
        .and_then(|interrupt| Ok((interrupt, signal(SignalKind::terminate())?)));
    let (mut interrupt, mut terminate) = signals.environment("cannot listen for signals")?;
    drop(inside);
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            stop();
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        std::process::exit(130);
    });
    Ok(())
}

/// Whose fault it is that a socket is not to be had, and the next step.
fn blame(error: EngineError) -> Failure {
    let is_setting = matches!(error, EngineError::Setting(_));
    let failure = Failure::new(Kind::Environment, error);
    if is_setting {
        return failure.hint(
            "`sysctl net.ipv4.tcp_allowed_congestion_control net.core.rmem_max net.core.wmem_max` \
             says what this host allows",
        );
    }
    failure
}
