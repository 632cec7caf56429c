//! Clients that speak HTTP/2: their requests are those of everybody else, and what one of them can ask is bounded.

use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;

use h2::Reason;
use h2::client::SendRequest;
use http::{HeaderMap, HeaderValue, Request, Response};
use hyper::body::Bytes;
use longhaul_relay::{Config, EndedBy, Event, HttpOptions, Phase, TlsSideOptions};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::task::JoinHandle;
use units::Span;

use crate::harness::{
    Origin, Relay, digest, listen, noise, plain, read_exactly, read_head, read_to_end, within,
};
use crate::tls::{Site, connect};

/// A client, and the task that keeps its connection going.
type Client = (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>);

async fn speak(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Client {
    let (requests, connection) = within(h2::client::handshake(stream)).await.unwrap();
    (requests, tokio::spawn(connection))
}

/// One that knows without asking that HTTP/2 is spoken here.
async fn client(relay: &Relay) -> Client {
    speak(relay.connect().await).await
}

fn request(method: &str, path: &str) -> Request<()> {
    let uri = format!("http://store.example{path}");
    Request::builder().method(method).uri(uri).body(()).unwrap()
}

/// Sends a request and reads its response to the end.
async fn ask(client: &SendRequest<Bytes>, request: Request<()>, body: &[u8]) -> Response<Vec<u8>> {
    let mut ready = within(client.clone().ready()).await.unwrap();
    let (response, mut upload) = ready.send_request(request, body.is_empty()).unwrap();
    let mut rest = Bytes::copy_from_slice(body);
    while !rest.is_empty() {
        upload.reserve_capacity(rest.len());
        let room = within(std::future::poll_fn(|context| {
            upload.poll_capacity(context)
        }))
        .await;
        let piece = rest.split_to(room.unwrap().unwrap());
        upload.send_data(piece, rest.is_empty()).unwrap();
    }
    collect(within(response).await.unwrap()).await
}

async fn collect(response: Response<h2::RecvStream>) -> Response<Vec<u8>> {
    let (parts, mut body) = response.into_parts();
    let mut all = Vec::new();
    while let Some(piece) = within(body.data()).await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        all.extend_from_slice(&piece);
    }
    Response::from_parts(parts, all)
}

#[tokio::test]
async fn requests_of_one_client_are_served_at_the_same_time_by_connections_of_the_pool() {
    let origin = Origin::start().await;
    let mut relay = Relay::start(plain(origin.address)).await;
    let (client, _) = client(&relay).await;
    let body = noise(900_000);
    let (up, down, small) = tokio::join!(
        ask(&client, request("POST", "/"), &body),
        ask(&client, request("GET", "/2000000"), &[]),
        ask(&client, request("HEAD", "/5"), &[]),
    );
    assert_eq!(String::from_utf8(up.into_body()).unwrap(), digest(&body));
    assert_eq!(digest(down.body()), digest(&noise(2_000_000)));
    assert_eq!(small.status(), 200);
    let before = origin.connections.load(Ordering::Relaxed);
    for _ in 0..20 {
        let got = ask(&client, request("GET", "/10"), &[]).await;
        assert_eq!(got.body(), &noise(10));
    }
    assert_eq!(origin.connections.load(Ordering::Relaxed), before);
    let Event::RequestDone {
        path,
        ended_by,
        connection,
        ..
    } = within(relay.request_done()).await
    else {
        unreachable!("request_done returns only that");
    };
    assert_eq!(ended_by, EndedBy::Completed);
    assert!(connection.is_some() && path.starts_with('/'));
}

