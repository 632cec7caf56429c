//! From BIG-IP's fields to ours, each with what became of it. Meanings are those of F5's tmsh reference,
//! `ltm profile tcp`, of TMOS 17.1.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use units::{Bytes, Rate, Span};

use super::tmsh::{self, Block, TmshError};
use crate::{RawTcpProfile, Setting};

/// A profile that was read, and what became of each of its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// Its name, without its folder.
    pub name: String,
    /// What of it a profile here can say.
    pub profile: RawTcpProfile,
    /// Every field, in the text's order.
    pub fields: Vec<Field>,
}

/// What became of a field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Field {
    /// As BIG-IP calls it.
    pub name: String,
    /// As it was printed.
    pub value: String,
    /// What became of it.
    pub fate: Fate,
}

/// What can become of a field of another system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It is this key of the profile.
    Key(&'static str),
    /// It is this key of the profile, with a difference.
    Near(&'static str, String),
    /// It is not the socket's but the host's, or the relay's: what to write where.
    Elsewhere(String),
    /// The kernel always does it so.
    Always(&'static str),
    /// Nothing here can say it: why.
    Never(&'static str),
}

/// All profiles of the text that `tmsh list ltm profile tcp` prints.
pub fn import(text: &str) -> Result<Vec<Imported>, TmshError> {
    let blocks = tmsh::parse(text)?;
    Ok(blocks.iter().map(of).collect())
}

fn of(block: &Block) -> Imported {
    let mut profile = RawTcpProfile {
        // What BIG-IP does not print are its own defaults, and none of ours: the plainest is nearest.
        extends: Some("wan".into()),
        ..RawTcpProfile::default()
    };
    let switched_on = |name: &str| {
        let mut fields = block.fields.iter();
        fields.any(|(field, value)| field == name && value == "enabled")
    };
    let automatic = Automatic {
        send: switched_on("auto-send-buffer-size"),
        receive: switched_on("auto-receive-window-size"),
    };
    let fields = block
        .fields
        .iter()
        .map(|(name, value)| Field {
            name: name.clone(),
            value: value.clone(),
            fate: fate(&mut profile, name, value, automatic),
        })
        .collect();
    let name = block.name.rsplit('/').next().unwrap_or_default();
    Imported {
        name: name.to_string(),
        profile,
        fields,
    }
}

/// Which buffers the system sizes itself.
#[derive(Clone, Copy)]
struct Automatic {
    send: bool,
    receive: bool,
}

fn fate(profile: &mut RawTcpProfile, name: &str, value: &str, automatic: Automatic) -> Fate {
    let number = value.parse::<u64>().ok();
    let on = value == "enabled";
    match (name, number) {
        ("congestion-control", _) => congestion_control(profile, value),
        ("nagle", _) => {
            profile.nagle = Some(on);
            if value == "auto" {
                Fate::Near(
                    "nagle",
                    "`auto` is off here; net.ipv4.tcp_autocorking gathers small writes".into(),
                )
            } else {
                Fate::Key("nagle")
            }
        }
        ("send-buffer-size", Some(_)) if automatic.send => {
            Fate::Always("buffers grow by themselves")
        }
        ("receive-window-size", Some(_)) if automatic.receive => {
            Fate::Always("windows grow by themselves")
        }
        ("send-buffer-size", Some(bytes)) => {
            profile.send_buffer = Some(Setting::Value(buffer(bytes)));
            Fate::Near("send-buffer", fixed("send"))
        }
        ("receive-window-size", Some(bytes)) => {
            profile.receive_buffer = Some(Setting::Value(buffer(bytes)));
            Fate::Near("receive-buffer", fixed("receive"))
        }
        ("proxy-buffer-high", Some(bytes)) if bytes > 0 => {
            profile.notsent_low_water = Some(Setting::Value(Bytes::new(bytes)));
            Fate::Near(
                "notsent-low-water",
                "bounds what waits unsent in the kernel; the relay reads no more than it can write"
                    .into(),
            )
        }
        ("proxy-buffer-low" | "auto-proxy-buffer-size", _) => {
            Fate::Always("a side is read again as soon as the other takes something")
        }
        ("rate-pace-max-rate", Some(bytes_per_s)) if bytes_per_s > 0 => {
            let rate = Rate::bit_per_s(bytes_per_s.saturating_mul(8));
            profile.max_pacing_rate = Some(Setting::Value(rate));
            Fate::Key("max-pacing-rate")
        }
        ("rate-pace-max-rate", _) => Fate::Always("0 is no bound"),
        ("rate-pace", _) => Fate::Elsewhere(
            "bbr paces by itself, others with max-pacing-rate or the queueing discipline fq".into(),
        ),
        ("keep-alive-interval", Some(seconds)) => keep_alive(profile, seconds),
        ("zero-window-timeout", Some(milliseconds)) => {
            let span = Span::from(Duration::from_millis(milliseconds.max(1)));
            profile.user_timeout = Some(Setting::Value(span));
            Fate::Near(
                "user-timeout",
                "counts time without an acknowledgement as well as a closed window".into(),
            )
        }
        ("syn-max-retrans", Some(retries)) => {
            let retries = u8::try_from(retries.clamp(1, 127)).unwrap_or(127);
            profile.syn_retries = Some(retries);
            Fate::Near(
                "syn-retries",
                "for the server side; clients' SYNs are answered by the kernel".into(),
            )
        }
        ("max-segment-size", Some(bytes)) if (88..=32_767).contains(&bytes) => {
            profile.max_segment = Some(Setting::Value(Bytes::new(bytes)));
            Fate::Key("max-segment")
        }
        ("fast-open" | "ecn", _) => extension(profile, name, on),
        ("minimum-rto", Some(milliseconds)) => {
            let least = Duration::from_millis(milliseconds.clamp(1, 200));
            profile.min_rto = Some(Setting::Value(Span::from(least)));
            if milliseconds > 200 {
                Fate::Near(
                    "min-rto",
                    "Linux has 200 ms at most; a route can have more (`rto_min`)".into(),
                )
            } else {
                Fate::Key("min-rto")
            }
        }
        ("delayed-acks", _) if !on => {
            let soon = Duration::from_millis(1);
            profile.delayed_ack = Some(Setting::Value(Span::from(soon)));
            Fate::Near(
                "delayed-ack",
                "Linux delays by a clock tick at least".into(),
            )
        }
        ("ip-tos-to-client", Some(tos)) if tos < 256 => {
            profile.dscp = u8::try_from(tos >> 2).ok();
            Fate::Near("dscp", "towards whichever side has the profile".into())
        }
        _ => beyond_the_socket(name, value, on),
    }
}

/// What the kernel as a whole has to allow as well.
fn extension(profile: &mut RawTcpProfile, name: &str, on: bool) -> Fate {
    if name == "ecn" {
        profile.ecn = Some(on);
        Fate::Near(
            "ecn",
            "required of the kernel, not set: sysctl -w net.ipv4.tcp_ecn=1".into(),
        )
    } else {
        profile.fast_open = Some(on);
        Fate::Near(
            "fast-open",
            "where net.ipv4.tcp_fastopen allows it; not on the server side of HTTP mode".into(),
        )
    }
}

/// Fields that no socket option has: the host's, the relay's, the kernel's habits, and what is missing.
fn beyond_the_socket(name: &str, value: &str, on: bool) -> Fate {
    let switch =
        |key: &str, on: bool| Fate::Elsewhere(format!("sysctl -w net.ipv4.{key}={}", u8::from(on)));
    match name {
        "init-cwnd" => Fate::Elsewhere(format!("ip route change ... initcwnd {value}")),
        "init-rwnd" => Fate::Elsewhere(format!("ip route change ... initrwnd {value}")),
        "idle-timeout" => {
            Fate::Elsewhere(format!("the relay's limits.idle-timeout = \"{value} s\""))
        }
        "selective-acks" => switch("tcp_sack", on),
        "dsack" => switch("tcp_dsack", on),
        "timestamps" => switch("tcp_timestamps", on),
        "cmetrics-cache" => switch("tcp_no_metrics_save", !on),
        "syn-cookie-enable" => switch("tcp_syncookies", on),
        "tail-loss-probe" => {
            let value = if on { 3 } else { 0 };
            Fate::Elsewhere(format!("sysctl -w net.ipv4.tcp_early_retrans={value}"))
        }
        "max-retrans" => Fate::Elsewhere(format!(
            "sysctl -w net.ipv4.tcp_retries2={value}, or user-timeout"
        )),
        "fin-wait-timeout" | "fin-wait-2-timeout" => {
            Fate::Elsewhere(format!("sysctl -w net.ipv4.tcp_fin_timeout={value}"))
        }
        "rexmt-thresh" => Fate::Elsewhere(format!("sysctl -w net.ipv4.tcp_reordering={value}")),
        "time-wait-recycle" => switch("tcp_tw_reuse", on),
        "defaults-from" => Fate::Elsewhere(format!(
            "import `{value}` as well, or read with `all-properties`"
        )),
        "delayed-acks" | "ack-on-push" => {
            Fate::Always("acknowledgements are delayed as RFC 1122 allows")
        }
        "slow-start" if on => Fate::Always("every connection begins in slow start"),
        "slow-start" => {
            Fate::Never("no connection begins beyond slow start: see init-cwnd, and hot pools")
        }
        "abc" | "limited-transmit" | "early-retransmit" | "enhanced-loss-recovery" => {
            Fate::Always("RFC 3465, 3042, 5827 and 8985 are the kernel's habit")
        }
        "auto-send-buffer-size" | "auto-receive-window-size" => {
            Fate::Always("on, unless a fixed size is asked for")
        }
        "reset-on-timeout" if on => Fate::Always("a timeout is a reset on both sides"),
        "proxy-mss" | "proxy-options" => {
            Fate::Never("each side has the segment size of its own path")
        }
        "pkt-loss-ignore-rate" | "pkt-loss-ignore-burst" => Fate::Never(
            "no algorithm of Linux takes a rate of losses to ignore; bbr ignores them by design",
        ),
        "delay-window-control" => {
            Fate::Never("no algorithm of Linux is extended by it; see vegas and cdg")
        }
        "verified-accept" => Fate::Never("the relay answers the client before the server has"),
        name if name.starts_with("mptcp") => Fate::Never(
            "sockets of MPTCP refuse user-timeout, pacing and timers: the relay speaks TCP over one path",
        ),
        name if name.starts_with("md5") => Fate::Never("the relay signs no segments (RFC 2385)"),
        name if name.starts_with("ip-") || name.starts_with("link-") => {
            Fate::Never("packets are the kernel's")
        }
        _ => Fate::Never("no setting of Linux or of this relay has this meaning"),
    }
}

fn congestion_control(profile: &mut RawTcpProfile, value: &str) -> Fate {
    let (first, note) = match value {
        "high-speed" => ("highspeed", None),
        "new-reno" | "reno" => ("reno", None),
        "cubic" | "bbr" | "westwood" | "illinois" | "vegas" | "scalable" | "cdg" => (value, None),
        "woodside" => (
            "illinois",
            Some("woodside is F5's own: illinois goes by loss and delay as well"),
        ),
        "chd" => (
            "vegas",
            Some("chd is not in Linux: vegas goes by delay as well"),
        ),
        "none" => return Fate::Never("no connection of Linux is without congestion control"),
        _ => return Fate::Never("Linux knows no algorithm of this name"),
    };
    let mut order = vec![first.to_string()];
    if first != "cubic" {
        // Every kernel has it.
        order.push("cubic".to_string());
    }
    profile.congestion_control = Some(order);
    match note {
        Some(note) => Fate::Near("congestion-control", note.to_string()),
        None => Fate::Near(
            "congestion-control",
            format!("{first}, or cubic where the kernel has it not"),
        ),
    }
}

fn keep_alive(profile: &mut RawTcpProfile, seconds: u64) -> Fate {
    if seconds == 0 {
        profile.keep_alive_idle = Some(Setting::Off);
    } else {
        let idle = Duration::from_secs(seconds.min(32_767));
        profile.keep_alive_idle = Some(Setting::Value(Span::from(idle)));
    }
    Fate::Near(
        "keep-alive-idle",
        "silence before the first probe; the next ones follow by keep-alive-interval".into(),
    )
}

/// Within what a socket can be given.
fn buffer(bytes: u64) -> Bytes {
    Bytes::new(bytes).clamp(Bytes::kib(16), Bytes::mib(1023))
}

fn fixed(which: &str) -> String {
    format!("a fixed size ends autotuning: leave {which}-buffer out for paths longer than it fills")
}
