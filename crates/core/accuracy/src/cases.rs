//! The corpus: for every name of the vocabulary transfers that are built to be held back by it.

mod path;
mod program;
mod window;

use core::time::Duration;

use congestion::{Algorithm, SlowStart};
use link::{LossSpec, PathSpec, QueueLimit};
use record::LimitName;
use sim::Side;
use tcp::{Config, ReceiveBuffer};
use units::{Bytes, LossRate, Rate};

use crate::case::{Case, Message, Reader};
use crate::draw::Draw;

/// Which half of the corpus.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Half {
    /// What rules may be tuned on.
    Tuned,
    /// What they have never seen.
    HeldOut,
}

impl Half {
    const fn salt(self) -> u64 {
        match self {
            Self::Tuned => 0x7475_6e65,
            Self::HeldOut => 0x6865_6c64,
        }
    }
}

type Build = fn(&mut Draw) -> Case;

/// Every form with what builds it.
const FORMS: [(&str, Build); 38] = [
    ("syn-lost", program::syn_lost),
    ("far-and-short", program::far_and_short),
    ("tls-1.3", program::tls_13),
    ("tls-1.2", program::tls_12),
    ("think-time", program::think_time),
    ("server-time", program::server_time),
    ("slow-writer", program::slow_writer),
    ("send-buffer", program::send_buffer),
    (
        "send-buffer-with-application-pauses",
        program::send_buffer_pauses,
    ),
    ("static", window::window_static),
    ("no-scaling", window::window_unscaled),
    ("two-segments", window::window_two_segments),
    ("growing", window::window_growing),
    ("zero-window", window::window_zero),
    ("old-stack-window", window::window_old_stack),
    ("initial", window::slow_start_initial),
    ("initial-bbr", window::slow_start_bbr),
    ("initial-old-stack", window::slow_start_old),
    ("after-idle", window::slow_start_after_idle),
    ("low-ssthresh", window::low_ssthresh),
    ("burst-without-sack", path::burst_without_sack),
    ("tail", path::tail_loss),
    ("outage", path::outage),
    ("random-cubic", path::random_loss_cubic),
    ("random-reno", path::random_loss_reno),
    ("random-old-stack", path::random_loss_old),
    ("policer-cubic", path::policer_cubic),
    ("policer-reno", path::policer_reno),
    ("deep-queue-cubic", path::deep_queue_cubic),
    ("deep-queue-reno", path::deep_queue_reno),
    ("window-fills-queue", path::window_fills_queue),
    ("bbr", path::bottleneck_bbr),
    ("shallow-queue", path::shallow_queue),
    ("reordering", path::reordering),
    ("write-write-read", program::write_write_read),
    ("half-closed", program::half_closed),
    // Behind the others: a form's place seeds its draws.
    ("random-loss-bbr", path::random_loss_bbr),
    ("policer-bbr", path::policer_bbr),
];

/// `draws` cases of every form.
#[must_use]
pub fn cases(half: Half, draws: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, (form, build)) in (0_u64..).zip(FORMS) {
        for seed in 0..draws {
            let mut draw = Draw::new(half.salt() ^ (number << 16) ^ seed);
            let mut case = build(&mut draw);
            case.form = form;
            case.seed = seed;
            cases.push(case);
        }
    }
    cases
}

const MS: Duration = Duration::from_millis(1);

/// A path with room for what is not the cause: fast, and a queue of its product.
fn roomy(draw: &mut Draw, rtt: Duration) -> PathSpec {
    path(draw, rtt, Rate::mbit_per_s(400), 1.0)
}

fn path(draw: &mut Draw, rtt: Duration, rate: Rate, queue: f64) -> PathSpec {
    let product = rate.checked_mul(rtt).map_or(0, Bytes::get);
    PathSpec::symmetric(
        rtt,
        Some(rate),
        QueueLimit::Bytes(Bytes::new(scaled(product, queue).max(15_000))),
        LossSpec::None,
        draw.next(),
    )
}

/// `share` of `value`, in hundredths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shares of a case are small positive constants"
)]
const fn scaled(value: u64, share: f64) -> u64 {
    value.saturating_mul((share * 100.0) as u64) / 100
}

fn loss(per_million: u64) -> LossSpec {
    let lost = u32::try_from(per_million.saturating_mul(1_000)).unwrap_or(u32::MAX);
    LossRate::per_billion(lost).map_or(LossSpec::None, LossSpec::Bernoulli)
}

const RENO: Algorithm = Algorithm::NewReno;
const CUBIC: Algorithm = Algorithm::Cubic(SlowStart::HyStart);
const CUBIC_PLAIN: Algorithm = Algorithm::Cubic(SlowStart::Standard);

fn host(algorithm: Algorithm) -> Config {
    Config {
        algorithm,
        nagle: false,
        send_buffer: Bytes::mib(64),
        receive_buffer: ReceiveBuffer::Fixed(Bytes::mib(32)),
        ..Config::linux()
    }
}

/// Data one way, with or without a request ahead and an answer behind.
fn case(draw: &mut Draw, cause: LimitName, path: PathSpec, sending: Config, bytes: u64) -> Case {
    let receiving = Config {
        send_buffer: Bytes::mib(64),
        receive_buffer: ReceiveBuffer::Fixed(Bytes::mib(32)),
        mss: sending.mss,
        sack: sending.sack,
        timestamps: sending.timestamps,
        nagle: false,
        ..Config::linux()
    };
    with_receiver(draw, cause, path, sending, receiving, bytes)
}

fn with_receiver(
    draw: &mut Draw,
    cause: LimitName,
    path: PathSpec,
    sending: Config,
    receiving: Config,
    bytes: u64,
) -> Case {
    let sender = draw.one_of([Side::Near, Side::Far]);
    let (client, server, script) = match sender {
        Side::Near => (
            sending,
            receiving,
            vec![
                Message::new(Side::Near, Duration::ZERO, bytes),
                Message::new(Side::Far, MS, 200),
            ],
        ),
        Side::Far => (
            receiving,
            sending,
            vec![
                Message::new(Side::Near, Duration::ZERO, 300),
                Message::new(Side::Far, MS, bytes),
            ],
        ),
    };
    Case {
        cause,
        form: "",
        single: true,
        seed: 0,
        path,
        client,
        server,
        sender,
        script,
        reader: Reader::Eager,
        linger: Duration::ZERO,
    }
}

fn sending(case: &mut Case) -> &mut Config {
    match case.sender {
        Side::Near => &mut case.client,
        Side::Far => &mut case.server,
    }
}

fn receiving(case: &mut Case) -> &mut Config {
    match case.sender {
        Side::Near => &mut case.server,
        Side::Far => &mut case.client,
    }
}

/// Request and response again and again; the pause is the client's or the server's.
fn turns(
    draw: &mut Draw,
    cause: LimitName,
    path: PathSpec,
    turns: u64,
    sizes: (u64, u64),
    pauses: (Duration, Duration),
) -> Case {
    let mut case = case(draw, cause, path, host(CUBIC), sizes.0);
    case.script.clear();
    let (request, response) = match case.sender {
        Side::Near => sizes,
        Side::Far => (sizes.1, sizes.0),
    };
    for turn in 0..turns {
        let think = if turn == 0 { Duration::ZERO } else { pauses.0 };
        case.script.push(Message::new(Side::Near, think, request));
        case.script
            .push(Message::new(Side::Far, pauses.1, response));
    }
    case
}
