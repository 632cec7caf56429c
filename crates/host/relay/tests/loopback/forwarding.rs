use std::sync::atomic::Ordering;
use std::time::Duration;

use longhaul_relay::{EndedBy, Event, Expect};
use tokio::io::AsyncWriteExt;

use crate::harness::{
    Origin, Relay, digest, listen, noise, once, plain, read_exactly, read_head, read_to_end, within,
};

#[tokio::test]
async fn start_line_host_fields_chunks_and_trailers_arrive_byte_for_byte() {
    within(async {
        let (listener, target) = listen().await;
        let relay = Relay::start(plain(target)).await;
        let request = b"PUT /b/k%20%2f?x-id=PutObject&a=%C3%A9 HTTP/1.1\r\nhOST: Store.Example:80\r\n\
            Authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;x-amz-date\r\n\
            X-Odd:   two  spaces\t\r\nX-Empty:\r\nx-latin: caf\xe9\r\nTransfer-Encoding: chunked\r\n\
            Trailer: x-amz-checksum-crc32c\r\n\r\n\
            5;chunk-signature=0a1b\r\nhello\r\n00A\r\n0123456789\r\n0\r\n\
            x-amz-checksum-crc32c: sOO8/Q==\r\n\r\n";
        let response = b"HTTP/1.1 200  Fine, thanks\r\neTAG: \"x\"\r\nServer:  S\r\nContent-Length: 3\r\n\r\nabc";

        let mut client = relay.connect().await;
        // In pieces that cut lines, chunks and the trailer.
        let send = async {
            for piece in request.chunks(7) {
                client.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            read_exactly(&mut client, response.len()).await
        };
        let serve = async {
            let (mut origin, _) = listener.accept().await.unwrap();
            let got = read_exactly(&mut origin, request.len()).await;
            origin.write_all(response).await.unwrap();
            got
        };
        let (answered, got) = tokio::join!(send, serve);
        assert_eq!(got, request);
        assert_eq!(answered, response);
    })
    .await;
}

#[tokio::test]
async fn uploads_and_downloads_keep_their_digest_over_one_upstream_connection() {
    within(async {
        let origin = Origin::start().await;
        let mut relay = Relay::start(plain(origin.address)).await;
        let mut done = Vec::new();
        for size in [0, 1, 102_400, 1_048_576, 5_000_000] {
            let body = noise(size);
            let head = format!(
                "POST / HTTP/1.1\r\nHost: o\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n"
            );
            let answer = once(&relay, &[head.as_bytes(), &body].concat()).await;
            assert!(answer.ends_with(&digest(&body)), "{answer}");
            assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
            // Until then its connection is not in the pool again.
            done.push(relay.request_done().await);

            let mut client = relay.connect().await;
            let get = format!("GET /{size} HTTP/1.1\r\nHost: o\r\n\r\n");
            client.write_all(get.as_bytes()).await.unwrap();
            let head = read_head(&mut client).await;
            assert!(!head.to_lowercase().contains("connection: close"), "{head}");
            assert_eq!(
                digest(&read_exactly(&mut client, size).await),
                digest(&body)
            );
            done.push(relay.request_done().await);
        }
        // Ten clients, one of them saying close each time: the origin saw one connection.
        assert_eq!(origin.connections.load(Ordering::Relaxed), 1);
        let Event::RequestDone {
            ended_by,
            status,
            bytes_up,
            ..
        } = &done[0]
        else {
            unreachable!("request_done returns nothing else");
        };
        assert_eq!(
            (*ended_by, *status, *bytes_up),
            (EndedBy::Completed, Some(200), 0)
        );
    })
    .await;
}

#[tokio::test]
async fn a_body_is_forwarded_while_it_is_still_arriving() {
    within(async {
        let (listener, target) = listen().await;
        let relay = Relay::start(plain(target)).await;
        let mut client = relay.connect().await;
        let head = b"POST / HTTP/1.1\r\nHost: o\r\nContent-Length: 6\r\n\r\n";
        client.write_all(head).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        assert_eq!(read_exactly(&mut origin, head.len()).await, head);
        for byte in [b"abc", b"def"] {
            client.write_all(byte).await.unwrap();
            assert_eq!(read_exactly(&mut origin, 3).await, byte);
        }
        origin
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            .await
            .unwrap();
        read_head(&mut client).await;
        for chunk in [b"1\r\nx\r\n", b"1\r\ny\r\n"] {
            origin.write_all(chunk).await.unwrap();
            assert_eq!(read_exactly(&mut client, 6).await, chunk);
        }
    })
    .await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    within(async {
        let origin = Origin::start().await;
        let relay = Relay::start(plain(origin.address)).await;
        let mut client = relay.connect().await;
        let requests = "\r\nGET /3 HTTP/1.1\r\nHost: o\r\n\r\nPOST / HTTP/1.1\r\nHost: o\r\n\
            Content-Length: 2\r\n\r\nhiHEAD / HTTP/1.1\r\nHost: o\r\n\r\n\
            GET /5 HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\nGET /9 HTTP/1.1\r\nHost: o\r\n\r\n";
        client.write_all(requests.as_bytes()).await.unwrap();
        read_head(&mut client).await;
        assert_eq!(read_exactly(&mut client, 3).await, noise(3));
        read_head(&mut client).await;
        assert_eq!(read_exactly(&mut client, 64).await, digest(b"hi").as_bytes());
        read_head(&mut client).await;
        read_head(&mut client).await;
        // Nothing after the answer to the request that said close.
        assert_eq!(read_to_end(&mut client).await, noise(5));
        assert_eq!(origin.requests.load(Ordering::Relaxed), 4);
    })
    .await;
}

#[tokio::test]
async fn an_expectation_goes_through_and_interim_responses_come_back() {
    within(async {
        let (listener, target) = listen().await;
        let relay = Relay::start(plain(target)).await;
        let mut client = relay.connect().await;
        let head =
            b"PUT /k HTTP/1.1\r\nHost: o\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
        client.write_all(head).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        assert_eq!(read_exactly(&mut origin, head.len()).await, head);
        origin
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(
            read_head(&mut client).await,
            "HTTP/1.1 100 Continue\r\n\r\n"
        );
        client.write_all(b"body").await.unwrap();
        assert_eq!(read_exactly(&mut origin, 4).await, b"body");
        let last = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
        origin.write_all(last.as_bytes()).await.unwrap();
        assert_eq!(read_head(&mut client).await, last);
    })
    .await;
}

#[tokio::test]
async fn an_expectation_can_be_answered_here_and_the_origins_word_is_then_kept() {
    within(async {
        let (listener, target) = listen().await;
        let mut options = plain(target);
        options.expect = Some(Expect::Answer);
        let relay = Relay::start(options).await;
        let mut client = relay.connect().await;
        let head =
            b"PUT /k HTTP/1.1\r\nHost: o\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\n";
        client.write_all(head).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        // The origin has said nothing yet.
        let word = "HTTP/1.1 100 Continue\r\n\r\n";
        assert_eq!(read_head(&mut client).await, word);
        client.write_all(b"body").await.unwrap();
        assert_eq!(read_exactly(&mut origin, head.len()).await, head);
        assert_eq!(read_exactly(&mut origin, 4).await, b"body");
        origin.write_all(word.as_bytes()).await.unwrap();
        let last = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
        origin.write_all(last.as_bytes()).await.unwrap();
        assert_eq!(read_head(&mut client).await, last);
        // A client whose body comes at once waits for nothing, and is told what the origin says.
        client
            .write_all(&[head.as_slice(), b"body"].concat())
            .await
            .unwrap();
        assert_eq!(
            read_exactly(&mut origin, head.len() + 4).await[head.len()..],
            *b"body"
        );
        origin.write_all(word.as_bytes()).await.unwrap();
        assert_eq!(read_head(&mut client).await, word);
    })
    .await;
}

/// Seen in the field behind another proxy: the client sends `Expect`, the origin refuses without
/// reading the body, the client reuses its connection, and the start of its next request is eaten as the
/// body of the last.
#[tokio::test]
async fn a_final_status_before_the_body_ends_both_connections() {
    within(async {
        let (listener, target) = listen().await;
        let relay = Relay::start(plain(target)).await;
        let mut client = relay.connect().await;
        let head =
            b"PUT /k HTTP/1.1\r\nHost: o\r\nExpect: 100-continue\r\nContent-Length: 999\r\n\r\n";
        client.write_all(head).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        read_exactly(&mut origin, head.len()).await;
        origin
            .write_all(b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 2\r\n\r\nno")
            .await
            .unwrap();
        assert_eq!(
            read_head(&mut client).await,
            "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
        );
        // A client that does not read the header sends its next request regardless: it must not reach
        // the origin as a body.
        client
            .write_all(b"GET /next HTTP/1.1\r\nHost: o\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(read_to_end(&mut client).await, b"no");
        assert_eq!(read_to_end(&mut origin).await, b"");

        let mut client = relay.connect().await;
        let next = b"GET /next HTTP/1.1\r\nHost: o\r\n\r\n";
        client.write_all(next).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        assert_eq!(read_exactly(&mut origin, next.len()).await, next);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_has_finished_sending_still_gets_its_answer() {
    within(async {
        let origin = Origin::start().await;
        let relay = Relay::start(plain(origin.address)).await;
        let mut client = relay.connect().await;
        client
            .write_all(b"GET /70000 HTTP/1.1\r\nHost: o\r\n\r\n")
            .await
            .unwrap();
        client.shutdown().await.unwrap();
        let answer = read_to_end(&mut client).await;
        assert!(answer.ends_with(&noise(70_000)));
    })
    .await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_its_origin_back() {
    within(async {
        const SIZE: usize = 512 << 20;
        let (listener, target) = listen().await;
        let relay = Relay::start(plain(target)).await;
        let mut client = relay.connect().await;
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: o\r\n\r\n")
            .await
            .unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        read_head(&mut origin).await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n");
        origin.write_all(head.as_bytes()).await.unwrap();
        let piece = vec![7; 1 << 20];
        let mut written = 0;
        // The end of the flow is when a whole second takes nothing more.
        while let Ok(count) =
            tokio::time::timeout(Duration::from_secs(1), origin.write(&piece)).await
        {
            written += count.unwrap();
        }
        // What the kernel's four buffers hold (at most 32 + 4 MiB per connection), plus 256 KiB here.
        assert!(
            written < 100 << 20,
            "{written} bytes were taken from the origin"
        );
        let rest = tokio::spawn(async move {
            while written < SIZE {
                let end = piece.len().min(SIZE - written);
                written += origin.write(&piece[..end]).await.unwrap();
            }
        });
        read_head(&mut client).await;
        let mut left = SIZE;
        while left > 0 {
            let bytes = read_exactly(&mut client, left.min(1 << 20)).await;
            assert!(bytes.iter().all(|&byte| byte == 7));
            left -= bytes.len();
        }
        rest.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_upgraded_connection_becomes_a_tunnel() {
    within(async {
        let (listener, target) = listen().await;
        let relay = Relay::start(plain(target)).await;
        let mut client = relay.connect().await;
        let head =
            b"GET /chat HTTP/1.1\r\nHost: o\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        client.write_all(head).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        assert_eq!(read_exactly(&mut origin, head.len()).await, head);
        let answer =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        origin
            .write_all(format!("{answer}early").as_bytes())
            .await
            .unwrap();
        assert_eq!(read_head(&mut client).await, answer);
        assert_eq!(read_exactly(&mut client, 5).await, b"early");
        client.write_all(b"\0\xffany bytes").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(read_to_end(&mut origin).await, b"\0\xffany bytes");
        origin.write_all(b"and back").await.unwrap();
        drop(origin);
        assert_eq!(read_to_end(&mut client).await, b"and back");
    })
    .await;
}

#[tokio::test]
async fn a_client_of_version_1_0_is_served_over_a_connection_of_its_own() {
    within(async {
        let origin = Origin::start().await;
        let relay = Relay::start(plain(origin.address)).await;
        let answer = once(&relay, b"GET /4 HTTP/1.0\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        once(
            &relay,
            b"GET /4 HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n",
        )
        .await;
        assert_eq!(origin.connections.load(Ordering::Relaxed), 2);
    })
    .await;
}

/// The client does what it should and stops sending its body; its answer used to be cut off for it.
#[tokio::test]
async fn a_client_that_stops_sending_after_a_final_status_gets_the_whole_answer() {
    within(async {
        let (listener, target) = listen().await;
        let mut relay = Relay::start(plain(target)).await;
        let mut client = relay.connect().await;
        let head = b"PUT /k HTTP/1.1\r\nHost: o\r\nContent-Length: 999\r\n\r\n";
        client.write_all(head).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        read_exactly(&mut origin, head.len()).await;
        origin
            .write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nnot")
            .await
            .unwrap();
        read_head(&mut client).await;
        client.shutdown().await.unwrap();
        assert_eq!(read_exactly(&mut client, 3).await, b"not");
        origin.write_all(b"yet").await.unwrap();
        assert_eq!(read_to_end(&mut client).await, b"yet");
        let Event::RequestDone {
            ended_by, status, ..
        } = relay.request_done().await
        else {
            unreachable!("request_done returns nothing else");
        };
        assert_eq!((ended_by, status), (EndedBy::Completed, Some(403)));
    })
    .await;
}

/// A read that fills the buffer exactly leaves the socket marked as readable. Taken for the start of a
/// request, that ended idle connections with a 408.
#[tokio::test]
async fn an_idle_client_is_not_told_408_whatever_the_size_of_its_last_body() {
    const SIZE: usize = 256 * 1024;
    within(async {
        let (listener, target) = listen().await;
        let mut options = plain(target);
        options.limits.head_timeout = Some(units::Span::from(Duration::from_millis(50)));
        let relay = Relay::start(options).await;
        let mut client = relay.connect().await;
        let head = format!("PUT / HTTP/1.1\r\nHost: o\r\nContent-Length: {SIZE}\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        read_head(&mut origin).await;
        client.write_all(&noise(SIZE)).await.unwrap();
        read_exactly(&mut origin, SIZE).await;
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        origin.write_all(answer).await.unwrap();
        assert_eq!(read_exactly(&mut client, answer.len()).await, answer);
        // Ten times as long as a head may take: nothing may come.
        let silence = tokio::io::AsyncReadExt::read_u8(&mut client);
        let silence = tokio::time::timeout(Duration::from_millis(500), silence).await;
        assert!(silence.is_err(), "{silence:?}");
    })
    .await;
}

#[tokio::test]
async fn interim_responses_are_kept_from_clients_of_version_1_0() {
    within(async {
        let (listener, target) = listen().await;
        let relay = Relay::start(plain(target)).await;
        let mut client = relay.connect().await;
        client.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        read_head(&mut origin).await;
        origin
            .write_all(
                b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            )
            .await
            .unwrap();
        assert!(read_head(&mut client).await.starts_with("HTTP/1.1 200 OK"));
        // Such an origin closes after its answer, so its connection is not kept.
        assert_eq!(read_to_end(&mut origin).await, b"");
    })
    .await;
}
