use std::time::Duration;

use longhaul_relay::{EndedBy, Event, Phase, Stage};
use profile::Side;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use units::Span;

use crate::harness::{Relay, listen, plain, read_exactly, read_head, read_to_end, within};

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: o\r\n\r\n";
const POST: &[u8] = b"POST /a HTTP/1.1\r\nHost: o\r\nContent-Length: 2\r\n\r\nhi";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Serves one request on a connection of the origin.
async fn serve(origin: &mut TcpStream, request: &[u8]) {
    assert_eq!(read_exactly(origin, request.len()).await, request);
    origin.write_all(OK).await.unwrap();
}

/// A client whose first request was served over the returned connection of the origin.
async fn warmed(relay: &Relay, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = relay.connect().await;
    client.write_all(GET).await.unwrap();
    let (mut origin, _) = listener.accept().await.unwrap();
    serve(&mut origin, GET).await;
    assert_eq!(read_exactly(&mut client, OK.len()).await, OK);
    (client, origin)
}

#[tokio::test]
async fn a_connection_that_the_origin_closed_while_idle_is_not_used() {
    within(async {
        let (listener, target) = listen().await;
        let mut relay = Relay::start(plain(target)).await;
        let (mut client, origin) = warmed(&relay, &listener).await;
        drop(origin);
        // The keeper sees the end within its second; on loopback the FIN is there long before that.
        relay
            .event(|event| matches!(event, Event::Closed { .. }).then_some(()))
            .await;
        client.write_all(POST).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        serve(&mut origin, POST).await;
        assert_eq!(read_exactly(&mut client, OK.len()).await, OK);
    })
    .await;
}

#[tokio::test]
async fn a_safe_request_is_sent_again_when_a_used_connection_ends_without_answer() {
    within(async {
        let (listener, target) = listen().await;
        let mut relay = Relay::start(plain(target)).await;
        let (mut client, mut origin) = warmed(&relay, &listener).await;
        relay.request_done().await;
        client.write_all(GET).await.unwrap();
        read_exactly(&mut origin, GET.len()).await;
        drop(origin);
        let (mut origin, _) = listener.accept().await.unwrap();
        serve(&mut origin, GET).await;
        assert_eq!(read_exactly(&mut client, OK.len()).await, OK);
    })
    .await;
}

#[tokio::test]
async fn a_request_that_may_have_had_an_effect_is_not_sent_again() {
    within(async {
        let (listener, target) = listen().await;
        let mut relay = Relay::start(plain(target)).await;
        let (mut client, mut origin) = warmed(&relay, &listener).await;
        relay.request_done().await;
        client.write_all(POST).await.unwrap();
        read_exactly(&mut origin, POST.len()).await;
        drop(origin);
        assert!(read_head(&mut client).await.starts_with("HTTP/1.1 502 "));
        let Event::RequestDone {
            ended_by, phase, ..
        } = relay.request_done().await
        else {
            unreachable!("request_done returns nothing else");
        };
        assert_eq!((ended_by, phase), (EndedBy::Server, Phase::ResponseHead));
        let connected = |event: &Event| matches!(event, Event::Connected { .. });
        assert!(!relay.stopped().await.iter().any(connected));
    })
    .await;
}

