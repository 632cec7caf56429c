//! Flows by the kernel's TCP over loopback: what is asked for is carried, compared and receipted.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use longhaul_flow::client::{self, Control, Directions, Outcome, Plan, Workload};
use longhaul_flow::engine::SocketOptions;
use longhaul_flow::kernel::Kernel;
use longhaul_flow::protocol::{Ask, Frame, Hello, ReadPause, encode};
use longhaul_flow::server::{Event, Server};
use record::flow::Direction;
use units::{Bytes, Rate};

/// Runs `client` against a server on a free port; what happened at the server comes back beside.
fn with_server<T>(client: impl FnOnce(&Server) -> T) -> (T, Vec<Event>) {
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::listen(&Kernel, any, &SocketOptions::default()).unwrap();
    let events = Mutex::new(Vec::new());
    let result = thread::scope(|scope| {
        scope.spawn(|| server.run(&|event| events.lock().unwrap().push(event)));
        let result = client(&server);
        server.stop();
        result
    });
    (result, events.into_inner().unwrap())
}

fn plan(server: &Server, workload: Workload) -> Plan {
    Plan {
        server: server.local(),
        socket: SocketOptions::default(),
        seed: 42,
        interval: Duration::from_millis(10),
        lanes: 1,
        stagger: Duration::ZERO,
        read_pause: None,
        sink: false,
        workload,
    }
}

fn sizes(direction: Directions, sizes: &[u64], reuse: bool) -> Workload {
    Workload::Sizes {
        direction,
        sizes: sizes.iter().copied().map(Bytes::new).collect(),
        idle: Duration::ZERO,
        reuse,
    }
}

fn carry(change: impl FnOnce(&mut Plan), workload: Workload) -> Outcome {
    let (outcome, _) = with_server(|server| {
        let mut plan = plan(server, workload);
        change(&mut plan);
        client::run(&Kernel, &plan, &Control::default(), &mut |_| {})
    });
    for flow in &outcome.flows {
        assert_eq!(flow.error, None);
        assert_eq!(flow.data_ok, Some(true));
    }
    assert!(outcome.totals.data_ok && !outcome.interrupted);
    outcome
}

#[test]
fn a_size_arrives_whole_each_way() {
    for (direction, ways) in [
        (Directions::Up, &[Direction::Up][..]),
        (Directions::Down, &[Direction::Down]),
        (Directions::Both, &[Direction::Down, Direction::Up]),
    ] {
        let outcome = carry(|_| {}, sizes(direction, &[3_000_001], true));
        let flow = &outcome.flows[0];
        let mut seen: Vec<_> = flow.transfers.iter().map(|one| one.direction).collect();
        seen.sort_by_key(|way| *way == Direction::Up);
        assert_eq!(seen, ways);
        for transfer in &flow.transfers {
            assert_eq!(transfer.bytes, 3_000_001);
            assert!(transfer.receiver_s <= flow.total_s);
            assert_eq!(
                transfer.progress.last().map(|point| point.1),
                Some(3_000_001)
            );
        }
        assert!(!flow.samples.is_empty(), "{direction:?}");
    }
}

#[test]
fn sizes_share_a_connection_or_have_their_own() {
    let shared = carry(
        |_| {},
        sizes(Directions::Up, &[1, 70_000, 0, 200_000], true),
    );
    assert_eq!(shared.flows.len(), 1);
    let bytes: Vec<_> = shared.flows[0]
        .transfers
        .iter()
        .map(|one| one.bytes)
        .collect();
    assert_eq!(bytes, [1, 70_000, 0, 200_000]);
    let own = carry(
        |_| {},
        sizes(Directions::Down, &[1, 70_000, 200_000], false),
    );
    assert_eq!(own.flows.len(), 3);
    assert_eq!(own.totals.bytes, 270_001);
}

#[test]
fn a_duration_is_counted_at_the_receiver() {
    for direction in [Directions::Up, Directions::Down, Directions::Both] {
        let duration = Duration::from_millis(150);
        let outcome = carry(
            |plan| plan.lanes = 2,
            Workload::Duration {
                direction,
                duration,
            },
        );
        assert_eq!(outcome.flows.len(), 2);
        assert!(outcome.totals.jain.is_some());
        for transfer in outcome.flows.iter().flat_map(|flow| &flow.transfers) {
            assert!(transfer.bytes > 0);
            assert!(transfer.receiver_s <= 0.150_001, "{transfer:?}");
        }
    }
}

#[test]
fn every_exchange_is_timed() {
    let workload = Workload::Exchanges {
        request: Bytes::new(64),
        response: Bytes::new(100_000),
        count: 20,
        idle: Duration::ZERO,
    };
    let outcome = carry(|_| {}, workload);
    let exchanges = outcome.flows[0].exchanges.as_ref().unwrap();
    assert_eq!(exchanges.samples_s.len(), 20);
    assert!(exchanges.median_s <= exchanges.p95_s && exchanges.p99_s <= exchanges.max_s);
    assert_eq!(outcome.totals.bytes, 20 * 100_064);
}

#[test]
fn idle_time_between_exchanges_passes_and_is_not_counted() {
    let idle = Duration::from_millis(60);
    let workload = Workload::Exchanges {
        request: Bytes::new(64),
        response: Bytes::new(64),
        count: 4,
        idle,
    };
    let outcome = carry(|_| {}, workload);
    let flow = &outcome.flows[0];
    let exchanges = flow.exchanges.as_ref().unwrap();
    assert_eq!(exchanges.samples_s.len(), 4);
    let counted: f64 = exchanges.samples_s.iter().sum();
    assert!(
        flow.total_s - counted >= 3.0 * idle.as_secs_f64(),
        "{flow:?}"
    );
}

