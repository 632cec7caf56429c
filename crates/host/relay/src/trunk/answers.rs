//! What an administrator can ask a running end, read-only, over HTTP on loopback.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use dash::is_plain_host;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use super::phase::Phase;
use super::status::Desk;
use crate::door;

/// A reader that has not asked by then is gone; a probe takes its own time.
const PATIENCE: Duration = Duration::from_mins(2);

const PATHS: &str = "/status /streams /history /check /metrics /healthz /readyz\n";
const TEXT: &str = "text/plain; charset=utf-8";

/// Status, type and body.
type Answer = (StatusCode, &'static str, Vec<u8>);

/// Answers for ever.
pub(super) async fn serve(listener: TcpListener, desk: Desk, phase: watch::Receiver<Phase>) {
    loop {
        let Ok((stream, _peer)) = listener.accept().await else {
            // Out of descriptors, most likely; those who ask can ask again.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (desk, phase) = (desk.clone(), phase.clone());
        tokio::spawn(async move {
            let service =
                service_fn(|request| respond(request, &desk, *phase.borrow() != Phase::Serving));
            let connection = http1::Builder::new()
                // Whoever has asked may say that no more comes, and still wants the answer.
                .half_close(true)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // Whoever goes away in between wanted no answer.
            let _ = timeout(PATIENCE, connection).await;
        });
    }
}

/// Binds the address that [`serve`] answers at, or takes the socket that was handed over.
pub(super) async fn bind(
    address: SocketAddr,
    handed: &mut Vec<std::net::TcpListener>,
) -> std::io::Result<TcpListener> {
    match door::take(address, handed).pop() {
        Some(socket) => {
            socket.set_nonblocking(true)?;
            TcpListener::from_std(socket)
        }
        None => TcpListener::bind(address).await,
    }
}

async fn respond(
    request: Request<Incoming>,
    desk: &Desk,
    draining: bool,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let host = request.headers().get(HOST);
    let (status, kind, body) = if !host.is_some_and(|host| is_plain_host(host.as_bytes())) {
        // A page in a browser must not read this by a name of its own.
        text(StatusCode::FORBIDDEN, "ask by address, or as localhost\n")
    } else if request.method() == Method::GET {
        answer(request.uri().path(), desk, draining).await
    } else {
        text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n")
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

async fn answer(path: &str, desk: &Desk, draining: bool) -> Answer {
    match path {
        "/status" => json(StatusCode::OK, &desk.status()),
        "/streams" => json(StatusCode::OK, &desk.streams()),
        "/history" => json(StatusCode::OK, &desk.history()),
        "/check" => {
            let report = desk.check().await;
            json(well(report.healthy), &report)
        }
        "/metrics" => (
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            desk.metrics().into_bytes(),
        ),
        "/healthz" if desk.is_well() => text(StatusCode::OK, "ok\n"),
        "/healthz" => text(well(false), "no trunk is up, or the last probe failed\n"),
        "/readyz" if draining => text(well(false), "draining\n"),
        "/readyz" => text(StatusCode::OK, "ok\n"),
        _ => text(StatusCode::NOT_FOUND, PATHS),
    }
}

const fn well(well: bool) -> StatusCode {
    if well {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

fn text(status: StatusCode, text: &str) -> Answer {
    (status, TEXT, text.as_bytes().to_vec())
}

fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_vec_pretty(value) {
        Ok(body) => (status, "application/json", body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}
