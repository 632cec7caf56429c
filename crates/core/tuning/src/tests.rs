use std::time::Duration;

use proptest::prelude::*;
use record::tune::{Document, Finding, Kind};
use units::{Bytes, LossRate, Rate};

use crate::{Device, Host, Live, Path, Route, Settings, Transfers, clients, systems};

/// A Linux host that nobody has touched.
fn untouched() -> Host {
    let defaults = [
        ("net.core.default_qdisc", "fq_codel"),
        ("net.core.rmem_max", "212992"),
        ("net.core.somaxconn", "4096"),
        ("net.core.wmem_max", "212992"),
        ("net.ipv4.ip_local_port_range", "32768\t60999"),
        ("net.ipv4.tcp_adv_win_scale", "1"),
        ("net.ipv4.tcp_allowed_congestion_control", "reno cubic bbr"),
        (
            "net.ipv4.tcp_available_congestion_control",
            "reno cubic bbr",
        ),
        ("net.ipv4.tcp_congestion_control", "cubic"),
        ("net.ipv4.tcp_dsack", "1"),
        ("net.ipv4.tcp_early_retrans", "3"),
        ("net.ipv4.tcp_ecn", "2"),
        ("net.ipv4.tcp_frto", "2"),
        ("net.ipv4.tcp_keepalive_time", "7200"),
        ("net.ipv4.tcp_limit_output_bytes", "4194304"),
        ("net.ipv4.tcp_max_syn_backlog", "2048"),
        ("net.ipv4.tcp_mem", "281715\t375623\t563430"),
        ("net.ipv4.tcp_moderate_rcvbuf", "1"),
        ("net.ipv4.tcp_mtu_probing", "0"),
        ("net.ipv4.tcp_no_metrics_save", "0"),
        ("net.ipv4.tcp_notsent_lowat", "4294967295"),
        ("net.ipv4.tcp_recovery", "1"),
        ("net.ipv4.tcp_rmem", "4096\t131072\t6291456"),
        ("net.ipv4.tcp_sack", "1"),
        ("net.ipv4.tcp_slow_start_after_idle", "1"),
        ("net.ipv4.tcp_syncookies", "1"),
        ("net.ipv4.tcp_timestamps", "1"),
        ("net.ipv4.tcp_tw_reuse", "2"),
        ("net.ipv4.tcp_window_scaling", "1"),
        ("net.ipv4.tcp_wmem", "4096\t16384\t4194304"),
        ("net.ipv4.tcp_workaround_signed_windows", "0"),
    ];
    Host {
        settings: defaults
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        kernel: Some("6.18.5".to_owned()),
        memory: Some(Bytes::new(24 << 30)),
        memory_limit: None,
        route: Some(Route {
            line: "default via 192.0.2.1 dev eth0 proto static".to_owned(),
        }),
        device: Some(Device {
            name: "eth0".to_owned(),
            mtu: Some(1_500),
            speed: Some(Rate::mbit_per_s(10_000)),
            queues: Some((4, 4)),
            qdiscs: Some(vec!["mq".to_owned(), "fq_codel".to_owned()]),
            offloads: vec![("tso", true), ("gso", true), ("gro", true)],
            ring: Some((4096, 4096)),
        }),
        live: Some(Live::default()),
    }
}

/// What is found where `change` is all that differs from an untouched host.
fn advice_after(change: impl FnOnce(&mut Host), path: &Path) -> Document {
    let mut host = untouched();
    change(&mut host);
    advise(&host, path)
}

fn device(host: &mut Host) -> &mut Device {
    host.device.as_mut().unwrap()
}

/// Something that holds a device back.
type Harm = fn(&mut Device);

#[test]
fn a_device_is_named_where_it_is_what_holds_the_path_back() {
    let fast = path(1, 2_000);
    let cases: [(&str, Harm); 4] = [
        ("slow-device", |device| {
            device.speed = Some(Rate::mbit_per_s(1_000));
        }),
        ("one-queue-for-all", |device| {
            device.qdiscs = Some(vec!["pfifo_fast".to_owned()]);
        }),
        ("single-packets", |device| {
            device.offloads = vec![("tso", false), ("gro", true)];
        }),
        ("short-ring", |device| device.ring = Some((256, 4096))),
    ];
    let names = |advice: &Document| -> Vec<String> {
        let found = advice.findings.iter().map(|finding| finding.name.clone());
        found.collect()
    };
    let before = names(&advice_after(|_| {}, &fast));
    for (name, harm) in cases {
        let advice = advice_after(|host| harm(device(host)), &fast);
        let finding = found(&advice, name);
        assert_eq!(finding.kind, Kind::Consider);
        assert!(!finding.commands.is_empty(), "{finding:#?}");
        let others: Vec<String> = names(&advice).into_iter().filter(|n| n != name).collect();
        assert_eq!(others, before, "nothing else is found with {name}");
    }
    let off = advice_after(|host| device(host).offloads = vec![("tso", false)], &fast);
    assert_eq!(
        found(&off, "single-packets").commands,
        ["ethtool -K eth0 tso on"]
    );
    assert_eq!(
        found(&off, "single-packets").undo,
        ["ethtool -K eth0 tso off"]
    );
    let slow = advice_after(
        |host| device(host).offloads = vec![("tso", false)],
        &path(1, 100),
    );
    assert!(!names(&slow).contains(&"single-packets".to_owned()));
}

