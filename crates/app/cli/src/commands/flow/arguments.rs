//! The command line of `longhaul flow`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use script::Setting;
use units::{Bytes, Rate, Span};

/// Generate TCP flows and measure them at the receiver.
#[derive(Debug, Args)]
pub(crate) struct Flow {
    #[command(subcommand)]
    pub(crate) command: FlowCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FlowCommand {
    Server(Box<Server>),
    Client(Box<Client>),
    Play(Play),
}

/// Serve flow clients until SIGTERM or Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul flow server 0.0.0.0:7001
  longhaul flow server '[::]:7001' --receive-buffer '64 KiB'")]
pub(crate) struct Server {
    /// Where clients connect, such as `0.0.0.0:7001`; port 0 takes a free one and says which.
    #[arg(value_name = "LISTEN")]
    pub(crate) listen: SocketAddr,

    #[command(flatten)]
    pub(crate) socket: Socket,

    #[command(flatten)]
    pub(crate) stack: Stack,

    /// Print events as JSON lines on stdout, the first with the address.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Carry payload between here and a flow server, and say how it went.
///
/// Times are the client's clock from asking to the receipt, and the receiver's own from first byte to
/// last; a sender's buffer never counts. Every byte is compared with what was sent.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul flow client 192.0.2.1:7001 --bytes 10MB
  longhaul flow client 192.0.2.1:7001 --duration 30s --direction down --parallel 4 --stagger 1s
  longhaul flow client 192.0.2.1:7001 --exchange 200B:40kB --count 100
  longhaul flow client 192.0.2.1:7001 --exchange 200B:40kB --count 5 --idle 2s
  longhaul flow client 192.0.2.1:7001 --burst 1MB --idle 2s --count 5
  longhaul flow client storage.example:9 --sink --duration 20s
  longhaul flow client 10.77.0.1:7001 --stack longhaul --address 10.77.0.2 --gateway 10.77.0.1/24 \\
    --initial-ssthresh 65535
  longhaul flow client 10.77.0.1:7001 --stack longhaul --address 10.77.0.2 --gateway 10.77.0.1/24 \\
    --set loss-detection=duplicate-acks --set 'acks=every-second 200ms'
  longhaul flow client 192.0.2.1:7001 --sizes 40kB,500MB --reuse --json > flow.json
  longhaul flow client 192.0.2.1:7001 --duration 20s --parallel 3 --stagger 5s --html flows.html")]
pub(crate) struct Client {
    /// The server: an address or a name, with its port.
    #[arg(value_name = "ADDRESS", value_parser = endpoint)]
    pub(crate) server: String,

    #[command(flatten)]
    pub(crate) load: Load,

    /// Which way payload goes; `both` is both at the same time.
    #[arg(
        long,
        value_name = "WAY",
        default_value = "up",
        conflicts_with = "exchange"
    )]
    pub(crate) direction: Way,

    /// Exchanges or bursts; default: 10.
    #[arg(long, value_name = "N", conflicts_with_all = ["bytes", "duration", "sizes"], requires = "load",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// Pause between two exchanges, two bursts, or two of --sizes; default: none.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["bytes", "duration"], requires = "load")]
    pub(crate) idle: Option<Span>,

    /// All of --sizes on one connection; otherwise each has its own.
    #[arg(long, requires = "sizes")]
    pub(crate) reuse: bool,

    /// Flows side by side.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) parallel: u64,

    /// How much later each parallel flow begins than the one before.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub(crate) stagger: Span,

    /// ADDRESS is any TCP host that takes what it gets, such as `nc -l`: nothing is agreed with it, and
    /// what its TCP acknowledged is counted.
    #[arg(long, conflicts_with_all = ["direction", "exchange", "read_pause"])]
    pub(crate) sink: bool,

    /// The receiver stops reading once: after so many bytes, for so long, such as `5MB:15ms`.
    #[arg(long, value_name = "AFTER:TIME")]
    pub(crate) read_pause: Option<Pair<Bytes, Span>>,

    #[command(flatten)]
    pub(crate) socket: Socket,

    #[command(flatten)]
    pub(crate) stack: Stack,

    /// Our address, such as `192.0.2.7:0`.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) bind: Option<SocketAddr>,

    /// Between two samples of a series.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = interval)]
    pub(crate) interval: Span,

