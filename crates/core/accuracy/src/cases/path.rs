//! Held by what the path loses, drops or queues.

use core::time::Duration;

use congestion::Algorithm;
use link::{Change, LossSpec, Order, Outage, Policer, Reorder, Shift};
use record::LimitName;
use sim::Side;
use tcp::{Config, LossDetection, ReceiveBuffer};
use units::{Bytes, LossRate};

use super::{CUBIC, MS, RENO, case, host, loss, path, receiving, roomy, sending, turns};
use crate::case::Case;
use crate::draw::Draw;

pub(super) fn burst_without_sack(draw: &mut Draw) -> Case {
    let rtt = draw.millis(50..150);
    let mut path = roomy(draw, rtt);
    let first = draw.number(60..90);
    let lost = (0..draw.number(12..24)).map(|n| first + n * 2).collect();
    path.forward.loss = LossSpec::Listed(lost);
    path.backward.loss = path.forward.loss.clone();
    let bytes = draw.number(250_000..400_000);
    let mut old = host(RENO);
    old.sack = false;
    old.duplicate_sack = false;
    old.loss_detection = LossDetection::DuplicateAcks;
    let mut case = case(draw, LimitName::LossRecovery, path, old, bytes);
    // Losses strike the data's way only.
    match case.sender {
        Side::Near => case.path.backward.loss = LossSpec::None,
        Side::Far => case.path.forward.loss = LossSpec::None,
    }
    case
}

pub(super) fn tail_loss(draw: &mut Draw) -> Case {
    let rtt = draw.millis(20..80);
    let path = roomy(draw, rtt);
    let (count, bytes) = (draw.number(8..14), draw.number(3_000..12_000));
    let mut case = turns(
        draw,
        LimitName::LossRecovery,
        path,
        count,
        (bytes, 300),
        (MS, MS),
    );
    // The last segment of every third message.
    let segments = bytes.div_ceil(1448);
    let lost: Vec<u64> = (1..count)
        .filter(|turn| turn % 2 == 1)
        .map(|turn| turn * segments + turn + 1)
        .collect();
    match case.sender {
        Side::Near => case.path.forward.loss = LossSpec::Listed(lost),
        Side::Far => case.path.backward.loss = LossSpec::Listed(lost),
    }
    case.single = false;
    case
}

pub(super) fn outage(draw: &mut Draw) -> Case {
    let rtt = draw.millis(20..80);
    let rate = draw.mbit(5..20);
    let mut path = path(draw, rtt, rate, 2.0);
    let outage = Change {
        at: rtt * 6,
        lasts: Some(draw.millis(1_500..3_500)),
        outage: Some(Outage::Drop),
        ..Change::default()
    };
    path.forward.schedule = vec![outage.clone()];
    path.backward.schedule = vec![outage];
    let bytes = rate.checked_mul(rtt * 20).map_or(0, Bytes::get);
    let mut case = case(draw, LimitName::LossRecovery, path, host(CUBIC), bytes);
    case.single = true;
    case
}

fn random_loss(draw: &mut Draw, algorithm: Algorithm, per_million: (u64, u64)) -> Case {
    let rtt = draw.millis(60..160);
    let mut path = roomy(draw, rtt);
    let lost = loss(draw.number(per_million.0..per_million.1));
    path.forward.loss = lost.clone();
    path.backward.loss = lost;
    let bytes = draw.number(4_000_000..9_000_000);
    let mut case = case(draw, LimitName::LossLimited, path, host(algorithm), bytes);
    match case.sender {
        Side::Near => case.path.backward.loss = LossSpec::None,
        Side::Far => case.path.forward.loss = LossSpec::None,
    }
    case.single = false;
    case
}

pub(super) fn random_loss_cubic(draw: &mut Draw) -> Case {
    random_loss(draw, CUBIC, (1_000, 3_000))
}

pub(super) fn random_loss_reno(draw: &mut Draw) -> Case {
    random_loss(draw, RENO, (500, 2_000))
}

/// Field case D2: an old stack held by rare losses.
pub(super) fn random_loss_old(draw: &mut Draw) -> Case {
    let mut case = random_loss(draw, RENO, (500, 2_000));
    let mut old = Config::old(Bytes::mib(8));
    old.nagle = false;
    *sending(&mut case) = old.clone();
    *receiving(&mut case) = old;
    case
}

