//! Observations that can be shown to strangers: addresses, names, keys and payload are gone, and what an
//! analysis of time needs is still there.
//!
//! [`Anonymizer::observe`] stands between a capture and whoever reads its observations, so whatever is made of
//! them (a report, another capture) cannot hold what was taken away. Nothing is let through because it
//! looks harmless: fields are copied one by one, and payload begins as zeros into which the few bytes that
//! tell a protocol's turns are copied back.
//!
//! | kept | replaced |
//! |---|---|
//! | times, ports, flags, numbers, windows, the options that are decoded | addresses: prefix-preserving, by key |
//! | lengths and types of TLS records; versions and groups of hellos | names: numbered |
//! | method, status, lengths and expectations of HTTP/1 heads | everything else in payload: zeros, `x` in heads |

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod addresses;
mod payload;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use wire::{
    Endpoint, FirstFragment, Fragment, Host, IcmpEcho, IcmpError, Observation, Resolution, Segment,
};

use addresses::Addresses;
pub use payload::mask;

/// What addresses are replaced by depends on this and on nothing else: the same key gives captures made at
/// different places the same replacements. Who has it can undo them by trying addresses.
#[derive(Clone, Copy)]
pub struct Key(pub [u8; 16]);

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Replaces what must not be seen.
#[derive(Clone, Debug)]
pub struct Anonymizer {
    addresses: Addresses,
    payload: Vec<u8>,
}

impl Anonymizer {
    /// With the replacements that belong to `key`.
    #[must_use]
    pub const fn new(key: Key) -> Self {
        Self {
            addresses: Addresses::new(key),
            payload: Vec::new(),
        }
    }

    /// Hands `observation` on without what must not be seen.
    pub fn observe<R>(
        &mut self,
        observation: &Observation<'_>,
        then: impl FnOnce(&Observation<'_>) -> R,
    ) -> R {
        match observation {
            Observation::Tcp(segment) => {
                let segment = self.segment(segment);
                then(&Observation::Tcp(segment))
            }
            Observation::FirstFragment(first) => {
                let segment = self.segment(&first.segment);
                then(&Observation::FirstFragment(FirstFragment {
                    segment,
                    ..*first
                }))
            }
            Observation::Fragment(fragment) => {
                let source = self.addresses.replace(fragment.source);
                let destination = self.addresses.replace(fragment.destination);
                // The middle of something holds no head whose words could stay.
                then(&Observation::Fragment(Fragment {
                    source,
                    destination,
                    bytes: &[],
                    ..*fragment
                }))
            }
            Observation::IcmpError(error) => {
                let error = IcmpError {
                    from: self.host(error.from),
                    source: self.endpoint(error.source),
                    destination: self.endpoint(error.destination),
                    ..*error
                };
                then(&Observation::IcmpError(error))
            }
            Observation::Resolution(resolution) => {
                let resolution = Resolution {
                    asker: resolution.asker.map(|asker| self.addresses.replace(asker)),
                    asked: self.addresses.replace(resolution.asked),
                    ..*resolution
                };
                then(&Observation::Resolution(resolution))
            }
            Observation::IcmpEcho(echo) => {
                let (source, destination) = (self.host(echo.source), self.host(echo.destination));
                then(&Observation::IcmpEcho(IcmpEcho {
                    source,
                    destination,
                    ..*echo
                }))
            }
            Observation::Other(name) => then(&Observation::Other(name)),
        }
    }

    fn segment(&mut self, segment: &Segment<'_>) -> Segment<'_> {
        let source = self.endpoint(segment.source);
        let destination = self.endpoint(segment.destination);
        mask(segment.payload, &mut self.payload);
        Segment {
            at: segment.at,
            frame: segment.frame,
            source,
            destination,
            flags: segment.flags,
            seq: segment.seq,
            ack: segment.ack,
            window: segment.window,
            payload_len: segment.payload_len,
            payload: &self.payload,
            options: segment.options,
            ip_id: segment.ip_id,
            ttl: segment.ttl,
            ecn: segment.ecn,
            header_len: segment.header_len,
        }
    }

    fn endpoint(&mut self, endpoint: Endpoint<'_>) -> Endpoint<'static> {
        Endpoint {
            host: self.host(endpoint.host),
            port: endpoint.port,
        }
    }

    fn host(&mut self, host: Host<'_>) -> Host<'static> {
        Host::Ip(match host {
            Host::Ip(address) => self.addresses.replace(address),
            Host::Name(name) => self.addresses.number(name),
        })
    }
}
