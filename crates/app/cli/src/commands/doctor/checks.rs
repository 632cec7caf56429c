//! What each verb needs of the host. Nothing is changed; what is opened is closed again.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::process::{Command, Stdio};

use profile::builtin;
use sys::namespace::NetworkNamespace;
use sys::packet_socket::FrameCapture;
use sys::sock_diag::SockDiag;

/// One thing that a verb needs.
pub(super) struct Check {
    pub(super) what: &'static str,
    pub(super) weight: Weight,
    /// `Err` says why not and what to do.
    pub(super) result: Result<String, String>,
}

/// Whether a verb runs without it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Weight {
    /// It does not.
    Needed,
    /// It does, with less.
    Extra,
}

/// Every verb with its checks, in the order of `longhaul --help`.
pub(super) fn all() -> Vec<(&'static str, Vec<Check>)> {
    vec![
        (
            "explain",
            vec![
                needed("captures in files", Ok("need nothing".to_owned())),
                extra("live capture", live_capture()),
            ],
        ),
        (
            "simulate",
            vec![needed("virtual time", Ok("needs nothing".to_owned()))],
        ),
        ("relay", relay()),
        ("trunk", relay()),
        (
            "object",
            vec![needed(
                "objects and keys in files",
                Ok("need nothing".to_owned()),
            )],
        ),
        (
            "lab",
            vec![
                needed("iproute2", iproute2()),
                needed("TUN devices", tun()),
                needed("namespaces", namespaces()),
                needed("CUBIC, for the field cases", available("cubic")),
            ],
        ),
        (
            "flow",
            vec![
                needed("kernel sockets", Ok("need nothing".to_owned())),
                extra("our own TCP (`--stack longhaul`), TUN devices", tun()),
            ],
        ),
        (
            "profile",
            vec![needed("profiles", Ok("need nothing".to_owned()))],
        ),
        (
            "top",
            vec![
                needed("socket lists (sock_diag)", socket_list()),
                extra("processes of all users", other_processes()),
            ],
        ),
        (
            "tune",
            vec![
                needed("sysctls can be read", read(RMEM)),
                extra("`--apply`: sysctls can be written", writable(RMEM)),
            ],
        ),
        ("cc", vec![needed("congestion control as eBPF", ebpf())]),
    ]
}

const RMEM: &str = "/proc/sys/net/ipv4/tcp_rmem";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// Two sockets for each of 2,000 relayed connections.
const DESCRIPTORS: u64 = 4_000;

const fn needed(what: &'static str, result: Result<String, String>) -> Check {
    Check {
        what,
        weight: Weight::Needed,
        result,
    }
}

const fn extra(what: &'static str, result: Result<String, String>) -> Check {
    Check {
        what,
        weight: Weight::Extra,
        result,
    }
}

fn relay() -> Vec<Check> {
    vec![
        needed("kernel sockets", kernel_sockets()),
        extra("congestion control of this host", congestion_control()),
        extra("congestion control of the profiles", preferences()),
        extra("slow start after idle", slow_start_after_idle()),
        extra("descriptors", descriptors()),
        extra("program stays in memory", stays_in_memory()),
        extra("copies of memory", Ok(copies())),
    ]
}

fn read(path: &str) -> Result<String, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.split_whitespace().collect::<Vec<_>>().join(" ")),
        Err(error) => Err(format!("cannot read `{path}`: {error}")),
    }
}

fn writable(path: &str) -> Result<String, String> {
    match OpenOptions::new().write(true).open(path) {
        Ok(_) => Ok("yes".to_owned()),
        Err(error) => Err(format!(
            "`{path}`: {error}; run it as root, on the host itself"
        )),
    }
}

fn live_capture() -> Result<String, String> {
    let here = NetworkNamespace::current("this host").map_err(|error| error.to_string())?;
    let capture = FrameCapture::start(&here, "lo", 64, |_| {});
    let stopped = capture.map(FrameCapture::stop);
    match stopped {
        Ok(_) => Ok("a capture on `lo` begins".to_owned()),
        Err(error) => {
            let cause = std::error::Error::source(&error)
                .map_or_else(String::new, |cause| format!(" ({cause})"));
            Err(format!("{error}{cause}: it needs root or CAP_NET_RAW"))
        }
    }
}

/// A relay runs with either value, but its idle connections cool down with 1.
fn slow_start_after_idle() -> Result<String, String> {
    let value = read("/proc/sys/net/ipv4/tcp_slow_start_after_idle")?;
    if value == "0" {
        return Ok("off: idle connections stay hot".to_owned());
    }
    Err(
        "on: idle connections have to be primed again; `sysctl -w net.ipv4.tcp_slow_start_after_idle=0` keeps \
         them hot"
            .to_owned(),
    )
}

/// All that a relay cannot do without; what `/proc` says of the host is good to know, and in a container it may not be there.
fn kernel_sockets() -> Result<String, String> {
    let socket = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0));
    match socket.and_then(|socket| sys::socket::congestion_control(&socket)) {
        Ok(name) => Ok(format!("one listens, with {name}")),
        Err(error) => Err(format!("one cannot listen on 127.0.0.1: {error}")),
    }
}

