//! Connections come and go.

use units::Time;

use super::{Trunk, compatible};
use crate::connection::{Connection, Stage};
use crate::preface::{Hello, Preface, Refusal, RefusalReason, Welcome};
use crate::{Admission, By, Closing, ConnectionId, Event, Explanation, Reason, Violation};

impl Trunk {
    /// A new WAN connection is up (initiator only; its TLS handshake, if any, included). It carries
    /// streams at once, without waiting for the peer's welcome.
    pub fn connection_up(&mut self, now: Time) -> ConnectionId {
        let connection = ConnectionId(self.next_connection);
        self.next_connection = self.next_connection.saturating_add(1);
        let link = Connection::new(self.hello(connection), Stage::Greeting, now);
        self.connections.insert(connection, link);
        self.end_outage(now);
        connection
    }

    /// A new WAN connection is up (acceptor only), and its hello has been read: see [`Preface::decode`].
    /// What followed the hello goes to [`Self::receive`].
    pub fn connection_accepted(
        &mut self,
        hello: &Hello,
        now: Time,
    ) -> Result<ConnectionId, Refusal> {
        let version = compatible(hello)?;
        match self.admits(hello) {
            Admission::Join => {}
            Admission::Refuse(refusal) => return Err(refusal),
            Admission::Supersede => {
                return Err(Refusal::new(RefusalReason::UnknownSession, "a later life"));
            }
        }
        self.raise_limits(hello.limits);
        self.meet(hello.capabilities);
        let link = Connection::new(self.welcome(version), Stage::Ready, now);
        self.connections.insert(hello.connection, link);
        self.end_outage(now);
        self.events.push_back(Event::ConnectionReady {
            connection: hello.connection,
        });
        Ok(hello.connection)
    }

    fn end_outage(&mut self, now: Time) {
        if self.outage_at.take().is_some() {
            self.judge_all(now);
        }
    }

    /// A connection is gone, however it went. What it owed goes over others.
    pub fn connection_down(&mut self, connection: ConnectionId, now: Time) {
        let Some(link) = self.connections.remove(&connection) else {
            return;
        };
        self.send_again(connection, &link);
        self.past.totals += link.totals;
        self.guard.forget(connection);
        for other in self.connections.values_mut() {
            other.acks.told.remove(&connection);
        }
        if self.connections.is_empty() {
            self.outage_at = Some(now);
            self.judge_all(now);
        }
        // One that was given up is not to be made again: it counted while it still stood.
        self.ask_for_connections();
    }

    /// Whatever went out last on this connection and is not acknowledged goes out again.
    pub(super) fn send_again(&mut self, connection: ConnectionId, link: &Connection) {
        for sent in &link.fifo {
            if let Some(flight) = self.sending.flights.get_mut(sent.sequence)
                && flight.on == connection
            {
                self.sending.again.insert(sent.sequence);
            }
        }
    }

    pub(super) fn close_connection(&mut self, connection: ConnectionId, why: Closing, now: Time) {
        self.events
            .push_back(Event::CloseConnection { connection, why });
        self.connection_down(connection, now);
    }

    /// The peer's preface, as far as an initiator can get one.
    pub(super) fn handle_preface(
        &mut self,
        connection: ConnectionId,
        preface: Preface,
        now: Time,
    ) -> Result<(), Violation> {
        match preface {
            Preface::Hello(_) => Err(Violation::Preface {
                what: "both ends connected",
            }),
            Preface::Welcome(welcome) => {
                self.handle_welcome(connection, welcome, now);
                Ok(())
            }
            Preface::Refusal(refusal) => {
                self.handle_refusal(connection, refusal, now);
                Ok(())
            }
        }
    }

    fn handle_welcome(&mut self, connection: ConnectionId, welcome: Welcome, now: Time) {
        if self.instance.is_some_and(|known| known != welcome.instance) {
            // An acceptor refuses what it does not know; one that welcomes it has lost its memory.
            self.lose_session(&Reason::PeerRestarted.into(), By::Trunk, now);
            return;
        }
        self.instance = Some(welcome.instance);
        self.raise_limits(welcome.limits);
        self.meet(welcome.capabilities);
        if let Some(link) = self.connections.get_mut(&connection) {
            link.stage = Stage::Ready;
            self.events.push_back(Event::ConnectionReady { connection });
        }
        // Another may have come back to life while this one was on its way.
        self.retire(now);
    }

    fn handle_refusal(&mut self, connection: ConnectionId, refusal: Refusal, now: Time) {
        let reason = refusal.reason;
        self.close_connection(connection, Closing::Refused(refusal), now);
        match reason {
            RefusalReason::UnknownSession => {
                self.lose_session(&Reason::PeerRestarted.into(), By::Trunk, now);
            }
            RefusalReason::StaleEpoch => {
                let why = Explanation::new(
                    Reason::Internal,
                    "another relay uses the identity of this trunk with a later epoch",
                );
                self.reset_all(&why, By::Trunk, now);
                self.ended = Some(why.clone());
                self.events.push_back(Event::Ended { why });
            }
            // The driver asks again later, or its operator sets something right.
            RefusalReason::Version
            | RefusalReason::DuplicateConnection
            | RefusalReason::TooManyConnections
            | RefusalReason::NotAdmitted
            | RefusalReason::Shutdown
            | RefusalReason::Other(_) => {}
        }
    }
}
