//! The thread that reads the device and minds the clocks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tcp::{Connection, Segment};
use units::Time;

use super::endpoint::Endpoint;
use super::{Key, Shared, packet};
use crate::live::locked;

/// Packets taken before clocks are looked at again.
const BATCH: usize = 64;
/// Connections at a time; a SYN beyond them is not answered.
const MOST_CONNECTIONS: usize = 65_536;
const PACKET: usize = 65_536;

pub(super) fn run(shared: &Arc<Shared>) {
    let mut packet = vec![0; PACKET];
    let mut headers = Vec::new();
    while !shared.stopped.load(Ordering::Acquire) {
        let mut more = true;
        for _ in 0..BATCH {
            match shared.device.read(&mut packet) {
                Ok(Some((header, length))) => {
                    let bytes = packet.get(..length).unwrap_or_default();
                    if let Some((key, segment, payload)) =
                        packet::parse(header, bytes, shared.address)
                    {
                        take(shared, key, &segment, payload, &mut headers);
                    }
                }
                Ok(None) => {
                    more = false;
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "The device of our TCP cannot be read any more");
                    return;
                }
            }
        }
        let next = clocks(shared);
        if !more {
            wait(shared, next);
        }
    }
}

fn take(shared: &Arc<Shared>, key: Key, segment: &Segment, payload: &[u8], headers: &mut Vec<u8>) {
    let now = shared.now();
    let known = locked(&shared.hosts).endpoints.get(&key).cloned();
    let known = known.filter(|endpoint| !endpoint.is_over());
    let Some(endpoint) = known.or_else(|| accept(shared, key, segment, now)) else {
        refuse(shared, key, segment, headers);
        return;
    };
    if endpoint.take(now, segment, payload)
        && let Some(listener) = locked(&shared.hosts).listeners.get(&key.port)
    {
        // A listener that has gone takes no more connections.
        let _ = listener.send(Some(endpoint));
    }
}

/// A new endpoint, where somebody listens for this SYN.
fn accept(shared: &Arc<Shared>, key: Key, segment: &Segment, now: Time) -> Option<Arc<Endpoint>> {
    let mut hosts = locked(&shared.hosts);
    if !hosts.listeners.contains_key(&key.port) || hosts.endpoints.len() >= MOST_CONNECTIONS {
        return None;
    }
    let connection = Connection::accept(&shared.config, now, segment, shared.initial(&key))?;
    let endpoint = Arc::new(Endpoint::new(shared, key, connection, &shared.config));
    hosts.endpoints.insert(key, Arc::clone(&endpoint));
    Some(endpoint)
}

fn refuse(shared: &Shared, key: Key, segment: &Segment, headers: &mut Vec<u8>) {
    let Some(answer) = segment.refusal() else {
        return;
    };
    if let Ok(header) = packet::headers(headers, shared.address, &key, &answer, 1) {
        // A device that does not take it is a network that loses it.
        let _ = shared.device.write(header, headers, &[]);
    }
}

/// Wakes who is due, forgets who is over, and says when somebody is due next.
fn clocks(shared: &Shared) -> Option<Time> {
    let endpoints: Vec<_> = locked(&shared.hosts).endpoints.values().cloned().collect();
    let mut next: Option<Time> = None;
    let mut over = false;
    for endpoint in endpoints {
        let due = endpoint.wake(shared.now());
        next = match (next, due) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        over |= endpoint.is_over();
    }
    if over {
        locked(&shared.hosts)
            .endpoints
            .retain(|_, endpoint| !endpoint.is_over());
    }
    next
}

fn wait(shared: &Shared, until: Option<Time>) {
    let timeout = until.map(|until| {
        let span = until.since(shared.now());
        Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: span.subsec_nanos().into(),
        }
    });
    let mut ready = [
        PollFd::from_borrowed_fd(shared.device.ready(), PollFlags::IN),
        PollFd::new(&shared.wake, PollFlags::IN),
    ];
    // An interruption is a reason to look again, like any other.
    let _ = poll(&mut ready, timeout.as_ref());
    let mut counter = [0; 8];
    let _ = rustix::io::read(&shared.wake, &mut counter);
}
