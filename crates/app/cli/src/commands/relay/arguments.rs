//! The flags of `longhaul relay`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use profile::TlsProfile;
use units::{Bytes, Rate};

use super::s3::arguments::RelayS3;
use crate::arguments::listen_address;

/// Accelerate transfers: a proxy beside the client with hot connections to the far end.
#[derive(Debug, Args)]
pub(crate) struct Relay {
    #[command(subcommand)]
    pub(crate) command: RelayCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RelayCommand {
    Http(RelayHttp),
    Tcp(RelayTcp),
    Tls(RelayTls),
    S3(RelayS3),
    Proxy(RelayProxy),
    Transparent(RelayTransparent),
    Run(RelayRun),
    Check(RelayCheck),
    Ca(RelayCa),
}

/// Relay HTTP to one server over a pool of connections that are already fast.
///
/// Clients keep using the server's name: let it resolve to this host on their side (hosts file or
/// DNS). Requests pass unchanged, so signatures (SigV4) stay valid. Connections to the server are made
/// ahead of use and primed: harmless requests grow cwnd and the server's receive window, so that an
/// upload leaves in one flight instead of in slow start.
///
/// With --certificate, clients speak TLS to this relay. The server is spoken to with TLS where its port
/// is 443, or anything of TLS is named, unless --upstream says otherwise.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul relay http 0.0.0.0:80 store.example:80 --server-profile s3 --path-rate '100 Mbit/s'
  longhaul relay http 0.0.0.0:80 store.example:443      # clients in the clear, TLS over distance
  longhaul relay http :443 store.example:443 --certificate ca/store.example.pem ca/store.example.key
  longhaul relay http 127.0.0.1:9000 10.0.0.5:80 --prime off --json
  longhaul relay http 0.0.0.0:80 store.example:80 --print-config > relay.toml

A host that relays should keep cwnd over idle time:
  sysctl -w net.ipv4.tcp_slow_start_after_idle=0")]
pub(crate) struct RelayHttp {
    #[command(flatten)]
    pub(crate) ends: Ends,

    #[command(flatten)]
    pub(crate) tls: TlsFlags,

    /// Connections to the server that are kept ready.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub(crate) pool_min_idle: u32,

    /// Whether connections are primed ahead of use.
    #[arg(long, default_value = "on", value_name = "on|off")]
    pub(crate) prime: Switch,

    /// What a hot connection holds in one flight, such as "2 MiB"; default: what the path needs.
    #[arg(long, value_name = "SIZE")]
    pub(crate) hot_window: Option<Bytes>,

    /// The path's rate, such as "100 Mbit/s": the server side is paced at it.
    #[arg(long, value_name = "RATE")]
    pub(crate) path_rate: Option<Rate>,

    /// Who answers `Expect: 100-continue`: `forward` leaves it to the server, `answer` saves a round trip.
    #[arg(long, default_value = "forward", value_name = "WHO")]
    pub(crate) expect: Expect,

    /// Whether clients may speak HTTP/2; the server is always spoken to in HTTP/1.1.
    #[arg(long, default_value = "on", value_name = "on|off")]
    pub(crate) http2: Switch,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Relay any byte stream, with a TCP profile on each side.
///
/// Each client gets a connection of its own to the server, so the client's acknowledgements come from
/// nearby and the long path has the congestion control and buffers that suit it. Bytes pass unchanged;
/// half-closes and resets are passed on as what they are.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul relay tcp 0.0.0.0:9000 store.example:443 --client-profile lan --server-profile wan
  longhaul relay tcp :5432 db.example:5432 --allow 10.10.10.0/24 --json
  longhaul relay tcp :9000 store.example:443 --send-proxy v2 --print-config > relay.toml")]
pub(crate) struct RelayTcp {
    #[command(flatten)]
    pub(crate) ends: Ends,

    /// Expect a PROXY header (version 1 or 2) from each client; --allow then names the proxies to believe.
    #[arg(long)]
    pub(crate) accept_proxy: bool,

