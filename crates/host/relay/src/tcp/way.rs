//! Which target a client goes to: the relay's, the one it was going to before the network redirected it, or the
//! one it asks for.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use tokio::net::lookup_host;
use tokio::time::{Instant, timeout_at};

use super::Tcp;
use super::asked::{self, Question};
use crate::ending::Ended;
use crate::event::{EndedBy, Events, Phase};
use crate::relayed::Account;
use crate::upstream::{ConnectError, Connected, Dialer, Group};
use crate::{Asking, Destination, Target, TcpRelay, Transparency};

/// How a client's target is found.
pub(super) enum Way {
    Targets(Arc<Group>),
    Original(Transparency, Dialer),
    Asked(Asking, Dialer),
}

/// A client was redirected to nowhere.
#[derive(Debug, thiserror::Error)]
enum RedirectError {
    #[error("cannot tell where the client was going: no DNAT or REDIRECT rule brought it here")]
    Unknown(#[source] io::Error),
    #[error("cannot tell where the client was going")]
    Local(#[source] io::Error),
    #[error("the client was going to this relay itself, at {0}: its connection was not redirected")]
    Itself(SocketAddr),
}

/// A client may not go where it asked to.
#[derive(Debug, thiserror::Error)]
#[error("`{target}` is none of the targets that clients may ask for")]
struct Forbidden {
    target: String,
}

// === impl Way ===

impl Way {
    pub(super) fn of(relay: &TcpRelay, events: &Events) -> Self {
        let front = &relay.front;
        let dialer = || Dialer::new(&front.server_profile);
        match (&front.destination, &relay.asking, relay.transparency) {
            (Destination::Asked, Some(asking), _) => Self::Asked(asking.clone(), dialer()),
            (Destination::Original, _, Some(transparency)) => {
                Self::Original(transparency, dialer())
            }
            _ => Self::Targets(Group::new(
                front.targets(),
                &front.balancing,
                &front.server_profile,
                Arc::clone(events),
            )),
        }
    }
}

// === impl Tcp ===

impl Tcp {
    /// Connects a client to its target. What it has sent beyond its question is added to `first`. Returns as well
    /// when connecting began.
    pub(super) async fn go(
        &self,
        account: &mut Account,
        first: &mut Vec<u8>,
    ) -> Result<(Connected, Instant), Ended> {
        match &self.way {
            Way::Targets(group) => {
                let started = Instant::now();
                let connected = group.connect(self.relay.limits.connect_timeout).await;
                connected
                    .map(|connected| (connected, started))
                    .map_err(|error| Ended::not_connected(&error))
            }
            Way::Original(transparency, dialer) => self.go_on(account, *transparency, dialer).await,
            Way::Asked(asking, dialer) => {
                let by = (asking, dialer);
                Box::pin(self.go_where_asked(account, by, first)).await
            }
        }
    }

    /// Connects to where the client was going.
    async fn go_on(
        &self,
        account: &Account,
        transparency: Transparency,
        dialer: &Dialer,
    ) -> Result<(Connected, Instant), Ended> {
        let target = self
            .original(account, transparency)
            .map_err(|error| Ended::because(EndedBy::Client, &error))?;
        let started = Instant::now();
        let from = transparency.keep_client_address;
        let from = from.then(|| account.peer.ip().to_canonical());
        let deadline = started + self.relay.limits.connect_timeout;
        let connected = timeout_at(deadline, dialer.connect_from(from, target))
            .await
            .unwrap_or_else(|_elapsed| {
                Err(ConnectError::Timeout {
                    host: target.to_string(),
                    waited: self.relay.limits.connect_timeout,
                })
            })
            .map_err(|error| Ended::not_connected(&error))?;
        Ok((connected, started))
    }

    fn original(
        &self,
        account: &Account,
        transparency: Transparency,
    ) -> Result<SocketAddr, RedirectError> {
        let local = account.client.local_addr().map_err(RedirectError::Local)?;
        let local = SocketAddr::new(local.ip().to_canonical(), local.port());
        let target = if transparency.tproxy {
            local
        } else {
            let is_ipv4 = local.is_ipv4();
            sys::redirect::original_destination(&account.client, is_ipv4)
                .map_err(RedirectError::Unknown)?
        };
        // Connecting there would come back here, again and again.
        let listens = self.relay.front.listen.port();
        let own = if transparency.tproxy {
            target.port() == listens && is_ours(target.ip())
        } else {
            target == local
        };
        if own {
            return Err(RedirectError::Itself(target));
        }
        Ok(target)
    }

    /// Hears where the client wants to go, and connects there where that is allowed. The client is told of the
    /// outcome in the words of its own protocol.
    async fn go_where_asked(
        &self,
        account: &mut Account,
        by: (&Asking, &Dialer),
        first: &mut Vec<u8>,
    ) -> Result<(Connected, Instant), Ended> {
        account.enter(Phase::Asking);
        let limits = self.relay.limits;
        let deadline = account.accepted_at + limits.header_timeout;
        let hearing = asked::hear(&account.client, self.users.as_ref());
        let question = timeout_at(deadline, hearing)
            .await
            .map_err(|_elapsed| Ended::timeout("the client did not say in time where to go"))?
            .map_err(|error| Ended::because(EndedBy::Client, &error))?;
        account.asked_for = Some(question.target.to_string());
        account.enter(Phase::Connecting);
        let started = Instant::now();
        match self.try_asked(by, &question, started).await {
            Ok(connected) => {
                let bound = connected.stream.local_addr().ok();
                let answered = question.accept(&account.client, bound).await;
                answered.map_err(|error| Ended::failed(EndedBy::Client, &error))?;
                first.extend(question.leftover);
                Ok((connected, started))
            }
            Err((denial, ended)) => {
                // A client that is gone already needs no answer.
                let _ = question.deny(&account.client, denial).await;
                account.denied = true;
                Err(ended)
            }
        }
    }

    async fn try_asked(
        &self,
        (asking, dialer): (&Asking, &Dialer),
        question: &Question,
        started: Instant,
    ) -> Result<Connected, (asked::Denial, Ended)> {
        let target = &question.target;
        let deadline = started + self.relay.limits.connect_timeout;
        let forbidden = || {
            let target = target.to_string();
            let ended = Ended::because(EndedBy::Client, &Forbidden { target });
            (asked::Denial::Forbidden, ended)
        };
        let failed = |error: ConnectError| {
            let ended = Ended::not_connected(&error);
            (asked::Denial::of(&error), ended)
        };
        let named = asking.to.iter().any(|reach| reach.takes_name(target));
        let in_block = |address: &SocketAddr| {
            let to = &mut asking.to.iter();
            to.any(|reach| reach.takes_address(address.ip(), address.port()))
        };
        let may_be_in_block = || asking.to.iter().any(|reach| reach.is_block(target.port));
        let mut addresses = if let Ok(ip) = target.host.parse::<IpAddr>() {
            vec![SocketAddr::new(ip, target.port)]
        } else if named || may_be_in_block() {
            look_up(target, deadline).await.map_err(failed)?
        } else {
            // Names that nobody may ask for are not looked up: that alone would tell something.
            return Err(forbidden());
        };
        if !named {
            addresses.retain(in_block);
        }
        if addresses.is_empty() {
            return Err(forbidden());
        }
        dialer
            .connect_any(&addresses, &target.host, deadline)
            .await
            .map_err(failed)
    }
}

async fn look_up(target: &Target, deadline: Instant) -> Result<Vec<SocketAddr>, ConnectError> {
    let started = Instant::now();
    let found = timeout_at(deadline, lookup_host((target.host.as_str(), target.port))).await;
    let host = || target.host.clone();
    let found = found.map_err(|_elapsed| ConnectError::Timeout {
        host: host(),
        waited: started.elapsed(),
    })?;
    let found = found.map_err(|source| ConnectError::Resolve {
        host: host(),
        source,
    })?;
    Ok(found.collect())
}

/// Whether an address is this host's.
fn is_ours(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}
