//! What a host's kernel counts about TCP: `/proc/net/snmp` and `/proc/net/netstat`, before and after.

use std::collections::BTreeMap;

use sys::namespace::{NamespaceError, NetworkNamespace};

/// Counters by name, such as `TcpRetransSegs` or `TcpExtTCPTimeouts`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct KernelCounters(BTreeMap<String, u64>);

/// Protocols whose counters say something about a TCP transfer.
const PROTOCOLS: [&str; 3] = ["Tcp", "TcpExt", "IpExt"];
/// What goes up and down, or is a setting, has no difference.
const GAUGES: [&str; 5] = ["RtoAlgorithm", "RtoMin", "RtoMax", "MaxConn", "CurrEstab"];

/// Whose zero says something: that nothing was sent again is not the same as nobody having counted.
const TOLD_AT_ZERO: &str = "TcpRetransSegs";

// === impl KernelCounters ===

impl KernelCounters {
    /// The counters of `namespace` now. What its kernel does not have is absent.
    pub(super) fn of(namespace: &NetworkNamespace) -> Result<Self, NamespaceError> {
        // `self` would be the process, whose first thread stays in its own namespace.
        namespace.enter(|| {
            let mut counters = BTreeMap::new();
            for file in [
                "/proc/thread-self/net/snmp",
                "/proc/thread-self/net/netstat",
            ] {
                counters.extend(parse(&std::fs::read_to_string(file).unwrap_or_default()));
            }
            Self(counters)
        })
    }

    /// What was counted from `self` to `after`; zeros are left out, but for [`TOLD_AT_ZERO`].
    pub(super) fn until<'a>(&'a self, after: &'a Self) -> impl Iterator<Item = (&'a str, u64)> {
        after.0.iter().filter_map(|(name, count)| {
            let before = self.0.get(name).copied().unwrap_or(0);
            let new = count.checked_sub(before)?;
            (new > 0 || name == TOLD_AT_ZERO).then_some((name.as_str(), new))
        })
    }
}

/// Pairs of lines, `Tcp: RtoAlgorithm RtoMin ...` and `Tcp: 1 200 ...` (`net/ipv4/proc.c`).
fn parse(text: &str) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((protocol, names)), Some((same, values))) =
            (names.split_once(':'), values.split_once(':'))
        else {
            continue;
        };
        if protocol != same || !PROTOCOLS.contains(&protocol) {
            continue;
        }
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            // `MaxConn` is -1: a value that is no count is none of ours.
            if let Ok(value) = value.parse()
                && !GAUGES.contains(&name)
            {
                counters.insert(format!("{protocol}{name}"), value);
            }
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "Ip: Forwarding InReceives\nIp: 1 5\n\
        Tcp: RtoAlgorithm MaxConn ActiveOpens RetransSegs\nTcp: 1 -1 7 2\n\
        TcpExt: SyncookiesSent TCPTimeouts\nTcpExt: 0 1\n";

    #[test]
    fn only_what_was_counted_meanwhile_is_left() {
        let after = BEFORE.replace("-1 7 2", "-1 9 2").replace("0 1", "0 4");
        let (before, after) = (KernelCounters(parse(BEFORE)), KernelCounters(parse(&after)));
        let counted: Vec<_> = before.until(&after).collect();
        let expected = [
            ("TcpActiveOpens", 2),
            ("TcpExtTCPTimeouts", 3),
            ("TcpRetransSegs", 0),
        ];
        assert_eq!(counted, expected);
    }

    #[test]
    fn lines_that_do_not_pair_are_passed_over() {
        for text in ["", "Tcp", "Tcp: A\nIp: 1\n", "Tcp: A B\nTcp: 1\n"] {
            assert!(parse(text).len() <= 1, "{text}");
        }
    }
}
