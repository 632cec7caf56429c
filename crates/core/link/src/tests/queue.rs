use super::*;
use crate::queue::codel::{ControlLoop, Front, Waiting};
use crate::queue::red::{Detector, Length, Verdict};
use crate::{CoDel, Discipline, Ecn, QueueLimit, Red};

/// A queue without end whose first packet has always waited as long as it says.
struct Endless {
    now: Time,
    sojourn: Duration,
    takes_marks: bool,
    dropped_ms: Vec<u64>,
}

impl Front for Endless {
    fn front(&self) -> Option<Waiting> {
        Some(Waiting {
            arrived_at: self.now.saturating_sub(self.sojourn),
            bytes_behind: Bytes::kib(100),
            takes_marks: self.takes_marks,
        })
    }

    fn drop_front(&mut self) {
        self.dropped_ms
            .push(self.now.as_nanos() / 1_000_000 - START_MS);
    }
}

/// So that a packet can have waited before the first one leaves.
const START_MS: u64 = 1_000;

/// Dequeues every millisecond; the delay is 20 ms but for one millisecond at 500 ms.
fn dropped_and_marked(ecn: bool) -> (Vec<u64>, Vec<u64>) {
    let mut control = ControlLoop::new(CoDel {
        ecn,
        ..CoDel::default()
    });
    let mut queue = Endless {
        now: Time::ZERO,
        sojourn: Duration::ZERO,
        takes_marks: true,
        dropped_ms: Vec::new(),
    };
    let mut marked = Vec::new();
    for ms in 0..=700 {
        queue.now = Time::from_millis(START_MS + ms);
        queue.sojourn = Duration::from_millis(if ms == 500 { 4 } else { 20 });
        if control.dequeue(queue.now, &mut queue) {
            marked.push(ms);
        }
    }
    (queue.dropped_ms, marked)
}

/// By hand from RFC 8289, sections 5.5 and 5.6. The delay stands from 0, so the first drop comes at
/// 100 ms, and from there on the next is due 100 ms / sqrt(count) later: at 200, 270.7, 328.4, 378.4,
/// 423.2, 464.0 and 501.8 ms. That one doesn't come: the delay falls at 500 ms. It stands again from 501,
/// so that dropping begins anew at 601 ms with a count of 7 - 1, and goes on at 641.8 and 679.6 ms.
const BY_HAND_MS: [u64; 10] = [100, 200, 271, 329, 379, 424, 464, 601, 642, 680];

#[test]
fn codel_drops_when_the_rfc_s_control_law_says() {
    assert_eq!(dropped_and_marked(false), (BY_HAND_MS.into(), Vec::new()));
}

#[test]
fn codel_marks_at_the_same_moments_instead() {
    assert_eq!(dropped_and_marked(true), (Vec::new(), BY_HAND_MS.into()));
}

/// 10 Mbit/s offered 12 for so many seconds, as single packets or ten at a time.
fn overload(discipline: Discipline, ecn: Ecn, bundle: u32) -> (Vec<Arrival>, Path<Segments>) {
    let mut path = spec(
        Some(Rate::mbit_per_s(10)),
        Bytes::mib(10),
        Duration::from_millis(5),
        LossSpec::None,
    );
    path.forward.discipline = discipline;
    let segments = Segments::uniform(bundle, 1500, 1500).unwrap().with_ecn(ecn);
    let offers = (0..u64::from(4_000 / bundle))
        .map(|n| (Time::from_millis(n * u64::from(bundle)), segments))
        .collect();
    run(&path, Duration::from_micros(50), &offers)
}

#[test]
fn codel_on_a_path_shortens_the_queue_and_marks_only_those_that_permit_it() {
    let codel = |ecn| {
        Discipline::CoDel(CoDel {
            ecn,
            ..CoDel::default()
        })
    };
    let (_, tail) = overload(Discipline::DropTail, Ecn::Ect0, 1);
    let (_, dropping) = overload(codel(false), Ecn::Ect0, 1);
    let (marked, marking) = overload(codel(true), Ecn::Ect0, 1);
    let (_, incapable) = overload(codel(true), Ecn::NotEct, 1);
    let [tail, dropping, marking, incapable] =
        [tail, dropping, marking, incapable].map(|path| path.counters().forward);
    assert!(dropping.queue_peak.get() < tail.queue_peak.get() / 2);
    assert!(dropping.managed.packets > 20);
    assert_eq!(dropping.marked.packets, 0);
    assert!(marking.marked.packets > 20);
    assert_eq!(marking.managed.packets, 0);
    let arrived = marked.iter().filter(|arrival| arrival.marked).count();
    assert_eq!(marking.marked.packets, arrived as u64);
    assert_eq!(incapable, dropping);
}

#[test]
fn codel_parts_a_superpacket_and_treats_its_packets_alone() {
    let codel = Discipline::CoDel(CoDel {
        ecn: true,
        ..CoDel::default()
    });
    let (arrivals, path) = overload(codel, Ecn::Ect1, 10);
    assert!(path.counters().forward.marked.packets > 20);
    for pair in arrivals.windows(2) {
        assert!(pair[0].due_at < pair[1].due_at);
    }
}

