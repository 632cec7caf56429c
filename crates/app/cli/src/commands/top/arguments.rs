//! The flags of `longhaul top`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use live::{Filter, Order};
use units::Span;

/// Show the live TCP connections of this host, what holds each of them back, and for how long.
///
/// Reads the kernel's socket list (`sock_diag`) and loads nothing into the kernel. A connection's limit comes from
/// the kernel's own clocks, in the words of `longhaul explain`; it speaks of what this end sends. Connections in
/// CLOSE_WAIT are piled up by the process that should close them. Only root sees the processes of other users.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul top                                             arrows and Enter: one connection's history; ? has the keys
  longhaul top --once --sort retransmissions
  longhaul top --filter 'dport = :443 and limit receive-window'
  longhaul top --filter '(dst 10.0.0.0/8 or dst 2001:db8::/32) and not process sshd'
  longhaul top --filter 'state close-wait' --once
  longhaul top --relay 127.0.0.1:9901 --filter 'relay 10.0.0.5'      both sockets of that client's connections
  longhaul top --netns site --netns 4711                   namespaces by name or by a process in them
  longhaul top --json --duration '10 s' | jq -c 'select(.line == \"reading\") | .summary'
  longhaul top --record slow.jsonl --duration '1 min' && longhaul explain slow.jsonl

Filters know sport, dport, port (=, !=, <, <=, >, >=), src, dst, host (address or block), state, process, pid,
uid, limit, cc, relay (its interface, its listener or who is at its other side), joined by and, or, not and
parentheses. `state listening`, `state time-wait` and `state all` show what is left out otherwise.")]
pub(crate) struct Top {
    /// Which connections.
    #[arg(long, short = 'f', value_name = "FILTER", default_value = "")]
    pub(crate) filter: String,

    /// What comes first: goodput, out, in, rtt, cwnd, in-flight, retransmissions, send-queue, receive-queue, limit,
    /// state (time in it), process or peer.
    #[arg(long, short = 's', value_name = "WHAT", default_value = "goodput", value_parser = order)]
    pub(crate) sort: Order,

    /// Read this often.
    #[arg(long, short = 'i', value_name = "TIME", default_value = "1 s")]
    pub(crate) interval: Span,

    /// Read less often where watching would cost more than this part of one core, in percent; 0 sets no bound.
    #[arg(long, value_name = "PERCENT", default_value_t = 4.0, value_parser = percent)]
    pub(crate) max_cpu: f64,

    /// Also or instead look into this network namespace: a name of `ip netns`, a process number or a path; repeat
    /// for several.
    #[arg(long, value_name = "NAME")]
    pub(crate) netns: Vec<String>,

    /// Look into every network namespace of this host.
    #[arg(long, conflicts_with = "netns")]
    pub(crate) all_netns: bool,

    /// Also show a relay's listeners and connections, here or on another host, by its administrator's interface
    /// (`[admin] listen`); repeat for several.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) relay: Vec<SocketAddr>,

    /// Print one table, after one interval, and end.
    #[arg(long)]
    pub(crate) once: bool,

    /// With --once: lines of the table.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 30)]
    pub(crate) count: usize,

    /// Print a line of JSON per reading (`longhaul schema top` describes them): what has changed.
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write those lines into this file, which `longhaul explain` reads; compressed where it ends in .zst.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// End after this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Span>,
}

impl Top {
    pub(crate) fn filter(&self) -> Result<Filter, live::FilterError> {
        self.filter.parse()
    }
}

fn order(text: &str) -> Result<Order, String> {
    Order::ALL
        .into_iter()
        .find(|order| order.as_str() == text)
        .ok_or_else(|| {
            let names = Order::ALL.map(Order::as_str).join(", ");
            format!("`{text}` is none of {names}")
        })
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches(['%', ' ']).parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err(format!("`{text}` is no percentage between 0 and 100")),
    }
}
