//! Connections to targets, as far as they are allowed.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use profile::TcpProfile;
use sys::socket::Applied;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use trunk::{Explanation, Reason};

use super::admission::TargetRules;
use crate::Target;
use crate::upstream::{self, ConnectError};

/// Opens `name` within `patience` if `rules` allow it, or says why not in words for the other end.
pub(super) async fn open(
    name: &str,
    rules: &TargetRules,
    profile: &TcpProfile,
    patience: Duration,
) -> Result<(TcpStream, SocketAddr), Explanation> {
    let target: Target = name
        .parse()
        .map_err(|problem: String| Explanation::new(Reason::TargetUnknown, &problem))?;
    if !rules.may_admit(&target) {
        return Err(not_allowed(&target));
    }
    let opening = timeout(patience, open_allowed(&target, rules, profile));
    opening.await.unwrap_or_else(|_elapsed| {
        let waited = units::format_span(patience);
        let detail = format!("no connection to {target} within {waited}");
        Err(Explanation::new(Reason::TargetTimeout, &detail))
    })
}

async fn open_allowed(
    target: &Target,
    rules: &TargetRules,
    profile: &TcpProfile,
) -> Result<(TcpStream, SocketAddr), Explanation> {
    let admits = |address| rules.admit(target, address);
    match reach(target, profile, admits).await {
        Ok(Some((stream, peer, _))) => match sys::socket::keep_urgent_inline(&stream) {
            Ok(()) => Ok((stream, peer)),
            Err(error) => Err(Explanation::new(Reason::Internal, &error.to_string())),
        },
        Ok(None) => Err(not_allowed(target)),
        Err(error) => Err(explain(&error)),
    }
}

/// Tries the admitted addresses of `target` in the resolver's order; the error is the last one's, and none
/// where no address is admitted.
pub(super) async fn reach(
    target: &Target,
    profile: &TcpProfile,
    admits: impl Fn(SocketAddr) -> bool,
) -> Result<Option<(TcpStream, SocketAddr, Vec<Applied>)>, ConnectError> {
    let addresses = lookup_host((target.host.as_str(), target.port)).await;
    let addresses = addresses.map_err(|source| ConnectError::Resolve {
        host: target.host.clone(),
        source,
    })?;
    let mut failure = None;
    for peer in addresses.filter(|&address| admits(address)) {
        match upstream::connect_to(profile, peer).await {
            Ok((stream, applied)) => return Ok(Some((stream, peer, applied))),
            Err(error) => failure = Some(error),
        }
    }
    failure.map_or(Ok(None), Err)
}

fn not_allowed(target: &Target) -> Explanation {
    Explanation::new(Reason::TargetNotAllowed, &target.to_string())
}

fn explain(error: &ConnectError) -> Explanation {
    let reason = match error {
        ConnectError::Resolve { .. }
        | ConnectError::NoAddress { .. }
        | ConnectError::NotOffered { .. } => Reason::TargetUnknown,
        ConnectError::Socket { .. } => Reason::TooManyStreams,
        ConnectError::Timeout { .. } => Reason::TargetTimeout,
        ConnectError::Profile(_) | ConnectError::From { .. } => Reason::Internal,
        ConnectError::Connect { source, .. } => {
            let kind = source.kind();
            if kind == io::ErrorKind::ConnectionRefused {
                Reason::TargetRefused
            } else if kind == io::ErrorKind::TimedOut {
                Reason::TargetTimeout
            } else {
                // No route, no network, host down: all of them are a matter of the path.
                Reason::TargetUnreachable
            }
        }
    };
    Explanation::new(reason, &crate::chain(error))
}