    /// Seed of the payload.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Also write the flows over time as one self-contained page here.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Print one JSON document (`longhaul schema flow` describes it).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Play packet scripts against our TCP, or against this kernel's.
///
/// A script says in tcpdump's notation what arrives at a host and what it must answer, line by line with
/// times. Ours is played in virtual time; the kernel in a namespace behind a TUN device, which needs root.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul flow play scripts/conformance
  longhaul flow play --against both scripts/conformance
  longhaul flow play --packets scripts/conformance/rfc6298-timeouts-back-off.play

A script:
  # RFC 9293: a handshake, and one segment that is lost.
  set algorithm reno
  +0   < S 0:0(0) win 65535 <mss 1000>     # arrives at the host
  +0   > S. 0:0(0) ack 1                   # the host answers
  +.1  < . 1:1(0) ack 1 win 65535          # 0.1 s later
  +0   ! write 1000                        # its application writes
  +0   > P. 1:1001(1000) ack 1
  +.3  > P. 1:1001(1000) ack 1             # 0.3 s later, not before
  +0   = cwnd 1

docs/flow.md describes the notation.")]
pub(crate) struct Play {
    /// Scripts, or folders of them (`*.play`).
    #[arg(value_name = "SCRIPT", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Whose TCP plays the host.
    #[arg(long, value_name = "WHOSE", default_value = "ours")]
    pub(crate) against: Against,

    /// The kernel speaks IPv6.
    #[arg(long)]
    pub(crate) ipv6: bool,

    /// By how much the kernel may be earlier or later than a line says, besides a tenth of its wait.
    #[arg(long, value_name = "TIME", default_value = "25ms")]
    pub(crate) tolerance: Span,

    /// Show the packets of scripts that passed, too.
    #[arg(long)]
    pub(crate) packets: bool,

    /// Print one JSON document (`longhaul schema play` describes it).
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Against {
    Ours,
    Kernel,
    Both,
}

/// What is carried; without any of these, 10 seconds of as much as goes.
#[derive(Debug, Args)]
#[group(id = "load", required = false, multiple = false)]
pub(crate) struct Load {
    /// So many bytes.
    #[arg(long, value_name = "SIZE")]
    pub(crate) bytes: Option<Bytes>,

    /// As much as goes in this time, counted at the receiver.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Span>,

    /// Requests and responses of these sizes on one connection, --count of them, with --idle between.
    #[arg(long, value_name = "REQUEST:RESPONSE")]
    pub(crate) exchange: Option<Pair<Bytes, Bytes>>,

    /// This much on one connection, --count times, with --idle between.
    #[arg(long, value_name = "SIZE")]
    pub(crate) burst: Option<Bytes>,

    /// Several sizes, one after the other.
    #[arg(long, value_name = "SIZE,SIZE", value_delimiter = ',')]
    pub(crate) sizes: Vec<Bytes>,
}

/// How sockets are made.
#[derive(Debug, Args)]
pub(crate) struct Socket {
    /// Congestion control of whoever sends, as the kernel calls it; of our own TCP: newreno, cubic,
    /// highspeed, westwood+, bbr, bbr3 or none, with parameters in parentheses: `cubic(beta=0.8, c=0.6)`,
    /// `bbr(startup-gain=2, cwnd-gain=2.5, min-rtt-window=5 s, probe-rtt-time=100 ms)`.
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion_control: Option<String>,

    /// Payload rate above which a sender does not go.
    #[arg(long, value_name = "RATE")]
    pub(crate) pace: Option<Rate>,

    /// Fix our send buffer (`SO_SNDBUF`); the kernel's autotuning ends.
    #[arg(long, value_name = "SIZE")]
    pub(crate) send_buffer: Option<Bytes>,

    /// Fix our receive buffer (`SO_RCVBUF`); the kernel's autotuning ends.
    #[arg(long, value_name = "SIZE")]
    pub(crate) receive_buffer: Option<Bytes>,
}

/// Whose TCP speaks here, and how ours behaves.
#[derive(Debug, Args)]
pub(crate) struct Stack {
    /// The kernel's TCP, or our own on a TUN device (needs root).
    #[arg(id = "stack", long, value_name = "WHOSE", default_value = "kernel")]
    pub(crate) whose: StackName,

    /// Our own TCP: its address.
    #[arg(long, value_name = "IP", required_if_eq("stack", "longhaul"))]
    pub(crate) address: Option<IpAddr>,

    /// Our own TCP: the address of the host on the device, with its prefix, such as `10.77.0.1/24`.
    #[arg(long, value_name = "IP/PREFIX", required_if_eq("stack", "longhaul"))]
    pub(crate) gateway: Option<String>,

    /// Our own TCP: the device's name; default: `longhaul0`.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,

