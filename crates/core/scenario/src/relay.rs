use profile::TlsProfile;
use serde::{Deserialize, Serialize};
use units::Bytes;

/// A relay between client and origin.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Relay {
    /// What it understands of the traffic.
    pub mode: RelayMode,
    /// On whose LAN it runs.
    pub at: Site,
    /// Profile of its sockets towards the client; the relay's default where absent.
    pub client_profile: Option<String>,
    /// Profile of its sockets towards the origin; the relay's default where absent.
    pub server_profile: Option<String>,
    /// Congestion control of its sockets towards the origin, as its profile has it: a name, or several in order of
    /// preference. Where absent, that of its profile; another program's is its host's.
    pub congestion_control: Option<Preferences>,
    /// Versions and key exchanges of TLS on both its sides; only with `mode = "tls"`.
    pub tls_profile: Option<TlsProfile>,
    /// Connections to the origin kept ready; only with `mode = "http"`.
    pub pool_min_idle: u32,
    /// Whether they are primed ahead of use (cwnd and the origin's window grown); only with
    /// `mode = "http"`.
    pub prime: bool,
    /// What a primed connection must hold in one flight; the relay's default where absent.
    pub hot_window: Option<Bytes>,
    /// Who answers a client that asks before it sends a body; only with `mode = "http"`.
    pub expect: Expect,
    /// Whether the relay is told the path's rate, so that it can pace at it.
    pub knows_path_rate: bool,
    /// Another program in our relay's place, run by `/bin/sh` in the relay's host, such as
    /// `socat -b131072 TCP-LISTEN:{port},bind={address},fork,reuseaddr TCP:{target}`. `{address}` and
    /// `{port}` are where it has to listen, `{target}`, `{target_address}` and `{target_port}` where it
    /// has to connect to.
    pub command: Option<String>,
}

/// Names in order of preference: one alone, or a list.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(untagged)]
pub enum Preferences {
    /// That one and no other.
    One(String),
    /// The first that is to be had.
    Several(Vec<String>),
}

/// What a relay understands of the traffic.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum RelayMode {
    /// HTTP/1.1 requests, which go out on pooled connections.
    #[default]
    Http,
    /// Bytes.
    Tcp,
    /// TLS, which it ends and begins anew.
    Tls,
    /// One end of a trunk: a near relay and a far one behind it, with hot connections between them.
    Trunk,
}

/// Who answers `Expect: 100-continue`, as in the relay's own configuration.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// The origin, a round trip away.
    #[default]
    Forward,
    /// The relay.
    Answer,
}

/// On whose LAN a relay runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Site {
    /// The client's.
    #[default]
    Near,
    /// The origin's.
    Far,
}

// === impl Preferences ===

impl Preferences {
    /// The names, the first choice first.
    #[must_use]
    pub fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

// === impl Relay ===

impl Default for Relay {
    fn default() -> Self {
        Self {
            mode: RelayMode::Http,
            at: Site::Near,
            client_profile: None,
            server_profile: None,
            congestion_control: None,
            tls_profile: None,
            pool_min_idle: 2,
            prime: true,
            hot_window: None,
            expect: Expect::Forward,
            knows_path_rate: true,
            command: None,
        }
    }
}

impl Relay {
    /// What is wrong with it: fields below the relay's, and what to do.
    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        for (field, name) in [
            ("client-profile", &self.client_profile),
            ("server-profile", &self.server_profile),
        ] {
            if let Some(name) = name
                && !profile::builtin::NAMES.contains(&name.as_str())
            {
                let known = profile::builtin::NAMES.join("`, `");
                let message = format!("there is no profile `{name}`; built in are `{known}`");
                problems.push((field, message));
            }
        }
        if self
            .congestion_control
            .as_ref()
            .is_some_and(|names| names.names().is_empty())
        {
            let message = "it names none; leave it out for that of the profile";
            problems.push(("congestion-control", message.to_owned()));
        }
        if self.tls_profile.is_some() && self.mode != RelayMode::Tls {
            let message = "only a relay that ends TLS has one: set `mode = \"tls\"`";
            problems.push(("tls-profile", message.to_owned()));
        }
        if self.expect == Expect::Answer && (self.mode != RelayMode::Http || self.command.is_some())
        {
            let message = "only our relay that reads requests can answer them: set `mode = \"http\"`, \
                           without `command`";
            problems.push(("expect", message.to_owned()));
        }
        if self.mode == RelayMode::Trunk && self.command.is_some() {
            let message = "a trunk is ours at both ends; another program is `mode = \"tcp\"`";
            problems.push(("command", message.to_owned()));
        }
        if let Some(command) = &self.command
            && !(command.contains("{port}") && command.contains("{target"))
        {
            let message = "name `{port}` and `{target}` in it, else it can't stand between the two";
            problems.push(("command", message.to_owned()));
        }
        problems
    }
}
