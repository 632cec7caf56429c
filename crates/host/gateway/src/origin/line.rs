//! One connection for one request after the other.
//!
//! Who reads ranges wants the next one by the connection whose window the last one has opened. A client with a pool makes a new
//! connection where the old one comes back a moment later than it is asked for: over a long path that one begins with ten packets,
//! and a second later all wait for it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;

use super::{Ask, IDLE_LIMIT, Origin, OriginError, Sent};
use crate::path::Flight;

/// One connection for one request after the other, made when it is first used.
pub(crate) struct Line {
    origin: Origin,
    sender: Option<SendRequest<Sent>>,
    /// What its connection brings in a round trip, if that has been seen of late.
    pub(crate) flight: Option<Flight>,
    /// Whether its connection ends with it: an answer was not read to its end.
    pub(crate) broken: bool,
}

/// A line that nobody has now.
pub(super) struct Spare {
    sender: SendRequest<Sent>,
    flight: Option<Flight>,
    pub(super) since: Instant,
}

impl Origin {
    /// A connection of one's own: one that somebody has left, or a new one.
    pub(crate) fn line(&self) -> Line {
        let spare = {
            let mut lines = self.shared.lines();
            lines.retain(Spare::is_open);
            lines.pop()
        };
        self.line_of(spare)
    }

    /// This one, or one that has yet to connect.
    pub(super) fn line_of(&self, spare: Option<Spare>) -> Line {
        Line {
            origin: self.clone(),
            flight: spare.as_ref().and_then(Spare::still_brings),
            sender: spare.map(|spare| spare.sender),
            broken: false,
        }
    }

    /// That of the next [`Origin::line`].
    pub(crate) fn next_flight(&self) -> Option<Flight> {
        self.shared.lines().last()?.still_brings()
    }
}

// === impl Line ===

impl Line {
    /// As [`Origin::send`]. Where the connection has ended before it had the request, a new one takes it.
    pub(crate) async fn send(&mut self, ask: Ask) -> Result<Response<Incoming>, OriginError> {
        let began = Instant::now();
        let response = self.try_send(ask).await?;
        self.origin.answered(&response, began.elapsed());
        Ok(response)
    }

    /// The same, of which nothing is learned about the path.
    pub(super) async fn try_send(&mut self, ask: Ask) -> Result<Response<Incoming>, OriginError> {
        let mut request = self.origin.request(ask)?;
        // Nobody stands between that wants to know where it goes.
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map(Uri::from).unwrap_or_default();
        let stall = self.origin.shared.stall;
        let answer = tokio::time::timeout(stall, self.exchange(request)).await;
        answer.map_err(|_| OriginError::Stalled(stall))?
    }

    async fn exchange(
        &mut self,
        mut request: Request<Sent>,
    ) -> Result<Response<Incoming>, OriginError> {
        loop {
            let (mut sender, is_new) = match self.sender.take() {
                Some(sender) => (sender, false),
                None => (self.connect().await?, true),
            };
            if sender.ready().await.is_err() && !is_new {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.sender = Some(sender);
                    return Ok(response);
                }
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(OriginError::Exchange(failed.into_error())),
                },
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<Sent>, OriginError> {
        let stream = self.origin.shared.via.connect().await;
        let stream = TokioIo::new(stream.map_err(OriginError::Connect)?);
        let (sender, connection) = handshake(stream).await.map_err(OriginError::Exchange)?;
        let connected = Arc::clone(&self.origin.shared.connected);
        tokio::spawn(async move {
            // Whoever waits for an answer hears why it ends.
            let _ = connection.await;
            drop(connected);
        });
        Ok(sender)
    }
}

impl Deref for Line {
    type Target = Origin;

    fn deref(&self) -> &Origin {
        &self.origin
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Some(sender) = self.sender.take().filter(|_| !self.broken) else {
            return;
        };
        let mut lines = self.shared.lines();
        if lines.len() < self.shared.most_lines {
            let spare = Spare {
                sender,
                flight: self.flight,
                since: Instant::now(),
            };
            // One that has yet to show what it brings comes after all that have.
            let place = if spare.flight.is_some() {
                lines.len()
            } else {
                0
            };
            lines.insert(place, spare);
        }
    }
}

// === impl Spare ===

impl Spare {
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed() && !self.has_rested(IDLE_LIMIT)
    }