fn congestion_control() -> Result<String, String> {
    let default = read("/proc/sys/net/ipv4/tcp_congestion_control")?;
    Ok(format!("{} (default {default})", read(AVAILABLE)?))
}

/// Whether the first preference of each built-in profile is to be had.
fn preferences() -> Result<String, String> {
    let available = read(AVAILABLE)?;
    let available: BTreeSet<&str> = available.split_whitespace().collect();
    let mut missing = BTreeSet::new();
    for name in builtin::NAMES {
        let first =
            builtin::find(name).and_then(|profile| profile.congestion_control.into_iter().next());
        missing.extend(first.filter(|first| !available.contains(first.as_str())));
    }
    if missing.is_empty() {
        return Ok("all are available".to_owned());
    }
    let names: Vec<_> = missing.into_iter().collect();
    Err(format!(
        "{} not available; profiles take their next preference (`modprobe tcp_{}`, or `longhaul cc load`)",
        names.join(", "),
        names.first().map_or("", String::as_str)
    ))
}

fn descriptors() -> Result<String, String> {
    let limits = std::fs::read_to_string("/proc/self/limits")
        .map_err(|error| format!("cannot read `/proc/self/limits`: {error}"))?;
    let hard = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .and_then(|rest| rest.split_whitespace().nth(1));
    match hard.map(|hard| (hard, hard.parse::<u64>())) {
        Some((_, Ok(count))) if count < DESCRIPTORS => Err(format!(
            "{count} at most, for {} connections; raise it (`LimitNOFILE=` in a unit)",
            count / 2
        )),
        Some((hard, _)) => Ok(format!("{hard} at most")),
        None => Err("`/proc/self/limits` says nothing of open files".to_owned()),
    }
}

fn stays_in_memory() -> Result<String, String> {
    match sys::residence::keep_program() {
        Ok(bytes) => Ok(format!("up to {bytes} can be locked")),
        Err(error) => Err(format!(
            "it cannot be locked ({error}): where memory is short, a request waits for the disk; raise \
             `ulimit -l` (`LimitMEMLOCK=` in a unit)"
        )),
    }
}

fn copies() -> String {
    let slowdown = sys::copying::slowdown();
    if slowdown < sys::copying::SLOW {
        return "as fast as this processor can".to_owned();
    }
    format!(
        "up to {slowdown:.0} times slower than need be with this processor and C library; a relay starts itself \
         again with GLIBC_TUNABLES={}",
        sys::copying::TUNABLE
    )
}

fn available(name: &str) -> Result<String, String> {
    let available = read(AVAILABLE)?;
    if available.split_whitespace().any(|one| one == name) {
        return Ok("available".to_owned());
    }
    Err(format!(
        "not among `{available}`: load it with `modprobe tcp_{name}`"
    ))
}

fn socket_list() -> Result<String, String> {
    let listed = SockDiag::open().and_then(|mut kernel| kernel.tcp_sockets());
    match listed {
        Ok(sockets) => Ok(format!("{} connections listed", sockets.len())),
        Err(error) => {
            let cause = std::error::Error::source(&error)
                .map_or_else(String::new, |cause| format!(" ({cause})"));
            Err(format!(
                "{error}{cause}: `modprobe tcp_diag`, and in a container allow netlink"
            ))
        }
    }
}

fn other_processes() -> Result<String, String> {
    match std::fs::read_dir("/proc/1/fd") {
        Ok(_) => Ok("visible".to_owned()),
        Err(error) => Err(format!(
            "not visible ({error}): root sees whose connections they are"
        )),
    }
}

fn ebpf() -> Result<String, String> {
    match controllers::probe() {
        Ok(()) => Ok("highspeed, westwood+ and newreno can be loaded".to_owned()),
        Err(error) => {
            let cause = std::error::Error::source(&error)
                .map_or_else(String::new, |cause| format!(" ({cause})"));
            Err(format!(
                "{error}{cause}: it takes root, Linux 5.6 or later with BTF, and no lockdown"
            ))
        }
    }
}

fn iproute2() -> Result<String, String> {
    let version = Command::new("ip").arg("-V").stdin(Stdio::null()).output();
    match version {
        Ok(output) => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        Err(error) => Err(format!(
            "cannot run `ip` ({error}): install the package iproute2"
        )),
    }
}

fn tun() -> Result<String, String> {
    match OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
    {
        Ok(_) => Ok("`/dev/net/tun` opens".to_owned()),
        Err(error) => Err(format!(
            "`/dev/net/tun`: {error}; `modprobe tun`, and in a container pass the device in"
        )),
    }
}

/// Asks a child, because isolation would replace this process.
fn namespaces() -> Result<String, String> {
    let probe = std::env::current_exe().and_then(|binary| {
        Command::new(binary)
            .args(["lab", "worker", "probe"])
            .stdin(Stdio::null())
            .output()
    });
    match probe {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("cannot start a child: {error}")),
    }
}
