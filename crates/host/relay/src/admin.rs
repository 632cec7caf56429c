//! What an administrator can ask a running relay: the page, metrics, health and state, read-only, over HTTP.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use dash::{Answer, OtherAnswer, Question, Source};
use hyper::StatusCode;
use record::page::{Connections, History, Overview, Serves};
use tokio::sync::watch;

use crate::door::{Door, Visitor};
use crate::event::Events;
use crate::meter::{self, Meter};
use crate::traces::Traces;
use crate::watch::Watch;
use crate::{Admin, Cidr};

/// Administrators at the same time: a few browsers, with up to six connections each, and whoever scrapes.
const PLACES: usize = 32;

/// A listener that is open.
#[derive(Clone)]
pub(crate) struct Posted {
    pub(crate) meter: Arc<Meter>,
    pub(crate) mode: &'static str,
    pub(crate) target: String,
}

/// All listeners that are open.
pub(crate) type Board = Arc<Mutex<Vec<Posted>>>;

/// All that an administrator can be told.
pub(crate) struct Desk {
    pub(crate) board: Board,
    pub(crate) watch: Arc<Watch>,
    pub(crate) traces: Arc<Traces>,
    pub(crate) draining: watch::Receiver<bool>,
}

/// Answers for as long as it is polled.
pub(crate) async fn serve(listener: Arc<TcpListener>, admin: Admin, desk: Desk, events: Events) {
    let allow: Vec<Cidr> = admin.allow;
    let mut door = Door::new(listener, &admin.profile, allow, PLACES, events);
    let desk: Arc<dyn Source> = Arc::new(desk);
    loop {
        let Visitor { stream, place, .. } = door.next().await;
        let desk = Arc::clone(&desk);
        tokio::spawn(async move {
            dash::converse(stream, desk).await;
            drop(place);
        });
    }
}

// === impl Desk ===

impl Desk {
    fn posted(&self) -> Vec<Posted> {
        self.board
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn answer(&self, path: &str) -> Option<Answer> {
        let posted = self.posted();
        let meters = || posted.iter().map(|posted| Arc::clone(&posted.meter));
        Some(match path {
            "/metrics" => {
                let mut text = meter::write(&meters().collect::<Vec<_>>());
                self.traces.write(&mut text);
                Answer::ok("text/plain; version=0.0.4; charset=utf-8", text)
            }
            "/readyz" if *self.draining.borrow() => {
                Answer::text(StatusCode::SERVICE_UNAVAILABLE, "draining")
            }
            "/healthz" | "/readyz" => Answer::text(StatusCode::OK, "ok"),
            "/v1/relays" => Answer::json(&meters().map(|meter| meter.status()).collect::<Vec<_>>()),
            "/v1/clients" => {
                let clients: Vec<_> = meters().flat_map(|meter| meter.clients()).collect();
                Answer::json(&clients)
            }
            _ => return None,
        })
    }
}

impl Source for Desk {
    fn overview(&self) -> Overview {
        let posted = self.posted();
        let listeners = posted
            .iter()
            .map(|one| one.meter.page(one.mode, &one.target));
        Overview {
            serves: Serves::Relay,
            draining: *self.draining.borrow(),
            listeners: listeners.collect(),
            ..self.watch.overview()
        }
    }

    fn connections(&self, question: &Question) -> Connections {
        self.watch.connections(question)
    }

    fn history(&self, id: u64) -> Option<History> {
        self.watch.history(id)
    }

    fn other<'a>(&'a self, path: &'a str) -> OtherAnswer<'a> {
        Box::pin(std::future::ready(self.answer(path)))
    }
}