fn policed(draw: &mut Draw, algorithm: Algorithm) -> Case {
    let rtt = draw.millis(15..80);
    let mut path = roomy(draw, rtt);
    let rate = draw.mbit(4..25);
    let product = rate.checked_mul(rtt).map_or(0, Bytes::get);
    let burst = Bytes::new((product / 2).max(draw.number(20_000..80_000)));
    let policer = Some(Policer { rate, burst });
    path.forward.policer = policer;
    path.backward.policer = policer;
    let bytes = rate
        .checked_mul(Duration::from_secs(draw.number(6..12)))
        .map_or(0, Bytes::get);
    case(draw, LimitName::Policer, path, host(algorithm), bytes)
}

pub(super) fn policer_cubic(draw: &mut Draw) -> Case {
    policed(draw, CUBIC)
}

pub(super) fn policer_reno(draw: &mut Draw) -> Case {
    policed(draw, RENO)
}

/// Measures what arrives, sends more at times, and loses what is above the rate.
pub(super) fn policer_bbr(draw: &mut Draw) -> Case {
    policed(draw, Algorithm::Bbr)
}

fn bottleneck(draw: &mut Draw, algorithm: Algorithm, queue: f64) -> Case {
    let rtt = draw.millis(15..100);
    let rate = draw.mbit(4..40);
    let path = path(draw, rtt, rate, queue);
    let bytes = rate
        .checked_mul(Duration::from_secs(draw.number(4..10)))
        .map_or(0, Bytes::get);
    case(draw, LimitName::Bottleneck, path, host(algorithm), bytes)
}

pub(super) fn deep_queue_cubic(draw: &mut Draw) -> Case {
    bottleneck(draw, CUBIC, 2.0)
}

pub(super) fn deep_queue_reno(draw: &mut Draw) -> Case {
    bottleneck(draw, RENO, 2.0)
}

/// The window is full because the queue holds it: the link's, not the receiver's, fault.
pub(super) fn window_fills_queue(draw: &mut Draw) -> Case {
    let mut case = bottleneck(draw, CUBIC, 20.0);
    let product = case
        .path
        .forward
        .rate
        .and_then(|rate| rate.checked_mul(case.path.rtt()));
    let product = product.map_or(100_000, Bytes::get).max(40_000);
    let window = Bytes::new(product * draw.number(2..5));
    receiving(&mut case).receive_buffer = ReceiveBuffer::Fixed(window);
    case
}

pub(super) fn bottleneck_bbr(draw: &mut Draw) -> Case {
    bottleneck(draw, Algorithm::Bbr, 3.0)
}

/// BBR takes no loss for a sign of anything: it keeps the path full, and one packet or many of a round trip
/// are missing at one rate as at another.
pub(super) fn random_loss_bbr(draw: &mut Draw) -> Case {
    let mut case = bottleneck(draw, Algorithm::Bbr, 2.0);
    let lost = loss(draw.number(500..20_000));
    match case.sender {
        Side::Near => case.path.forward.loss = lost,
        Side::Far => case.path.backward.loss = lost,
    }
    case.single = false;
    case
}

pub(super) fn shallow_queue(draw: &mut Draw) -> Case {
    let mut case = bottleneck(draw, CUBIC, 0.35);
    case.single = false;
    case
}

pub(super) fn reordering(draw: &mut Draw) -> Case {
    let rtt = draw.millis(40..120);
    let mut path = roomy(draw, rtt);
    let late = Reorder {
        share: LossRate::per_billion(2_000_000).unwrap_or(LossRate::ZERO),
        shift: Shift::Late(Duration::from_micros(draw.number(200..900))),
    };
    path.forward.reorder = Some(late);
    path.backward.reorder = Some(late);
    path.forward.order = Order::Free;
    path.backward.order = Order::Free;
    let size = draw.kib(96..400);
    let bytes = size.get() * 30;
    let mut case = case(draw, LimitName::ReceiveWindow, path, host(CUBIC), bytes);
    receiving(&mut case).receive_buffer = ReceiveBuffer::Fixed(size);
    case.single = false;
    case
}
