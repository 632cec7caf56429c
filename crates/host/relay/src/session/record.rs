//! What is known of a request, for its event.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::visit::Visit;
use crate::event::{EndedBy, Event, Phase, TlsReport};
use crate::exchange::Progress;
use crate::http::request::RequestHead;
use crate::pool::Pool;
use crate::traces::TraceParent;

/// What is known of the request under way. One that is cut off with its task is told of when this is dropped.
pub(crate) struct Record {
    pool: Arc<Pool>,
    client: u64,
    peer: SocketAddr,
    told: bool,
    pub(crate) started: Instant,
    pub(crate) method: String,
    path: String,
    pub(crate) connection: Option<u64>,
    pub(crate) hot: bool,
    pub(crate) progress: Progress,
    /// Of a client's first request.
    client_tls: Option<TlsReport>,
    /// The trace that it belongs to.
    parent: Option<TraceParent>,
}

impl Record {
    /// Begins with the request's first byte. `client_tls` is told with a client's first request.
    pub(crate) fn open(visit: &Visit, client_tls: Option<TlsReport>) -> Self {
        Self {
            pool: Arc::clone(&visit.pool),
            client: visit.id,
            peer: visit.peer,
            told: false,
            started: Instant::now(),
            method: "-".into(),
            path: "-".into(),
            connection: None,
            hot: false,
            progress: Progress::default(),
            client_tls,
            parent: None,
        }
    }

    /// The request's head has come.
    pub(crate) fn read(&mut self, request: &RequestHead) {
        self.read_line(&request.method, request.path());
        self.parent = request.fields.trace;
    }

    /// What a request that cannot be forwarded asks for.
    pub(crate) fn read_line(&mut self, method: &str, path: &str) {
        method.clone_into(&mut self.method);
        path.clone_into(&mut self.path);
    }

    /// The exchange ended well.
    pub(crate) fn finished(&mut self) {
        let status = self.progress.status();
        let phase = match status {
            Some(101) => Phase::Tunnel,
            _ => Phase::ResponseBody,
        };
        self.tell(status, EndedBy::Completed, phase, None);
    }

    pub(crate) fn tell(
        &mut self,
        status: Option<u16>,
        ended_by: EndedBy,
        phase: Phase,
        error: Option<String>,
    ) {
        self.told = true;
        let hot_ratio = match self.connection {
            Some(_) => self.pool.count_request(self.hot),
            None => self.pool.hot_ratio(),
        };
        (self.pool.events)(Event::RequestDone {
            client: self.client,
            peer: self.peer,
            connection: self.connection,
            method: std::mem::take(&mut self.method),
            path: std::mem::take(&mut self.path),
            status,
            bytes_up: self.progress.bytes_up.load(Ordering::Relaxed),
            bytes_down: self.progress.bytes_down.load(Ordering::Relaxed),
            seconds: self.started.elapsed().as_secs_f64(),
            hot: self.hot,
            hot_ratio,
            ended_by,
            phase,
            error,
            client_tls: self.client_tls.take().map(Box::new),
            parent: self.parent,
        });
    }

    /// How far the request has come.
    pub(crate) fn phase(&self) -> Phase {
        let uploaded = self.progress.uploaded.load(Ordering::Relaxed);
        match (self.connection, self.progress.status()) {
            (None, _) => Phase::Connecting,
            (Some(_), None) if uploaded => Phase::ResponseHead,
            (Some(_), None) => Phase::RequestBody,
            (Some(_), Some(101)) => Phase::Tunnel,
            (Some(_), Some(_)) => Phase::ResponseBody,
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // Without a method, no request has come.
        if !self.told && self.method != "-" {
            let (status, phase) = (self.progress.status(), self.phase());
            let why = "the relay stopped before the request was over";
            self.tell(status, EndedBy::Relay, phase, Some(why.into()));
        }
    }
}
