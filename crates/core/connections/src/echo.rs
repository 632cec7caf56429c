use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use units::Time;

/// ICMP echoes from one host to another: an RTT without TCP.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Echo {
    /// Who asked.
    pub from: String,
    /// Who answered.
    pub to: String,
    /// Requests seen.
    pub requests: u64,
    /// Answers seen.
    pub replies: u64,
    /// Answers that came after a question for a link-layer address (ARP), whose time is not in their RTT.
    pub resolved: u64,
    /// Time from a request to its answer, in order of the answers.
    pub rtt: Vec<Duration>,
}

/// When the requests were seen whose answer is awaited, by identifier and sequence number.
type OpenRequests = BTreeMap<(u16, u16), Time>;

/// Matches requests and answers by identifier and sequence number (RFC 792).
#[derive(Clone, Debug, Default)]
pub(crate) struct EchoMatcher {
    pairs: BTreeMap<(u32, u32), (Echo, OpenRequests)>,
}

impl EchoMatcher {
    /// Requests kept while their answer is awaited; a flood of unanswered ones costs no more memory.
    const MAX_OPEN: usize = 1024;

    pub(crate) fn request(
        &mut self,
        hosts: (u32, u32),
        names: (&str, &str),
        id: (u16, u16),
        at: Time,
    ) {
        let (echo, open) = self.pair(hosts, names);
        echo.requests += 1;
        if open.len() < Self::MAX_OPEN {
            open.insert(id, at);
        }
    }

    pub(crate) fn reply(
        &mut self,
        hosts: (u32, u32),
        names: (&str, &str),
        id: (u16, u16),
        at: Time,
        resolving: impl FnOnce(Time) -> Duration,
    ) {
        let (echo, open) = self.pair(hosts, names);
        echo.replies += 1;
        let Some(asked) = open.remove(&id) else {
            return;
        };
        if let Some(rtt) = at.checked_since(asked) {
            let resolving = resolving(asked);
            echo.resolved += u64::from(!resolving.is_zero());
            echo.rtt.push(rtt.saturating_sub(resolving));
        }
    }

    pub(crate) fn finish(self) -> Vec<Echo> {
        self.pairs.into_values().map(|(echo, _)| echo).collect()
    }

    fn pair(
        &mut self,
        hosts: (u32, u32),
        (from, to): (&str, &str),
    ) -> (&mut Echo, &mut OpenRequests) {
        let (echo, open) = self.pairs.entry(hosts).or_default();
        if echo.from.is_empty() {
            echo.from = from.into();
            echo.to = to.into();
        }
        (echo, open)
    }
}