#[tokio::test]
async fn the_origin_gets_http_1_with_the_clients_own_host_and_the_client_its_trailers_and_interim_words()
 {
    let (listener, address) = listen().await;
    let relay = Relay::start(plain(address)).await;
    let (client, _) = client(&relay).await;
    let mut asked = request("PUT", "/bucket/key?x-id=PutObject");
    let fields = asked.headers_mut();
    fields.insert("x-amz-date", HeaderValue::from_static("20261122T070000Z"));
    fields.insert(
        "authorization",
        HeaderValue::from_static("AWS4-HMAC-SHA256 x"),
    );
    let mut ready = within(client.ready()).await.unwrap();
    let (mut response, mut upload) = ready.send_request(asked, false).unwrap();
    upload
        .send_data(Bytes::from_static(b"hello"), false)
        .unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-amz-checksum-crc32", HeaderValue::from_static("NhCmhg=="));
    upload.send_trailers(trailers).unwrap();
    let (mut origin, _) = within(listener.accept()).await.unwrap();
    assert_eq!(
        within(read_head(&mut origin)).await,
        "PUT /bucket/key?x-id=PutObject HTTP/1.1\r\nHost: store.example\r\n\
         x-amz-date: 20261122T070000Z\r\nauthorization: AWS4-HMAC-SHA256 x\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    );
    let body = b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32: NhCmhg==\r\n\r\n";
    assert_eq!(within(read_exactly(&mut origin, body.len())).await, body);
    origin
        .write_all(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\
              Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\nx-sum: 1\r\n\r\n",
        )
        .await
        .unwrap();
    let hint = std::future::poll_fn(|context| response.poll_informational(context));
    let hint = within(hint).await.unwrap().unwrap();
    assert_eq!(
        (hint.status().as_u16(), &hint.headers()["link"]),
        (103, &"</a>".parse().unwrap())
    );
    let (parts, mut body) = within(response).await.unwrap().into_parts();
    assert!(
        parts.headers.get("connection").is_none()
            && parts.headers.get("transfer-encoding").is_none()
    );
    let mut all = Vec::new();
    while let Some(piece) = within(body.data()).await {
        all.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(all, b"abcdefg");
    assert_eq!(
        within(body.trailers()).await.unwrap().unwrap()["x-sum"],
        "1"
    );
}

#[tokio::test]
async fn with_tls_it_is_agreed_on_and_can_be_switched_off() {
    let site = Site::make();
    let origin = Origin::start().await;
    for http2 in [true, false] {
        let options = HttpOptions {
            http2: Some(http2),
            tls: TlsSideOptions {
                certificates: vec![site.certificate()],
                upstream: Some(longhaul_relay::Upstream::Plain),
                ..TlsSideOptions::default()
            },
            ..plain(origin.address)
        };
        let relay = Relay::start(options).await;
        let stream = within(connect(&relay, &site.connector_for(&["h2", "http/1.1"]))).await;
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        if http2 {
            assert_eq!(agreed.as_deref(), Some(b"h2".as_slice()));
            let (client, _) = speak(stream).await;
            let got = ask(&client, request("GET", "/300000"), &[]).await;
            assert_eq!(digest(got.body()), digest(&noise(300_000)));
        } else {
            assert_eq!(agreed.as_deref(), Some(b"http/1.1".as_slice()));
            let mut plain = relay.connect().await;
            plain
                .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                .await
                .unwrap();
            drop(within(read_to_end(&mut plain)).await);
        }
    }
}

#[tokio::test]
async fn the_preface_is_known_in_pieces_and_other_methods_that_begin_like_it_are_not_taken_for_it()
{
    let origin = Origin::start().await;
    let relay = Relay::start(plain(origin.address)).await;
    let mut stream = relay.connect().await;
    stream.set_nodelay(true).unwrap();
    // An empty SETTINGS frame behind the preface.
    let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for byte in hello {
        stream.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    // SETTINGS comes back as a frame of type 4.
    assert_eq!(within(read_exactly(&mut stream, 4)).await[3], 4);
    for method in ["PUT", "PROPFIND", "PRI"] {
        let mut stream = relay.connect().await;
        let head = format!("{method} /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = within(read_head(&mut stream)).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{method}: {answer}");
    }
}

#[tokio::test]
async fn a_response_cut_short_is_cut_short_for_the_client_and_other_requests_go_on() {
    let (listener, address) = listen().await;
    let mut relay = Relay::start(plain(address)).await;
    let (client, _) = client(&relay).await;
    let mut ready = within(client.ready()).await.unwrap();
    let (cut, _) = ready.send_request(request("GET", "/cut"), true).unwrap();
    let (mut first, _) = within(listener.accept()).await.unwrap();
    within(read_head(&mut first)).await;
    let mut ready = within(ready.ready()).await.unwrap();
    let (whole, _) = ready.send_request(request("GET", "/whole"), true).unwrap();
    let (mut second, _) = within(listener.accept()).await.unwrap();
    within(read_head(&mut second)).await;
    first
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        .await
        .unwrap();
    let mut body = within(cut).await.unwrap().into_body();
    drop(first);
    let mut end = within(body.data()).await;
    while let Some(Ok(_)) = end {
        end = within(body.data()).await;
    }
    let error = end.expect("no clean end").unwrap_err();
    assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
    // Until the close: whole all the same.
    second
        .write_all(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        .await
        .unwrap();
    drop(second);
    let whole = collect(within(whole).await.unwrap()).await;
    assert_eq!(whole.body(), b"all of it");
    let mut ends = Vec::new();
    for _ in 0..2 {
        let Event::RequestDone { ended_by, path, .. } = within(relay.request_done()).await else {
            unreachable!("request_done returns only that");
        };
        ends.push((path, ended_by));
    }
    assert_eq!(
        ends,
        [
            ("/cut".to_owned(), EndedBy::Server),
            ("/whole".to_owned(), EndedBy::Completed)
        ]
    );
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_its_origin_back() {
    let (listener, address) = listen().await;
    let relay = Relay::start(plain(address)).await;
    let (client, _) = client(&relay).await;
    let mut ready = within(client.ready()).await.unwrap();
    let (response, _) = ready.send_request(request("GET", "/"), true).unwrap();
    let (mut origin, _) = within(listener.accept()).await.unwrap();
    within(read_head(&mut origin)).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 400000000\r\n\r\n";
    origin.write_all(head.as_bytes()).await.unwrap();
    let body = within(response).await.unwrap().into_body();
    // Kernel buffers and windows hold what they hold; a relay that held the rest would take it all.
    let piece = vec![0; 1 << 20];
    let mut sent = 0;
    while let Ok(written) = tokio::time::timeout(Duration::from_secs(1), origin.write(&piece)).await
    {
        sent += written.unwrap();
        assert!(sent < 100 << 20, "nothing holds the origin back");
    }
    drop(body);
}

#[tokio::test]
async fn a_request_that_its_client_cancels_is_cancelled_at_the_origin() {
    let (listener, address) = listen().await;
    let mut relay = Relay::start(plain(address)).await;
    let (client, _) = client(&relay).await;
    let mut ready = within(client.ready()).await.unwrap();
    let (response, mut upload) = ready.send_request(request("GET", "/slow"), true).unwrap();
    let (mut origin, _) = within(listener.accept()).await.unwrap();
    within(read_head(&mut origin)).await;
    upload.send_reset(Reason::CANCEL);
    assert!(within(read_to_end(&mut origin)).await.is_empty());
    drop(response);
    let Event::RequestDone {
        ended_by, phase, ..
    } = within(relay.request_done()).await
    else {
        unreachable!("request_done returns only that");
    };
    assert_eq!((ended_by, phase), (EndedBy::Client, Phase::ResponseHead));
}

/// Each cancelled request costs its connection to the origin, and costs the client nothing (CVE-2023-44487).
#[tokio::test]
async fn a_client_that_only_cancels_is_shown_out() {
    let (listener, address) = listen().await;
    let mut options = plain(address);
    options.pool.max_connections = Some(4);
    let mut relay = Relay::start(options).await;
    let origin = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut sink = [0; 1024];
                while stream.read(&mut sink).await.is_ok_and(|count| count > 0) {}
            });
        }
    });
    let (mut client, connection) = client(&relay).await;
    let mut cancelled = 0;
    let error = loop {
        client = match within(client.ready()).await {
            Ok(client) => client,
            Err(error) => break error,
        };
        let Ok((response, mut upload)) = client.send_request(request("GET", "/"), true) else {
            continue;
        };
        upload.send_reset(Reason::CANCEL);
        drop(response);
        cancelled += 1;
        assert!(cancelled < 100_000, "nobody shows it out");
        tokio::task::yield_now().await;
    };
    drop(error);
    let why = within(connection).await.unwrap().unwrap_err();
    // A client that goes on writing may meet the end of the connection before it reads the reason.
    assert!(
        why.is_io() || why.reason() == Some(Reason::ENHANCE_YOUR_CALM),
        "{why}"
    );
    let shown_out = relay.event(|event| match event {
        Event::RequestDone {
            method,
            error: Some(error),
            ..
        } if method == "-" => Some(error.clone()),
        _ => None,
    });
    let why = within(shown_out).await;
    assert!(
        why.contains("cancels") || why.contains("not understood"),
        "{why}"
    );
    origin.abort();
}

