//! What a scenario says of a relay of ours, as the configuration file that it runs from: the same words with which
//! a reader of the results can run it elsewhere (`docs/relay.md`, `docs/trunk.md`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use profile::{RawTcpProfile, TlsProfile};
use scenario::{Expect, Relay, RelayMode, Site};
use serde::Serialize;
use units::{Bytes, Rate};

/// Where a relay stands between two others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stand<'a> {
    /// Where it listens.
    pub(super) listen: SocketAddr,
    /// What it connects to: the next relay, or the origin.
    pub(super) target: SocketAddr,
    /// The origin itself, on the port that the client asks for.
    pub(super) origin: SocketAddr,
    /// The name that clients call the origin.
    pub(super) name: &'a str,
    /// The LANs from which its clients may come.
    pub(super) lans: [&'a str; 2],
    /// The path's rate.
    pub(super) rate: Rate,
    /// The origin's certificate and its key: a relay that ends TLS stands in for it.
    pub(super) identity: (&'a Path, &'a Path),
}

/// A configuration file of `longhaul relay run`, or of `longhaul trunk run`.
#[derive(Debug, Default, Serialize)]
pub(super) struct RelayFile {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    profiles: BTreeMap<String, RawTcpProfile>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    http: Vec<Http>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tcp: Vec<Forwarder>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tls: Vec<Terminator>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    near: Vec<Near>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    far: Vec<Far>,
}

