use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::hash::Hasher as _;
use core::net::{IpAddr, Ipv4Addr};

use siphasher::sip::SipHasher24;

use crate::Key;

/// Replacements of addresses. Two addresses that share their first n bits get replacements that share
/// their first n bits and differ in the next, so networks stay networks (Xu, Fan, Ammar, Moon:
/// "Prefix-Preserving IP Address Anonymization", ICNP 2002; here with SipHash-2-4 as the keyed function).
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    key: Key,
    replaced: BTreeMap<IpAddr, IpAddr>,
    names: BTreeMap<Box<str>, u32>,
}

impl Addresses {
    pub(crate) const fn new(key: Key) -> Self {
        Self {
            key,
            replaced: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    pub(crate) fn replace(&mut self, address: IpAddr) -> IpAddr {
        if let Some(known) = self.replaced.get(&address) {
            return *known;
        }
        let replaced = match address {
            IpAddr::V4(address) => IpAddr::from(self.bits(address.octets())),
            IpAddr::V6(address) => IpAddr::from(self.bits(address.octets())),
        };
        self.replaced.insert(address, replaced);
        replaced
    }

    /// An address for a name, numbered by appearance, from the block that is nobody's.
    pub(crate) fn number(&mut self, name: &str) -> IpAddr {
        // 198.18.0.0/15 is set aside for benchmarks (RFC 6890 section 2.2.2).
        const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let number = match self.names.get(name) {
            Some(number) => *number,
            None => *self.names.entry(name.into()).or_insert(next),
        };
        Ipv4Addr::from(FIRST.to_bits().wrapping_add(number)).into()
    }

    /// Each bit is turned or left by a keyed function of all bits before it.
    fn bits<const N: usize>(&self, octets: [u8; N]) -> [u8; N] {
        let family = if N == 4 { 4 } else { 6 };
        let mut out = octets;
        let mut before = [0; N];
        for index in 0..N * 8 {
            let (byte, bit) = (index / 8, 0x80_u8 >> (index % 8));
            let mut function = SipHasher24::new_with_key(&self.key.0);
            function.write(&[family, u8::try_from(index).unwrap_or(u8::MAX)]);
            function.write(&before);
            if function.finish() & 1 == 1 {
                out[byte] ^= bit;
            }
            before[byte] |= octets[byte] & bit;
        }
        out
    }
}
