//! `longhaul flow client`.

use std::io::{self, IsTerminal as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use flow::Progress;
use flow::client::{Control, Directions, Outcome, Plan, Workload};
use flow::engine::SocketOptions;
use flow::protocol::ReadPause;
use record::flow::Document;
use units::{Bytes, Span};

use super::arguments::{Client, Way};
use super::ticker::Ticker;
use super::{engine, on_signal, table};
use crate::commands::lab;
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;

/// What is carried where nothing is said, as with iperf3.
const DEFAULT: Duration = Duration::from_secs(10);
/// Exchanges or bursts where nothing is said.
const DEFAULT_COUNT: u64 = 10;

pub(crate) fn run(arguments: &Client) -> Result<ExitCode, Failure> {
    let server = resolved(&arguments.server)?;
    let (engine, socket, stack) = engine::of(&arguments.stack, &arguments.socket, arguments.bind)?;
    let plan = plan(arguments, server, socket);
    let manifest = lab::manifest();
    let control = Arc::new(Control::default());
    let stop = Arc::clone(&control);
    on_signal(Arc::new(move || stop.stop()))?;
    let mut ticker = Ticker::new(io::stderr().is_terminal() && !arguments.json);
    let outcome = flow::client::run(&*engine, &plan, &control, &mut |progress: Progress| {
        ticker.show(&progress);
    });
    ticker.clear();
    let Outcome {
        flows,
        totals,
        began,
        interrupted,
    } = outcome;
    let since_1970 = began.duration_since(UNIX_EPOCH).ok();
    let document = Document {
        schema: "longhaul.flow".into(),
        version: record::VERSION,
        manifest,
        server: plan.server.to_string(),
        stack: stack.into(),
        workload: words(&plan),
        seed: plan.seed,
        began_unix_s: since_1970.map(|since| since.as_secs_f64()),
        interrupted,
        flows,
        totals,
    };
    if let Some(path) = &arguments.html {
        std::fs::write(path, report::html::flow(&document))
            .usage(format!("cannot write `{}`", path.display()))?;
    }
    if arguments.json {
        output::json(&document)?;
    } else {
        output::data(&table::of(&document))?;
    }
    verdict(&document)
}

/// A flow that failed is the environment's, bytes that differ are an assertion that does not hold.
fn verdict(document: &Document) -> Result<ExitCode, Failure> {
    if !document.totals.data_ok {
        output::say("error: bytes came that were not the ones sent");
        return Ok(ExitCode::from(Kind::Assertion.exit_code()));
    }
    if document.interrupted {
        return Ok(ExitCode::from(130));
    }
    let Some(error) = document.flows.iter().find_map(|flow| flow.error.as_ref()) else {
        return Ok(ExitCode::SUCCESS);
    };
    let failure = Failure::new(Kind::Environment, anyhow::anyhow!("{error}"));
    Err(if error.contains("Connection refused") {
        failure.hint("start `longhaul flow server LISTEN` there first")
    } else if error.contains("TCP_CONGESTION") {
        let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let known = known.unwrap_or_default();
        failure.hint(format!("this kernel has: {}", known.trim()))
    } else {
        failure
    })
}

/// The first address of a name.
fn resolved(server: &str) -> Result<SocketAddr, Failure> {
    let unknown = || format!("cannot find the address of `{server}`");
    let mut addresses = server.to_socket_addrs().environment(unknown())?;
    addresses
        .next()
        .ok_or_else(|| Failure::new(Kind::Environment, anyhow::anyhow!(unknown())))
}

fn plan(arguments: &Client, server: SocketAddr, socket: SocketOptions) -> Plan {
    let load = &arguments.load;
    let idle = arguments.idle.map_or(Duration::ZERO, Span::get);
    let count = arguments.count.unwrap_or(DEFAULT_COUNT);
    let direction = match arguments.direction {
        Way::Up => Directions::Up,
        Way::Down => Directions::Down,
        Way::Both => Directions::Both,
    };
    let sizes = |sizes: Vec<Bytes>, reuse| Workload::Sizes {
        direction,
        sizes,
        idle,
        reuse,
    };
    let workload = if let Some(bytes) = load.bytes {
        sizes(vec![bytes], true)
    } else if let Some(pair) = load.exchange {
        Workload::Exchanges {
            request: pair.0,
            response: pair.1,
            count,
            idle,
        }
    } else if let Some(burst) = load.burst {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        sizes(vec![burst; count], true)
    } else if load.sizes.is_empty() {
        Workload::Duration {
            direction,
            duration: load.duration.map_or(DEFAULT, Span::get),
        }
    } else {
        sizes(load.sizes.clone(), arguments.reuse)
    };
    Plan {
        server,
        socket,
        seed: arguments.seed,
        interval: arguments.interval.get(),
        lanes: arguments.parallel,
        stagger: arguments.stagger.get(),
        read_pause: arguments.read_pause.map(|pair| ReadPause {
            after_bytes: pair.0.get(),
            for_ns: u64::try_from(pair.1.get().as_nanos()).unwrap_or(u64::MAX),
        }),
        sink: arguments.sink,
        workload,
    }
}

/// The workload in words, for the record.
fn words(plan: &Plan) -> String {
    let way = |direction: Directions| match direction {
        Directions::Up => "up",
        Directions::Down => "down",
        Directions::Both => "both ways",
    };
    let what = match &plan.workload {
        Workload::Sizes {
            direction,
            sizes,
            idle,
            reuse,
        } => {
            let list = match sizes.as_slice() {
                [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|size| size == first) => {
                    format!("{} x {first}", sizes.len())
                }
                sizes => sizes
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            let idle = apart(*idle);
            let reuse = if sizes.len() < 2 {
                ""
            } else if *reuse {
                ", one connection"
            } else {
                ", a connection each"
            };
            format!("{list} {}{idle}{reuse}", way(*direction))
        }
        Workload::Duration {
            direction,
            duration,
        } => format!("{} {}", Span::from(*duration), way(*direction)),
        Workload::Exchanges {
            request,
            response,
            count,
            idle,
        } => format!(
            "{count} exchanges of {request} for {response}{}",
            apart(*idle)
        ),
    };
    if plan.lanes > 1 {
        format!("{} flows: {what}", plan.lanes)
    } else {
        what
    }
}

/// `, 2 s apart`; nothing where there is no pause.
fn apart(idle: Duration) -> String {
    if idle.is_zero() {
        String::new()
    } else {
        format!(", {} apart", Span::from(idle))
    }
}
