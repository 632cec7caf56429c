//! What a trunk may open behind itself.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::{Cidr, Target};

/// Hosts and ports that may be opened: `10.20.20.0/24:22`, `db.example:5432`, `[2001:db8::/32]:8000-8099` or
/// `10.20.20.7:*`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TargetRule {
    hosts: Hosts,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Hosts {
    Block(Cidr),
    /// Lower case; compared with what is asked for, not with what it resolves to.
    Name(String),
}

/// A text is no rule for targets.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParseTargetRuleError {
    /// It is not of the form.
    #[error(
        "`{0}` is no rule for targets such as `10.20.20.0/24:22`, `db.example:5432` or \
         `[2001:db8::/32]:8000-8099`"
    )]
    Form(String),
    /// It would let peers open anything.
    #[error("`{0}` allows every port of every host: name the hosts or the ports")]
    Everything(String),
}

/// All that may be opened. Empty means nothing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TargetRules(Vec<TargetRule>);

// === impl TargetRule ===

impl FromStr for TargetRule {
    type Err = ParseTargetRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || ParseTargetRuleError::Form(text.to_owned());
        let (host, ports) = text.rsplit_once(':').ok_or_else(form)?;
        let ports = parse_ports(ports).ok_or_else(form)?;
        let bracketed = host
            .strip_prefix('[')
            .map(|host| host.strip_suffix(']').ok_or_else(form))
            .transpose()?;
        let bare = bracketed.unwrap_or(host);
        let hosts = if let Ok(block) = bare.parse::<Cidr>() {
            // `::1:22` could be an address or an address and a port.
            if bare.contains(':') && bracketed.is_none() {
                return Err(form());
            }
            Hosts::Block(block)
        } else {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            let is_name = bare.bytes().all(plain) && bare.bytes().any(|b| b.is_ascii_alphabetic());
            if bracketed.is_some() || !is_name {
                return Err(form());
            }
            Hosts::Name(bare.to_ascii_lowercase())
        };
        let everybody = matches!(&hosts, Hosts::Block(block) if block.is_everything());
        if everybody && ports == (1..=u16::MAX) {
            return Err(ParseTargetRuleError::Everything(text.to_owned()));
        }
        Ok(Self { hosts, ports })
    }
}

/// `22`, `8000-8099` or `*`.
fn parse_ports(text: &str) -> Option<RangeInclusive<u16>> {
    if text == "*" {
        return Some(1..=u16::MAX);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    (first > 0 && first <= last).then_some(first..=last)
}

impl fmt::Display for TargetRule {
    /// As it is written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Name(name) => f.write_str(name)?,
            Hosts::Block(block) => {
                let text = block.to_string();
                if text.contains(':') {
                    write!(f, "[{text}]")?;
                } else {
                    f.write_str(&text)?;
                }
            }
        }
        match (*self.ports.start(), *self.ports.end()) {
            (1, u16::MAX) => f.write_str(":*"),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}

// === impl TargetRules ===

impl TargetRules {
    pub(super) fn new(rules: Vec<TargetRule>) -> Self {
        Self(rules)
    }

    /// Whether nothing may be opened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address of `target` could be allowed: names of other ports are not even resolved.
    pub(super) fn may_admit(&self, target: &Target) -> bool {
        self.0.iter().any(|rule| rule.ports.contains(&target.port))
    }

    /// Whether `address`, to which `target` has resolved, may be connected to.
    ///
    /// A block is compared with the address that is connected to, so that no name leads out of it.
    pub(super) fn admit(&self, target: &Target, address: SocketAddr) -> bool {
        self.0.iter().any(|rule| {
            let host = match &rule.hosts {
                Hosts::Block(block) => block.contains(address.ip()),
                Hosts::Name(name) => name.eq_ignore_ascii_case(&target.host),
            };
            host && rule.ports.contains(&address.port())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> TargetRules {
        TargetRules::new(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn admits(rules: &TargetRules, target: &str, address: &str) -> bool {
        rules.admit(&target.parse().unwrap(), address.parse().unwrap())
    }

    #[test]
    fn a_block_is_about_the_address_that_is_connected_to() {
        let rules = rules(&["10.20.20.0/24:22", "[2001:db8::/32]:80-81"]);
        assert!(admits(&rules, "aix-vm-2:22", "10.20.20.7:22"));
        assert!(!admits(&rules, "aix-vm-2:22", "10.20.21.7:22"));
        assert!(!admits(&rules, "aix-vm-2:23", "10.20.20.7:23"));
        assert!(admits(&rules, "v6.example:81", "[2001:db8::7]:81"));
        assert!(!admits(&rules, "10.20.20.0:22", "127.0.0.1:22"));
    }

    #[test]
    fn a_name_is_about_what_was_asked_for() {
        let rules = rules(&["DB.example:5432"]);
        assert!(admits(&rules, "db.Example:5432", "192.0.2.1:5432"));
        assert!(!admits(&rules, "192.0.2.1:5432", "192.0.2.1:5432"));
        assert!(rules.may_admit(&"x:5432".parse().unwrap()));
        assert!(!rules.may_admit(&"x:5433".parse().unwrap()));
    }

    #[test]
    fn no_rule_allows_nothing() {
        assert!(!admits(&rules(&[]), "localhost:22", "127.0.0.1:22"));
    }

    #[test]
    fn rules_are_printed_as_they_are_written() {
        for text in [
            "10.20.20.0/24:22",
            "db.example:5432",
            "[2001:db8::/32]:8000-8099",
            "10.1.2.3/32:*",
            "0.0.0.0/0:443",
        ] {
            assert_eq!(text.parse::<TargetRule>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_with_an_example() {
        for text in [
            "",
            ":22",
            "10.0.0.0/24",
            "10.0.0.7/24:22",
            "::1:22",
            "[db]:1",
            "a b:1",
            "x:0",
            "x:9-8",
            "x:65536",
            "12:x",
        ] {
            let error = text.parse::<TargetRule>().unwrap_err();
            assert!(error.to_string().contains("10.20.20.0/24:22"), "{text}");
        }
    }

    #[test]
    fn every_port_of_every_host_is_refused() {
        for text in ["0.0.0.0/0:*", "[::/0]:*", "0.0.0.0/0:1-65535"] {
            let error = text.parse::<TargetRule>().unwrap_err();
            assert!(
                matches!(error, ParseTargetRuleError::Everything(_)),
                "{text}"
            );
        }
    }
}
