use alloc::collections::VecDeque;
use core::net::IpAddr;
use core::time::Duration;

use units::Time;
use wire::{Host, Resolution};

/// Questions for link-layer addresses (ARP, neighbour discovery) and how long they took. What waits for an answer
/// is no time of the path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resolutions {
    /// The latest first.
    exchanges: VecDeque<Exchange>,
}

#[derive(Clone, Copy, Debug)]
struct Exchange {
    asker: IpAddr,
    asked: IpAddr,
    from: Time,
    to: Option<Time>,
}

impl Resolutions {
    /// Older ones lie before anything that still waits.
    const MOST: usize = 64;

    pub(crate) fn observe(&mut self, resolution: &Resolution) {
        let Resolution {
            at, asker, asked, ..
        } = *resolution;
        let mut open = self.exchanges.iter_mut().filter(|exchange| {
            exchange.to.is_none()
                && exchange.asked == asked
                && asker.is_none_or(|asker| asker == exchange.asker)
        });
        if resolution.answer {
            open.for_each(|exchange| exchange.to = Some(at));
        } else if open.next().is_none()
            && let Some(asker) = asker
        {
            self.exchanges.truncate(Self::MOST - 1);
            self.exchanges.push_front(Exchange {
                asker,
                asked,
                from: at,
                to: None,
            });
        }
    }

    /// How much of `from..to`, in which one of two hosts waited for the other, went into such a question by or for
    /// one of them.
    pub(crate) fn within(&self, from: Time, to: Time, hosts: [Host<'_>; 2]) -> Duration {
        let concerns = |address: IpAddr| hosts.contains(&Host::Ip(address));
        self.exchanges
            .iter()
            .filter(|exchange| concerns(exchange.asker) || concerns(exchange.asked))
            .filter_map(|exchange| exchange.to?.min(to).checked_since(exchange.from.max(from)))
            .max()
            .unwrap_or_default()
    }
}
