//! What a client's requests have in common, and how each is forwarded.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use sys::tcp_info::TcpInfo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::record::Record;
use crate::alarm::Alarm;
use crate::buffer::{Buffer, Buffers};
use crate::event::{EndedBy, Phase};
use crate::exchange::{Exchange, Failure, Finished};
use crate::http::body::Body;
use crate::http::request::RequestHead;
use crate::pool::{Before, DialError, Lent, Pool, Wanted};
use crate::server::Service;

/// Connections on which a request may be tried before giving up.
const ATTEMPTS: usize = 3;

/// From so many bytes on an upload is long: a new connection takes three more round trips for them than a primed one.
const LONG: u64 = 64 << 10;

/// A client that is here, whatever it speaks.
#[derive(Clone)]
pub(crate) struct Visit {
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) pool: Arc<Pool>,
    /// The connection that served this client's request before, where it sends one after the other.
    pub(crate) before: Option<Before>,
    /// What serves the next request, after a reload.
    pub(crate) newest: watch::Receiver<Arc<Service>>,
    pub(crate) buffers: Arc<Buffers>,
    /// Becomes true when the relay stops.
    pub(crate) draining: watch::Receiver<bool>,
}

/// A request that is to be forwarded.
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a RequestHead,
    /// The head as the origin is to get it.
    pub(crate) head: &'a [u8],
    /// What was read from the client beyond the head.
    pub(crate) buffer: &'a mut Buffer,
    pub(crate) alarm: &'a mut Alarm,
}

// === impl Visit ===

impl Visit {
    /// Takes up what a reload has brought. Where the listener speaks something else now, the client goes on with
    /// what it began with.
    pub(crate) fn renew(&mut self) {
        if self.newest.has_changed().unwrap_or(false)
            && let Some(pool) = self.newest.borrow_and_update().pool()
        {
            self.pool = Arc::clone(pool);
        }
    }

    /// Finds a connection and exchanges the messages; once more where that is safe. Returns the connection as
    /// well, still at hand: see [`Finished::give_back`].
    pub(crate) async fn forward(
        &self,
        asked: Asked<'_>,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
        record: &mut Record,
    ) -> Result<(Finished, Lent), Failure> {
        let mut attempt = 1;
        loop {
            // HTTP/1.0 ends its connection: that must not be a hot one. A retry must not meet another
            // connection that ended in the same moment.
            let alone = !asked.request.version_1_1 || attempt > 1;
            let taken = if alone {
                Box::pin(self.pool.take_new()).await
            } else {
                self.pool.take(self.wanted(asked.request)).await
            };
            let mut lent = taken.map_err(|error| dial_failure(&error))?;
            record.connection = Some(lent.id());
            record.hot = lent.hot;
            let limits = self.pool.relay.limits;
            let result = Exchange {
                reader: &mut *reader,
                writer: &mut *writer,
                buffer: &mut *asked.buffer,
                request: asked.request,
                limits: &limits,
                expect: self.pool.relay.expect,
                throttles: self.pool.throttles.as_ref(),
                buffers: &self.buffers,
                draining: &self.draining,
                progress: &record.progress,
                alarm: &mut *asked.alarm,
            }
            .run(asked.head, &mut lent)
            .await;
            match result {
                Ok(finished) => return Ok((finished, lent)),
                Err(failure) => {
                    lent.close(&failure.why);
                    if !failure.retry || attempt >= ATTEMPTS {
                        return Err(failure);
                    }
                    attempt += 1;
                }
            }
        }
    }

    /// What may be sent again, a download mostly, wants the connection whose window those before it have opened, a long upload one that is primed.
    fn wanted(&self, request: &RequestHead) -> Wanted {
        match request.body() {
            _ if request.is_safe_and_empty() => {
                Wanted::Download(self.before.as_ref().map(Before::id))
            }
            Body::Length(bytes) if bytes >= LONG => Wanted::Primed(bytes),
            Body::Length(_) | Body::Chunked(_) | Body::UntilClose => Wanted::Best,
        }
    }

    /// Looks at both connections once the client's first data has flowed.
    pub(crate) fn look(&self, near: &impl AsFd, lent: &mut Lent) {
        let (pool, peer) = (&self.pool, self.peer);
        let profile = &pool.relay.front.client_profile;
        pool.looks.at_client(&pool.events, profile, near, peer);
        let far = lent.connection().stream.tcp();
        if let (Ok(near), Ok(far)) = (TcpInfo::of(near), TcpInfo::of(far)) {
            pool.looks.at_distance(&pool.events, peer, &near, &far);
        }
    }
}

fn dial_failure(error: &DialError) -> Failure {
    let (ended_by, status) = if error.is_timeout() {
        (EndedBy::Timeout, 504)
    } else if error.is_resource() {
        (EndedBy::Resource, 503)
    } else {
        (EndedBy::Server, 502)
    };
    Failure::new(ended_by, Phase::Connecting, Some(status), error)
}
