//! Where an administrator can ask.

use std::net::SocketAddr;

use document::Problems;
use profile::{ProfileSet, TcpProfile};
use serde::{Deserialize, Serialize};

use super::front::{parse_all, parse_listen};
use crate::Cidr;

/// Where metrics, health and state can be asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Admin {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// How accepted sockets behave.
    pub profile: TcpProfile,
    /// Who may ask.
    pub allow: Vec<Cidr>,
}

/// See [`Admin`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AdminOptions {
    /// Where to listen, such as `127.0.0.1:9901`.
    pub listen: String,
    /// Who may ask; loopback alone where nothing is said, since nobody is asked for a password.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
}

// === impl AdminOptions ===

impl AdminOptions {
    pub(super) fn resolve(&self, profiles: &ProfileSet, problems: &mut Problems) -> Option<Admin> {
        let listen = parse_listen(problems, "listen", &self.listen);
        let loopback = ["127.0.0.0/8".to_owned(), "::1/128".to_owned()];
        let blocks = if self.allow.is_empty() {
            &loopback
        } else {
            self.allow.as_slice()
        };
        let allow = parse_all::<Cidr>(problems, "allow", blocks);
        let profile = profiles.resolve("lan").ok();
        Some(Admin {
            listen: listen?,
            profile: profile?,
            allow,
        })
    }
}