#[tokio::test]
async fn heads_beyond_the_limit_and_streams_beyond_theirs_are_refused() {
    let (listener, address) = listen().await;
    let mut options = plain(address);
    options.limits.streams = Some(2);
    options.limits.head = Some(units::Bytes::kib(4));
    let relay = Relay::start(options).await;
    let (client, connection) = client(&relay).await;
    let long = || {
        let mut long = request("GET", "/");
        let value = HeaderValue::from_str(&"x".repeat(8_000)).unwrap();
        long.headers_mut().insert("x-long", value);
        long
    };
    let answer = ask(&client, long(), &[]).await;
    assert_eq!(answer.status(), 431);
    let mut ready = within(client.ready()).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(ready.send_request(request("GET", "/"), true).unwrap());
        ready = within(ready.ready()).await.unwrap();
        drop(within(listener.accept()).await.unwrap());
    }
    assert_eq!(ready.current_max_send_streams(), 2);
    drop((held, ready));
    connection.abort();
}

#[tokio::test]
async fn an_idle_client_is_told_to_go_and_so_is_everybody_when_the_relay_stops() {
    let origin = Origin::start().await;
    let mut options = plain(origin.address);
    options.limits.keep_alive_timeout = Some(Span::from(Duration::from_millis(50)));
    let relay = Relay::start(options).await;
    let (idle, connection) = client(&relay).await;
    // GOAWAY, and a clean end.
    within(connection).await.unwrap().unwrap();
    drop(idle);
    let mut relay = Relay::start(plain(origin.address)).await;
    let (client, connection) = client(&relay).await;
    let got = ask(&client, request("GET", "/10"), &[]).await;
    assert_eq!(got.body(), &noise(10));
    relay.order_stop();
    within(connection).await.unwrap().unwrap();
    within(relay.stopped()).await;
}

