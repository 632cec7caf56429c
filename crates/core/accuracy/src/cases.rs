//! The corpus: for every name of the vocabulary transfers that are built to be held back by it.

use core::time::Duration;

use congestion::{Algorithm, SlowStart};
use link::{Change, LossSpec, Order, Outage, PathSpec, Policer, QueueLimit, Reorder, Shift};
use record::LimitName;
use sim::Side;
use tcp::{AckPolicy, Config, LossDetection, ReceiveBuffer};
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
const FORMS: [(&str, Build); 36] = [
    ("syn-lost", syn_lost),
    ("far-and-short", far_and_short),
    ("tls-1.3", tls_13),
    ("tls-1.2", tls_12),
    ("think-time", think_time),
    ("server-time", server_time),
    ("slow-writer", slow_writer),
    ("send-buffer", send_buffer),
    ("send-buffer-with-application-pauses", send_buffer_pauses),
    ("static", window_static),
    ("no-scaling", window_unscaled),
    ("two-segments", window_two_segments),
    ("growing", window_growing),
    ("zero-window", window_zero),
    ("old-stack-window", window_old_stack),
    ("initial", slow_start_initial),
    ("initial-bbr", slow_start_bbr),
    ("initial-old-stack", slow_start_old),
    ("after-idle", slow_start_after_idle),
    ("low-ssthresh", low_ssthresh),
    ("burst-without-sack", burst_without_sack),
    ("tail", tail_loss),
    ("outage", outage),
    ("random-cubic", random_loss_cubic),
    ("random-reno", random_loss_reno),
    ("random-old-stack", random_loss_old),
    ("policer-cubic", policer_cubic),
    ("policer-reno", policer_reno),
    ("deep-queue-cubic", deep_queue_cubic),
    ("deep-queue-reno", deep_queue_reno),
    ("window-fills-queue", window_fills_queue),
    ("bbr", bottleneck_bbr),
    ("shallow-queue", shallow_queue),
    ("reordering", reordering),
    ("write-write-read", write_write_read),
    ("half-closed", half_closed),
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

// --- parts ---------------------------------------------------------------------------------------

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

// --- set-up --------------------------------------------------------------------------------------

fn syn_lost(draw: &mut Draw) -> Case {
    let rtt = draw.millis(20..150);
    let mut path = roomy(draw, rtt);
    let bytes = draw.number(2_000..12_000);
    path.forward.loss = LossSpec::Listed((0..draw.number(1..3)).collect());
    case(draw, LimitName::Handshake, path, host(CUBIC), bytes)
}

fn far_and_short(draw: &mut Draw) -> Case {
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

fn tls_13(draw: &mut Draw) -> Case {
    tls(draw, false)
}

fn tls_12(draw: &mut Draw) -> Case {
    tls(draw, true)
}

// --- the program ---------------------------------------------------------------------------------

fn think_time(draw: &mut Draw) -> Case {
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

fn server_time(draw: &mut Draw) -> Case {
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
fn slow_writer(draw: &mut Draw) -> Case {
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

fn send_buffer(draw: &mut Draw) -> Case {
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

fn send_buffer_pauses(draw: &mut Draw) -> Case {
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

// --- the receiver's window -----------------------------------------------------------------------

fn window(draw: &mut Draw, rtt: Duration, window: Bytes, trips: u64) -> Case {
    let path = roomy(draw, rtt);
    let algorithm = draw.one_of([CUBIC, RENO, Algorithm::Bbr]);
    let bytes = window.get() * trips;
    let mut case = case(draw, LimitName::ReceiveWindow, path, host(algorithm), bytes);
    receiving(&mut case).receive_buffer = ReceiveBuffer::Fixed(window);
    case
}

fn window_static(draw: &mut Draw) -> Case {
    let rtt = draw.millis(30..200);
    let size = draw.kib(48..480);
    let trips = draw.number(25..50);
    window(draw, rtt, size, trips)
}

fn window_unscaled(draw: &mut Draw) -> Case {
    let rtt = draw.millis(30..200);
    let trips = draw.number(25..60);
    let mut case = window(draw, rtt, Bytes::new(65_535), trips);
    receiving(&mut case).window_scaling = false;
    case
}

/// Field case B: the next segment has no room, although the window is never full.
fn window_two_segments(draw: &mut Draw) -> Case {
    let rtt = draw.millis(60..250);
    let size = draw.one_of([Bytes::kib(4), Bytes::new(5_000), Bytes::kib(8)]);
    let trips = draw.number(20..40);
    window(draw, rtt, size, trips)
}

fn window_growing(draw: &mut Draw) -> Case {
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

fn window_zero(draw: &mut Draw) -> Case {
    let rtt = draw.millis(5..60);
    let size = draw.kib(64..256);
    let mut case = window(draw, rtt, size, 20);
    case.reader = Reader::Pausing(size.get() * 2, rtt * 6 + draw.millis(100..600));
    case
}

fn window_old_stack(draw: &mut Draw) -> Case {
    let rtt = draw.millis(40..200);
    let size = draw.kib(16..60);
    let mut case = window(draw, rtt, size, 40);
    let mut old = Config::old(size);
    old.send_buffer = Bytes::mib(4);
    *sending(&mut case) = old.clone();
    *receiving(&mut case) = old;
    case
}

// --- the congestion window -----------------------------------------------------------------------

fn slow_start(draw: &mut Draw, algorithm: Algorithm) -> Case {
    let rtt = draw.millis(80..250);
    let path = roomy(draw, rtt);
    let bytes = draw.number(60_000..400_000);
    case(draw, LimitName::SlowStart, path, host(algorithm), bytes)
}

fn slow_start_initial(draw: &mut Draw) -> Case {
    let algorithm = draw.one_of([CUBIC_PLAIN, RENO, CUBIC]);
    slow_start(draw, algorithm)
}

fn slow_start_bbr(draw: &mut Draw) -> Case {
    slow_start(draw, Algorithm::Bbr)
}

fn slow_start_old(draw: &mut Draw) -> Case {
    let rtt = draw.millis(60..200);
    let path = roomy(draw, rtt);
    let bytes = draw.number(30_000..100_000);
    let mut old = Config::old(Bytes::mib(2));
    old.nagle = false;
    let mut case = with_receiver(draw, LimitName::SlowStart, path, old.clone(), old, bytes);
    case.single = true;
    case
}

fn slow_start_after_idle(draw: &mut Draw) -> Case {
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

fn low_ssthresh(draw: &mut Draw) -> Case {
    let rtt = draw.millis(20..100);
    let path = roomy(draw, rtt);
    let sending = Config {
        initial_ssthresh: Some(draw.kib(20..64)),
        ..host(draw.one_of([RENO, CUBIC_PLAIN]))
    };
    let bytes = draw.number(1_500_000..5_000_000);
    case(draw, LimitName::CongestionAvoidance, path, sending, bytes)
}

// --- losses --------------------------------------------------------------------------------------

fn burst_without_sack(draw: &mut Draw) -> Case {
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

fn tail_loss(draw: &mut Draw) -> Case {
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

fn outage(draw: &mut Draw) -> Case {
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

fn random_loss_cubic(draw: &mut Draw) -> Case {
    random_loss(draw, CUBIC, (1_000, 3_000))
}

fn random_loss_reno(draw: &mut Draw) -> Case {
    random_loss(draw, RENO, (500, 2_000))
}

/// Field case D2: an old stack held by rare losses.
fn random_loss_old(draw: &mut Draw) -> Case {
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

fn policer_cubic(draw: &mut Draw) -> Case {
    policed(draw, CUBIC)
}

fn policer_reno(draw: &mut Draw) -> Case {
    policed(draw, RENO)
}

// --- the path ------------------------------------------------------------------------------------

fn bottleneck(draw: &mut Draw, algorithm: Algorithm, queue: f64) -> Case {
    let rtt = draw.millis(15..100);
    let rate = draw.mbit(4..40);
    let path = path(draw, rtt, rate, queue);
    let bytes = rate
        .checked_mul(Duration::from_secs(draw.number(4..10)))
        .map_or(0, Bytes::get);
    case(draw, LimitName::Bottleneck, path, host(algorithm), bytes)
}

fn deep_queue_cubic(draw: &mut Draw) -> Case {
    bottleneck(draw, CUBIC, 2.0)
}

fn deep_queue_reno(draw: &mut Draw) -> Case {
    bottleneck(draw, RENO, 2.0)
}

/// The window is full because the queue holds it: the link's, not the receiver's, fault.
fn window_fills_queue(draw: &mut Draw) -> Case {
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

fn bottleneck_bbr(draw: &mut Draw) -> Case {
    bottleneck(draw, Algorithm::Bbr, 3.0)
}

fn shallow_queue(draw: &mut Draw) -> Case {
    let mut case = bottleneck(draw, CUBIC, 0.35);
    case.single = false;
    case
}

fn reordering(draw: &mut Draw) -> Case {
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

// --- the rest ------------------------------------------------------------------------------------

fn write_write_read(draw: &mut Draw) -> Case {
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

fn half_closed(draw: &mut Draw) -> Case {
    let rtt = draw.millis(20..100);
    let path = roomy(draw, rtt);
    let bytes = draw.number(20_000..100_000);
    let mut case = case(draw, LimitName::SlowStart, path, host(CUBIC), bytes);
    case.linger = draw.millis(500..3_000);
    case.single = false;
    case
}
