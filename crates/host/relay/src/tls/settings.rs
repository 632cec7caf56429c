//! Where the clients of a relay with TLS go, by the name that they ask for.

use rustls::pki_types::ServerName;

use super::handshakes::{self, Handshakes, Protocols, TlsError};
use crate::{Target, TlsRelay, TlsRoute};

/// Both sides of a relay, ready to shake hands.
pub(crate) struct Settings {
    pub(super) handshakes: Handshakes,
    routes: Vec<TlsRoute>,
    /// One for each route, and the last for whoever asks for none of their names.
    pub(super) ways: Vec<Way>,
}

/// Where a client goes.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) targets: Vec<Target>,
    /// The name that the server's certificate must be for, where it is spoken to with TLS.
    pub(super) server_name: Option<ServerName<'static>>,
}

impl Settings {
    /// Reads all files that the relay names.
    pub(crate) fn load(relay: &TlsRelay) -> Result<Self, TlsError> {
        // No application protocol is agreed on with either side, so that both speak the same.
        let handshakes =
            Handshakes::load(&relay.sides, Protocols::default(), relay.limits.handshakes)?;
        let mut ways = Vec::new();
        for route in &relay.routes {
            let name = relay.sides.server.as_ref();
            let name = name.map(|_| handshakes::server_name(&route.server_name));
            ways.push(Way {
                targets: vec![route.target.clone()],
                server_name: name.transpose()?,
            });
        }
        let connector = handshakes.connector.as_ref();
        ways.push(Way {
            targets: relay.front.targets().cloned().collect(),
            server_name: connector.map(|(_, name)| name.clone()),
        });
        Ok(Self {
            handshakes,
            routes: relay.routes.clone(),
            ways,
        })
    }

    /// Whether both were made from files of the same content.
    pub(crate) fn are_of_the_same_files(&self, other: &Self) -> bool {
        self.handshakes.are_of_the_same_files(&other.handshakes)
    }

    /// The index of the way that a client goes who asks for this name.
    pub(super) fn way(&self, asked_for: Option<&str>) -> usize {
        let route =
            asked_for.and_then(|name| self.routes.iter().position(|route| route.takes(name)));
        route.unwrap_or(self.routes.len())
    }
}
