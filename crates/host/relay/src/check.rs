use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use profile::{Side, TcpProfile};
use serde::Serialize;
use sys::privilege::{PrivilegeError, User};
use sys::socket::{ApplyError, apply};

use crate::tcp::users::UsersError;
use crate::tls::handshakes::TlsError;
use crate::tls::settings::Settings;
use crate::traces::Collector;
use crate::upstream::addresses_of;
use crate::{AppliedOption, Config, Front, host, tcp, tls};

/// What a configuration would do on this host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// One entry per relay, in the configuration's order.
    pub relays: Vec<RelayReport>,
}

/// What one relay would do on this host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelayReport {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where requests go.
    pub target: String,
    /// What the targets' names mean now.
    pub addresses: Vec<SocketAddr>,
    /// Name of the client-side profile.
    pub client_profile: String,
    /// Its options on an accepted socket, read back.
    pub client_options: Vec<AppliedOption>,
    /// Name of the server-side profile.
    pub server_profile: String,
    /// Its options on a connected socket, read back.
    pub server_options: Vec<AppliedOption>,
    /// What would work, and not as well as it could.
    pub warnings: Vec<String>,
}

/// A configuration would not work on this host.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// No connection over loopback, on which options are tried.
    #[error("cannot connect to this host over loopback to try socket options")]
    Loopback(#[source] io::Error),
    /// An option is refused.
    #[error("the profile `{profile}` does not work on this host")]
    Profile {
        /// The profile's name.
        profile: String,
        /// The option.
        #[source]
        source: Box<ApplyError>,
    },
    /// The target's name is not known.
    #[error("cannot resolve the target {target}")]
    Resolve {
        /// The target.
        target: String,
        /// What the resolver said.
        #[source]
        source: io::Error,
    },
    /// TLS cannot be spoken as configured.
    #[error("the relay on {listen} cannot speak TLS as configured")]
    Tls {
        /// The address to listen on.
        listen: SocketAddr,
        /// What is wrong.
        #[source]
        source: Box<TlsError>,
    },
    /// The collector of traces cannot be spoken to with TLS as configured.
    #[error("cannot speak TLS with the collector of traces as configured")]
    Traces(#[source] Box<TlsError>),
    /// The file of those who may ask for a target cannot be used.
    #[error("the relay on {listen} does not know its users")]
    Users {
        /// The address to listen on.
        listen: SocketAddr,
        /// What is wrong.
        #[source]
        source: Box<UsersError>,
    },
    /// The relay could not go on as another user.
    #[error("cannot give up the privileges of the start")]
    Privilege(#[source] PrivilegeError),
}

/// Tries a configuration on sockets of this host, without listening and without contacting the target.
///
/// Blocks while the target's name is resolved, so it is not for tasks.
pub fn check(config: &Config) -> Result<Report, CheckError> {
    let user = config.user.as_deref().map(User::find).transpose();
    user.map_err(CheckError::Privilege)?;
    let collector = config.traces.as_ref().map(Collector::prepare).transpose();
    collector.map_err(|source| CheckError::Traces(Box::new(source)))?;
    let mut relays = Vec::new();
    for relay in &config.http {
        tls::for_http(relay).map_err(|source| fault(&relay.front, source))?;
        let forgets_windows = host::forgets_windows();
        relays.push(check_front(&relay.front, |congestion| {
            host::problems(relay, forgets_windows, congestion)
        })?);
    }
    for relay in &config.tcp {
        tcp::load_users(relay).map_err(|source| CheckError::Users {
            listen: relay.front.listen,
            source: Box::new(source),
        })?;
        relays.push(check_front(&relay.front, |_| Vec::new())?);
    }
    for relay in &config.tls {
        Settings::load(relay).map_err(|source| fault(&relay.front, source))?;
        relays.push(check_front(&relay.front, |_| Vec::new())?);
    }
    Ok(Report { relays })
}

fn fault(front: &Front, source: TlsError) -> CheckError {
    CheckError::Tls {
        listen: front.listen,
        source: Box::new(source),
    }
}

/// `problems` tells, for the congestion control in effect on the server side, what could be better.
fn check_front(
    relay: &Front,
    problems: impl Fn(Option<&str>) -> Vec<(&'static str, String)>,
) -> Result<RelayReport, CheckError> {
    let mut addresses = Vec::new();
    for target in relay.targets() {
        let found = addresses_of(target, &relay.balancing.name_servers);
        addresses.extend(found.map_err(|source| CheckError::Resolve {
            target: target.to_string(),
            source,
        })?);
    }
    let (connected, accepted, peer) = pair().map_err(CheckError::Loopback)?;
    let options = |socket: &TcpStream, profile: &TcpProfile, side| {
        let applied = apply(socket, profile, side, peer);
        applied
            .map(|applied| applied.into_iter().map(AppliedOption::from).collect())
            .map_err(|source| CheckError::Profile {
                profile: profile.name.clone(),
                source: Box::new(source),
            })
    };
    let forgets_windows = host::forgets_windows();
    let server_profile = relay.server_profile.clone().on_host(forgets_windows);
    let client_options = options(&accepted, &relay.client_profile, Side::Client)?;
    let server_options = options(&connected, &server_profile, Side::Server)?;
    let congestion = sys::socket::congestion_control(&connected).ok();
    let warnings = problems(congestion.as_deref());
    Ok(RelayReport {
        listen: relay.listen,
        target: relay.destination.to_string(),
        addresses,
        client_profile: relay.client_profile.name.clone(),
        client_options,
        server_profile: server_profile.name,
        server_options,
        warnings: warnings.into_iter().map(|(_, text)| text).collect(),
    })
}

/// Both ends of a loopback connection, and the address that was connected to.
fn pair() -> io::Result<(TcpStream, TcpStream, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let connected = TcpStream::connect(address)?;
    let (accepted, _) = listener.accept()?;
    Ok((connected, accepted, address))
}
