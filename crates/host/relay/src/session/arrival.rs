//! A client who has just connected: TLS is ended here, before its first request.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::Session;
use super::visit::Visit;
use crate::alarm::Alarm;
use crate::ending::Ended;
use crate::event::{EndedBy, Event, Phase};
use crate::transport::{Counted, Transport};

/// A client who has just connected.
pub(crate) struct Arrival {
    pub(crate) visit: Visit,
    pub(crate) stream: TcpStream,
}

impl Arrival {
    /// Serves the client until one side closes.
    pub(crate) async fn serve(self) {
        let (id, peer, pool) = (self.visit.id, self.visit.peer, Arc::clone(&self.visit.pool));
        let arrived = Instant::now();
        match Box::pin(self.meet(arrived)).await {
            Ok(session) => session.serve().await,
            Err(ended) => (pool.events)(Event::RequestDone {
                client: id,
                peer,
                connection: None,
                method: "-".into(),
                path: "-".into(),
                status: None,
                bytes_up: 0,
                bytes_down: 0,
                seconds: arrived.elapsed().as_secs_f64(),
                hot: false,
                hot_ratio: pool.hot_ratio(),
                ended_by: ended.by,
                phase: Phase::ClientHandshake,
                error: ended.error,
                client_tls: None,
                parent: None,
            }),
        }
    }

    /// Shakes hands where clients speak TLS.
    async fn meet(self, arrived: Instant) -> Result<Session, Ended> {
        let handshakes = &self.visit.pool.handshakes;
        let stream = match &handshakes.acceptor {
            None => Transport::Plain(self.stream),
            Some(acceptor) => {
                let deadline = arrived + self.visit.pool.relay.limits.handshake_timeout;
                let handshake = async {
                    // Never closed, so a place always comes.
                    let _place = handshakes.places.acquire().await;
                    acceptor.accept(Counted::new(self.stream)).await
                };
                let stream = timeout_at(deadline, handshake)
                    .await
                    .map_err(|_elapsed| Ended::timeout("the client's TLS handshake took too long"))?
                    .map_err(|error| Ended::failed(EndedBy::Client, &error))?;
                Transport::Tls(Box::new(stream.into()))
            }
        };
        Ok(Session {
            visit: self.visit,
            stream,
            alarm: Alarm::default(),
        })
    }
}
