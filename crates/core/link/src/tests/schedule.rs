use super::*;
use crate::{Change, Outage, Trace};

fn changed(change: Change) -> PathSpec {
    let mut path = spec(
        Some(Rate::mbit_per_s(12)),
        Bytes::mib(1),
        Duration::from_millis(10),
        LossSpec::None,
    );
    path.forward.schedule = [change].into();
    path
}

fn due_us(path: &PathSpec, offers: &Offers) -> Vec<u64> {
    let (arrivals, _) = run(path, Duration::ZERO, offers);
    arrivals
        .iter()
        .map(|arrival| arrival.due_at.as_nanos() / 1_000)
        .collect()
}

#[test]
fn a_rate_changes_in_the_middle_of_a_packet() {
    // A packet takes 1 ms; from 2.5 ms on it takes 3 ms: half a packet is left, which takes 1.5 ms.
    let slower = Change {
        at: Duration::from_micros(2_500),
        rate: Some(Rate::mbit_per_s(4)),
        ..Change::default()
    };
    assert_eq!(
        due_us(&changed(slower), &packets(4, 1500)),
        [11_000, 12_000, 14_000, 17_000]
    );
}

#[test]
fn a_change_that_ends_uncovers_what_was_before() {
    let slower = Change {
        at: Duration::from_millis(1),
        lasts: Some(Duration::from_millis(3)),
        rate: Some(Rate::mbit_per_s(4)),
        ..Change::default()
    };
    assert_eq!(
        due_us(&changed(slower), &packets(4, 1500)),
        [11_000, 14_000, 15_000, 16_000]
    );
}

#[test]
fn an_outage_that_holds_stops_the_bottleneck_and_loses_nothing() {
    let outage = Change {
        at: Duration::from_micros(1_500),
        lasts: Some(Duration::from_millis(20)),
        outage: Some(Outage::Hold),
        ..Change::default()
    };
    // The second packet stops half way and goes on at 21.5 ms.
    assert_eq!(
        due_us(&changed(outage.clone()), &packets(3, 1500)),
        [11_000, 32_000, 33_000]
    );
    // What comes during the outage waits for its end, also where nothing was in line.
    let late = [(Time::from_millis(5), Segments::single(1500))].into();
    assert_eq!(due_us(&changed(outage.clone()), &late), [32_500]);
    let mut without_rate = changed(outage);
    without_rate.forward.rate = None;
    assert_eq!(due_us(&without_rate, &late), [31_500]);
}

#[test]
fn an_outage_that_drops_takes_what_leaves_meanwhile() {
    let outage = Change {
        at: Duration::from_micros(1_500),
        lasts: Some(Duration::from_millis(2)),
        outage: Some(Outage::Drop),
        ..Change::default()
    };
    // Those whose serialisation starts at 2 and 3 ms; the one that started at 1 ms is through.
    let (arrivals, path) = run(&changed(outage), Duration::ZERO, &packets(5, 1500));
    let survivors: Vec<_> = arrivals.iter().map(|arrival| arrival.index).collect();
    assert_eq!(survivors, [0, 1, 4]);
    assert_eq!(path.counters().forward.outage.packets, 2);
}

#[test]
fn a_handover_to_a_shorter_way_keeps_the_order_unless_asked_not_to() {
    let shorter = Change {
        at: Duration::from_millis(2),
        one_way_delay: Some(Duration::from_millis(1)),
        ..Change::default()
    };
    let mut path = changed(shorter);
    let offers = packets(3, 1500);
    assert_eq!(due_us(&path, &offers), [11_000, 12_000, 12_000]);
    path.forward.order = crate::Order::Free;
    assert_eq!(due_us(&path, &offers), [4_000, 11_000, 12_000]);
}

#[test]
fn a_change_comes_back() {
    let lossy = Change {
        at: Duration::from_millis(10),
        lasts: Some(Duration::from_millis(2)),
        every: Some(Duration::from_millis(5)),
        loss: Some(LossSpec::Every(1)),
        ..Change::default()
    };
    let mut path = changed(lossy);
    path.forward.rate = None;
    let offers = (0..30)
        .map(|ms| (Time::from_millis(ms), Segments::single(100)))
        .collect();
    let (arrivals, _) = run(&path, Duration::ZERO, &offers);
    let lost: Vec<u64> = (0..30)
        .filter(|&n| arrivals.iter().all(|arrival| arrival.index != n))
        .collect();
    assert_eq!(lost, [10, 11, 15, 16, 20, 21, 25, 26]);
}

