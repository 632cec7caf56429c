//! A kind of file, as a crate above this one might have it: a relay's, with little in it.

#![expect(dead_code, reason = "what nobody asks about has to fit all the same")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use units::{Bytes, Span};

use crate::{ConfigError, Problems, Step, nearest, read};

/// Profiles that need no table.
const BUILT_IN: [&str; 3] = ["lan", "s3", "wan"];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Relay {
    user: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
    admin: Option<Admin>,
    #[serde(default)]
    http: Vec<Http>,
    #[serde(default)]
    tcp: Vec<Tcp>,
    #[serde(default)]
    tls: Vec<Tls>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Profile {
    extends: Option<String>,
    keep_alive_probes: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Admin {
    listen: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Http {
    listen: String,
    target: String,
    client_profile: Option<String>,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
    #[serde(default)]
    tls: Side,
    #[serde(default)]
    pool: Pool,
    #[serde(default)]
    limits: HttpLimits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Side {
    upstream: Option<Upstream>,
    upstream_name: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Upstream {
    Plain,
    Tls,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Pool {
    min_idle: Option<usize>,
    max_connections: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct HttpLimits {
    head: Option<Bytes>,
    head_timeout: Option<Span>,
    streams: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Tcp {
    listen: String,
    target: String,
    client_profile: Option<String>,
    server_profile: Option<String>,
    #[serde(default)]
    to: Vec<String>,
    #[serde(default)]
    limits: TcpLimits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct TcpLimits {
    connections: Option<usize>,
    idle_timeout: Option<Span>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Tls {
    listen: String,
    target: String,
    upstream: Option<Upstream>,
    #[serde(default)]
    certificates: Vec<Certificate>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Certificate {
    cert: String,
    key: String,
}

/// The addresses that a file listens on.
pub(super) fn relay(text: &str) -> Result<Vec<SocketAddr>, ConfigError> {
    read(text, Relay::resolve)
}

// === impl Relay ===

impl Relay {
    pub(super) fn resolve(self, problems: &mut Problems) -> Vec<SocketAddr> {
        let own = self.profiles.keys().map(String::as_str);
        let known: Vec<&str> = own.chain(BUILT_IN).collect();
        problems.within("profiles", |problems| {
            for (name, profile) in &self.profiles {
                problems.within(name.as_str(), |problems| {
                    profile_named(&known, problems, "extends", profile.extends.as_ref());
                });
            }
        });
        problems.require(
            !(self.http.is_empty() && self.tcp.is_empty() && self.tls.is_empty()),
            "",
            "there is nothing to relay: write at least one [[http]], [[tcp]] or [[tls]] table",
        );
        let mut listeners = Vec::new();
        let http = self.http.into_iter().enumerate();
        for (index, http) in http {
            let place = vec!["http".into(), index.into()];
            problems.at(place.clone(), |problems| http.judge(&known, problems));
            listeners.push((place, http.listen));
        }
        for (index, tcp) in self.tcp.into_iter().enumerate() {
            let place = vec!["tcp".into(), index.into()];
            problems.at(place.clone(), |problems| tcp.judge(&known, problems));
            listeners.push((place, tcp.listen));
        }
        for (index, tls) in self.tls.into_iter().enumerate() {
            let place = vec!["tls".into(), index.into()];
            problems.at(place.clone(), |problems| {
                let some = tls.upstream != Some(Upstream::Plain) || !tls.certificates.is_empty();
                problems.require(some, "", "there is TLS on no side");
            });
            listeners.push((place, tls.listen));
        }
        let admin = self.admin.map(|admin| (vec!["admin".into()], admin.listen));
        listen_once(listeners.into_iter().chain(admin), problems)
    }
}

impl Http {
    fn judge(&self, known: &[&str], problems: &mut Problems) {
        profile_named(
            known,
            problems,
            "client-profile",
            self.client_profile.as_ref(),
        );
        blocks(problems, "allow", &self.allow);
        blocks(problems, "deny", &self.deny);
        let most = self.pool.max_connections.unwrap_or(64);
        if self.pool.min_idle.is_some_and(|idle| idle > most) {
            let what = format!("it is above max-connections, {most}");
            problems.tell("pool.min-idle", what);
        }
    }
}

impl Tcp {
    fn judge(&self, known: &[&str], problems: &mut Problems) {
        for (key, name) in [
            ("client-profile", &self.client_profile),
            ("server-profile", &self.server_profile),
        ] {
            profile_named(known, problems, key, name.as_ref());
        }
        let idle = self.limits.idle_timeout.map(Span::get);
        problems.require(
            idle.is_none_or(|idle| !idle.is_zero()),
            "limits.idle-timeout",
            "with 0 s every connection would fail",
        );
    }
}

fn profile_named(known: &[&str], problems: &mut Problems, key: &str, name: Option<&String>) {
    let Some(name) = name.filter(|name| !known.contains(&name.as_str())) else {
        return;
    };
    let hint = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("known are {}", known.join(", ")),
    };
    problems.tell_with(key, format!("there is no profile `{name}`"), hint);
}

fn blocks(problems: &mut Problems, key: &str, texts: &[String]) {
    problems.within(key, |problems| {
        for (index, text) in texts.iter().enumerate() {
            if !is_block(text) {
                let what = format!(
                    "`{text}` is not an address block such as `10.10.10.0/24`, `2001:db8::/32` or `10.1.2.3`"
                );
                problems.within(index, |problems| problems.tell("", what));
            }
        }
    });
}

fn is_block(text: &str) -> bool {
    let (address, length) = text.split_once('/').unwrap_or((text, "0"));
    let length = length.parse().ok();
    let most = address.parse().map(|address| match address {
        IpAddr::V4(_) => 32_u8,
        IpAddr::V6(_) => 128,
    });
    length.is_some_and(|length: u8| most.is_ok_and(|most| length <= most))
}

fn listen_once(
    listeners: impl Iterator<Item = (Vec<Step>, String)>,
    problems: &mut Problems,
) -> Vec<SocketAddr> {
    let mut taken = BTreeSet::new();
    for (place, text) in listeners {
        problems.at(place, |problems| {
            let Ok(address) = text.parse::<SocketAddr>() else {
                problems.tell_with(
                    "listen",
                    format!("`{text}` is not an address and a port"),
                    "write it like `127.0.0.1:8080`, or `0.0.0.0:8080` for all addresses of this host",
                );
                return;
            };
            if !taken.insert(address) {
                problems.tell_with(
                    "listen",
                    format!("another listener has `{address}` already"),
                    "choose another address or port",
                );
            }
        });
    }
    taken.into_iter().collect()
}
