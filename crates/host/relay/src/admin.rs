//! What an administrator can ask a running relay: metrics, health and state, read-only, over HTTP.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::door::{Door, Visitor};
use crate::event::Events;
use crate::meter::{self, Meter};
use crate::{Admin, Cidr};

/// For a request and for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest head that is read; what monitoring sends is a tenth of it.
const HEAD: usize = 8 * 1024;

/// Administrators at the same time.
const PLACES: usize = 16;

/// The meters of all listeners.
pub(crate) type Board = Arc<Mutex<Vec<Arc<Meter>>>>;

/// An answer's status line, type and body.
type Answer = (&'static str, &'static str, String);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Answers for as long as it is polled.
pub(crate) async fn serve(
    listener: TcpListener,
    admin: Admin,
    board: Board,
    draining: watch::Receiver<bool>,
    events: Events,
) {
    let allow: Vec<Cidr> = admin.allow;
    let mut door = Door::new(listener, &admin.profile, allow, PLACES, events);
    loop {
        let Visitor {
            mut stream, place, ..
        } = door.next().await;
        let (board, draining) = (Arc::clone(&board), draining.clone());
        tokio::spawn(async move {
            // Whoever asks too slowly, or has left, gets no answer.
            let _ = timeout(PATIENCE, reply(&mut stream, &board, &draining)).await;
            drop(place);
        });
    }
}

async fn reply(
    stream: &mut TcpStream,
    board: &Board,
    draining: &watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > HEAD || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let (status, kind, body) = answer(&head, board, *draining.borrow());
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await?;
    stream.shutdown().await
}

fn answer(head: &[u8], board: &Board, draining: bool) -> Answer {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut fields);
    if request.parse(head).is_err() {
        return ("400 Bad Request", TEXT, "no request\n".into());
    }
    // A page in a browser can make a name of its own point here and read what it gets; it cannot make the
    // browser send another Host than that name.
    let host = request
        .headers
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case("host"));
    if !host.is_some_and(|field| is_plain_host(field.value)) {
        let why = "ask by address, or as localhost\n";
        return ("403 Forbidden", TEXT, why.into());
    }
    if request.method != Some("GET") {
        return ("405 Method Not Allowed", TEXT, "GET only\n".into());
    }
    let meters = board.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match request.path.unwrap_or_default() {
        "/metrics" => (
            "200 OK",
            "text/plain; version=0.0.4; charset=utf-8",
            meter::write(&meters),
        ),
        "/readyz" if draining => ("503 Service Unavailable", TEXT, "draining\n".into()),
        "/healthz" | "/readyz" => ("200 OK", TEXT, "ok\n".into()),
        "/v1/relays" => json(
            &meters
                .iter()
                .map(|meter| meter.status())
                .collect::<Vec<_>>(),
        ),
        "/v1/clients" => json(
            &meters
                .iter()
                .flat_map(|meter| meter.clients())
                .collect::<Vec<_>>(),
        ),
        _ => (
            "404 Not Found",
            TEXT,
            "/metrics /healthz /readyz /v1/relays /v1/clients\n".into(),
        ),
    }
}

fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_string_pretty(value) {
        Ok(text) => ("200 OK", JSON, text + "\n"),
        Err(error) => ("500 Internal Server Error", TEXT, error.to_string()),
    }
}

/// An address or `localhost`, with or without a port.
fn is_plain_host(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else {
        return false;
    };
    let host = match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => text,
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str) -> &'static str {
        answer(request.as_bytes(), &Board::default(), false).0
    }

    #[test]
    fn pages_of_other_names_read_nothing() {
        for (host, allowed) in [
            ("localhost", true),
            ("localhost:9901", true),
            ("127.0.0.1:9901", true),
            ("[::1]:9901", true),
            ("10.0.0.1", true),
            ("evil.example:9901", false),
            ("", false),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_eq!(status(&request) == "200 OK", allowed, "{host}");
        }
    }

    #[test]
    fn nothing_can_be_changed() {
        let request = "POST /v1/relays HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert_eq!(status(request), "405 Method Not Allowed");
    }
}