#[tokio::test]
async fn a_reload_serves_the_next_request_of_an_open_connection() {
    let (first, second) = (Origin::start().await, Origin::start().await);
    let mut relay = Relay::start(plain(first.address)).await;
    let (client, _) = client(&relay).await;
    ask(&client, request("GET", "/10"), &[]).await;
    let config = Config::http(plain(second.address)).unwrap();
    let reloaded = within(relay.reload(config)).await;
    assert!(matches!(reloaded, Event::Reloaded { .. }));
    ask(&client, request("GET", "/10"), &[]).await;
    let served = |origin: &Origin| origin.requests.load(Ordering::Relaxed);
    assert_eq!((served(&first), served(&second)), (1, 1));
}

/// A client that shares no code with ours.
#[tokio::test]
async fn curl_uploads_and_downloads_with_and_without_tls() {
    let site = Site::make();
    let origin = Origin::start().await;
    let directory = tempfile::tempdir().unwrap();
    let sent = directory.path().join("sent");
    std::fs::write(&sent, noise(3_000_000)).unwrap();
    for tls in [false, true] {
        let mut options = plain(origin.address);
        if tls {
            options.tls = TlsSideOptions {
                certificates: vec![site.certificate()],
                upstream: Some(longhaul_relay::Upstream::Plain),
                ..TlsSideOptions::default()
            };
        }
        let relay = Relay::start(options).await;
        let (scheme, how) = if tls {
            ("https", "--http2")
        } else {
            ("http", "--http2-prior-knowledge")
        };
        let url = format!("{scheme}://localhost:{}", relay.address.port());
        let curl = |words: &[&str], path: &str| {
            let mut command = Command::new("curl");
            command
                .args([
                    "-sS",
                    "--fail",
                    "--max-time",
                    "60",
                    how,
                    "-w",
                    "%{http_version}",
                ])
                .arg("--cacert")
                .arg(&site.files.authority)
                .args(words)
                .arg(format!("{url}{path}"))
                .kill_on_drop(true)
                .stdout(Stdio::piped());
            command.output()
        };
        let upload = format!("@{}", sent.display());
        let output = curl(&["-H", "Expect:", "--data-binary", &upload], "/").await;
        let output = output.expect("curl is installed");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text, format!("{}2", digest(&noise(3_000_000))));
        let output = curl(&[], "/1000000").await.unwrap();
        let (body, version) = output.stdout.split_at(1_000_000);
        assert_eq!(
            (digest(body), version),
            (digest(&noise(1_000_000)), b"2".as_slice())
        );
    }
}

/// The stream of a client that begins to speak and goes no further.
#[tokio::test]
async fn a_client_that_stops_after_its_first_words_is_let_go() {
    let origin = Origin::start().await;
    let mut options = plain(origin.address);
    options.limits.head_timeout = Some(Span::from(Duration::from_millis(50)));
    let mut relay = Relay::start(options).await;
    let mut streams = Vec::new();
    for begin in [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n".as_slice(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET / ",
    ] {
        let mut stream: TcpStream = relay.connect().await;
        stream.write_all(begin).await.unwrap();
        streams.push(stream);
    }
    for _ in 0..2 {
        let Event::RequestDone { phase, .. } = within(relay.request_done()).await else {
            unreachable!("request_done returns only that");
        };
        assert_eq!(phase, Phase::RequestHead);
    }
    for mut stream in streams {
        drop(within(read_to_end(&mut stream)).await);
    }
}