#[test]
fn live_connections_tell_which_end_holds_them() {
    let live = Live {
        connections: 5,
        held_by_peer: 3,
        held_by_send_buffer: 1,
        controls: [("bbr".to_owned(), 2), ("cubic".to_owned(), 3)].into(),
        waiting_ports: 0,
    };
    let advice = advice_after(|host| host.live = Some(live), &path(200, 1_000));
    let peer = found(&advice, "peer-window");
    assert!(
        peer.says.starts_with("3 of 5 live connections"),
        "{}",
        peer.says
    );
    assert!(
        peer.commands[0].contains("--rtt '200 ms' --rate '1 Gbit/s'"),
        "{peer:#?}"
    );
    assert!(
        found(&advice, "full-send-buffer")
            .says
            .starts_with("1 of 5")
    );
    assert!(
        advice
            .fine
            .iter()
            .any(|says| says.contains("bbr 2, cubic 3"))
    );
}

#[test]
fn many_ports_in_time_wait_are_a_matter_of_reuse() {
    let waiting = |ports: u32, reuse: &str| {
        let live = Live {
            waiting_ports: ports,
            ..Live::default()
        };
        let host = Host {
            live: Some(live),
            ..with("net.ipv4.tcp_tw_reuse", reuse)
        };
        advise(&host, &path(50, 100))
    };
    // 28,232 ports by default.
    let advice = waiting(7_058, "2");
    let finding = found(&advice, "ports-in-time-wait");
    assert_eq!(finding.kind, Kind::Consider);
    assert_eq!(finding.commands, ["sysctl -w net.ipv4.tcp_tw_reuse='1'"]);
    assert_eq!(finding.undo, ["sysctl -w net.ipv4.tcp_tw_reuse='2'"]);
    assert!(
        finding.says.starts_with("7058 of 28232 ports"),
        "{finding:#?}"
    );
    for (ports, reuse) in [(7_057, "2"), (20_000, "1")] {
        assert!(
            waiting(ports, reuse)
                .findings
                .iter()
                .all(|one| one.name != "ports-in-time-wait")
        );
    }
}

#[test]
fn ecn_that_is_refused_is_worth_a_thought() {
    let advice = advise(&with("net.ipv4.tcp_ecn", "0"), &path(50, 100));
    let finding = found(&advice, "no-ecn");
    assert_eq!(
        (finding.kind, finding.changes[0].to.as_str()),
        (Kind::Consider, "2")
    );
    for accepts in ["1", "2", "3"] {
        let advice = advise(&with("net.ipv4.tcp_ecn", accepts), &path(50, 100));
        assert!(advice.findings.iter().all(|one| one.name != "no-ecn"));
    }
}

#[test]
fn a_route_with_an_algorithm_of_its_own_is_what_counts() {
    let route = |control: &str| Route {
        line: format!("default via 192.0.2.1 dev eth0 congctl {control} initcwnd 10"),
    };
    let idle = |host: &mut Host| {
        host.settings = host
            .settings
            .clone()
            .with("net.ipv4.tcp_congestion_control", "bbr");
    };
    let names = |advice: &Document| -> Vec<String> {
        let found = advice.findings.iter().map(|finding| finding.name.clone());
        found.collect()
    };
    // BBR ignores the restart after idle; the route's CUBIC does not.
    let by_default = advice_after(idle, &path(100, 100));
    assert!(!names(&by_default).contains(&"slow-start-after-idle".to_owned()));
    let by_route = advice_after(
        |host| {
            idle(host);
            host.route = Some(route("lock cubic"));
        },
        &path(100, 100),
    );
    let gain = found(&by_route, "slow-start-after-idle").best().unwrap();
    assert!(gain.saved() > 0.2, "{gain:?}");
    let lossy = Path {
        loss: LossRate::per_billion(5_000_000).unwrap(),
        ..path(100, 100)
    };
    let lossy = advice_after(|host| host.route = Some(route("lock cubic")), &lossy);
    assert_eq!(
        found(&lossy, "loss-based-congestion-control").commands,
        ["ip route change default via 192.0.2.1 dev eth0 initcwnd 10 congctl bbr"]
    );
}