    /// Our own TCP: segments of the first flight; default: 10.
    #[arg(long, value_name = "SEGMENTS")]
    pub(crate) initial_cwnd: Option<u32>,

    /// Our own TCP: slow start threshold of a new connection, in bytes, or `infinite`, which is the default.
    #[arg(long, value_name = "BYTES", value_parser = threshold)]
    pub(crate) initial_ssthresh: Option<Threshold>,

    /// Our own TCP: a fixed receive window; without it, it grows to 16 MiB.
    #[arg(long, value_name = "SIZE")]
    pub(crate) receive_window: Option<Bytes>,

    /// Our own TCP: do not offer window scaling.
    #[arg(long)]
    pub(crate) no_window_scaling: bool,

    /// Our own TCP: do not offer SACK.
    #[arg(long)]
    pub(crate) no_sack: bool,

    /// Our own TCP: do not offer timestamps.
    #[arg(long)]
    pub(crate) no_timestamps: bool,

    /// Our own TCP: largest segment to receive; default: 1460.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(88..))]
    pub(crate) mss: Option<u16>,

    /// Our own TCP: acknowledge every second segment, and after this time; without it, as Linux does.
    #[arg(long, value_name = "TIME")]
    pub(crate) delayed_ack: Option<Span>,

    /// Our own TCP: any other knob, as a packet script sets it, such as `ecn=request`, `nagle=off` or
    /// `loss-detection=duplicate-acks`; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<Setting>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum StackName {
    Kernel,
    Longhaul,
}

/// An initial slow start threshold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Threshold {
    Infinite,
    Bytes(u64),
}

fn threshold(text: &str) -> Result<Threshold, String> {
    if text == "infinite" {
        return Ok(Threshold::Infinite);
    }
    let number = text.parse().map(Threshold::Bytes);
    number
        .or_else(|_| text.parse().map(|size: Bytes| Threshold::Bytes(size.get())))
        .map_err(|_| format!("`{text}` is not a number of bytes, such as 65535, nor `infinite`"))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Way {
    Up,
    Down,
    Both,
}

/// Two quantities with a colon between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<A, B>(pub(crate) A, pub(crate) B);

impl<A: FromStr, B: FromStr> FromStr for Pair<A, B>
where
    A::Err: std::fmt::Display,
    B::Err: std::fmt::Display,
{
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, second) = text
            .split_once(':')
            .ok_or_else(|| format!("`{text}` has no colon between its two parts"))?;
        let first = first.parse().map_err(|error: A::Err| error.to_string())?;
        let second = second.parse().map_err(|error: B::Err| error.to_string())?;
        Ok(Self(first, second))
    }
}

// === impl Stack ===

impl Stack {
    /// The first option that was given and means nothing to the kernel's TCP.
    pub(crate) fn beyond_the_kernel(&self) -> Option<&'static str> {
        let given = [
            ("--address", self.address.is_some()),
            ("--gateway", self.gateway.is_some()),
            ("--device", self.device.is_some()),
            ("--initial-cwnd", self.initial_cwnd.is_some()),
            ("--initial-ssthresh", self.initial_ssthresh.is_some()),
            ("--receive-window", self.receive_window.is_some()),
            ("--no-window-scaling", self.no_window_scaling),
            ("--no-sack", self.no_sack),
            ("--no-timestamps", self.no_timestamps),
            ("--mss", self.mss.is_some()),
            ("--delayed-ack", self.delayed_ack.is_some()),
            ("--set", !self.set.is_empty()),
        ];
        given
            .iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| *name)
    }
}

/// A host and a port, which is looked up when it is needed.
fn endpoint(text: &str) -> Result<String, String> {
    let port = text
        .rsplit_once(':')
        .map(|(host, port)| (host.len(), port.parse::<u16>()));
    match port {
        Some((1.., Ok(_))) => Ok(text.to_owned()),
        Some(_) | None => Err(format!(
            "`{text}` is not an address or name with a port, such as 192.0.2.1:7001"
        )),
    }
}

fn some_time(text: &str) -> Result<Span, String> {
    let span: Span = text
        .parse()
        .map_err(|error: units::ParseQuantityError| error.to_string())?;
    if span.get().is_zero() {
        return Err("nothing goes in no time".into());
    }
    Ok(span)
}

fn interval(text: &str) -> Result<Span, String> {
    let span: Span = text
        .parse()
        .map_err(|error: units::ParseQuantityError| error.to_string())?;
    if span.get() < std::time::Duration::from_millis(1) {
        return Err("an interval is at least 1 ms".into());
    }
    Ok(span)
}
