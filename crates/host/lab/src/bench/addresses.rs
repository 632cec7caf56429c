//! Who has which address: the same last word in both versions of IP.
//!
//! | | near LAN | far LAN |
//! |---|---|---|
//! | IPv4 | 10.10.0.0/24 (RFC 1918) | 192.0.2.0/24 (RFC 5737) |
//! | IPv6 | fd00:10:10::/64 (RFC 4193) | 2001:db8:192::/64 (RFC 3849) |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use scenario::{IpVersion, Site};

/// The router of a LAN, which holds the end of the WAN.
pub(super) const ROUTER: u8 = 1;
/// The client, or the origin.
pub(super) const END: u8 = 10;
/// The rivals, or whom they talk to.
pub(super) const RIVAL: u8 = 30;

/// The host `number` of a LAN.
pub(super) fn address(ip: IpVersion, site: Site, number: u8) -> IpAddr {
    match (ip, site) {
        (IpVersion::V4, Site::Near) => Ipv4Addr::new(10, 10, 0, number).into(),
        (IpVersion::V4, Site::Far) => Ipv4Addr::new(192, 0, 2, number).into(),
        (IpVersion::V6, Site::Near) => {
            Ipv6Addr::new(0xfd00, 0x10, 0x10, 0, 0, 0, 0, as_written(number)).into()
        }
        (IpVersion::V6, Site::Far) => {
            Ipv6Addr::new(0x2001, 0xdb8, 0x192, 0, 0, 0, 0, as_written(number)).into()
        }
    }
}

/// Another host of the same LAN.
pub(super) fn neighbour(home: IpAddr, number: u8) -> IpAddr {
    match home {
        IpAddr::V4(home) => {
            let [a, b, c, _] = home.octets();
            Ipv4Addr::new(a, b, c, number).into()
        }
        IpAddr::V6(home) => {
            let mut words = home.segments();
            words[7] = as_written(number);
            Ipv6Addr::from(words).into()
        }
    }
}

/// Hop number `index` of a plan.
pub(super) fn hop(ip: IpVersion, site: Site, index: usize) -> IpAddr {
    // 10 to 19 are the ends', 30 to 39 the rivals', from 252 on our own TCP's.
    let number = if index < 10 { 20 + index } else { 30 + index };
    address(ip, site, u8::try_from(number).unwrap_or(u8::MAX))
}

/// All hosts of a LAN, as `ip route` takes them.
pub(super) fn network(ip: IpVersion, site: Site) -> String {
    let prefix = prefix(ip);
    match (ip, site) {
        (IpVersion::V4, Site::Near) => format!("10.10.0.0/{prefix}"),
        (IpVersion::V4, Site::Far) => format!("192.0.2.0/{prefix}"),
        (IpVersion::V6, Site::Near) => format!("fd00:10:10::/{prefix}"),
        (IpVersion::V6, Site::Far) => format!("2001:db8:192::/{prefix}"),
    }
}

/// Leading bits that the addresses of a LAN have in common.
pub(super) const fn prefix(ip: IpVersion) -> u8 {
    match ip {
        IpVersion::V4 => 24,
        IpVersion::V6 => 64,
    }
}

/// Everything there is, as `ip route` takes it.
pub(super) const fn everywhere(ip: IpVersion) -> &'static str {
    match ip {
        IpVersion::V4 => "0.0.0.0/0",
        IpVersion::V6 => "::/0",
    }
}

/// Whether an address belongs to the near LAN.
pub(super) fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [10, 10, 0],
        // A socket of both versions shows IPv4 peers so (RFC 4291 section 2.5.5.2).
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => is_near(address.into()),
            None => address.segments()[..3] == [0xfd00, 0x10, 0x10],
        },
    }
}

/// `number` as a word that shows the same digits in hexadecimal.
fn as_written(number: u8) -> u16 {
    u16::from_str_radix(&number.to_string(), 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_address_is_given_twice_and_each_lies_in_its_network() {
        for ip in [IpVersion::V4, IpVersion::V6] {
            let mut seen = BTreeSet::new();
            for site in [Site::Near, Site::Far] {
                let fixed = [ROUTER, END, RIVAL].map(|number| address(ip, site, number));
                let hops = (0..200).map(|index| hop(ip, site, index));
                for one in fixed.into_iter().chain(hops) {
                    assert!(seen.insert(one), "{one} twice");
                    assert_eq!(is_near(one), site == Site::Near, "{one}");
                    let start = network(ip, site);
                    let start = start.split([':', '.']).next().unwrap();
                    assert!(one.to_string().starts_with(start), "{one} in {start}");
                }
            }
        }
    }

    #[test]
    fn hosts_have_the_same_last_word_in_both_versions() {
        let six = address(IpVersion::V6, Site::Near, 10);
        assert_eq!(six.to_string(), "fd00:10:10::10");
        assert_eq!(neighbour(six, 254).to_string(), "fd00:10:10::254");
        let four = address(IpVersion::V4, Site::Far, 10);
        assert_eq!(neighbour(four, 254).to_string(), "192.0.2.254");
    }
}
