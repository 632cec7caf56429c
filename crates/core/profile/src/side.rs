use core::fmt;

use serde::{Deserialize, Serialize};

/// Which of a relay's two sockets is meant. A profile on the wrong side is the worst configuration
/// error there is, so the side stands in every report and every error.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The socket accepted from the client.
    Client,
    /// The socket connected to the server.
    Server,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Client => "client-side",
            Self::Server => "server-side",
        })
    }
}
