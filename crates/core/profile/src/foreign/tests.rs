use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::time::Duration;
use std::vec::Vec;

use units::Bytes;

use super::*;
use crate::{ProfileSet, TcpProfile, builtin};

/// As a box prints it, with the values of a field report and fields that Linux has not.
const LISTED: &str = "\
ltm pool somewhere {
    members none
}
ltm profile tcp /Common/s3-upload {
    app-service none
    auto-receive-window-size disabled
    auto-send-buffer-size enabled
    congestion-control woodside
    defaults-from /Common/tcp
    delayed-acks disabled
    idle-timeout 300
    init-cwnd 16
    ip-tos-to-client 40
    keep-alive-interval 1800
    minimum-rto 1000
    nagle disabled
    pkt-loss-ignore-rate 50
    proxy-buffer-high 262144
    rate-pace-max-rate 1250000
    receive-window-size 131072
    send-buffer-size 131072
    slow-start enabled
    syn-max-retrans 3
    zero-window-timeout 20000
}
ltm profile tcp empty { }
";

fn resolved(imported: &Imported) -> TcpProfile {
    let written = BTreeMap::from([(imported.name.clone(), imported.profile.clone())]);
    let set = ProfileSet::new(written);
    assert_eq!(set.problems(), []);
    set.resolve(&imported.name).unwrap()
}

#[test]
fn every_field_of_a_listed_profile_has_a_fate() {
    let all = import(LISTED).unwrap();
    assert_eq!(all.len(), 2);
    let imported = &all[0];
    assert_eq!(imported.name, "s3-upload");
    assert_eq!(imported.fields.len(), 20);
    let profile = resolved(imported);
    assert_eq!(profile.congestion_control, ["illinois", "cubic"]);
    assert!(!profile.nagle);
    // The system sizes the one itself, and not the other.
    assert_eq!(profile.send_buffer, None);
    assert_eq!(profile.receive_buffer, Some(Bytes::kib(128)));
    assert_eq!(profile.notsent_low_water, Some(Bytes::kib(256)));
    assert_eq!(profile.max_pacing_rate.unwrap().bits_per_s(), 10_000_000);
    assert_eq!(profile.keep_alive.unwrap().idle, Duration::from_mins(30));
    assert_eq!(profile.user_timeout, Some(Duration::from_secs(20)));
    assert_eq!(profile.syn_retries, Some(3));
    assert_eq!(profile.dscp, Some(10));
    assert_eq!(profile.min_rto, Some(Duration::from_millis(200)));
    assert_eq!(profile.delayed_ack, Some(Duration::from_millis(1)));
    let fate = |name: &str| {
        let field = imported.fields.iter().find(|field| field.name == name);
        field.unwrap().fate.clone()
    };
    assert!(matches!(fate("pkt-loss-ignore-rate"), Fate::Never(_)));
    assert!(matches!(fate("app-service"), Fate::Never(_)));
    assert_eq!(
        fate("init-cwnd"),
        Fate::Elsewhere("ip route change ... initcwnd 16".into())
    );
    assert!(matches!(fate("slow-start"), Fate::Always(_)));
    assert_eq!(
        resolved(&all[1]),
        TcpProfile {
            name: "empty".into(),
            ..builtin::wan()
        }
    );
}

#[test]
fn what_is_no_list_of_profiles_is_refused_with_its_line() {
    assert_eq!(import("ltm pool x { }"), Err(TmshError::Nothing));
    let open = "\n\nltm profile tcp x {\n nagle enabled\n";
    assert_eq!(
        import(open),
        Err(TmshError::Open {
            line: 3,
            name: "x".into()
        })
    );
    let field = "ltm profile tcp x {\n nagle\n}";
    assert_eq!(
        import(field),
        Err(TmshError::Field {
            line: 2,
            text: "nagle".into()
        })
    );
}

#[test]
fn a_profile_goes_to_bigip_and_comes_back_with_what_it_can_say() {
    for name in builtin::NAMES {
        let profile = builtin::find(name).unwrap();
        let said = export(&profile, Language::Tmsh).lines.join("\n");
        // What `list` prints of what `create` was told.
        let inside = said.split_once('{').unwrap().1.trim_end_matches(" }");
        let words: Vec<&str> = inside.split_whitespace().collect();
        let fields: String = words.chunks(2).map(|pair| pair.join(" ") + "\n").collect();
        let listed = std::format!("ltm profile tcp {name}-back {{\n{fields}}}\n");
        let back = resolved(&import(&listed).unwrap()[0]);
        assert_eq!(
            back.congestion_control[0], profile.congestion_control[0],
            "{name}"
        );
        assert_eq!(back.nagle, profile.nagle);
        assert_eq!(back.syn_retries, profile.syn_retries);
        assert_eq!(back.send_buffer, None);
        assert_eq!(
            back.keep_alive.unwrap().idle,
            profile.keep_alive.unwrap().idle
        );
        if profile.user_timeout.is_some() {
            assert_eq!(back.user_timeout, profile.user_timeout);
        }
    }
}

#[test]
fn every_language_says_each_setting_or_tells_that_it_does_not() {
    let profile = TcpProfile {
        send_buffer: Some(Bytes::kib(256)),
        max_segment: Some(Bytes::new(1400)),
        dscp: Some(46),
        max_rto: Some(Duration::from_secs(30)),
        delayed_ack: Some(Duration::from_millis(40)),
        fast_open: true,
        ecn: true,
        ..builtin::satellite()
    };
    for (language, sayings) in [
        (
            "tmsh",
            [
                "congestion-control bbr",
                "send-buffer-size 262144",
                "max-segment-size 1400",
                "fast-open enabled ecn enabled",
            ],
        ),
        (
            "sysctl",
            [
                "tcp_congestion_control = bbr",
                "tcp_wmem = 4096 524288 524288",
                "not said: dscp",
                "net.ipv4.tcp_fastopen = 3",
            ],
        ),
        (
            "powershell",
            [
                "congestionprovider=BBR2",
                "-MaxSynRetransmissions 7",
                "not said: dscp",
                "-EcnCapability Enabled",
            ],
        ),
        (
            "haproxy",
            [
                "tune.sndbuf.server 262144",
                "tcp-ut 300000ms mss 1400",
                "set-tos 184",
                "mss 1400 tfo",
            ],
        ),
    ] {
        let text = export(&profile, language.parse().unwrap()).to_string();
        for saying in sayings {
            assert!(text.contains(saying), "{language}: {saying}\n{text}");
        }
        assert!(
            text.contains("max-rto") || text.contains("rto_max_ms"),
            "{language}"
        );
    }
    assert!("cisco".parse::<Language>().is_err());
}
