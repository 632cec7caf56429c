//! What is answered over a socket, to browsers and to those who are none.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;

use longhaul_dash::{Answer, OtherAnswer, Question, Source, serve};
use record::page::{Connections, Overview};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

struct Fixed;

impl Source for Fixed {
    fn overview(&self) -> Overview {
        Overview {
            longhaul: "longhaul fixed".into(),
            ..Overview::default()
        }
    }

    fn connections(&self, question: &Question) -> Connections {
        Connections {
            matching: u64::try_from(question.count).unwrap(),
            ..Connections::default()
        }
    }

    fn other<'a>(&'a self, path: &'a str) -> OtherAnswer<'a> {
        let answer = (path == "/healthz").then(|| Answer::ok("text/plain", "ok\n"));
        Box::pin(std::future::ready(answer))
    }
}

async fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, Arc::new(Fixed)));
    address
}

async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn get(address: SocketAddr, path: &str) -> (String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let answer = exchange(address, &request).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

#[tokio::test]
async fn the_page_comes_with_what_keeps_other_pages_away() {
    let address = start().await;
    for (path, kind) in [
        ("/", "text/html"),
        ("/page.js", "text/javascript"),
        ("/page.css", "text/css"),
        ("/icon.svg", "image/svg+xml"),
        ("/v1/overview", "application/json"),
    ] {
        let (head, body) = get(address, path).await;
        assert!(head.starts_with("http/1.1 200 "), "{path}: {head}");
        assert!(head.contains(&format!("content-type: {kind}")), "{head}");
        assert!(
            head.contains("content-security-policy: default-src 'self';"),
            "{head}"
        );
        assert!(head.contains("frame-ancestors 'none'"), "{head}");
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        assert!(
            head.contains("cross-origin-resource-policy: same-origin"),
            "{head}"
        );
        assert!(!head.contains("access-control-allow"), "{head}");
        assert!(head.contains("connection: close"), "{head}");
        assert!(!body.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn each_path_is_answered_by_the_source() {
    let address = start().await;
    assert!(
        get(address, "/v1/overview")
            .await
            .1
            .contains("longhaul fixed")
    );
    assert!(
        get(address, "/v1/connections?count=7")
            .await
            .1
            .contains("\"matching\": 7")
    );
    assert_eq!(get(address, "/healthz").await.1, "ok\n");
    for (path, status) in [
        ("/v1/connections?sort=beauty", "400"),
        ("/v1/connections/7", "404"),
        ("/v1/connections/x", "404"),
        ("/v1/reports/document?id=..%2F..%2Fetc", "404"),
        ("/v1/reports/document", "404"),
        ("/../Cargo.toml", "404"),
    ] {
        let (head, _) = get(address, path).await;
        assert!(
            head.starts_with(&format!("http/1.1 {status} ")),
            "{path}: {head}"
        );
    }
}

#[tokio::test]
async fn foreign_names_and_other_methods_get_nothing() {
    let address = start().await;
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
        (
            "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "403",
        ),
        ("GET / HTTP/1.0\r\n\r\n", "403"),
        (
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
            "405",
        ),
        ("OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
    ] {
        let answer = exchange(address, request).await;
        let answered = answer.split(' ').nth(1);
        assert_eq!(answered, Some(status), "{request}{answer}");
    }
}

#[tokio::test]
async fn an_endless_head_is_cut_off() {
    let mut stream = TcpStream::connect(start().await).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
    let mut sent = 0;
    while sent < 64 << 20 && stream.write_all(&[b'x'; 4096]).await.is_ok() {
        sent += 4096;
    }
    assert!(sent < 64 << 20, "somebody read it all");
}
