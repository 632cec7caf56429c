//! The profiles that need no file.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use units::Bytes;

use crate::{KeepAlive, TcpProfile};

/// Their names, in the order in which they are listed.
pub const NAMES: [&str; 6] = ["lan", "wan", "s3", "mobile", "satellite", "legacy"];

/// The built-in profile of this name.
#[must_use]
pub fn find(name: &str) -> Option<TcpProfile> {
    match name {
        "lan" => Some(lan()),
        "wan" => Some(wan()),
        "s3" => Some(s3()),
        "mobile" => Some(mobile()),
        "satellite" => Some(satellite()),
        "legacy" => Some(legacy()),
        _ => None,
    }
}

/// Hosts on one switch or one site: round trips of up to about 2 ms, no loss that queueing did not
/// cause.
#[must_use]
pub fn lan() -> TcpProfile {
    TcpProfile {
        name: "lan".into(),
        // CUBIC (RFC 9438): window growth is over before it matters at 1 ms, and it shares a switch
        // fairly with everything else there.
        congestion_control: names(&["cubic", "reno"]),
        congestion_control_forgetting: None,
        // A relay writes whole messages: waiting for an ACK only adds a delayed ACK's 40 ms.
        nagle: false,
        max_pacing_rate: None,
        // Autotuning holds a LAN's few hundred kilobytes in flight; what lies unsent beyond that is
        // only memory. 128 KiB is 1 ms at 1 Gbit/s, longer than a wake-up takes.
        notsent_low_water: Some(Bytes::kib(128)),
        keep_alive: Some(KeepAlive {
            idle: Duration::from_mins(1),
            interval: Duration::from_secs(10),
            probes: 6,
        }),
        // A LAN peer that acknowledges nothing for half a minute is gone.
        user_timeout: Some(Duration::from_secs(30)),
        send_buffer: None,
        receive_buffer: None,
        max_segment: None,
        syn_retries: None,
        // Data of a SYN may arrive twice: only who knows the requests can allow that.
        fast_open: false,
        ecn: false,
        dscp: None,
        delayed_ack: None,
        min_rto: None,
        max_rto: None,
    }
}

/// A long path: 20 to 600 ms, 10 Mbit/s to 1 Gbit/s, some loss.
#[must_use]
pub fn wan() -> TcpProfile {
    TcpProfile {
        name: "wan".into(),
        // BBR keeps its rate under random loss (measured, 10 Mbit/s, 70 ms, 0.5 %: 8.7 s where CUBIC
        // takes 29 s); CUBIC where the kernel has no BBR.
        congestion_control: names(&["bbr", "cubic"]),
        congestion_control_forgetting: None,
        nagle: false,
        max_pacing_rate: None,
        // 256 KiB is 2 ms at 1 Gbit/s: enough to hide the relay's wake-up, little enough that a slow
        // path holds the client back instead of swallowing its upload into the relay.
        notsent_low_water: Some(Bytes::kib(256)),
        keep_alive: Some(KeepAlive {
            // Below the 60 s after which common NATs and balancers forget a silent connection.
            idle: Duration::from_secs(45),
            interval: Duration::from_secs(10),
            probes: 6,
        }),
        // Long enough for a routing change to settle.
        user_timeout: Some(Duration::from_secs(90)),
        send_buffer: None,
        receive_buffer: None,
        max_segment: None,
        syn_retries: None,
        fast_open: false,
        ecn: false,
        dscp: None,
        delayed_ack: None,
        min_rto: None,
        max_rto: None,
    }
}

/// A long, clean path to an object store, with connections that are kept hot: bursts of 100 KiB to a
/// few MiB after silence, which should leave at once at the path's rate.
#[must_use]
pub fn s3() -> TcpProfile {
    TcpProfile {
        name: "s3".into(),
        // CUBIC keeps the window it has over idle time where tcp_slow_start_after_idle is 0, and a
        // window is what a hot connection is made of. Where that sysctl is 1, BBR keeps a bandwidth
        // estimate instead. Measured over 200.4 ms and 100 Mbit/s, 100 KiB uploads after silence: CUBIC
        // 210 to 217 ms, BBR 210 to 274 ms; with that sysctl at 1 and 5 s of silence, 100 KiB and 1 MiB:
        // BBR 219 and 291 ms, CUBIC 806 and 1436 ms.
        congestion_control: names(&["cubic", "bbr"]),
        congestion_control_forgetting: Some(names(&["bbr", "cubic"])),
        ..wan()
    }
}

/// A client or server behind a cellular or crowded wireless network: 30 to 150 ms that vary by the
/// second, deep buffers at the base station, losses of the radio, pauses at handovers.
#[must_use]
pub fn mobile() -> TcpProfile {
    TcpProfile {
        name: "mobile".into(),
        // A loss-based algorithm fills the base station's buffer, seconds deep, before it learns anything,
        // and takes a radio loss for congestion. BBR does neither.
        congestion_control: names(&["bbr", "cubic"]),
        congestion_control_forgetting: None,
        // Rates fall to 1 Mbit/s within a second; 128 KiB is then 1 s of data that can no longer be
        // dropped or reordered by who writes it.
        notsent_low_water: Some(Bytes::kib(128)),
        keep_alive: Some(KeepAlive {
            // Each probe wakes the radio for some seconds; carriers' NATs keep TCP for 4 min and more.
            idle: Duration::from_mins(2),
            interval: Duration::from_secs(20),
            probes: 6,
        }),
        // A tunnel or a lift: the connection outlives minutes without coverage.
        user_timeout: Some(Duration::from_mins(5)),
        ..wan()
    }
}

/// A path over a geostationary satellite: 500 to 700 ms, 2 to 100 Mbit/s, losses in bad weather.
#[must_use]
pub fn satellite() -> TcpProfile {
    TcpProfile {
        name: "satellite".into(),
        // One loss halves a window that takes minutes to grow again, at one segment per 600 ms.
        congestion_control: names(&["bbr", "cubic"]),
        congestion_control_forgetting: None,
        // 50 Mbit/s for the 160 ms that a busy writer may be late; beside some MB in flight it is little.
        notsent_low_water: Some(Bytes::mib(1)),
        keep_alive: Some(KeepAlive {
            idle: Duration::from_secs(45),
            // Longer than the first retransmission timeouts of such a path, 1 s and more.
            interval: Duration::from_secs(20),
            probes: 6,
        }),
        // Rain fades last minutes.
        user_timeout: Some(Duration::from_mins(5)),
        // 1 s and doubling: the eighth comes after 4 min, as long as established connections live.
        syn_retries: Some(7),
        ..wan()
    }
}

/// Old equipment that expects what TCP did before 2004, and comparison with it: one loss-based window,
/// small writes gathered.
#[must_use]
pub fn legacy() -> TcpProfile {
    TcpProfile {
        name: "legacy".into(),
        // RFC 5681: what every other algorithm is measured against, and never more aggressive.
        congestion_control: names(&["reno"]),
        congestion_control_forgetting: None,
        // One segment per keystroke is what slow devices cannot take.
        nagle: true,
        notsent_low_water: None,
        // RFC 9293 §3.8.4 asks for two hours at least; shorter surprises what goes to sleep.
        keep_alive: Some(KeepAlive {
            idle: Duration::from_hours(2),
            interval: Duration::from_secs(75),
            probes: 9,
        }),
        // The kernel's own retransmission limit, about 15 min (`tcp_retries2`).
        user_timeout: None,
        ..wan()
    }
}

fn names(list: &[&str]) -> Vec<String> {
    let mut names = vec![];
    names.extend(list.iter().map(|&name| name.into()));
    names
}