    pub(super) fn has_rested(&self, long: Duration) -> bool {
        self.since.elapsed() >= long
    }

    fn still_brings(&self) -> Option<Flight> {
        self.flight.filter(|_| !has_cooled(self.since.elapsed()))
    }
}

/// Whether a connection that has rested so long begins anew: Linux halves its window for each retransmission timeout
/// (`tcp_cwnd_restart`) from its last packet on, which left a round trip before the rest began. The timeout is at least 200 ms
/// longer than a round trip (`TCP_RTO_MIN`).
fn has_cooled(rest: Duration) -> bool {
    rest >= Duration::from_millis(200)
}

#[cfg(test)]
pub(super) mod tests {
    use futures_util::StreamExt as _;
    use http::Method;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;
    use crate::config::GatewayOptions;

    /// An origin that answers `requests` on each connection, ends it, and tells of each new one.
    pub(crate) async fn origin(requests: usize) -> (Origin, UnboundedReceiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (told, connections) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                told.send(()).unwrap();
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    for _ in 0..requests {
                        let (mut line, mut head) = (String::new(), String::new());
                        while line != "\r\n" {
                            line.clear();
                            if stream.read_line(&mut line).await.unwrap() == 0 {
                                return;
                            }
                            head.push_str(&line);
                        }
                        let status = if head.contains("/sick") { 503 } else { 200 };
                        let body = if head.starts_with("HEAD") { "" } else { "abc" };
                        let answer =
                            format!("HTTP/1.1 {status} S\r\ncontent-length: 3\r\n\r\n{body}");
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        let options = GatewayOptions::of_a_test("127.0.0.1:0", &format!("http://{address}"));
        let config = options.resolve(|_| Some("some".into())).unwrap();
        (Origin::new(&config), connections)
    }

    /// As a reader does: it ends with the last byte, and looks no further.
    pub(crate) async fn read(line: &mut Line) {
        let response = line.send(Ask::new(Method::GET, "b", "k")).await.unwrap();
        let mut pieces = line.pieces(response.into_body());
        let mut length = 0;
        while length < 3 {
            length += pieces.next().await.unwrap().unwrap().len();
        }
    }

    #[tokio::test]
    async fn one_request_after_the_other_takes_one_connection() {
        let (origin, mut connections) = origin(usize::MAX).await;
        for _ in 0..10 {
            let mut line = origin.line();
            for _ in 0..50 {
                read(&mut line).await;
            }
        }
        connections.recv().await.unwrap();
        assert!(connections.try_recv().is_err());
    }

    #[tokio::test]
    async fn where_a_connection_has_ended_a_new_one_takes_the_request() {
        let (origin, mut connections) = origin(1).await;
        let mut line = origin.line();
        for _ in 0..20 {
            read(&mut line).await;
            connections.recv().await.unwrap();
            // Until it has heard of its end: a request that has left is not sent again.
            let sender = line.sender.as_mut().unwrap();
            while sender.ready().await.is_ok() {
                tokio::task::yield_now().await;
            }
        }
        assert!(connections.try_recv().is_err());
    }

    #[tokio::test]
    async fn what_was_left_is_not_taken_for_hot_when_it_has_rested() {
        let (origin, _connections) = origin(usize::MAX).await;
        let flight = Flight {
            sure: 1000,
            grows: false,
        };
        let mut line = origin.line();
        read(&mut line).await;
        line.flight = Some(flight);
        drop(line);
        let Some(last) = origin.shared.lines().pop() else {
            panic!("no line was left");
        };
        for (rest, hot) in [(0, true), (150, true), (200, false), (60_000, false)] {
            let rest = Duration::from_millis(rest);
            assert_eq!(!has_cooled(rest), hot, "{rest:?}");
        }
        let old = Instant::now().checked_sub(IDLE_LIMIT);
        let old = Spare {
            since: old.unwrap(),
            ..last
        };
        assert!(!old.is_open() && old.still_brings().is_none());
    }
}
