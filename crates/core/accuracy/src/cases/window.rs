//! Held by a window: the receiver's, or the sender's own.

use core::time::Duration;

use congestion::Algorithm;
use record::LimitName;
use tcp::{Config, ReceiveBuffer};
use units::Bytes;

use super::{
    CUBIC, CUBIC_PLAIN, MS, RENO, case, host, receiving, roomy, sending, turns, with_receiver,
};
use crate::case::{Case, Reader};
use crate::draw::Draw;

fn window(draw: &mut Draw, rtt: Duration, window: Bytes, trips: u64) -> Case {
    let path = roomy(draw, rtt);
    let algorithm = draw.one_of([CUBIC, RENO, Algorithm::Bbr]);
    let bytes = window.get() * trips;
    let mut case = case(draw, LimitName::ReceiveWindow, path, host(algorithm), bytes);
    receiving(&mut case).receive_buffer = ReceiveBuffer::Fixed(window);
    case
}

pub(super) fn window_static(draw: &mut Draw) -> Case {
    let rtt = draw.millis(30..200);
    let size = draw.kib(48..480);
    let trips = draw.number(25..50);
    window(draw, rtt, size, trips)
}

pub(super) fn window_unscaled(draw: &mut Draw) -> Case {
    let rtt = draw.millis(30..200);
    let trips = draw.number(25..60);
    let mut case = window(draw, rtt, Bytes::new(65_535), trips);
    receiving(&mut case).window_scaling = false;
    case
}

/// Field case B: the next segment has no room, although the window is never full.
pub(super) fn window_two_segments(draw: &mut Draw) -> Case {
    let rtt = draw.millis(60..250);
    let size = draw.one_of([Bytes::kib(4), Bytes::new(5_000), Bytes::kib(8)]);
    let trips = draw.number(20..40);
    window(draw, rtt, size, trips)
}

pub(super) fn window_growing(draw: &mut Draw) -> Case {
    let rtt = draw.millis(60..200);
    let path = roomy(draw, rtt);
    let bytes = draw.number(1_000_000..3_000_000);
    let sending = Config {
        initial_cwnd: 400,
        ..host(RENO)
    };
    let mut case = case(draw, LimitName::ReceiveWindow, path, sending, bytes);
    receiving(&mut case).receive_buffer = ReceiveBuffer::Autotuned {
        initial: draw.kib(16..48),
        max: Bytes::mib(16),
    };
    case
}

pub(super) fn window_zero(draw: &mut Draw) -> Case {
    let rtt = draw.millis(5..60);
    let size = draw.kib(64..256);
    let mut case = window(draw, rtt, size, 20);
    case.reader = Reader::Pausing(size.get() * 2, rtt * 6 + draw.millis(100..600));
    case
}

pub(super) fn window_old_stack(draw: &mut Draw) -> Case {
    let rtt = draw.millis(40..200);
    let size = draw.kib(16..60);
    let mut case = window(draw, rtt, size, 40);
    let mut old = Config::old(size);
    old.send_buffer = Bytes::mib(4);
    *sending(&mut case) = old.clone();
    *receiving(&mut case) = old;
    case
}

fn slow_start(draw: &mut Draw, algorithm: Algorithm) -> Case {
    let rtt = draw.millis(80..250);
    let path = roomy(draw, rtt);
    let bytes = draw.number(60_000..400_000);
    case(draw, LimitName::SlowStart, path, host(algorithm), bytes)
}

pub(super) fn slow_start_initial(draw: &mut Draw) -> Case {
    let algorithm = draw.one_of([CUBIC_PLAIN, RENO, CUBIC]);
    slow_start(draw, algorithm)
}

pub(super) fn slow_start_bbr(draw: &mut Draw) -> Case {
    slow_start(draw, Algorithm::Bbr)
}

pub(super) fn slow_start_old(draw: &mut Draw) -> Case {
    let rtt = draw.millis(60..200);
    let path = roomy(draw, rtt);
    let bytes = draw.number(30_000..100_000);
    let mut old = Config::old(Bytes::mib(2));
    old.nagle = false;
    let mut case = with_receiver(draw, LimitName::SlowStart, path, old.clone(), old, bytes);
    case.single = true;
    case
}

pub(super) fn slow_start_after_idle(draw: &mut Draw) -> Case {
    let rtt = draw.millis(60..150);
    let path = roomy(draw, rtt);
    let (count, bytes) = (draw.number(3..6), draw.number(90_000..300_000));
    let pauses = (rtt + draw.millis(400..900), MS);
    let mut case = turns(
        draw,
        LimitName::SlowStart,
        path,
        count,
        (bytes, 300),
        pauses,
    );
    case.single = false;
    case
}

pub(super) fn low_ssthresh(draw: &mut Draw) -> Case {
    let rtt = draw.millis(20..100);
    let path = roomy(draw, rtt);
    let sending = Config {
        initial_ssthresh: Some(draw.kib(20..64)),
        ..host(draw.one_of([RENO, CUBIC_PLAIN]))
    };
    let bytes = draw.number(1_500_000..5_000_000);
    case(draw, LimitName::CongestionAvoidance, path, sending, bytes)
}