#[test]
fn a_queue_of_packets_counts_packets_and_not_bytes() {
    let mut path = spec(
        Some(Rate::mbit_per_s(10)),
        Bytes::new(1500),
        Duration::ZERO,
        LossSpec::None,
    );
    path.forward.queue = QueueLimit::Packets(3);
    for size in [40, 1500] {
        let superpacket = [(Time::ZERO, Segments::uniform(10, size, size).unwrap())].into();
        for offers in [packets(10, size), superpacket] {
            let (arrivals, _) = run(&path, Duration::ZERO, &offers);
            let survivors: Vec<_> = arrivals.iter().map(|arrival| arrival.index).collect();
            assert_eq!(survivors, [0, 1, 2, 3]);
        }
    }
}

const RED: Red = Red {
    min: QueueLimit::Packets(10),
    max: QueueLimit::Packets(30),
    probability: match LossRate::per_billion(100_000_000) {
        Some(share) => share,
        None => LossRate::ZERO,
    },
    weight: match LossRate::per_billion(500_000_000) {
        Some(share) => share,
        None => LossRate::ZERO,
    },
    gentle: false,
    ecn: false,
};

/// What becomes of each of so many packets of `bytes` that meet a queue of `length` packets.
fn verdicts(red: Red, length: u64, bytes: u32, takes_marks: bool) -> Vec<Verdict> {
    let direction = Direction::Forward;
    let mut detector = Detector::new(red, Duration::from_millis(1), 9, direction);
    let length = Length {
        packets: length,
        bytes: Bytes::new(length * 1500),
    };
    let mut judge = |n| detector.judge(Time::from_millis(n), length, n, bytes, takes_marks);
    // Until the average is the length.
    for n in 0..200 {
        judge(n);
    }
    (200..100_200).map(judge).collect()
}

fn count(verdicts: &[Verdict], wanted: Verdict) -> usize {
    verdicts
        .iter()
        .filter(|&&verdict| verdict == wanted)
        .count()
}

#[test]
fn red_drops_with_the_probability_of_the_paper() {
    // Half way between the thresholds p_b = 0.05, and gaps are uniform from 1 to 1 / p_b - 1: 10 on
    // average. 10,000 gaps of standard deviation 5.5 spread their sum by 0.55 %.
    let verdicts_half_way = verdicts(RED, 20, 1500, false);
    let dropped = count(&verdicts_half_way, Verdict::Drop);
    assert!((9_700..=10_300).contains(&dropped), "{dropped}");
    let gaps = verdicts_half_way
        .split(|&verdict| verdict == Verdict::Drop)
        .map(<[_]>::len);
    assert!(gaps.max() < Some(19), "drops are spread and not clumped");
    assert_eq!(count(&verdicts(RED, 9, 1500, false), Verdict::Drop), 0);
    assert_eq!(count(&verdicts(RED, 30, 1500, false), Verdict::Pass), 0);
}

#[test]
fn red_in_bytes_drops_small_packets_in_proportion_to_their_size() {
    let red = Red {
        min: Bytes::new(15_000).into(),
        max: Bytes::new(45_000).into(),
        ..RED
    };
    let dropped = |bytes| count(&verdicts(red, 20, bytes, false), Verdict::Drop);
    let (full, half) = (dropped(1500), dropped(750));
    assert!((9_700..=10_300).contains(&full), "{full}");
    assert!((4_850..=5_150).contains(&half), "{half}");
}

#[test]
fn gentle_red_lets_some_pass_above_its_maximum() {
    let gentle = Red {
        gentle: true,
        ..RED
    };
    let passed = |red, length| count(&verdicts(red, length, 1500, false), Verdict::Pass);
    assert_eq!(passed(RED, 35), 0);
    assert!(passed(gentle, 35) > passed(gentle, 40));
    assert_eq!(passed(gentle, 60), 0);
}

#[test]
fn red_marks_where_it_would_drop_but_not_where_it_drops_everything() {
    let marking = Red { ecn: true, ..RED };
    let dropped = verdicts(RED, 20, 1500, true);
    let marked = verdicts(marking, 20, 1500, true);
    assert_eq!(count(&marked, Verdict::Drop), 0);
    assert_eq!(
        count(&marked, Verdict::Mark),
        count(&dropped, Verdict::Drop)
    );
    assert_eq!(
        verdicts(marking, 20, 1500, false),
        verdicts(RED, 20, 1500, false)
    );
    assert_eq!(count(&verdicts(marking, 40, 1500, true), Verdict::Mark), 0);
}

#[test]
fn red_forgets_while_nothing_waits() {
    let mut detector = Detector::new(RED, Duration::from_millis(1), 9, Direction::Forward);
    let waiting = |packets| Length {
        packets,
        bytes: Bytes::new(packets * 1500),
    };
    // The first finds an idle queue; each of the others brings the average half way to 40.
    for n in 0..6 {
        detector.judge(Time::ZERO, waiting(40), n, 1500, false);
    }
    // 38.75; two idle packet times quarter it to 9.7, which is below the minimum.
    let verdict = detector.judge(Time::ZERO, waiting(40), 6, 1500, false);
    assert_eq!(verdict, Verdict::Drop);
    detector.empty_at(Time::ZERO);
    let verdict = detector.judge(Time::from_millis(2), waiting(0), 7, 1500, false);
    assert_eq!(verdict, Verdict::Pass);
}

#[test]
fn red_on_a_path_drops_before_the_queue_is_full() {
    for bundle in [1, 10] {
        let (_, path) = overload(Discipline::Red(RED), Ecn::NotEct, bundle);
        let counters = path.counters().forward;
        assert!(counters.managed.packets > 100);
        assert_eq!(counters.dropped.packets, 0);
        assert!(counters.queue_peak < Bytes::new(60 * 1500));
    }
}
