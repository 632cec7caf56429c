//! New scenario files, commented, from a named network and kinds of workloads.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use crate::Kind;
use crate::networks::Network;

/// A file to begin with.
#[derive(Clone, Debug)]
pub struct Template<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its path.
    pub network: &'a Network,
    /// One workload of each kind.
    pub workloads: &'a [Kind],
}

impl Template<'_> {
    /// The text of the file. What it says passes [`read`](crate::read) where `name` is one that a
    /// scenario can have.
    #[must_use]
    pub fn text(&self) -> String {
        let Network {
            name: network,
            title,
            rtt,
            rate,
            queue,
            loss,
            source,
        } = self.network;
        let mut text = format!(
            "# {title}. `longhaul lab check FILE` checks this file, `longhaul simulate FILE` predicts,\n\
             # `longhaul lab run FILE` measures. Every key is described in docs/scenario.md.\n\
             \n\
             name = \"{}\"\n\
             title = \"{title}\"\n\
             description = \"\"\"\n\
             Made by `longhaul lab new --network {network}`: plausible figures, not your path's. Measure yours\n\
             and replace them; say here what you assumed.\n\
             \"\"\"\n\
             # The same seed gives the same order of blocks, losses and contents.\n\
             seed = 1\n\
             \n\
             # {source}.\n\
             [path]\n\
             rtt = \"{rtt}\"\n\
             rate = \"{rate}\"      # IP bytes, each direction\n\
             queue = \"{queue}\"    # droptail, each direction\n",
            self.name
        );
        if let Some(loss) = loss {
            // Writing to a string never fails, here and below.
            let _ = writeln!(
                text,
                "loss = \"{loss}\"      # each direction, independently"
            );
        }
        text.push_str(
            "\n# What hosts have that differs from the kernel's defaults. An arm can have hosts of its own.\n\
             [hosts.client]\n\
             congestion-control = \"cubic\"\n\
             [hosts.origin]\n\
             congestion-control = \"cubic\"\n",
        );
        let http = self
            .workloads
            .iter()
            .all(|kind| kind.is_object() || *kind == Kind::Command);
        text.push_str("\n# A relay beside the client.\n[relays.near]\n");
        if http {
            text.push_str("pool-min-idle = 2    # connections to the origin kept ready and hot\n");
        } else {
            text.push_str("mode = \"tcp\"         # streams and exchanges speak no HTTP\n");
        }
        for kind in self.workloads {
            text.push_str(workload(*kind));
        }
        text.push_str("\n[[arms]]\nname = \"direct\"\n");
        if self
            .workloads
            .iter()
            .any(|kind| matches!(kind, Kind::Upload | Kind::Download))
        {
            text.push_str(
                "\n[[arms]]\nname = \"direct-reuse\"\nreuse = true    # one connection for all transfers of a block\n",
            );
        }
        text.push_str("\n[[arms]]\nname = \"relay\"\nrelay = \"near\"\n");
        text.push_str(
            "\n[experiment]\n\
             runs = 10    # per arm and workload; arms take turns in blocks\n\
             block = 5\n\
             # precision = \"5 %\"    # more blocks until every median's interval is this narrow\n\
             \n\
             # Fields that take several values; every combination is run.\n\
             # [factors]\n",
        );
        let _ = writeln!(text, "# \"path.rtt\" = [\"20 ms\", \"{rtt}\"]");
        text
    }
}

fn workload(kind: Kind) -> &'static str {
    match kind {
        Kind::Upload => {
            "\n[[workloads]]\nname = \"upload 1 MB\"\nkind = \"upload\"    # S3 PUT\nbytes = \"1 MB\"\n\
             assert = [\"median(relay) <= median(direct)\"]\n"
        }
        Kind::Download => {
            "\n[[workloads]]\nname = \"download 1 MB\"\nkind = \"download\"    # S3 GET\nbytes = \"1 MB\"\n\
             # tls = \"1.3\"\n"
        }
        Kind::Stream => {
            "\n[[workloads]]\nname = \"stream 10 s\"\nkind = \"stream\"    # raw TCP\nduration = \"10 s\"\n\
             direction = \"up\"\n"
        }
        Kind::Exchange => {
            "\n[[workloads]]\nname = \"20 questions\"\nkind = \"exchange\"    # request and response in turn\n\
             request = \"200 B\"\nresponse = \"4 kB\"\ncount = 20\n"
        }
        Kind::Burst => {
            "\n[[workloads]]\nname = \"burst after idle\"\nkind = \"burst\"    # only bursts are timed\n\
             bytes = \"500 kB\"\nidle = \"5 s\"\ncount = 3\n"
        }
        Kind::Replicate => {
            "\n[[workloads]]\nname = \"replicate\"\nkind = \"replicate\"    # store to store\nbytes = \"1 MB\"\n\
             count = 8\nparallel = 4\n"
        }
        Kind::Command => {
            "\n[[workloads]]\nname = \"command\"\nkind = \"command\"    # any program in the client's host\n\
             command = \"curl -s -o /dev/null {url}\"\n"
        }
    }
}
