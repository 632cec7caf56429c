//! What bounds how many connections there are, and how they end: ports, queues, memory, silence, MTU.

use record::tune::Kind;

use super::{IP_SYSCTL, Judged, change};
use crate::{Host, Live, Path, Settings};

pub(super) fn judge(host: &Host, path: &Path, judged: &mut Judged) {
    let settings = &host.settings;
    ports(settings, judged);
    time_wait(settings, host.live.as_ref(), judged);
    backlog(settings, judged);
    keep_alive(settings, judged);
    mtu_probing(settings, judged);
    memory(settings, path, judged);
    syn_cookies(settings, judged);
}

/// A port stays taken for a minute after a close (`TCP_TIMEWAIT_LEN` in `include/net/tcp.h`).
fn ports(settings: &Settings, judged: &mut Judged) {
    const TIME_WAIT_S: u64 = 60;
    const FEW: u64 = 20_000;
    let key = "net.ipv4.ip_local_port_range";
    let Some(count) = port_count(settings) else {
        judged.unknown(key);
        return;
    };
    let per_second = count / TIME_WAIT_S;
    if count >= FEW {
        judged.fine(format!(
            "{count} ephemeral ports: {per_second} new connections a second to one address and port"
        ));
        return;
    }
    judged.sysctls(
        "few-ports",
        Kind::Consider,
        format!(
            "{count} ephemeral ports, each taken for {TIME_WAIT_S} s after its close: no more than \
             {per_second} new connections a second to one address and port. Reusing connections is the \
             better remedy."
        ),
        &format!("{IP_SYSCTL}, ip_local_port_range; RFC 9293 section 3.6.1"),
        vec![change(settings, key, "15000 60999")],
    );
}

fn port_count(settings: &Settings) -> Option<u64> {
    let text = settings.text("net.ipv4.ip_local_port_range")?;
    let mut words = text.split_whitespace().map(str::parse::<u64>);
    let (low, high) = (words.next()?.ok()?, words.next()?.ok()?);
    high.saturating_sub(low).checked_add(1)
}

/// Ports that wait after a close, where they are many of those that there are.
fn time_wait(settings: &Settings, live: Option<&Live>, judged: &mut Judged) {
    /// A port is found by trying: with a quarter taken that is still quick, and there is time to change something.
    const PART: u64 = 4;
    let key = "net.ipv4.tcp_tw_reuse";
    let Some(value) = settings.number(key) else {
        judged.unknown(key);
        return;
    };
    let waiting = live.map_or(0, |live| u64::from(live.waiting_ports));
    match port_count(settings) {
        Some(count) if value != 1 && waiting.saturating_mul(PART) >= count => judged.sysctls(
            "ports-in-time-wait",
            Kind::Consider,
            format!(
                "{waiting} of {count} ports wait after a close (TIME_WAIT) towards one address and port. With 1 a \
                 new connection of this host takes such a port after a second, which timestamps make safe. \
                 Reusing connections is the better remedy; tcp_fin_timeout does not shorten TIME_WAIT."
            ),
            &format!("{IP_SYSCTL}, tcp_tw_reuse; RFC 6191 section 2"),
            vec![change(settings, key, "1")],
        ),
        _ => judged.fine(format!(
            "{key} is {value}; ports that wait after a close (TIME_WAIT) towards one address and port: {waiting}"
        )),
    }
}

fn backlog(settings: &Settings, judged: &mut Judged) {
    const LEAST: i64 = 1_024;
    for (name, key) in [
        ("short-accept-queue", "net.core.somaxconn"),
        ("short-syn-queue", "net.ipv4.tcp_max_syn_backlog"),
    ] {
        match settings.number(key) {
            None => judged.unknown(key),
            Some(value) if value < LEAST => judged.sysctls(
                name,
                Kind::Consider,
                format!(
                    "{key} is {value}: a burst of new connections beyond it is answered after a SYN's \
                     retransmission, a second later."
                ),
                "listen(2); tcp_conn_request in net/ipv4/tcp_input.c",
                vec![change(settings, key, "4096")],
            ),
            Some(value) => judged.fine(format!("{key} is {value}")),
        }
    }
}

fn keep_alive(settings: &Settings, judged: &mut Judged) {
    /// RFC 5382 section 5: a NAT keeps a silent connection for 2 h 4 min; cloud balancers for 350 s and less.
    const LONGEST_S: i64 = 300;
    let key = "net.ipv4.tcp_keepalive_time";
    match settings.number(key) {
        None => judged.unknown(key),
        Some(value) if value > LONGEST_S => judged.sysctls(
            "late-keep-alive",
            Kind::Consider,
            format!(
                "Probes of idle connections begin after {value} s; balancers and NATs forget a silent \
                 connection after minutes (350 s and less), and its next use then hangs. Concerns only \
                 programs that ask for keep-alive."
            ),
            "RFC 9293 section 3.8.4; RFC 5382 section 5",
            vec![change(settings, key, "120")],
        ),
        Some(value) => judged.fine(format!("{key} is {value} s")),
    }
}

fn mtu_probing(settings: &Settings, judged: &mut Judged) {
    let key = "net.ipv4.tcp_mtu_probing";
    match settings.number(key) {
        None => judged.unknown(key),
        Some(0) => judged.sysctls(
            "no-mtu-probing",
            Kind::Consider,
            "Where a tunnel on the path is smaller than 1500 B and its ICMP messages are dropped, full \
             segments vanish and the transfer hangs. With 1 the kernel looks for the size by itself once \
             that happens.",
            "RFC 4821; RFC 2923 section 2.1",
            vec![change(settings, key, "1")],
        ),
        Some(value) => judged.fine(format!("{key} is {value}: small MTUs are found")),
    }
}

/// Buffers of all connections together, in pages.
fn memory(settings: &Settings, path: &Path, judged: &mut Judged) {
    const PAGE: u64 = 4_096;
    /// Connections that should be able to hold the path's BDP at once.
    const CONNECTIONS: u64 = 16;
    let key = "net.ipv4.tcp_mem";
    let Some([low, pressure, high]) = settings.triple(key) else {
        // Only the first network namespace has it.
        judged.unknown(key);
        return;
    };
    let holds = pressure.saturating_mul(PAGE);
    let needs = path.bdp().get().saturating_mul(2 * CONNECTIONS);
    if holds >= needs {
        judged.fine(format!(
            "{key}: all sockets together may hold {}",
            units::Bytes::new(holds)
        ));
        return;
    }
    let pages = needs.div_ceil(PAGE);
    judged.sysctls(
        "little-tcp-memory",
        Kind::Consider,
        format!(
            "All sockets together come under pressure at {}: {CONNECTIONS} connections that fill this path \
             need {}. Under pressure windows stop growing.",
            units::Bytes::new(holds),
            units::Bytes::new(needs)
        ),
        &format!("{IP_SYSCTL}, tcp_mem"),
        vec![change(
            settings,
            key,
            format!("{low} {pages} {}", high.max(pages.saturating_mul(3) / 2)),
        )],
    );
}

fn syn_cookies(settings: &Settings, judged: &mut Judged) {
    let key = "net.ipv4.tcp_syncookies";
    match settings.number(key) {
        None => judged.unknown(key),
        Some(2) => judged.sysctls(
            "cookies-always",
            Kind::Folklore,
            "SYN cookies answer every SYN, not only when the queue is full: without timestamps such \
             connections have neither window scaling nor SACK.",
            &format!("{IP_SYSCTL}, tcp_syncookies; RFC 4987 section 3.6"),
            vec![change(settings, key, "1")],
        ),
        Some(value) => judged.fine(format!("{key} is {value}")),
    }
}
