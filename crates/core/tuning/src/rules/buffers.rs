//! Socket buffers against the bandwidth-delay product.

use record::tune::Kind;
use units::Bytes;

use super::{IP_SYSCTL, Judged, change};
use crate::{Host, Path, Settings};

/// How much buffer a byte in flight needs. About half of a receive buffer counts as window (`tcp_win_from_space`
/// in `include/net/tcp.h`; `scaling_ratio` starts at one half), and a queue on the path adds a
/// second round trip's worth.
const BUFFER_PER_FLIGHT: u64 = 4;
/// What a socket may hold on any path: the kernel's own default of `tcp_rmem`.
const LEAST: u64 = 6 * 1024 * 1024;
/// One connection's buffer above this share of memory is a decision that a person should make.
const SHARE_OF_MEMORY: u64 = 32;
/// A receive buffer above this from the first byte on is held for every connection, idle ones too.
const LARGE_DEFAULT: u64 = 4 * 1024 * 1024;

pub(super) fn judge(host: &Host, path: &Path, judged: &mut Judged) {
    let wanted = wanted(host, path);
    side(host, path, wanted, &RECEIVE, judged);
    side(host, path, wanted, &SEND, judged);
    default_of_every_socket(&host.settings, judged);
    for (key, option) in [
        ("net.core.rmem_max", "SO_RCVBUF"),
        ("net.core.wmem_max", "SO_SNDBUF"),
    ] {
        fixed_sizes(&host.settings, path, key, option, judged);
    }
}

/// What differs between the two buffers of a socket.
struct Buffer {
    name: &'static str,
    key: &'static str,
    does: &'static str,
}

const RECEIVE: Buffer = Buffer {
    name: "receive-buffer",
    key: "net.ipv4.tcp_rmem",
    does: "what this host receives: its window is about half of the buffer",
};
const SEND: Buffer = Buffer {
    name: "send-buffer",
    key: "net.ipv4.tcp_wmem",
    does: "what this host sends: every byte stays in it until it is acknowledged",
};

/// Largest buffer that the path asks for, in whole MiB.
fn wanted(host: &Host, path: &Path) -> u64 {
    const MIB: u64 = 1024 * 1024;
    let needed = path.bdp().get().saturating_mul(BUFFER_PER_FLIGHT);
    let rounded = needed.max(LEAST).div_ceil(MIB).saturating_mul(MIB);
    // Socket buffers are charged to the control group whose process sends (`mem_cgroup_charge_skmem`).
    let memory = [host.memory, host.memory_limit].into_iter().flatten().min();
    let most = memory.map_or(u64::MAX, |memory| memory.get() / SHARE_OF_MEMORY);
    // The kernel keeps these sizes in an `int`.
    rounded.min(most).min(1 << 30)
}

fn side(host: &Host, path: &Path, wanted: u64, buffer: &Buffer, judged: &mut Judged) {
    let Some([least, default, largest]) = host.settings.triple(buffer.key) else {
        judged.unknown(buffer.key);
        return;
    };
    let bdp = path.bdp();
    // Half of it has to hold what flies on a path whose queue is empty.
    if largest / 2 >= bdp.get() {
        judged.fine(format!(
            "{} ends at {}: enough for {bdp} in flight",
            buffer.key,
            Bytes::new(largest)
        ));
        return;
    }
    if wanted <= largest {
        judged.fine(format!(
            "{} ends at {}, less than this path needs, but more would be above 1/{SHARE_OF_MEMORY} \
             of the host's memory for one connection",
            buffer.key,
            Bytes::new(largest)
        ));
        return;
    }
    // Restored to the kernel's own where somebody lowered them: a first window below them costs rounds.
    let default = default.max(if buffer.key == RECEIVE.key {
        131_072
    } else {
        16_384
    });
    let says = format!(
        "{} ends at {}, but {bdp} fly on this path ({}). It bounds {}.",
        buffer.key,
        Bytes::new(largest),
        "rate x RTT",
        buffer.does,
    );
    judged.sysctls(
        buffer.name,
        Kind::Limits,
        says,
        &format!("{IP_SYSCTL}; RFC 7323 section 1.1"),
        vec![change(
            &host.settings,
            buffer.key,
            format!("{} {default} {wanted}", least.max(4_096)),
        )],
    );
}

/// Folklore sets the default as large as the maximum.
fn default_of_every_socket(settings: &Settings, judged: &mut Judged) {
    let key = RECEIVE.key;
    let Some([least, default, largest]) = settings.triple(key) else {
        return;
    };
    if default <= LARGE_DEFAULT {
        return;
    }
    judged.sysctls(
        "large-default-buffer",
        Kind::Folklore,
        format!(
            "{key} gives every connection {} from its first byte on, used or not; autotuning reaches \
             the maximum by itself where a path needs it.",
            Bytes::new(default)
        ),
        &format!("{IP_SYSCTL}, tcp_rmem"),
        vec![change(
            settings,
            key,
            format!("{least} 131072 {}", largest.max(default)),
        )],
    );
}

/// `rmem_max` and `wmem_max` bound only programs that ask for a size.
fn fixed_sizes(
    settings: &Settings,
    path: &Path,
    key: &'static str,
    option: &str,
    judged: &mut Judged,
) {
    let Some(largest) = settings.number(key).and_then(|n| u64::try_from(n).ok()) else {
        judged.unknown(key);
        return;
    };
    let bdp = path.bdp().get();
    if largest >= bdp {
        judged.fine(format!(
            "{key} lets a program ask for {}",
            Bytes::new(largest)
        ));
        return;
    }
    judged.sysctls(
        if option == "SO_RCVBUF" {
            "fixed-receive-buffer"
        } else {
            "fixed-send-buffer"
        },
        Kind::Consider,
        format!(
            "{key} is {}: a program that sets {option} gets no more and loses autotuning with it. \
             Better still, let the program set nothing.",
            Bytes::new(largest)
        ),
        "socket(7), SO_RCVBUF and SO_SNDBUF",
        vec![change(settings, key, bdp.min(1 << 30).to_string())],
    );
}