#[test]
fn a_schedule_starts_when_the_driver_says() {
    let longer = Change {
        at: Duration::from_millis(5),
        one_way_delay: Some(Duration::from_millis(50)),
        ..Change::default()
    };
    let mut path = Path::new(&changed(longer), Duration::ZERO).unwrap();
    path.start_schedule(Time::from_millis(100));
    let mut arrivals = Vec::new();
    for ms in [104, 105] {
        let segments = Segments::single(15);
        let item = Item {
            payload: segments,
            segments,
        };
        path.offer(Time::from_millis(ms), Direction::Forward, item);
    }
    collect(&mut path, Time::from_millis(300), &mut arrivals);
    let due: Vec<_> = arrivals
        .iter()
        .map(|arrival| arrival.due_at.as_nanos())
        .collect();
    assert_eq!(due, [114_010_000, 155_010_000]);
}

#[test]
fn an_outage_is_over_when_the_schedule_starts_anew() {
    let outage = Change {
        at: Duration::from_millis(5),
        outage: Some(Outage::Hold),
        ..Change::default()
    };
    let spec = changed(outage);
    let mut path = Path::new(&spec, Duration::ZERO).unwrap();
    let mut arrivals = Vec::new();
    let offer = |path: &mut Path<Segments>, ms| {
        let segments = Segments::single(15);
        let item = Item {
            payload: segments,
            segments,
        };
        path.offer(Time::from_millis(ms), Direction::Forward, item);
    };
    offer(&mut path, 8);
    path.start_schedule(Time::from_millis(100));
    offer(&mut path, 104);
    offer(&mut path, 106);
    collect(&mut path, Time::from_millis(900), &mut arrivals);
    let due: Vec<_> = arrivals
        .iter()
        .map(|arrival| arrival.due_at.as_nanos())
        .collect();
    // What waited leaves at once, and the outage begins 5 ms after the start, as it did the first time.
    assert_eq!(due, [110_010_000, 114_010_000]);
}

#[test]
fn a_trace_begins_where_the_schedule_does() {
    let mut spec = changed(Change::default());
    spec.forward.schedule.clear();
    spec.forward.rate = None;
    spec.forward.trace = Some(Trace::parse("4\n30\n").unwrap());
    let due = |started_ms: u64| {
        let mut path = Path::new(&spec, Duration::ZERO).unwrap();
        path.start_schedule(Time::from_millis(started_ms));
        for _ in 0..3 {
            let segments = Segments::single(1_500);
            let item = Item {
                payload: segments,
                segments,
            };
            path.offer(Time::from_millis(started_ms), Direction::Forward, item);
        }
        let mut arrivals = Vec::new();
        collect(
            &mut path,
            Time::from_millis(started_ms + 500),
            &mut arrivals,
        );
        let since = |at: Time| at.since(Time::from_millis(started_ms)).as_millis();
        arrivals
            .iter()
            .map(|arrival| since(arrival.due_at))
            .collect::<Vec<_>>()
    };
    assert_eq!(due(0), [14, 40, 44]);
    // In the middle of a repetition or not: it is the first again.
    assert_eq!(due(107), due(0));
}

#[test]
fn an_outage_for_good_ends_the_path_and_not_the_driver() {
    let outage = Change {
        at: Duration::from_millis(1),
        outage: Some(Outage::Hold),
        ..Change::default()
    };
    for traced in [false, true] {
        let mut spec = changed(outage.clone());
        if traced {
            spec.forward.rate = None;
            spec.forward.trace = Some(Trace::parse("1\n2\n").unwrap());
        }
        let (arrivals, path) = run(&spec, Duration::ZERO, &packets(3, 1500));
        assert!(arrivals.len() <= 1);
        assert_eq!(path.next_at(), None);
        let left = path.counters().forward;
        assert_eq!(
            left.queued.packets + left.in_flight.packets + left.delivered.packets,
            3
        );
    }
}

#[test]
fn outages_that_leave_no_gap_end_the_path_and_not_the_driver() {
    let outage = |at_us, lasts_ms, every_ms| Change {
        at: Duration::from_micros(at_us),
        lasts: Some(Duration::from_millis(lasts_ms)),
        every: Some(Duration::from_millis(every_ms)),
        outage: Some(Outage::Hold),
        ..Change::default()
    };
    // From the middle of the second packet on.
    let mut steady = changed(outage(1_500, 5, 10));
    steady.forward.schedule.push(outage(6_500, 5, 10));
    // All slots but the first, of two that a packet needs.
    let mut traced = changed(outage(7_000, 4, 5));
    traced.forward.rate = None;
    traced.forward.trace = Some(Trace::parse("5\n").unwrap());
    for (spec, bytes, delivered) in [(steady, 1500, 1), (traced, 2250, 0)] {
        let (_, path) = run(&spec, Duration::ZERO, &packets(3, bytes));
        assert_eq!(path.next_at(), None);
        let left = path.counters().forward;
        assert_eq!(left.delivered.packets, delivered);
        assert_eq!(left.queued.packets + left.in_flight.packets + delivered, 3);
    }
}
