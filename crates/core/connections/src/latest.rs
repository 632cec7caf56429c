use alloc::vec::Vec;
use core::net::IpAddr;

use wire::{Host, Segment};

use crate::packet::Side;

/// Connections of the latest segments: nearly every packet belongs to one of few connections, and the search for it
/// through all of them took longer than everything else that is done with it.
///
/// A place is chosen by a sum that anybody can foresee. Who does so makes every search as long as it was without
/// this, and no longer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latest {
    places: Vec<Option<Known>>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
    found: (usize, Side),
}

/// A power of two.
const PLACES: usize = 256;

impl Latest {
    /// The connection of `segment` and its sender, if that is known.
    pub(crate) fn find(&self, segment: &Segment<'_>) -> Option<(usize, Side)> {
        let (source, destination) = ends(segment)?;
        let known = self.places.get(place(source, destination))?.as_ref()?;
        (known.source == source && known.destination == destination).then_some(known.found)
    }

    /// Segments with the same ends belong to `found`, until a connection is opened.
    pub(crate) fn keep(&mut self, segment: &Segment<'_>, found: (usize, Side)) {
        let Some((source, destination)) = ends(segment) else {
            return;
        };
        if self.places.is_empty() {
            self.places.resize(PLACES, None);
        }
        if let Some(place) = self.places.get_mut(place(source, destination)) {
            *place = Some(Known {
                source,
                destination,
                found,
            });
        }
    }
}

type End = (IpAddr, u16);

fn ends(segment: &Segment<'_>) -> Option<(End, End)> {
    let (Host::Ip(source), Host::Ip(destination)) = (segment.source.host, segment.destination.host)
    else {
        return None;
    };
    Some((
        (source, segment.source.port),
        (destination, segment.destination.port),
    ))
}

fn place(source: End, destination: End) -> usize {
    let sum = |(address, port): End| {
        let low = match address {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => {
                let [.., a, b, c, d] = address.octets();
                u64::from(u32::from_be_bytes([a, b, c, d]))
            }
        };
        (low << 16) | u64::from(port)
    };
    // Fibonacci hashing: the upper bits of a product with 2^64 over the golden ratio depend on all bits.
    let mixed = sum(source)
        .rotate_left(21)
        .wrapping_add(sum(destination))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 48).unwrap_or(0) % PLACES
}
