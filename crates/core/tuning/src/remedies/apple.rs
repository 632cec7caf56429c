//! macOS: what `sysctl` and `route` change, each kept in a file for the way back; and what nothing changes.

use super::{Cause, Remedy, chosen};
use crate::Path;
use crate::systems::macos;

pub(super) fn remedy(cause: Cause, path: &Path) -> Option<Remedy> {
    Some(match cause {
        Cause::ReceiveWindow | Cause::SendBuffer => {
            return chosen(&macos::findings(path), &["receive-buffer"]);
        }
        Cause::NoSack => set("New connections only; 1 is the default.", "net.inet.tcp.sack", "1"),
        Cause::BlackHole => set(
            "On by default: after the second timeout it lets routers cut the packets and goes down to \
             net.inet.tcp.pmtud_blackhole_mss (1200). What is held up until then, a smaller MTU of the route or \
             interface saves.",
            "net.inet.tcp.pmtud_blackhole_detection",
            "1",
        ),
        Cause::SmallWrites => set(
            "On the host that delays its ACKs; 3 is the default, which decides by itself, and all downloads pay for 0 \
             with twice the ACKs. Better: TCP_NODELAY where the pieces are written.",
            "net.inet.tcp.delayed_ack",
            "0",
        ),
        // tcp_close() and tcp_mss() in bsd/netinet keep and take it; route(8) shows and sets it.
        Cause::LowThreshold => Remedy {
            says: "The route to a host remembers the threshold of earlier connections; no sysctl changes that, but \
                   `route` makes it forget, until one of them loses something early. Put the peer's address in place \
                   of 192.0.2.10."
                .to_owned(),
            commands: vec![
                "route -n get 192.0.2.10 | awk 'found { print $3 } /ssthresh/ { found = 1 }' > ~/ssthresh.before"
                    .to_owned(),
                "sudo route -n change -host 192.0.2.10 -ssthresh 0".to_owned(),
            ],
            undo: vec![
                "sudo route -n change -host 192.0.2.10 -ssthresh \"$(cat ~/ssthresh.before)\"".to_owned(),
            ],
        },
        Cause::Loss => none(
            "macOS has CUBIC and NewReno (net.inet.tcp.use_newreno), which both give way to every loss: no setting of \
             it takes this away. Let a relay on the same LAN carry the long path.",
        ),
        Cause::NoWindowScaling | Cause::NoTimestamps => none(
            "macOS offers window scaling and timestamps in every SYN, and no setting of it changes that; only after ten SYNs that \
             nobody answered (net.inet.tcp.broken_peer_syn_rexmit_thres) it leaves them out. Look for a middlebox \
             that strips them.",
        ),
        Cause::RestartAfterIdle => none(
            "macOS goes back to its initial window after a pause, and no setting of it changes that: keep the \
             connection busy, or let a relay on the same LAN keep connections hot.",
        ),
        Cause::NewConnections
        | Cause::TooFewConnections
        | Cause::ContinueWait
        | Cause::TlsRoundTrips
        | Cause::TlsResumption => return None,
    })
}

fn set(says: &str, key: &str, value: &str) -> Remedy {
    Remedy {
        says: says.to_owned(),
        commands: macos::set(key, value),
        undo: vec![macos::put_back(key)],
    }
}

fn none(says: &str) -> Remedy {
    Remedy {
        says: says.to_owned(),
        commands: Vec::new(),
        undo: Vec::new(),
    }
}
