//! One flow on a dumbbell, for measuring the simulator's speed from outside:
//!
//! ```text
//! time cargo run --release -p longhaul-sim --example dumbbell -- 10000 1 cubic 10 0
//! ```
//!
//! Arguments: Mbit/s, RTT in ms, congestion control, seconds to simulate, losses per 10^9, and as a last
//! one, if wanted, the initial slow-start threshold in bytes (field case E: 65535).

#![expect(clippy::print_stdout, reason = "a program to be run by hand")]

use std::time::Duration;

use link::{LossSpec, PathSpec};
use longhaul_sim::{Side, World};
use tcp::{Config, ReceiveBuffer};
use units::{Bytes, LossRate, Rate, Time};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rate, rtt, algorithm, seconds, loss, ssthresh @ ..] = arguments.as_slice() else {
        return Err(
            "usage: dumbbell MBIT/S RTT_MS ALGORITHM SECONDS LOSSES_PER_10^9 [SSTHRESH]".into(),
        );
    };
    let rate = Rate::mbit_per_s(rate.parse()?);
    let rtt = Duration::from_secs_f64(rtt.parse::<f64>()? / 1e3);
    let product = rate.checked_mul(rtt).ok_or("too large")?;
    let loss = LossRate::per_billion(loss.parse()?).ok_or("more than everything")?;
    let mut path = PathSpec::symmetric(
        rtt,
        Some(rate),
        product.max(Bytes::new(150_000)),
        LossSpec::None,
        1,
    );
    if loss != LossRate::ZERO {
        path.forward.loss = LossSpec::Bernoulli(loss);
    }
    let near = Config {
        algorithm: algorithm.parse()?,
        send_buffer: Bytes::mib(512),
        initial_ssthresh: ssthresh
            .first()
            .map(|bytes| bytes.parse())
            .transpose()?
            .map(Bytes::new),
        ..Config::linux()
    };
    let far = Config {
        receive_buffer: ReceiveBuffer::Autotuned {
            initial: Bytes::kib(64),
            max: Bytes::mib(512),
        },
        ..Config::linux()
    };
    let mut world = World::new();
    let road = world.add_path(&path)?;
    let flow = world.connect(road, &near, &far);
    let until = Time::from_millis(seconds.parse::<u64>()?.saturating_mul(1_000));
    let mut received = 0;
    loop {
        world.write(flow, Side::Near, u64::MAX);
        received += world.read(flow, Side::Far, u64::MAX);
        if world.next(until).is_none() {
            break;
        }
    }
    let sender = world.end(flow, Side::Near).ok_or("no flow")?.sender();
    println!(
        "{received} bytes received, {} packets delivered",
        world.packets()
    );
    println!("{sender:?}");
    Ok(())
}
