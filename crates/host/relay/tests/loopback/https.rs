//! HTTP over TLS on both sides: signatures stay valid, pools stay hot, ends stay ends.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use longhaul_relay::{
    Config, EndedBy, Event, HttpOptions, Phase, TlsReport, TlsSideOptions, Upstream,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use units::Bytes;

use crate::harness::{
    Origin, Relay, digest, kernel_forgets_windows, listen, listen_with_room, noise, plain, primed,
    read_exactly, read_head, within,
};
use crate::tls::{Site, accept, connect};

/// Both sides speak TLS with what the site's authority has signed.
fn with_tls(site: &Site, options: HttpOptions) -> HttpOptions {
    HttpOptions {
        tls: TlsSideOptions {
            certificates: vec![site.certificate()],
            upstream_ca: Some(site.files.authority.clone()),
            ..TlsSideOptions::default()
        },
        ..options
    }
}

/// What was agreed on with the origin on the next connection to it.
async fn agreed(relay: &mut Relay) -> TlsReport {
    let connected = relay.event(|event| match event {
        Event::Connected { tls, .. } => Some(tls.clone()),
        _ => None,
    });
    *within(connected).await.expect("the origin speaks TLS")
}

#[tokio::test]
async fn requests_pass_unchanged_between_tls_on_both_sides() {
    let site = Site::make();
    let (listener, address) = listen().await;
    let mut relay = Relay::start(with_tls(&site, plain(address))).await;
    let connector = site.connector_for(&["http/1.1"]);
    let mut client = within(connect(&relay, &connector)).await;
    let (_, session) = client.get_ref();
    assert_eq!(session.alpn_protocol(), Some(b"http/1.1".as_slice()));
    // A head as SigV4 signs it, and a body that is longer than one record and one buffer.
    let body = noise(700_000);
    let head = format!(
        "PUT /bucket/key?x-id=PutObject HTTP/1.1\r\nHost: bucket.store.example\r\n\
         X-Amz-Date:  20261122T070000Z\r\nauthorization: AWS4-HMAC-SHA256 Credential=x\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    let acceptor = site.acceptor_for(&["http/1.1"]);
    let mut origin = within(accept(&listener, &acceptor)).await;
    let (_, session) = origin.get_ref();
    assert_eq!(session.alpn_protocol(), Some(b"http/1.1".as_slice()));
    let sent = body.clone();
    let sending = tokio::spawn(async move {
        client.write_all(&sent).await.unwrap();
        client.flush().await.unwrap();
        client
    });
    assert_eq!(within(read_head(&mut origin)).await, head);
    assert_eq!(
        digest(&read_exactly(&mut origin, body.len()).await),
        digest(&body)
    );
    let mut client = sending.await.unwrap();
    let answer = "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n";
    origin.write_all(answer.as_bytes()).await.unwrap();
    origin.flush().await.unwrap();
    assert_eq!(within(read_head(&mut client)).await, answer);
    let Event::RequestDone {
        client_tls,
        ended_by,
        ..
    } = within(relay.request_done()).await
    else {
        unreachable!("request_done returns only that");
    };
    assert_eq!(ended_by, EndedBy::Completed);
    assert_eq!(
        client_tls.unwrap().server_name.as_deref(),
        Some("localhost")
    );
}

#[tokio::test]
async fn a_pool_of_tls_connections_is_hot_before_the_first_request() {
    let site = Site::make();
    let origin = Origin::start_on(listen_with_room(), Some(site.acceptor()));
    let mut options = with_tls(&site, primed(origin.address));
    // Twice what a window begins with, and well within the origin's room.
    options.prime.window = Some(Bytes::kib(128));
    let mut relay = Relay::start(options).await;
    for _ in 0..2 {
        let missing = relay.event(|event| match event {
            Event::Primed { missing, .. } => Some(missing.clone()),
            _ => None,
        });
        assert_eq!(within(missing).await, []);
    }
    let hot = relay.event(|event| match event {
        Event::PoolReady { hot, .. } => Some(*hot),
        _ => None,
    });
    let hot = within(hot).await;
    assert!(hot == 2 || kernel_forgets_windows(), "{hot}");
    for _ in 0..3 {
        let mut client = within(connect(&relay, &site.connector())).await;
        let request = b"GET /2000000 HTTP/1.1\r\nHost: a\r\n\r\n";
        client.write_all(request).await.unwrap();
        within(read_head(&mut client)).await;
        let body = within(read_exactly(&mut client, 2_000_000)).await;
        assert_eq!(digest(&body), digest(&noise(2_000_000)));
        let Event::RequestDone { hot, .. } = within(relay.request_done()).await else {
            unreachable!("request_done returns only that");
        };
        assert!(hot || kernel_forgets_windows());
    }
    assert_eq!(origin.connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_connection_of_a_pool_resumes_the_session_of_the_one_before() {
    let site = Site::make();
    let origin = Origin::start_with(Some(site.acceptor())).await;
    let mut options = with_tls(&site, primed(origin.address));
    // Out of reach, so that priming takes all the requests that it may. Tickets come before their answers.
    options.prime.window = Some(Bytes::mib(64));
    options.prime.max_requests = Some(40);
    let mut relay = Relay::start(options).await;
    let first = agreed(&mut relay).await;
    assert_eq!(first.version, "1.3");
    assert_eq!(first.group.as_deref(), Some("X25519MLKEM768"));
    assert!(!first.resumed);
    assert!(agreed(&mut relay).await.resumed);
}

#[tokio::test]
async fn tickets_that_come_while_a_connection_is_idle_do_not_end_it() {
    let site = Site::make();
    // Each answer is followed by nothing, but each handshake by tickets.
    let origin = Origin::start_with(Some(site.acceptor())).await;
    let mut options = with_tls(&site, plain(origin.address));
    options.pool.min_idle = Some(1);
    let mut relay = Relay::start(options).await;
    agreed(&mut relay).await;
    let mut used = Vec::new();
    for _ in 0..2 {
        let mut client = within(connect(&relay, &site.connector())).await;
        let request = b"GET /10 HTTP/1.1\r\nHost: a\r\n\r\n";
        client.write_all(request).await.unwrap();
        within(read_head(&mut client)).await;
        let Event::RequestDone { connection, .. } = within(relay.request_done()).await else {
            unreachable!("request_done returns only that");
        };
        used.push(connection);
    }
    assert_eq!(used, [Some(1), Some(1)]);
}

#[tokio::test]
async fn an_origin_with_a_strange_certificate_gets_no_request() {
    let site = Site::make();
    let origin = Origin::start_with(Some(Site::make().acceptor())).await;
    let mut relay = Relay::start(with_tls(&site, plain(origin.address))).await;
    let mut client = within(connect(&relay, &site.connector())).await;
    client
        .write_all(b"DELETE /x HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let head = within(read_head(&mut client)).await;
    assert!(head.starts_with("HTTP/1.1 502"), "{head}");
    let Event::RequestDone { error, phase, .. } = within(relay.request_done()).await else {
        unreachable!("request_done returns only that");
    };
    assert_eq!(phase, Phase::Connecting);
    assert!(error.unwrap().contains("the TLS handshake with 127.0.0.1"));
    assert_eq!(origin.requests.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_client_without_tls_is_told_of_as_such() {
    let site = Site::make();
    let origin = Origin::start_with(Some(site.acceptor())).await;
    let mut relay = Relay::start(with_tls(&site, plain(origin.address))).await;
    let mut client = relay.connect().await;
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let Event::RequestDone {
        phase,
        ended_by,
        method,
        ..
    } = within(relay.request_done()).await
    else {
        unreachable!("request_done returns only that");
    };
    assert_eq!((phase, ended_by), (Phase::ClientHandshake, EndedBy::Client));
    assert_eq!(method, "-");
}

#[tokio::test]
async fn a_response_until_the_close_is_whole_only_after_close_notify() {
    let site = Site::make();
    let (listener, address) = listen().await;
    let relay = Relay::start(with_tls(&site, plain(address))).await;
    for cut in [false, true] {
        let mut client = within(connect(&relay, &site.connector())).await;
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let mut origin = within(accept(&listener, &site.acceptor())).await;
        within(read_head(&mut origin)).await;
        origin
            .write_all(b"HTTP/1.1 200 OK\r\n\r\nall of it")
            .await
            .unwrap();
        origin.flush().await.unwrap();
        if cut {
            // The socket's FIN, without the word of TLS before it.
            drop(origin);
        } else {
            origin.shutdown().await.unwrap();
        }
        within(read_head(&mut client)).await;
        let mut rest = Vec::new();
        let end = within(client.read_to_end(&mut rest)).await;
        if cut {
            let kind = end.unwrap_err().kind();
            assert!(
                matches!(kind, ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof),
                "{kind}"
            );
        } else {
            end.unwrap();
            assert_eq!(rest, b"all of it");
        }
    }
}

#[tokio::test]
async fn a_reload_with_the_same_certificates_keeps_the_pool_and_new_ones_are_shown() {
    let site = Site::make();
    let origin = Origin::start_with(Some(site.acceptor())).await;
    let mut options = with_tls(&site, plain(origin.address));
    options.pool.min_idle = Some(1);
    let mut relay = Relay::start(options.clone()).await;
    agreed(&mut relay).await;
    let config = || Config::http(options.clone()).unwrap();
    assert!(matches!(
        within(relay.reload(config())).await,
        Event::Reloaded { .. }
    ));
    let first = within(connect(&relay, &site.connector())).await;
    // The same authority signs another certificate into the same files.
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let directory = site.files.authority.parent().unwrap();
    longhaul_relay::Authority::make(directory, &names).unwrap();
    assert_eq!(origin.connections.load(Ordering::Relaxed), 1);
    assert!(matches!(
        within(relay.reload(config())).await,
        Event::Reloaded { .. }
    ));
    agreed(&mut relay).await;
    let second = within(connect(&relay, &site.connector())).await;
    let shown = |client: &tokio_rustls::TlsStream<tokio::net::TcpStream>| {
        client.get_ref().1.peer_certificates().unwrap()[0].clone()
    };
    assert_ne!(shown(&first), shown(&second));
}

#[test]
fn the_port_of_https_means_tls_and_plain_can_be_asked_for() {
    let with = |target: &str, upstream| {
        let options = HttpOptions {
            listen: "127.0.0.1:0".into(),
            target: target.into(),
            tls: TlsSideOptions {
                upstream,
                ..TlsSideOptions::default()
            },
            ..HttpOptions::default()
        };
        let config = Config::http(options).unwrap();
        let relay = &config.http[0];
        let name = relay.tls.server.as_ref().map(|server| server.name.clone());
        (name, relay.priming.as_ref().unwrap().host.clone())
    };
    let (name, host) = with("store.example:443", None);
    assert_eq!(name.as_deref(), Some("store.example"));
    assert_eq!(host, "store.example");
    assert_eq!(with("store.example:80", None).0, None);
    assert_eq!(with("store.example:443", Some(Upstream::Plain)).0, None);
    assert!(with("store.example:9000", Some(Upstream::Tls)).0.is_some());
}
