//! `longhaul flow server`.

use std::process::ExitCode;
use std::sync::Arc;

use flow::server::{Event, Server};
use serde_json::{Value, json};

use super::arguments;
use super::{blame, engine, on_signal};
use crate::failure::Failure;
use crate::output;

pub(crate) fn run(arguments: &arguments::Server) -> Result<ExitCode, Failure> {
    let (engine, options, _) = engine::of(&arguments.stack, &arguments.socket, None)?;
    let server = Server::listen(&*engine, arguments.listen, &options).map_err(blame)?;
    let server = Arc::new(server);
    let stopped = Arc::clone(&server);
    on_signal(Arc::new(move || stopped.stop()))?;
    let local = server.local();
    if arguments.json {
        output::json_line(&json!({ "event": "ready", "address": local.to_string() }))?;
    } else {
        output::say(&format!("listening on {local}"));
    }
    let as_json = arguments.json;
    server.run(&|event| tell(&event, as_json));
    Ok(ExitCode::SUCCESS)
}

/// Says what happened. Where stdout is gone, there is nobody to tell.
fn tell(event: &Event, as_json: bool) {
    if as_json {
        let _ = output::json_line(&line(event));
        return;
    }
    match event {
        Event::Closed {
            peer,
            served,
            error,
        } => {
            let peer = address(*peer);
            let carried = format!(
                "{} B received, {} B sent in {:.3} s",
                served.received, served.sent, served.seconds
            );
            let data = served
                .first_difference
                .map(|offset| format!("; data differs from byte {offset} on"))
                .unwrap_or_default();
            let error = error
                .as_ref()
                .map(|error| format!("; {}", chain(error)))
                .unwrap_or_default();
            output::say(&format!("{peer}: {carried}{data}{error}"));
        }
        Event::NotAccepted { error } => output::say(&chain(error)),
        Event::Crowded { peer } => {
            output::say(&format!(
                "{}: turned away, too many connections",
                address(*peer)
            ));
        }
        _ => {}
    }
}

fn line(event: &Event) -> Value {
    match event {
        Event::Closed {
            peer,
            served,
            error,
        } => json!({
            "event": "closed",
            "peer": peer.map(|peer| peer.to_string()),
            "received": served.received,
            "sent": served.sent,
            "seconds": served.seconds,
            "first_difference": served.first_difference,
            "error": error.as_ref().map(|error| chain(error)),
        }),
        Event::NotAccepted { error } => json!({ "event": "not-accepted", "error": chain(error) }),
        Event::Crowded { peer } => {
            json!({ "event": "crowded", "peer": peer.map(|peer| peer.to_string()) })
        }
        _ => json!({ "event": "unknown" }),
    }
}

fn address(peer: Option<std::net::SocketAddr>) -> String {
    peer.map_or_else(
        || "a client that has gone".to_owned(),
        |peer| peer.to_string(),
    )
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