/// What every relay of connections has.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Forwarder {
    listen: String,
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_profile: Option<String>,
    server_profile: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Http {
    #[serde(flatten)]
    forwarder: Forwarder,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_rate: Option<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expect: Option<Expect>,
    pool: Pool,
    prime: Prime,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Pool {
    min_idle: u32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Prime {
    enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<Bytes>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Terminator {
    #[serde(flatten)]
    forwarder: Forwarder,
    tls_profile: TlsProfile,
    upstream_name: String,
    upstream_ca: String,
    certificates: Vec<Certificate>,
}

#[derive(Debug, Serialize)]
struct Certificate {
    cert: String,
    key: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Near {
    via: Vec<String>,
    wan_profile: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lan_profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    padding: Option<Padding>,
    security: Security,
    listeners: Vec<Listener>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Far {
    listen: String,
    allow_targets: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wan_profile: Option<String>,
    lan_profile: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    padding: Option<Padding>,
    security: Security,
}

/// What a trunk's connections are kept ready for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Padding {
    ready_for: Rate,
}

#[derive(Debug, Serialize)]
struct Listener {
    listen: String,
    to: String,
}

#[derive(Debug, Serialize)]
struct Security {
    plain: bool,
}

/// Neither encrypted nor authenticated: the emulated path is ours, and what is compared with it has no TLS either.
const IN_THE_CLEAR: Security = Security { plain: true };

// === impl RelayFile ===

impl RelayFile {
    /// The file of `relay`, which runs in our own program.
    pub(super) fn of(relay: &Relay, stand: Stand<'_>) -> Self {
        let mut file = Self::default();
        let usual = match relay.mode {
            RelayMode::Http => "s3",
            RelayMode::Tcp | RelayMode::Tls => "wan",
            RelayMode::Trunk if relay.at == Site::Near => "wan",
            RelayMode::Trunk => "lan",
        };
        let server_profile = file.server_profile(relay, usual);
        let client_profile = relay.client_profile.clone();
        // Behind another far relay its clients have addresses of the far LAN, which are no site's (RFC 5737, RFC 3849).
        let allow = (relay.at == Site::Far).then(|| stand.lans.map(str::to_owned).to_vec());
        let forwarder = |target: String| Forwarder {
            listen: stand.listen.to_string(),
            target,
            allow: allow.clone(),
            client_profile: client_profile.clone(),
            server_profile: server_profile.clone(),
        };
        let padding = relay.knows_path_rate.then_some(Padding {
            ready_for: stand.rate,
        });
        match relay.mode {
            RelayMode::Http => file.http.push(Http {
                // By its name, which requests carry.
                forwarder: forwarder(format!("{}:{}", stand.name, stand.target.port())),
                path_rate: relay.knows_path_rate.then_some(stand.rate),
                expect: (relay.expect == Expect::Answer).then_some(relay.expect),
                pool: Pool {
                    min_idle: relay.pool_min_idle,
                },
                prime: Prime {
                    enabled: relay.prime,
                    window: relay.hot_window,
                },
            }),
            RelayMode::Tcp => file.tcp.push(forwarder(stand.target.to_string())),
            RelayMode::Tls => {
                let (cert, key) = stand.identity;
                file.tls.push(Terminator {
                    forwarder: forwarder(stand.target.to_string()),
                    tls_profile: relay.tls_profile.unwrap_or_default(),
                    upstream_name: stand.name.to_owned(),
                    upstream_ca: text(cert),
                    certificates: vec![Certificate {
                        cert: text(cert),
                        key: text(key),
                    }],
                });
            }
            RelayMode::Trunk if relay.at == Site::Near => file.near.push(Near {
                via: vec![stand.target.to_string()],
                wan_profile: server_profile,
                lan_profile: client_profile,
                padding,
                security: IN_THE_CLEAR,
                listeners: vec![Listener {
                    listen: stand.listen.to_string(),
                    to: stand.origin.to_string(),
                }],
            }),
            RelayMode::Trunk => file.far.push(Far {
                listen: stand.listen.to_string(),
                allow_targets: vec![stand.target.to_string()],
                wan_profile: client_profile,
                lan_profile: server_profile,
                padding,
                security: IN_THE_CLEAR,
            }),
        }
        file
    }

    /// The words of the command line that runs it.
    pub(super) fn verb(&self) -> [&'static str; 2] {
        if self.near.is_empty() && self.far.is_empty() {
            ["relay", "run"]
        } else {
            ["trunk", "run"]
        }
    }

    /// The profile of sockets towards the origin: the relay's own, `usual` where it names none, and with another
    /// congestion control where it says one.
    fn server_profile(&mut self, relay: &Relay, usual: &str) -> String {
        let base = relay.server_profile.as_deref().unwrap_or(usual);
        let Some(preferences) = &relay.congestion_control else {
            return base.to_owned();
        };
        let names = preferences.names();
        let name = format!("{base}-with-{}", names.join("-or-"));
        self.profiles.insert(
            name.clone(),
            RawTcpProfile {
                extends: Some(base.to_owned()),
                congestion_control: Some(names.to_vec()),
                ..RawTcpProfile::default()
            },
        );
        name
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(relay: &str) -> (toml::Table, [&'static str; 2]) {
        let stand = Stand {
            listen: "10.10.0.20:443".parse().unwrap(),
            target: "192.0.2.10:443".parse().unwrap(),
            origin: "192.0.2.10:443".parse().unwrap(),
            name: "storage.example",
            lans: ["10.10.0.0/24", "192.0.2.0/24"],
            rate: Rate::mbit_per_s(100),
            identity: (Path::new("o.pem"), Path::new("o-key.pem")),
        };
        let file = RelayFile::of(&toml::from_str(relay).unwrap(), stand);
        let text = toml::to_string(&file).unwrap();
        (toml::from_str(&text).unwrap(), file.verb())
    }

    fn table(text: &str) -> toml::Table {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_pool_and_its_rate_are_written_and_the_origin_goes_by_its_name() {
        let (written, verb) = file("hot-window = \"1 MiB\"\nexpect = \"answer\"");
        assert_eq!(verb, ["relay", "run"]);
        assert_eq!(
            written,
            table(
                r#"
                [[http]]
                listen = "10.10.0.20:443"
                target = "storage.example:443"
                server-profile = "s3"
                path-rate = "100 Mbit/s"
                expect = "answer"
                pool = { min-idle = 2 }
                prime = { enabled = true, window = "1 MiB" }
                "#
            )
        );
    }

    #[test]
    fn a_congestion_control_is_a_profile_of_its_own() {
        let (written, _) = file(
            "mode = \"tcp\"\nclient-profile = \"lan\"\nserver-profile = \"s3\"\ncongestion-control = \"reno\"",
        );
        assert_eq!(
            written,
            table(
                r#"
                [profiles.s3-with-reno]
                extends = "s3"
                congestion-control = ["reno"]
                [[tcp]]
                listen = "10.10.0.20:443"
                target = "192.0.2.10:443"
                client-profile = "lan"
                server-profile = "s3-with-reno"
                "#
            )
        );
    }

    #[test]
    fn a_far_relay_takes_clients_of_both_lans() {
        let (written, _) = file("mode = \"tcp\"\nat = \"far\"");
        let allowed = written["tcp"][0]["allow"].clone();
        assert_eq!(
            allowed,
            toml::Value::from(vec!["10.10.0.0/24", "192.0.2.0/24"])
        );
    }

    #[test]
    fn a_relay_that_ends_tls_shows_the_origins_certificate_and_trusts_it() {
        let (written, _) = file("mode = \"tls\"\ntls-profile = \"s3\"");
        assert_eq!(
            written,
            table(
                r#"
                [[tls]]
                listen = "10.10.0.20:443"
                target = "192.0.2.10:443"
                server-profile = "wan"
                tls-profile = "s3"
                upstream-name = "storage.example"
                upstream-ca = "o.pem"
                certificates = [{ cert = "o.pem", key = "o-key.pem" }]
                "#
            )
        );
    }

    #[test]
    fn each_end_of_a_trunk_has_the_wan_on_its_own_side() {
        let (near, verb) = file("mode = \"trunk\"\ncongestion-control = \"cubic\"");
        assert_eq!(verb, ["trunk", "run"]);
        assert_eq!(
            near["near"][0]["wan-profile"].as_str(),
            Some("wan-with-cubic")
        );
        let (far, _) = file("mode = \"trunk\"\nat = \"far\"\nclient-profile = \"wan\"");
        assert_eq!(
            far,
            table(
                r#"
                [[far]]
                listen = "10.10.0.20:443"
                allow-targets = ["192.0.2.10:443"]
                wan-profile = "wan"
                lan-profile = "lan"
                padding = { ready-for = "100 Mbit/s" }
                security = { plain = true }
                "#
            )
        );
    }
}
