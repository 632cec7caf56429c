//! The same transfers in virtual time.

use std::time::Duration;

use link::PathSpec;
use sim::{ConnectionId, Side, World};
use tcp::{Config, Event, ReceiveBuffer};
use units::{Bytes, Time};

use crate::{Result, Trace};

/// Payload of a full packet.
const SEGMENT: u64 = 1448;
/// After so long a transfer has failed.
const PATIENCE: Time = Time::from_millis(600_000);

/// See [`kernel::bulk`](crate::kernel::bulk).
pub(crate) fn bulk(path: &PathSpec, algorithm: &str, bytes: u64, step: Duration) -> Result<Trace> {
    bulk_from(path, algorithm, None, bytes, step)
}

/// The same with an initial threshold of so many segments.
pub(crate) fn bulk_from(
    path: &PathSpec,
    algorithm: &str,
    ssthresh: Option<u32>,
    bytes: u64,
    step: Duration,
) -> Result<Trace> {
    let (mut world, flow) = connect(path, algorithm, ssthresh)?;
    let mut received = 0;
    let mut windows = Vec::new();
    let mut next = Time::ZERO;
    let mut left = 0;
    while received < bytes {
        match world.next(next.min(PATIENCE)) {
            Some(notice) => {
                if (notice.side, notice.event) == (Side::Near, Event::Established) {
                    left = bytes;
                }
                left -= world.write(flow, Side::Near, left);
                received += world.read(flow, Side::Far, u64::MAX);
            }
            None if next >= PATIENCE => return Err("it does not come to an end".into()),
            None => {
                if let Some(end) = world.end(flow, Side::Near) {
                    let sender = end.sender();
                    windows.push((sender.acknowledged, sender.cwnd));
                }
                next += step;
            }
        }
    }
    let end = world.end(flow, Side::Near).map(|end| end.sender().ssthresh);
    Ok(Trace {
        seconds: world.now().as_secs_f64(),
        windows,
        ssthresh: end.filter(|threshold| *threshold < u32::MAX),
    })
}

/// See [`kernel::uploads`](crate::kernel::uploads).
pub(crate) fn uploads(
    path: &PathSpec,
    (head, object, answer): (u64, u64, u64),
    count: u32,
    pause: Duration,
) -> Result<Vec<f64>> {
    let (mut world, flow) = connect(path, "cubic", None)?;
    let mut times = Vec::new();
    let mut begun = Time::ZERO;
    while !world
        .next(PATIENCE)
        .is_some_and(|notice| (notice.side, notice.event) == (Side::Near, Event::Established))
    {}
    for _ in 0..count {
        // The head travels as a segment of its own.
        world.write(flow, Side::Near, head);
        let mut left = object - world.write(flow, Side::Near, object);
        let (mut asked, mut answered) = (0, 0);
        while answered < answer {
            world.next(PATIENCE).ok_or("it does not come to an end")?;
            if left > 0 {
                left -= world.write(flow, Side::Near, left);
            }
            let read = world.read(flow, Side::Far, u64::MAX);
            asked += read;
            if read > 0 && asked == head + object {
                world.write(flow, Side::Far, answer);
            }
            answered += world.read(flow, Side::Near, u64::MAX);
        }
        times.push(world.now().since(begun).as_secs_f64() * 1e3);
        world.run_until(world.now() + pause);
        begun = world.now();
    }
    Ok(times)
}

fn connect(
    path: &PathSpec,
    algorithm: &str,
    ssthresh: Option<u32>,
) -> Result<(World, ConnectionId)> {
    let config = Config {
        algorithm: algorithm.parse()?,
        initial_ssthresh: ssthresh.map(|segments| Bytes::new(u64::from(segments) * SEGMENT)),
        nagle: false,
        send_buffer: Bytes::mib(32),
        send_buffer_grows: true,
        receive_buffer: ReceiveBuffer::Autotuned {
            initial: Bytes::kib(64),
            max: Bytes::mib(16),
        },
        seed: path.seed,
        ..Config::linux()
    };
    let mut world = World::new();
    let road = world.add_path(path)?;
    let flow = world.connect(road, &config, &config);
    Ok((world, flow))
}
