//! That schedules and traces begin when the emulator is told so, on real kernels. Needs root; without it, these
//! tests fail. Nothing here is a matter of time: what must not have happened could not for an hour.

mod support;

use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, thread};

use libtest_mimic::{Arguments, Failed, Trial};
use link::{Change, LossSpec, Outage, PathSpec, Trace};
use longhaul_lab::emulator;
use sys::isolation;
use units::Bytes;

use crate::support::{Bench, FAR, NEAR, Outcome, ensure};

/// Between two looks at what the link has done.
const LOOK: Duration = Duration::from_millis(10);
/// When a test gives up.
const PATIENCE: Duration = Duration::from_mins(2);

#[expect(
    clippy::print_stderr,
    reason = "a test's only way to say why it cannot run"
)]
fn main() -> ExitCode {
    if env::args().nth(1).as_deref() == Some("emulator") {
        return match emulator::worker() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    if let Err(error) = isolation::isolate() {
        eprintln!("{error}; {}", error.hint());
        return ExitCode::from(3);
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let tests = vec![
        trial("an_outage_comes_back_with_the_start", outage),
        trial("a_trace_begins_with_the_start", trace),
    ];
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn trial(name: &str, test: impl FnOnce() -> Outcome + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test().map_err(|error| Failed::from(error.to_string()))
    })
}

/// The path begins with an outage and has none later, so that one that comes back was started.
fn outage() -> Outcome {
    let mut path = plain();
    path.forward.schedule = vec![Change {
        lasts: Some(Duration::from_secs(2)),
        outage: Some(Outage::Drop),
        ..Change::default()
    }];
    let mut bench = Bench::new(&path)?;
    let deadline = Instant::now() + PATIENCE;
    // The first one to arrive proves that it is over.
    loop {
        send(&bench)?;
        if bench.counters()?.forward.delivered.packets > 0 {
            break;
        }
        expect_before(deadline, "the outage at the beginning did not end")?;
    }
    let before = bench.counters()?.forward.outage.packets;
    // A machine that stands still for two seconds misses it, and tries again.
    loop {
        bench.tell("start")?;
        send(&bench)?;
        if bench.counters()?.forward.outage.packets > before {
            break;
        }
        expect_before(deadline, "the outage did not come back")?;
    }
    bench.stop()?;
    Ok(())
}

/// All opportunities are in the first millisecond of an hour: later nothing leaves, unless it begins again.
fn trace() -> Outcome {
    let mut path = plain();
    path.forward.trace = Some(Trace::parse(&("1\n".repeat(1_000) + "3600000\n"))?);
    let mut bench = Bench::new(&path)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        send(&bench)?;
        if bench.counters()?.forward.queued.packets > 0 {
            break;
        }
        expect_before(deadline, "the trace did not end")?;
    }
    let before = bench.counters()?.forward.delivered.packets;
    bench.tell("start")?;
    loop {
        let counters = bench.counters()?;
        if counters.forward.delivered.packets > before && counters.forward.queued.packets == 0 {
            break;
        }
        thread::sleep(LOOK);
        expect_before(deadline, "the trace did not begin again")?;
    }
    bench.stop()?;
    Ok(())
}

/// 2 ms, without a bottleneck.
fn plain() -> PathSpec {
    let rtt = Duration::from_millis(2);
    PathSpec::symmetric(rtt, None, Bytes::new(100_000), LossSpec::None, 1)
}

/// One datagram forward, and time for the link to see it.
fn send(bench: &Bench) -> Outcome {
    bench.near.enter(|| {
        let socket = UdpSocket::bind((NEAR, 0))?;
        socket.send_to(b"forward", (FAR, 9))
    })??;
    thread::sleep(LOOK);
    Ok(())
}

fn expect_before(deadline: Instant, otherwise: &str) -> Outcome {
    ensure(Instant::now() < deadline, otherwise)
}
