use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A block of addresses: `10.10.10.0/24`, `2001:db8::/32`, or one address without a length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cidr {
    network: IpAddr,
    length: u8,
}

/// Who may connect: whoever is in a block of the first list and in none of the second.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Admission {
    pub(crate) allow: Vec<Cidr>,
    pub(crate) deny: Vec<Cidr>,
}

/// A text is not a block of addresses.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is not an address block such as `10.10.10.0/24`, `2001:db8::/32` or `10.1.2.3`")]
pub struct ParseCidrError(String);

impl Cidr {
    /// Whether `address` lies in the block. An IPv4 address that came through an IPv6 socket
    /// (`::ffff:10.1.2.3`) counts as the IPv4 address that it is.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.network.is_ipv4()
            && masked(address, self.length) == masked(self.network, self.length)
    }

    /// Whether it contains every address of its family.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.length == 0
    }
}

// === impl Admission ===

impl Admission {
    /// Why this address may not connect, if so.
    pub(crate) fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        let within = |blocks: &[Cidr]| blocks.iter().any(|block| block.contains(address));
        if within(&self.deny) {
            Some("its address is in a denied block")
        } else if within(&self.allow) {
            None
        } else {
            Some("its address is in no allowed block")
        }
    }
}

impl From<Vec<Cidr>> for Admission {
    fn from(allow: Vec<Cidr>) -> Self {
        Self {
            allow,
            deny: Vec::new(),
        }
    }
}

/// The first `length` bits of an address, as the address whose other bits are zero.
fn masked(address: IpAddr, length: u8) -> IpAddr {
    let shift = |width: u8| u32::from(width.saturating_sub(length));
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(shift(32)).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(shift(128)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

impl FromStr for Cidr {
    type Err = ParseCidrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseCidrError(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let network: IpAddr = address.parse().map_err(|_| error())?;
        let width = if network.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(length) => length.parse().map_err(|_| error())?,
            None => width,
        };
        // Bits beyond the length are a slip of the pen, such as 10.10.10.7/24 for one host.
        if length > width || masked(network, length) != network {
            return Err(error());
        }
        Ok(Self { network, length })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_contains_its_addresses_and_no_others() {
        for (block, inside, outside) in [
            ("10.10.10.0/24", "10.10.10.255", "10.10.11.0"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::ffff:11.1.2.3"),
            ("::/0", "::1", "127.0.0.1"),
        ] {
            let cidr: Cidr = block.parse().unwrap();
            assert!(cidr.contains(inside.parse().unwrap()), "{block} {inside}");
            assert!(
                !cidr.contains(outside.parse().unwrap()),
                "{block} {outside}"
            );
        }
    }

    #[test]
    fn what_is_denied_is_refused_although_it_is_allowed() {
        let block = |text: &str| text.parse::<Cidr>().unwrap();
        let admission = Admission {
            allow: vec![block("10.0.0.0/8")],
            deny: vec![block("10.9.0.0/16")],
        };
        let refuses = |text: &str| admission.refuses(text.parse().unwrap()).is_some();
        assert!(!refuses("10.1.2.3"));
        assert!(refuses("10.9.2.3") && refuses("::ffff:10.9.2.3") && refuses("192.0.2.1"));
    }

    #[test]
    fn what_is_not_a_block_is_refused_with_an_example() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.10.10.7/24",
            "10.0.0/8",
            "::/129",
            "x/8",
            "1.2.3.4/",
        ] {
            let error = text.parse::<Cidr>().unwrap_err();
            assert!(error.to_string().contains("10.10.10.0/24"), "{text}");
        }
    }
}