#[tokio::test]
async fn a_safe_request_on_a_new_connection_is_not_sent_again() {
    within(async {
        let (listener, target) = listen().await;
        let relay = Relay::start(plain(target)).await;
        let mut client = relay.connect().await;
        client.write_all(GET).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        read_exactly(&mut origin, GET.len()).await;
        drop(origin);
        assert!(read_head(&mut client).await.starts_with("HTTP/1.1 502 "));
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_inside_its_body_leaves_no_request_behind() {
    within(async {
        let (listener, target) = listen().await;
        let mut relay = Relay::start(plain(target)).await;
        let mut client = relay.connect().await;
        client.write_all(&POST[..POST.len() - 1]).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        read_exactly(&mut origin, POST.len() - 1).await;
        drop(client);
        assert_eq!(read_to_end(&mut origin).await, b"");
        let Event::RequestDone {
            ended_by,
            phase,
            status,
            ..
        } = relay.request_done().await
        else {
            unreachable!("request_done returns nothing else");
        };
        assert_eq!(
            (ended_by, phase, status),
            (EndedBy::Client, Phase::RequestBody, None)
        );
    })
    .await;
}

#[tokio::test]
async fn stopping_lets_a_request_under_way_finish_and_closes_idle_clients() {
    within(async {
        let (listener, target) = listen().await;
        let mut relay = Relay::start(plain(target)).await;
        let (mut idle, kept) = warmed(&relay, &listener).await;
        // Until then its connection is not in the pool again.
        relay.request_done().await;
        let mut busy = relay.connect().await;
        busy.write_all(GET).await.unwrap();
        // The idle connection serves it.
        let mut origin = kept;
        assert_eq!(read_exactly(&mut origin, GET.len()).await, GET);
        relay.order_stop();
        assert_eq!(read_to_end(&mut idle).await, b"");
        let clients = relay
            .event(|event| match event {
                Event::Draining { clients } => Some(*clients),
                _ => None,
            })
            .await;
        assert!(clients >= 1);
        // A process that another test is starting may hold the socket for a moment.
        while TcpStream::connect(relay.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        origin.write_all(OK).await.unwrap();
        let head = read_head(&mut busy).await;
        assert!(head.contains("\r\nConnection: close\r\n"), "{head}");
        assert_eq!(read_to_end(&mut busy).await, b"ok");
        let rest = relay.stopped().await;
        let aborted = |event: &Event| match event {
            Event::Stopped {
                aborted, requests, ..
            } => Some((*aborted, *requests)),
            _ => None,
        };
        assert_eq!(rest.iter().find_map(aborted), Some((0, Some(2))));
    })
    .await;
}

#[tokio::test]
async fn what_does_not_finish_is_cut_off_at_the_drain_deadline() {
    within(async {
        let (listener, target) = listen().await;
        let mut options = plain(target);
        options.limits.drain_timeout = Some(Span::from(Duration::from_millis(100)));
        let relay = Relay::start(options).await;
        let mut client = relay.connect().await;
        client.write_all(GET).await.unwrap();
        let (_origin, _) = listener.accept().await.unwrap();
        let rest = relay.stopped().await;
        assert!(
            rest.iter()
                .any(|event| matches!(event, Event::Stopped { aborted: 1, .. }))
        );
        let told = |event: &Event| match event {
            Event::RequestDone {
                ended_by, phase, ..
            } => Some((*ended_by, *phase)),
            _ => None,
        };
        assert_eq!(
            rest.iter().find_map(told),
            Some((EndedBy::Relay, Phase::ResponseHead))
        );
    })
    .await;
}

#[tokio::test]
async fn requests_beyond_the_last_connection_wait_for_one() {
    within(async {
        let (listener, target) = listen().await;
        let mut options = plain(target);
        options.pool.max_connections = Some(1);
        let relay = Relay::start(options).await;
        let mut first = relay.connect().await;
        first.write_all(GET).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        read_exactly(&mut origin, GET.len()).await;
        let mut second = relay.connect().await;
        second.write_all(POST).await.unwrap();
        origin.write_all(OK).await.unwrap();
        assert_eq!(read_exactly(&mut first, OK.len()).await, OK);
        serve(&mut origin, POST).await;
        assert_eq!(read_exactly(&mut second, OK.len()).await, OK);
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_makes_way_for_a_request_that_needs_a_new_one() {
    within(async {
        let (listener, target) = listen().await;
        let mut options = plain(target);
        options.pool.max_connections = Some(1);
        let relay = Relay::start(options).await;
        let (_first, _kept) = warmed(&relay, &listener).await;
        let mut second = relay.connect().await;
        let old = b"GET /a HTTP/1.0\r\n\r\n";
        second.write_all(old).await.unwrap();
        let (mut origin, _) = listener.accept().await.unwrap();
        serve(&mut origin, old).await;
        assert!(read_head(&mut second).await.starts_with("HTTP/1.1 200"));
    })
    .await;
}

#[tokio::test]
async fn profiles_are_read_back_before_the_first_client_and_after_data_has_flowed() {
    within(async {
        let (listener, target) = listen().await;
        let mut relay = Relay::start(plain(target)).await;
        let applied = |event: &Event| match event {
            Event::Applied {
                side,
                stage,
                options,
                ..
            } => Some((*side, *stage, options.clone())),
            _ => None,
        };
        let (side, stage, inherited) = relay.event(applied).await;
        assert_eq!((side, stage), (Side::Client, Stage::Listening));
        warmed(&relay, &listener).await;
        let (side, stage, connected) = relay.event(applied).await;
        assert_eq!((side, stage), (Side::Server, Stage::Connected));
        let mut later = [relay.event(applied).await, relay.event(applied).await];
        later.sort_by_key(|(side, ..)| *side == Side::Server);
        assert_eq!(
            later,
            [
                (Side::Client, Stage::AfterData, inherited),
                (Side::Server, Stage::AfterData, connected)
            ]
        );
    })
    .await;
}