#[test]
fn a_control_group_bounds_a_connection_as_memory_does() {
    let bound = advice_after(
        |host| host.memory_limit = Some(Bytes::new(512 << 20)),
        &path(200, 1_000),
    );
    let receive = found(&bound, "receive-buffer");
    assert_eq!(receive.changes[0].to, format!("4096 131072 {}", 16 << 20));
}

#[test]
fn what_could_not_be_read_is_said() {
    let blind = advice_after(
        |host| {
            host.device = None;
            host.live = None;
        },
        &path(10, 100),
    );
    for word in ["device", "live connections"] {
        assert!(
            blind.unknown.iter().any(|says| says.contains(word)),
            "{word}"
        );
    }
}

fn advise(host: &Host, path: &Path) -> Document {
    crate::advise(host, path, Transfers::Usual)
}

fn path(rtt_ms: u64, mbit: u64) -> Path {
    Path {
        rtt: Duration::from_millis(rtt_ms),
        rate: Rate::mbit_per_s(mbit),
        loss: LossRate::ZERO,
    }
}

fn with(key: &str, value: &str) -> Host {
    let host = untouched();
    Host {
        settings: host.settings.with(key, value),
        ..host
    }
}

fn found<'a>(document: &'a Document, name: &str) -> &'a Finding {
    document
        .findings
        .iter()
        .find(|finding| finding.name == name)
        .unwrap_or_else(|| panic!("no `{name}` among {:#?}", document.findings))
}

#[test]
fn an_untouched_host_on_a_lan_has_nothing_that_apply_would_change_but_idle_restart() {
    let advice = advise(&untouched(), &path(1, 1_000));
    let applied: Vec<&str> = advice
        .findings
        .iter()
        .filter(|finding| finding.kind.is_applied())
        .map(|finding| finding.name.as_str())
        .collect();
    assert_eq!(applied, ["slow-start-after-idle"]);
}

#[test]
fn case_b_a_window_of_4096_is_found_and_the_gain_is_window_over_rtt() {
    // 8800 B of buffer announce about 4096 B on this kernel (field case B): 21.56 kB/s at 190 ms.
    let advice = advise(
        &with("net.ipv4.tcp_rmem", "1024\t8800\t8800"),
        &path(190, 100),
    );
    let first = &advice.findings[0];
    assert_eq!(first.name, "receive-buffer");
    assert_eq!(first.changes[0].from, "1024\t8800\t8800");
    let gain = first
        .gains
        .iter()
        .find(|gain| gain.transfer.starts_with("download"))
        .unwrap();
    // 20 x BDP = 47.5 MB within 20 % of 21.56 kB/s, the bound window / RTT.
    assert!(
        (1_763.0..2_644.0).contains(&gain.before_s),
        "{} s",
        gain.before_s
    );
    assert!(gain.after_s < 2.0 * gain.floor_s, "{} s", gain.after_s);
}

#[test]
fn slow_start_after_idle_costs_round_trips_of_every_burst() {
    let advice = advise(&untouched(), &path(200, 100));
    let finding = found(&advice, "slow-start-after-idle");
    let gain = finding.best().unwrap();
    assert!(
        gain.transfer.starts_with("ten uploads of") && gain.transfer.contains("5 s of silence"),
        "{}",
        gain.transfer
    );
    assert!(gain.saved() > 0.3, "{gain:?}");
}

#[test]
fn bbr_ignores_restart_after_idle_and_so_does_the_advice() {
    let advice = advise(
        &with("net.ipv4.tcp_congestion_control", "bbr"),
        &path(200, 100),
    );
    assert!(
        advice
            .findings
            .iter()
            .all(|finding| finding.name != "slow-start-after-idle")
    );
    assert!(
        advice
            .fine
            .iter()
            .any(|says| says.contains("BBR ignores it"))
    );
}

#[test]
fn folklore_is_named_and_its_change_is_the_default() {
    for (key, value, name, default) in [
        ("net.ipv4.tcp_window_scaling", "0", "no-window-scaling", "1"),
        ("net.ipv4.tcp_moderate_rcvbuf", "0", "autotuning-off", "1"),
        ("net.ipv4.tcp_sack", "0", "no-sack", "1"),
        ("net.ipv4.tcp_timestamps", "0", "no-timestamps", "1"),
        ("net.ipv4.tcp_recovery", "0", "no-rack", "1"),
    ] {
        let advice = advise(&with(key, value), &path(100, 100));
        let finding = found(&advice, name);
        assert_eq!(finding.kind, Kind::Folklore, "{name}");
        assert_eq!(finding.changes[0].to, default, "{name}");
        assert_eq!(finding.undo, [format!("sysctl -w {key}='{value}'")]);
    }
}