    /// Begin each connection to the server with a PROXY header of this version.
    #[arg(long, value_name = "v1|v2")]
    pub(crate) send_proxy: Option<ProxyVersion>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// End clients' TLS, begin it to the server, or both, with a TCP profile on each side.
///
/// With --certificate, clients speak TLS to this relay; without, they speak in the clear and the relay
/// encrypts. Towards the server it speaks TLS unless --upstream plain. What passes between is a byte
/// stream, as with `relay tcp`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul relay ca store.example --dir ca        # a certificate that your clients can trust
  longhaul relay tls :443 store.example:443 --certificate ca/store.example.pem ca/store.example.key
  longhaul relay tls :443 10.0.0.5:80 --certificate cert.pem key.pem --upstream plain
  longhaul relay tls 127.0.0.1:9000 store.example:443 --tls-profile s3

Profiles of TLS:
  default     1.2 and 1.3, X25519MLKEM768 first
  s3          1.3 alone, X25519MLKEM768 first
  compatible  1.2 and 1.3 without the hybrid, for old peers and old boxes on the path

SIGHUP reads the certificates again; connections that are open go on.")]
pub(crate) struct RelayTls {
    #[command(flatten)]
    pub(crate) ends: Ends,

    #[command(flatten)]
    pub(crate) tls: TlsFlags,

    /// Send clients who ask for this name (SNI) elsewhere; repeat for several.
    #[arg(long, num_args = 2, value_names = ["NAME", "TARGET"], requires = "certificate")]
    pub(crate) route: Vec<String>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Relay to where each client asks to go, by SOCKS5 or HTTP CONNECT on the same port.
///
/// Only to the targets that --to names: this is never an open proxy. Clients are told of the proxy, not of
/// another address: `HTTPS_PROXY`, `ALL_PROXY`, `curl -x`, a browser's settings.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul relay proxy :1080 --to '*.store.example:443'
  longhaul relay proxy :1080 --to store.example --to 10.20.0.0/16:9000 --allow 10.10.10.0/24
  longhaul relay proxy :1080 --to '*:443' --users /etc/longhaul/users   # lines NAME:PASSWORD
  HTTPS_PROXY=http://relay:1080 aws s3 ls         # HTTP CONNECT
  curl -x socks5h://relay:1080 https://store.example/

A target is NAME, `*.DOMAIN`, an address block or `*`, with `:PORT` where not every port is meant.")]
pub(crate) struct RelayProxy {
    /// Where clients connect, such as `0.0.0.0:1080` or `[::]:1080`.
    #[arg(value_name = "LISTEN", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,

    /// Where clients may ask to go; repeat for several.
    #[arg(long, required = true, value_name = "TARGET")]
    pub(crate) to: Vec<String>,

    /// Ask clients for a name and password of this file, with lines NAME:PASSWORD.
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Relay connections that the network redirects here to where they were going.
///
/// With a DNAT or REDIRECT rule the kernel remembers where a client was going. With --tproxy the packets
/// arrive with that address on them, which keeps connection tracking out of it and needs `CAP_NET_ADMIN`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iptables -t nat -A PREROUTING -i lan0 -p tcp --dport 443 -j REDIRECT --to-ports 9000
  longhaul relay transparent :9000

  ip rule add fwmark 1 lookup 100 && ip route add local 0.0.0.0/0 dev lo table 100
  iptables -t mangle -A PREROUTING -i lan0 -p tcp --dport 443 -j TPROXY --on-port 9000 --tproxy-mark 1
  longhaul relay transparent :9000 --tproxy --keep-client-address")]
pub(crate) struct RelayTransparent {
    /// Where connections are redirected to, such as `0.0.0.0:9000` or `[::]:9000`.
    #[arg(value_name = "LISTEN", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,

    /// Packets come by a TPROXY rule instead of DNAT or REDIRECT.
    #[arg(long)]
    pub(crate) tproxy: bool,

    /// Connect to the server with the client's own address; its answers must be routed back to this host.
    #[arg(long, requires = "tproxy")]
    pub(crate) keep_client_address: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Where clients connect, and the one server that they are relayed to.
#[derive(Debug, Args)]
pub(crate) struct Ends {
    /// Where clients connect, such as `0.0.0.0:9000` or `[::]:9000`.
    #[arg(value_name = "LISTEN", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,

    /// The server, as `HOST:PORT`, or as a service to be found by SRV: `srv+_NAME._tcp.DOMAIN`.
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,

    /// A further server; repeat for several. Those that are not there are left out.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) also: Vec<String>,

