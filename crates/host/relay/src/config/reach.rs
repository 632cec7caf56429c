//! Where clients may ask to go: names, address blocks, ports.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::Target;
use crate::Cidr;

/// Targets that clients may ask for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reach {
    host: Host,
    /// `None`: every port.
    port: Option<u16>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Host {
    Any,
    /// In lower case.
    Name(String),
    /// What follows the asterisk, with its dot, in lower case.
    Below(String),
    Block(Cidr),
}

impl Reach {
    /// Whether it names this target by its name, so that it does not matter what the name means.
    pub(crate) fn takes_name(&self, target: &Target) -> bool {
        let name = target.host.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let host = match &self.host {
            Host::Any => true,
            Host::Name(known) => name == known,
            Host::Below(domain) => name.len() > domain.len() && name.ends_with(domain.as_str()),
            Host::Block(_) => false,
        };
        host && self.takes_port(target.port)
    }

    /// Whether it has this address in one of its blocks.
    pub(crate) fn takes_address(&self, address: IpAddr, port: u16) -> bool {
        matches!(&self.host, Host::Block(block) if block.contains(address)) && self.takes_port(port)
    }

    /// Whether it is a block of addresses, on this port as well.
    pub(crate) fn is_block(&self, port: u16) -> bool {
        matches!(self.host, Host::Block(_)) && self.takes_port(port)
    }

    fn takes_port(&self, port: u16) -> bool {
        self.port.is_none_or(|known| known == port)
    }
}

impl FromStr for Reach {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || {
            format!(
                "`{text}` is not NAME, `*.DOMAIN`, an address block or `*`, with or without `:PORT`; an IPv6 \
                 block with a port is `[2001:db8::/32]:443`"
            )
        };
        // An IPv6 block alone has colons and no port.
        let (host, port) = if text.parse::<Cidr>().is_ok() {
            (text, None)
        } else if let Some((host, port)) = text.rsplit_once(':') {
            (host, Some(port))
        } else {
            (text, None)
        };
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let port = match port {
            None | Some("*") => None,
            Some(port) => Some(
                port.parse()
                    .ok()
                    .filter(|&port| port != 0)
                    .ok_or_else(error)?,
            ),
        };
        let host = if host == "*" {
            Host::Any
        } else if let Ok(block) = host.parse() {
            Host::Block(block)
        } else if let Some(domain) = host.strip_prefix('*') {
            let name = domain.strip_prefix('.').ok_or_else(error)?;
            if !Target::is_host(name) {
                return Err(error());
            }
            Host::Below(domain.to_ascii_lowercase())
        } else if Target::is_host(host) && !host.contains(':') {
            Host::Name(host.to_ascii_lowercase())
        } else {
            return Err(error());
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Any => f.write_str("*")?,
            Host::Name(name) => f.write_str(name)?,
            Host::Below(domain) => write!(f, "*{domain}")?,
            Host::Block(block) => write!(f, "[{block}]")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => f.write_str(":*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(reach: &str, target: &str) -> bool {
        let target: Target = target.parse().unwrap();
        let reach: Reach = reach.parse().unwrap();
        let address = target.host.parse::<IpAddr>();
        reach.takes_name(&target)
            || address.is_ok_and(|address| reach.takes_address(address, target.port))
    }

    #[test]
    fn names_domains_blocks_and_ports_are_told_apart() {
        assert!(takes("store.example", "Store.Example:443"));
        assert!(takes("store.example", "store.example.:1"));
        assert!(!takes("store.example", "a.store.example:443"));
        assert!(takes("*.store.example:443", "a.b.store.example:443"));
        assert!(!takes("*.store.example:443", "store.example:443"));
        assert!(!takes("*.store.example:443", "evilstore.example:443"));
        assert!(!takes("*.store.example:443", "a.store.example:80"));
        assert!(takes("10.0.0.0/8:9000", "10.1.2.3:9000"));
        assert!(!takes("10.0.0.0/8:9000", "11.1.2.3:9000"));
        assert!(takes("2001:db8::/32", "[2001:db8::1]:443"));
        assert!(takes("[2001:db8::/32]:443", "[2001:db8::1]:443"));
        assert!(!takes("[2001:db8::/32]:443", "[2001:db8::1]:80"));
        assert!(takes("*:443", "anything:443"));
        assert!(!takes("*:443", "anything:22"));
    }

    #[test]
    fn what_names_no_target_is_refused() {
        for text in [
            "",
            ":443",
            "*x.example",
            "a b",
            "store.example:0",
            "store.example:99999",
            "*.",
        ] {
            assert!(text.parse::<Reach>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_printed_means_the_same() {
        for text in [
            "store.example:443",
            "*.store.example",
            "10.0.0.0/8:9",
            "*",
            "2001:db8::/32",
        ] {
            let reach: Reach = text.parse().unwrap();
            assert_eq!(reach.to_string().parse::<Reach>().unwrap(), reach);
        }
    }
}
