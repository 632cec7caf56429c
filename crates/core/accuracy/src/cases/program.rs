//! Held by set-up or by what the programs do.

use core::time::Duration;

use link::LossSpec;
use record::LimitName;
use sim::Side;
use tcp::{AckPolicy, Config};

use super::{CUBIC, CUBIC_PLAIN, MS, RENO, case, host, receiving, roomy, sending, turns};
use crate::case::{Case, Message};
use crate::draw::Draw;

pub(super) fn syn_lost(draw: &mut Draw) -> Case {
    let rtt = draw.millis(20..150);
    let mut path = roomy(draw, rtt);
    let bytes = draw.number(2_000..12_000);
    path.forward.loss = LossSpec::Listed((0..draw.number(1..3)).collect());
    case(draw, LimitName::Handshake, path, host(CUBIC), bytes)
}

pub(super) fn far_and_short(draw: &mut Draw) -> Case {
    let rtt = draw.millis(80..300);
    let path = roomy(draw, rtt);
    let bytes = draw.number(1_500..13_000);
    case(draw, LimitName::Handshake, path, host(CUBIC), bytes)
}

fn tls(draw: &mut Draw, older: bool) -> Case {
    const HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
    const ANSWER: &[u8] = &[22, 3, 3, 0, 122, 2, 0, 0, 118, 3, 3];
    const CHANGE: &[u8] = &[20, 3, 3, 0, 1, 1];
    const DATA: &[u8] = &[23, 3, 3, 1, 0];
    let rtt = draw.millis(60..200);
    let path = roomy(draw, rtt);
    let bytes = draw.number(5_500..10_000);
    let mut case = case(draw, LimitName::TlsHandshake, path, host(CUBIC), bytes);
    // Longer than the TCP handshake before it: signing takes its time, or it takes two round trips.
    let signing = rtt / 2 + draw.millis(5..80);
    let message = |from, after, bytes, head| Message {
        head,
        ..Message::new(from, after, bytes)
    };
    let mut script = vec![
        message(Side::Near, MS, 517, HELLO),
        message(Side::Far, signing, 3_100, ANSWER),
    ];
    if older {
        script.push(message(Side::Near, MS, 130, ANSWER));
        script.push(message(Side::Far, MS, 51, CHANGE));
        script.push(message(Side::Near, Duration::ZERO, 400, DATA));
    } else {
        script.push(message(Side::Near, MS, 480, CHANGE));
    }
    if case.sender == Side::Near {
        script.push(message(Side::Near, Duration::ZERO, bytes, DATA));
        script.push(message(Side::Far, MS, 300, DATA));
    } else {
        script.push(message(Side::Far, MS, bytes, DATA));
    }
    case.script = script;
    // The last message of the client's handshake is what ends it: without a change of cipher spec of the
    // client's own in the older version, that is when the server's has come.
    case.single = !older;
    case
}

pub(super) fn tls_13(draw: &mut Draw) -> Case {
    tls(draw, false)
}

pub(super) fn tls_12(draw: &mut Draw) -> Case {
    tls(draw, true)
}

pub(super) fn think_time(draw: &mut Draw) -> Case {
    let rtt = draw.millis(5..60);
    let path = roomy(draw, rtt);
    let (count, bytes) = (draw.number(5..15), draw.number(500..12_000));
    let pauses = (rtt * 2 + draw.millis(50..500), MS);
    turns(
        draw,
        LimitName::Application,
        path,
        count,
        (bytes, 300),
        pauses,
    )
}

pub(super) fn server_time(draw: &mut Draw) -> Case {
    let rtt = draw.millis(5..60);
    let path = roomy(draw, rtt);
    let (count, bytes) = (draw.number(5..12), draw.number(500..12_000));
    let pauses = (MS, rtt * 2 + draw.millis(50..500));
    turns(
        draw,
        LimitName::Application,
        path,
        count,
        (bytes, 300),
        pauses,
    )
}

/// A program that makes data more slowly than the path carries it.
pub(super) fn slow_writer(draw: &mut Draw) -> Case {
    let rtt = draw.millis(10..120);
    let path = roomy(draw, rtt);
    let mut case = case(draw, LimitName::Application, path, host(CUBIC), 0);
    let every = draw.millis(4..40);
    let piece = draw.number(700..9_000);
    let count = 4_000 / draw.number(8..20);
    for message in &mut case.script {
        if message.from == case.sender && message.bytes() == 0 {
            message.pieces = (0..count).map(|_| (every, piece)).collect();
        }
    }
    case
}

pub(super) fn send_buffer(draw: &mut Draw) -> Case {
    let rtt = draw.millis(30..150);
    let path = roomy(draw, rtt);
    let algorithm = draw.one_of([CUBIC, RENO, CUBIC_PLAIN]);
    let buffer = draw.kib(64..512);
    let bytes = buffer.get() * draw.number(20..50);
    let sending = Config {
        send_buffer: buffer,
        ..host(algorithm)
    };
    case(draw, LimitName::SendBuffer, path, sending, bytes)
}

pub(super) fn send_buffer_pauses(draw: &mut Draw) -> Case {
    let mut case = send_buffer(draw);
    for message in &mut case.script {
        if message.from == case.sender && message.bytes() > 100_000 {
            let half = message.bytes() / 2;
            message.pieces = vec![(Duration::ZERO, half), (Duration::from_secs(30), half)];
        }
    }
    case.single = false;
    case
}

pub(super) fn write_write_read(draw: &mut Draw) -> Case {
    let rtt = draw.millis(2..40);
    let path = roomy(draw, rtt);
    let count = draw.number(10..30);
    let (first, second) = (draw.number(100..500), draw.number(100..900));
    let mut case = case(draw, LimitName::NagleDelayedAck, path, host(CUBIC), 1);
    case.script.clear();
    for _ in 0..count {
        if case.sender == Side::Far {
            case.script.push(Message::new(Side::Near, MS, 60));
        }
        case.script.push(Message {
            pieces: vec![
                (Duration::ZERO, first),
                (Duration::from_micros(100), second),
            ],
            ..Message::new(case.sender, MS, 0)
        });
        if case.sender == Side::Near {
            case.script.push(Message::new(Side::Far, MS, 60));
        }
    }
    sending(&mut case).nagle = true;
    receiving(&mut case).ack_policy = AckPolicy::Every2 {
        delay: draw.one_of([40, 100, 200].map(Duration::from_millis)),
    };
    case
}

pub(super) fn half_closed(draw: &mut Draw) -> Case {
    let rtt = draw.millis(20..100);
    let path = roomy(draw, rtt);
    let bytes = draw.number(20_000..100_000);
    let mut case = case(draw, LimitName::SlowStart, path, host(CUBIC), bytes);
    case.linger = draw.millis(500..3_000);
    case.single = false;
    case
}
