//! HTTP for the page: one request per connection, so that no idle browser holds a place.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::{Answer, Source, guard, routes};

/// For a request's head.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// For a request and its answer; whoever is slower has left, or means harm.
const PATIENCE: Duration = Duration::from_mins(2);
/// What a browser sends is a tenth of it.
const HEAD: usize = 16 * 1024;
/// Clients at the same time. A browser opens up to six connections.
const PLACES: usize = 64;
/// After a connection could not be accepted: out of descriptors, most likely.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers everybody who comes, for as long as it is polled.
pub async fn serve(listener: TcpListener, source: Arc<dyn Source>) {
    let places = Arc::new(Semaphore::new(PLACES));
    loop {
        // Never closed, so a place always comes.
        let place = Arc::clone(&places).acquire_owned().await;
        let Ok((stream, _peer)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let source = Arc::clone(&source);
        tokio::spawn(async move {
            converse(stream, source).await;
            drop(place);
        });
    }
}

/// Answers one request and closes.
pub async fn converse(stream: TcpStream, source: Arc<dyn Source>) {
    let service = service_fn(|request| respond(request, Arc::clone(&source)));
    let connection = http1::Builder::new()
        // Whoever has asked may say that no more comes, and still wants the answer.
        .half_close(true)
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // Whoever asks too slowly, or has left, gets no answer.
    let _ = timeout(PATIENCE, connection).await;
}

async fn respond(
    request: Request<Incoming>,
    source: Arc<dyn Source>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = match guard::refusal(&request) {
        Some(refusal) => refusal,
        None => routes::answer(&source, request.uri()).await,
    };
    let Answer {
        status,
        content_type,
        policy,
        body,
    } = answer;
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    guard::protect(headers, policy);
    Ok(response)
}