    /// Which of several servers gets the next connection.
    #[arg(long, value_name = "HOW", requires = "also")]
    pub(crate) balance: Option<Balance>,
}

/// What relays of all kinds have.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// TCP profile of the client side (see `longhaul profile list`).
    #[arg(long, default_value = "lan", value_name = "NAME")]
    pub(crate) client_profile: String,

    /// TCP profile of the server side; default: `s3` for HTTP, `wan` otherwise.
    #[arg(long, value_name = "NAME")]
    pub(crate) server_profile: Option<String>,

    /// Clients that may connect, as CIDR; repeat for several. Default: loopback and private networks.
    #[arg(long, value_name = "CIDR")]
    pub(crate) allow: Vec<String>,

    /// Clients of those that may not, as CIDR; repeat for several.
    #[arg(long, value_name = "CIDR")]
    pub(crate) deny: Vec<String>,

    /// Most that all clients together may send, and be sent, such as "200 Mbit/s"; default: no bound.
    #[arg(long, value_name = "RATE")]
    pub(crate) bandwidth: Option<Rate>,

    /// Answer metrics, health and state here, such as `127.0.0.1:9901`.
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) admin: Option<SocketAddr>,

    /// Go on as this user once all listeners are open and all files are read; needs root at the start.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,

    /// Print what happens as JSON lines on stdout.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print the same relay as a configuration file, and do nothing.
    #[arg(long)]
    pub(crate) print_config: bool,
}

/// TLS on either side.
#[derive(Debug, Args)]
pub(crate) struct TlsFlags {
    /// A certificate chain and its key, in PEM; repeat for several, of which SNI chooses.
    #[arg(long, num_args = 2, value_names = ["CERT", "KEY"])]
    pub(crate) certificate: Vec<PathBuf>,

    /// Ask clients for a certificate that one of these authorities has signed.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) client_ca: Option<PathBuf>,

    /// Whether the server is spoken to with TLS.
    #[arg(long, value_name = "tls|plain")]
    pub(crate) upstream: Option<UpstreamTls>,

    /// The name that the server's certificate must be for; default: the target's host.
    #[arg(long, value_name = "NAME")]
    pub(crate) upstream_name: Option<String>,

    /// Who may have signed it; default: the authorities that this host trusts.
    #[arg(long, value_name = "FILE")]
    pub(crate) upstream_ca: Option<PathBuf>,

    /// The certificate chain and key to show a server that asks.
    #[arg(long, num_args = 2, value_names = ["CERT", "KEY"])]
    pub(crate) upstream_certificate: Vec<PathBuf>,

    /// Versions and key exchanges: `default`, `s3` or `compatible`.
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_profile: Option<TlsProfile>,

    /// Append every session's secrets to this file, for Wireshark. Whoever reads it reads everything.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_log: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum UpstreamTls {
    Tls,
    Plain,
}

/// Make a certificate authority of your own, and a certificate that it has signed.
///
/// An authority that is already in the directory is used again, so that clients need to trust it only
/// once. Keys are readable for their owner alone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul relay ca store.example '*.store.example' --dir ca
  longhaul relay ca 10.0.0.5 relay.site.example --dir /etc/longhaul/ca --json

How clients are told to trust it is printed. Whoever holds ca.key can pose as any server to them.")]
pub(crate) struct RelayCa {
    /// Names and addresses that the certificate is for; `*.` stands for one label.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Where the files are, or go.
    #[arg(long, default_value = "longhaul-ca", value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Balance {
    /// Each in turn; the default.
    RoundRobin,
    /// The one with the fewest connections of this relay.
    LeastConnections,
    /// The first in order; the others are reserves.
    FirstAvailable,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ProxyVersion {
    V1,
    V2,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Expect {
    /// The server: the client waits for its word.
    Forward,
    /// This relay, at once.
    Answer,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// Run relays from a configuration file.
///
/// SIGHUP reads the file again without dropping a connection; SIGTERM drains and ends.
#[derive(Debug, Args)]
pub(crate) struct RelayRun {
    /// The file, in TOML; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// Print what happens as JSON lines on stdout.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Read a configuration, try its settings on this host, and say what would be in effect.
#[derive(Debug, Args)]
pub(crate) struct RelayCheck {
    /// The file, in TOML; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