#[test]
fn a_reader_that_pauses_and_a_paced_sender_take_their_time() {
    let pause = ReadPause {
        after_bytes: 1000,
        for_ns: 50_000_000,
    };
    for direction in [Directions::Up, Directions::Down] {
        let paused = carry(
            |plan| plan.read_pause = Some(pause),
            sizes(direction, &[20_000_000], true),
        );
        assert!(paused.flows[0].total_s >= 0.05);
        let paced = carry(
            |plan| plan.socket.pace = Some(Rate::mbit_per_s(80)),
            sizes(direction, &[2_000_000], true),
        );
        // 0.2 s at the rate; the first bursts are not paced.
        assert!(paced.flows[0].total_s >= 0.1, "{direction:?}");
    }
}

#[test]
fn settings_are_read_back_and_a_refused_one_is_the_flows_error() {
    let set = carry(
        |plan| {
            plan.socket.send_buffer = Some(Bytes::kib(64));
            plan.socket.congestion_control = Some("reno".into());
        },
        sizes(Directions::Up, &[100_000], true),
    );
    let flow = &set.flows[0];
    assert_eq!(flow.congestion_control.as_deref(), Some("reno"));
    let options: Vec<_> = flow
        .settings
        .iter()
        .map(|one| one.option.as_str())
        .collect();
    assert_eq!(options, ["SO_SNDBUF", "TCP_CONGESTION"]);

    let (outcome, _) = with_server(|server| {
        let mut plan = plan(server, sizes(Directions::Up, &[1], true));
        plan.socket.congestion_control = Some("no-such".into());
        client::run(&Kernel, &plan, &Control::default(), &mut |_| {})
    });
    let error = outcome.flows[0].error.as_deref().unwrap();
    assert!(error.contains("TCP_CONGESTION"), "{error}");
    assert_eq!(outcome.totals.failed, 1);
}

#[test]
fn a_server_says_why_it_refuses_and_closes_on_what_is_no_flow() {
    let ((), events) = with_server(|server| {
        let mut client = TcpStream::connect(server.local()).unwrap();
        let hello = Hello {
            congestion_control: Some("no-such".into()),
            ..Hello::default()
        };
        client
            .write_all(&encode(&Frame::Hello(hello)).unwrap())
            .unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert!(String::from_utf8_lossy(&answer).contains("no-such"));

        let mut stranger = TcpStream::connect(server.local()).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        // Closed, perhaps by a reset, because what came was not read to its end.
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.is_empty());

        let mut rude = TcpStream::connect(server.local()).unwrap();
        rude.write_all(&encode(&Frame::Ask(Ask::Bytes(1 << 40))).unwrap())
            .unwrap();
        let mut answer = Vec::new();
        let _ = rude.read_to_end(&mut answer);
        assert!(
            answer.is_empty(),
            "nothing is sent to who did not say hello"
        );
    });
    let errors = events
        .iter()
        .filter(|event| matches!(event, Event::Closed { error: Some(_), .. }));
    assert_eq!(errors.count(), 3, "{events:?}");
}

#[test]
fn a_stop_keeps_what_was_measured() {
    for direction in [Directions::Up, Directions::Down] {
        let (outcome, _) = with_server(|server| {
            let duration = Duration::from_hours(1);
            let plan = plan(
                server,
                Workload::Duration {
                    direction,
                    duration,
                },
            );
            let control = Control::default();
            client::run(&Kernel, &plan, &control, &mut |progress| {
                if progress.bytes > 1_000_000 {
                    control.stop();
                }
            })
        });
        assert!(outcome.interrupted);
        assert!(
            outcome.totals.bytes > 0,
            "{direction:?}: {:?}",
            outcome.totals
        );
        assert_eq!(outcome.flows[0].data_ok, Some(true));
    }
}

#[test]
fn any_host_that_takes_bytes_will_do() {
    for (workload, bytes) in [
        (
            sizes(Directions::Up, &[300_000, 700_000], true),
            Some(1_000_000),
        ),
        (
            Workload::Duration {
                direction: Directions::Up,
                duration: Duration::from_millis(100),
            },
            None,
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let plan = Plan {
            server: listener.local_addr().unwrap(),
            socket: SocketOptions::default(),
            seed: 42,
            interval: Duration::from_millis(10),
            lanes: 1,
            stagger: Duration::ZERO,
            read_pause: None,
            sink: true,
            workload,
        };
        let (outcome, taken) = thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                // A reset behind what was counted ends it as well.
                let mut taken = Vec::new();
                let _ = stream.read_to_end(&mut taken);
                taken.len()
            });
            let outcome = client::run(&Kernel, &plan, &Control::default(), &mut |_| {});
            (outcome, taker.join().unwrap())
        });
        let flow = &outcome.flows[0];
        assert_eq!(flow.error, None);
        assert_eq!(flow.data_ok, None, "nobody compared the bytes");
        assert!(flow.bytes > 0 && flow.goodput_bps.is_some(), "{flow:#?}");
        assert!(u64::try_from(taken).unwrap() >= flow.bytes);
        if let Some(bytes) = bytes {
            assert_eq!(flow.bytes, bytes);
        }
    }
}
