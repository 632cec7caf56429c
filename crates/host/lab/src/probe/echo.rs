//! Round-trip time by UDP echo.

use std::time::{Duration, Instant};

use link::{Direction, PathSpec};
use sys::datagram;
use units::Bytes;

use crate::probe::message::{self, Inbox, Message};
use crate::probe::{PathReading, ProbeError, Sockets};

/// Echoes of one measurement: odd, so that the median is one of them, and enough that half may be late.
const ECHOES: u32 = 9;
const COUNT: u64 = ECHOES as u64;
/// Between two of them. Further apart than any queue they could build.
const SPACING: Duration = Duration::from_millis(5);
/// Beyond the round trip asked for, how long to wait for what may be lost.
const PATIENCE: Duration = Duration::from_millis(100);

/// Fills in the RTT and the losses that it met.
pub(super) fn measure(
    path: &PathSpec,
    sockets: &Sockets,
    reading: &mut PathReading,
) -> Result<(), ProbeError> {
    let serialisation = serialisation(path, sockets.headers + message::LENGTH);
    let deadline = SPACING * ECHOES + path.rtt() * 3 / 2 + serialisation + PATIENCE;
    let mut inbox = Inbox::new();
    let started = Instant::now();
    let mut sent_at = Vec::new();
    // Numbers of the pings that arrived, each of which was answered, in that order.
    let mut answered = Vec::new();
    let mut samples = Vec::new();
    loop {
        let number = reading.forward.sent;
        let due = SPACING * u32::try_from(number).unwrap_or(u32::MAX);
        if number < COUNT && started.elapsed() >= due {
            sent_at.push(datagram::now());
            sockets.send(Direction::Forward, &Message::Ping { number }.encode())?;
            reading.forward.sent += 1;
        }
        inbox.empty(sockets, Direction::Forward, |message, at| {
            if let Message::Ping { number } = message {
                let turnaround = datagram::now().saturating_sub(at);
                let pong = Message::Pong { number, turnaround };
                sockets.send(Direction::Backward, &pong.encode())?;
                answered.push(number);
                reading.backward.sent += 1;
            }
            Ok(())
        })?;
        inbox.empty(sockets, Direction::Backward, |message, at| {
            if let Message::Pong { number, turnaround } = message
                && let Some(sent_at) = usize::try_from(number).ok().and_then(|n| sent_at.get(n))
            {
                let span = at.saturating_sub(*sent_at).saturating_sub(turnaround);
                samples.push((number, span.saturating_sub(serialisation)));
            }
            Ok(())
        })?;
        let left = deadline.saturating_sub(started.elapsed());
        if u64::try_from(samples.len()) == Ok(COUNT) || left.is_zero() {
            break;
        }
        let next_send = if reading.forward.sent < COUNT {
            SPACING
        } else {
            left
        };
        sockets.wait(next_send.min(left))?;
    }
    let lost = |number: &u64| !answered.contains(number);
    reading.forward.lost = (0..reading.forward.sent).filter(lost).collect();
    // The n-th answer is the n-th packet backward, whichever ping it answers.
    let unheard = |number: &u64| !samples.iter().any(|(heard, _)| heard == number);
    reading.backward.lost = (0..)
        .zip(&answered)
        .filter(|(_, number)| unheard(number))
        .map(|(index, _)| index)
        .collect();
    reading.rtt_samples = samples.into_iter().map(|(_, span)| span).collect();
    Ok(())
}

/// The RTT asked for is that of an infinitely small packet; an echo takes this much more.
fn serialisation(path: &PathSpec, ip_bytes: usize) -> Duration {
    let ip_bytes = Bytes::new(u64::try_from(ip_bytes).unwrap_or(u64::MAX));
    Direction::BOTH
        .into_iter()
        .filter_map(|direction| ip_bytes.checked_div(path.direction(direction).rate?))
        .sum()
}
