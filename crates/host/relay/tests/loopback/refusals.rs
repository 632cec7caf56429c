use longhaul_relay::{EndedBy, Event, Phase};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use units::Span;

use crate::harness::{Relay, listen, nobody, once, plain, read_head, read_to_end, within};

fn outcome(event: &Event) -> (Option<u16>, EndedBy, Phase) {
    match event {
        Event::RequestDone {
            status,
            ended_by,
            phase,
            ..
        } => (*status, *ended_by, *phase),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn ambiguous_requests_get_400_and_never_reach_the_origin() {
    within(async {
        let (_listener, target) = listen().await;
        let mut relay = Relay::start(plain(target)).await;
        for lines in [
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 4\r\nContent-Length: 5\r\n",
            "Transfer-Encoding: chunked, identity\r\n",
            "Transfer-Encoding : chunked\r\n",
            "X: a\r\n folded\r\n",
            "X: a\nY: b\r\n",
        ] {
            let request = format!("POST / HTTP/1.1\r\nHost: o\r\n{lines}\r\n0\r\n\r\n");
            let answer = once(&relay, request.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{lines:?}: {answer}");
            assert!(answer.contains("\r\nConnection: close\r\n"));
            let done = relay.request_done().await;
            assert_eq!(
                outcome(&done),
                (Some(400), EndedBy::Client, Phase::RequestHead)
            );
        }
        let rest = relay.stopped().await;
        assert!(
            !rest
                .iter()
                .any(|event| matches!(event, Event::Connected { .. }))
        );
    })
    .await;
}

#[tokio::test]
async fn a_chunk_that_does_not_parse_ends_the_request_at_the_origin_unfinished() {
    within(async {
        let (listener, target) = listen().await;
        let mut relay = Relay::start(plain(target)).await;
        let mut client = relay.connect().await;
        let head = "POST / HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\n";
        client
            .write_all(format!("{head}3\r\nabc\r\n").as_bytes())
            .await
            .unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        assert_eq!(read_head(&mut origin).await, head);
        client.write_all(b"0x3\r\nabc\r\n0\r\n\r\n").await.unwrap();
        assert_eq!(read_to_end(&mut origin).await, b"3\r\nabc\r\n");
        assert!(read_head(&mut client).await.starts_with("HTTP/1.1 400 "));
        let done = relay.request_done().await;
        assert_eq!(
            outcome(&done),
            (Some(400), EndedBy::Client, Phase::RequestBody)
        );
    })
    .await;
}

#[tokio::test]
async fn heads_that_are_too_long_or_too_slow_are_refused() {
    within(async {
        let (_listener, target) = listen().await;
        let mut options = plain(target);
        options.limits.head = Some(units::Bytes::kib(4));
        options.limits.head_timeout = Some(Span::from(Duration::from_millis(200)));
        let mut relay = Relay::start(options).await;
        let long = format!(
            "GET / HTTP/1.1\r\nHost: o\r\nX: {}\r\n\r\n",
            "a".repeat(5000)
        );
        let answer = once(&relay, long.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
        relay.request_done().await;
        let answer = once(&relay, b"GET / HT").await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        let done = relay.request_done().await;
        assert_eq!(
            outcome(&done),
            (Some(408), EndedBy::Timeout, Phase::RequestHead)
        );
        let answer = once(&relay, b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 501 "), "{answer}");
    })
    .await;
}

#[tokio::test]
async fn an_absent_silent_or_babbling_origin_is_told_apart() {
    within(async {
        let get = b"GET /a?secret HTTP/1.1\r\nHost: o\r\n\r\n";
        let (_nobody, target) = nobody();
        let mut relay = Relay::start(plain(target)).await;
        assert!(once(&relay, get).await.starts_with("HTTP/1.1 502 "));
        let done = relay.request_done().await;
        assert_eq!(
            outcome(&done),
            (Some(502), EndedBy::Server, Phase::Connecting)
        );
        assert!(!serde_json::to_string(&done).unwrap().contains("secret"));

        let (_listener, target) = listen().await;
        let mut options = plain(target);
        options.limits.response_timeout = Some(Span::from(Duration::from_millis(200)));
        let mut relay = Relay::start(options).await;
        assert!(once(&relay, get).await.starts_with("HTTP/1.1 504 "));
        let done = relay.request_done().await;
        assert_eq!(
            outcome(&done),
            (Some(504), EndedBy::Timeout, Phase::ResponseHead)
        );

        let (listener, target) = listen().await;
        let mut relay = Relay::start(plain(target)).await;
        let babble = async {
            let (mut origin, _) = listener.accept().await.unwrap();
            read_head(&mut origin).await;
            origin
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx")
                .await
                .unwrap();
        };
        let (answer, ()) = tokio::join!(once(&relay, get), babble);
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        let done = relay.request_done().await;
        assert_eq!(
            outcome(&done),
            (Some(502), EndedBy::Server, Phase::ResponseHead)
        );
    })
    .await;
}

#[tokio::test]
async fn a_response_that_has_begun_may_take_longer_than_its_beginning() {
    within(async {
        let limit = Duration::from_millis(50);
        let (listener, target) = listen().await;
        let mut options = plain(target);
        options.limits.response_timeout = Some(Span::from(limit));
        let mut relay = Relay::start(options).await;
        let mut client = relay.connect().await;
        let get = b"GET / HTTP/1.1\r\nHost: o\r\n\r\n";
        client.write_all(get).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        read_head(&mut origin).await;
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na";
        origin.write_all(head).await.unwrap();
        let mut answer = vec![0; head.len()];
        client.read_exact(&mut answer).await.unwrap();
        // The limit has long passed when the rest comes.
        tokio::time::sleep(4 * limit).await;
        origin.write_all(b"b").await.unwrap();
        let mut rest = [0];
        client.read_exact(&mut rest).await.unwrap();
        assert_eq!(rest, *b"b");
        let done = relay.request_done().await;
        assert_eq!(
            outcome(&done),
            (Some(200), EndedBy::Completed, Phase::ResponseBody)
        );
    })
    .await;
}

#[tokio::test]
async fn a_response_cut_short_is_cut_short_for_the_client_too() {
    within(async {
        for head in [
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n",
        ] {
            let (listener, target) = listen().await;
            let mut relay = Relay::start(plain(target)).await;
            let mut client = relay.connect().await;
            client
                .write_all(b"GET / HTTP/1.1\r\nHost: o\r\n\r\n")
                .await
                .unwrap();
            let (mut origin, _) = listener.accept().await.unwrap();
            read_head(&mut origin).await;
            origin
                .write_all(format!("{head}abc").as_bytes())
                .await
                .unwrap();
            drop(origin);
            let mut bytes = Vec::new();
            let ended = client.read_to_end(&mut bytes).await;
            assert!(ended.is_err() || bytes.len() < head.len() + 10);
            let done = relay.request_done().await;
            assert_eq!(
                outcome(&done),
                (Some(200), EndedBy::Server, Phase::ResponseBody)
            );
        }
    })
    .await;
}

#[tokio::test]
async fn an_address_outside_the_allowed_blocks_is_turned_away() {
    within(async {
        let (_listener, target) = listen().await;
        let mut options = plain(target);
        options.allow = vec!["192.0.2.0/24".into()];
        let mut relay = Relay::start(options).await;
        let mut client = TcpStream::connect(relay.address).await.unwrap();
        assert_eq!(read_to_end(&mut client).await, b"");
        relay
            .event(|event| matches!(event, Event::Refused { .. }).then_some(()))
            .await;
    })
    .await;
}