#[test]
fn random_loss_asks_for_bbr_and_the_gain_is_large() {
    let lossy = Path {
        loss: "0.5 %".parse().unwrap(),
        ..path(100, 50)
    };
    let advice = advise(&untouched(), &lossy);
    let finding = found(&advice, "loss-based-congestion-control");
    assert!(finding.best().unwrap().saved() > 0.5, "{finding:?}");
}

#[test]
fn an_algorithm_that_is_not_allowed_to_all_is_a_matter_of_routes() {
    let host = with("net.ipv4.tcp_allowed_congestion_control", "reno cubic");
    let lossy = Path {
        loss: "0.5 %".parse().unwrap(),
        ..path(100, 50)
    };
    let advice = advise(&host, &lossy);
    let finding = found(&advice, "loss-based-congestion-control");
    assert_eq!(finding.kind, Kind::Consider);
    assert_eq!(
        finding.commands,
        ["ip route change default via 192.0.2.1 dev eth0 proto static congctl bbr"]
    );
    assert!(finding.best().unwrap().saved() > 0.5, "{finding:?}");
}

#[test]
fn one_buffer_never_takes_more_than_its_share_of_memory() {
    let small = Host {
        memory: Some(Bytes::new(512 << 20)),
        ..untouched()
    };
    let advice = advise(&small, &path(300, 10_000));
    let finding = found(&advice, "receive-buffer");
    assert_eq!(finding.changes[0].to, "4096 131072 16777216");
}

#[test]
fn an_algorithm_that_is_not_played_is_said_and_the_rules_still_speak() {
    let host = Host {
        settings: untouched()
            .settings
            .with("net.ipv4.tcp_congestion_control", "htcp"),
        ..untouched()
    };
    let advice = advise(&host, &path(100, 1_000));
    assert!(
        advice
            .unpredicted
            .as_ref()
            .is_some_and(|why| why.contains("htcp"))
    );
    assert!(found(&advice, "receive-buffer").gains.is_empty());
}

#[test]
fn what_could_not_be_read_is_unknown_and_never_fine() {
    let advice = advise(&Host::default(), &path(100, 100));
    assert!(advice.findings.is_empty(), "{:?}", advice.findings);
    assert!(advice.fine.is_empty(), "{:?}", advice.fine);
    assert!(advice.unknown.len() > 15, "{:?}", advice.unknown);
}

#[test]
fn routes_keep_everything_but_the_first_window() {
    let route = Route {
        line: "default via 192.0.2.1 dev eth0 initcwnd 20 mtu 1400".to_owned(),
    };
    assert_eq!(route.initial_cwnd(), Some(20));
    assert_eq!(
        route.without("initcwnd"),
        "default via 192.0.2.1 dev eth0 mtu 1400"
    );
}

#[test]
fn other_systems_say_how_to_change_and_how_to_undo() {
    use systems::System::{Aix, Bigip, Macos, Windows};
    for system in [Windows, Aix, Macos, Bigip] {
        let advice = systems::advise(system, &path(190, 100));
        let limits = advice
            .findings
            .iter()
            .filter(|finding| finding.kind.is_applied());
        assert!(limits.clone().count() > 0, "{system:?}");
        assert!(
            limits.clone().any(|finding| !finding.undo.is_empty()),
            "{system:?}"
        );
        assert!(advice.unpredicted.is_some(), "{system:?}");
    }
}

#[test]
fn more_in_flight_than_16_mib_needs_the_experimental_level() {
    let commands = |path: &Path| {
        let advice = systems::advise(systems::System::Windows, path);
        found(&advice, "autotuning-off").commands.join("\n")
    };
    assert!(commands(&path(100, 100)).contains("AutoTuningLevelLocal Normal"));
    assert!(commands(&path(200, 1_000)).contains("AutoTuningLevelLocal Experimental"));
}

proptest! {
    #[test]
    fn advice_for_clients_stays_within_what_stores_accept(
        rtt_us in 100_u64..2_000_000,
        kbit in 10_u64..100_000_000,
    ) {
        let transfer = clients::transfer(&Path {
            rtt: Duration::from_micros(rtt_us),
            rate: Rate::kbit_per_s(kbit),
            loss: LossRate::ZERO,
        });
        prop_assert!((2..=65).contains(&transfer.connections));
        // Parts of 5 MiB to 5 GiB: the object store's own bounds.
        prop_assert!((5 << 20..=5 << 30).contains(&transfer.part.get()));
    }

    #[test]
    fn no_text_in_a_sysctl_breaks_the_rules(values in proptest::collection::vec(".{0,24}", crate::KEYS.len())) {
        let settings: Settings = crate::KEYS
            .iter()
            .zip(values)
            .map(|(key, value)| ((*key).to_owned(), value))
            .collect();
        let host = Host { settings, ..Host::default() };
        let advice = crate::rules::judge(&host, &path(100, 100));
        for proposal in &advice.proposals {
            prop_assert!(!proposal.finding.says.is_empty());
        }
    }
}
