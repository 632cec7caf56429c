//! Sends spans to the collector: OTLP over HTTP/1.1, in JSON.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::span::{Batch, Span};
use super::{Collector, Counts};
use crate::event::{Event, Events};

/// What is sent at once, at most.
const BATCH: usize = 512;

/// How long spans gather before they are sent together.
const GATHER: Duration = Duration::from_secs(1);

/// For one batch. OTLP's own default.
const PATIENCE: Duration = Duration::from_secs(10);

/// What an answer may be.
const ANSWER: usize = 64 * 1024;

/// A batch was not taken.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("cannot connect to the collector")]
    Connect(#[source] io::Error),
    #[error("cannot shake hands with the collector")]
    Handshake(#[source] io::Error),
    #[error("cannot speak HTTP with the collector")]
    Http(#[source] hyper::Error),
    #[error("cannot write spans as JSON")]
    Write(#[source] serde_json::Error),
    #[error("the collector answers {0}")]
    Status(u16),
    #[error("no answer of the collector within {}", units::format_span(PATIENCE))]
    Timeout,
}

/// What a collector says of a batch that it has taken.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    partial_success: PartialSuccess,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PartialSuccess {
    rejected_spans: Number,
}

/// A number of 64 bits is a text in the JSON of Protocol Buffers, and some write a number all the same.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Number {
    Written(u64),
    Text(String),
}

/// Sends until nobody has a span to send any more. A batch that is not taken is lost: whoever tried again would have the
/// more to lose meanwhile.
pub(super) async fn send(
    collector: Arc<Collector>,
    mut spans: mpsc::Receiver<Span>,
    counts: Arc<Counts>,
    events: Events,
) {
    let mut batch = Vec::new();
    let mut delivers = true;
    while gather(&mut spans, &mut batch).await {
        let all = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let delivery = timeout(PATIENCE, deliver(&collector, &batch)).await;
        let outcome = delivery.unwrap_or(Err(ExportError::Timeout));
        let lost = match &outcome {
            Ok(rejected) => (*rejected).min(all),
            Err(_) => all,
        };
        counts.not_delivered.fetch_add(lost, Ordering::Relaxed);
        counts.sent.fetch_add(all - lost, Ordering::Relaxed);
        // Once, until it works again: the counter tells the rest.
        if let (Err(error), true) = (&outcome, delivers) {
            events(Event::Warning {
                name: "traces-not-delivered",
                text: format!("{}: {}", collector.tracing.endpoint, crate::chain(error)),
            });
        }
        delivers = outcome.is_ok();
        batch.clear();
    }
}

/// Takes what comes within a while, beginning with the first; whether anything came.
async fn gather(spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) -> bool {
    if spans.recv_many(batch, BATCH).await == 0 {
        return false;
    }
    let deadline = Instant::now() + GATHER;
    while batch.len() < BATCH {
        let left = BATCH - batch.len();
        match timeout_at(deadline, spans.recv_many(batch, left)).await {
            Ok(count) if count > 0 => {}
            Ok(_) | Err(_) => break,
        }
    }
    true
}

/// How many of them the collector has not taken.
async fn deliver(collector: &Collector, spans: &[Span]) -> Result<u64, ExportError> {
    let body = serde_json::to_vec(&Batch::new(&collector.tracing.service, spans));
    let body = Full::new(Bytes::from(body.map_err(ExportError::Write)?));
    let endpoint = &collector.tracing.endpoint;
    let request = Request::post(&endpoint.path)
        .header(HOST, &endpoint.authority)
        .header(USER_AGENT, concat!("longhaul/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .body(body)
        .unwrap_or_default();
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await;
    let stream = stream.map_err(ExportError::Connect)?;
    let Some((connector, name)) = &collector.handshakes.connector else {
        return exchange(stream, request).await;
    };
    let stream = connector.connect(name.clone(), stream).await;
    exchange(stream.map_err(ExportError::Handshake)?, request).await
}

/// Sends a batch, and reads how many of its spans were not taken.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<u64, ExportError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(ExportError::Http)?;
    let answered = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(ExportError::Http)?;
        let status = response.status();
        if !status.is_success() {
            return Err(ExportError::Status(status.as_u16()));
        }
        // What cannot be read says nothing of rejected spans.
        let body = Limited::new(response.into_body(), ANSWER).collect().await;
        let body = body.map(http_body_util::Collected::to_bytes);
        Ok(body.map_or(0, |body| rejected(&body)))
    };
    tokio::pin!(answered);
    // The connection has to be driven for as long as there is an answer to come, and ends with it.
    tokio::select! {
        answer = &mut answered => answer,
        driven = connection => match driven {
            Ok(()) => answered.await,
            Err(error) => Err(ExportError::Http(error)),
        },
    }
}

fn rejected(answer: &[u8]) -> u64 {
    let answer: Answer = serde_json::from_slice(answer).unwrap_or_default();
    match answer.partial_success.rejected_spans {
        Number::Written(number) => number,
        Number::Text(text) => text.parse().unwrap_or(0),
    }
}

// === impl Number ===

impl Default for Number {
    fn default() -> Self {
        Self::Written(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_collector_rejects_is_read_as_text_and_as_number() {
        assert_eq!(rejected(b"{}"), 0);
        assert_eq!(rejected(b""), 0);
        assert_eq!(rejected(br#"{"partialSuccess":{}}"#), 0);
        assert_eq!(
            rejected(br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}"#),
            3
        );
        assert_eq!(rejected(br#"{"partialSuccess":{"rejectedSpans":4}}"#), 4);
    }
}
