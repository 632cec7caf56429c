//! What a trunk survives, and how it tells what it does not.

use longhaul_relay::trunk::TrunkEvent;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::{End, Wan, echo, far, listen, near, noise, plain, round_trip, sha256, within};

#[tokio::test]
async fn nothing_is_lost_while_every_wan_connection_is_killed_again_and_again() {
    within(async {
        let far_end = End::far(far("127.0.0.1:0", plain())).await;
        let wan = Wan::to(far_end.address).await;
        let mut near_end = End::near(near(&[wan.address], echo().await, plain())).await;
        let mut transfers = Vec::new();
        for seed in 1..=3 {
            let client = near_end.connect().await;
            transfers.push(tokio::spawn(async move {
                let bytes = noise(seed, 12_000_000);
                assert_eq!(round_trip(client, &bytes).await, sha256(&bytes));
            }));
        }
        let killing = async {
            for _ in 0..8 {
                joined(&mut near_end).await;
                wan.cut(true);
            }
            std::future::pending::<()>().await;
        };
        let ending = async {
            for transfer in transfers {
                transfer.await.unwrap();
            }
        };
        tokio::select! {
            () = killing => {}
            () = ending => {}
        }
    })
    .await;
}

#[tokio::test]
async fn streams_sit_out_a_wan_that_is_gone() {
    within(async {
        let far_end = End::far(far("127.0.0.1:0", plain())).await;
        let wan = Wan::to(far_end.address).await;
        let mut near_end = End::near(near(&[wan.address], echo().await, plain())).await;
        joined(&mut near_end).await;
        let mut client = near_end.connect().await;
        let mut got = [0; 4];
        client.write_all(b"ping").await.unwrap();
        client.read_exact(&mut got).await.unwrap();
        wan.cut(false);
        unreachable(&mut near_end).await;
        client.write_all(b"pong").await.unwrap();
        wan.cut(true);
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"pong");
    })
    .await;
}

#[tokio::test]
async fn an_outage_beyond_its_limit_ends_streams_with_its_reason() {
    within(async {
        let far_end = End::far(far("127.0.0.1:0", plain())).await;
        let wan = Wan::to(far_end.address).await;
        let mut options = near(&[wan.address], echo().await, plain());
        options.limits.outage = Some("300 ms".parse().unwrap());
        let mut near_end = End::near(options).await;
        joined(&mut near_end).await;
        let mut client = near_end.connect().await;
        let mut got = [0; 4];
        client.write_all(b"ping").await.unwrap();
        client.read_exact(&mut got).await.unwrap();
        wan.cut(false);
        let error = client.read(&mut got).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        let done = near_end.done().await;
        assert_eq!((done.ended_by, done.reason), ("trunk", Some("outage")));
    })
    .await;
}

#[tokio::test]
async fn a_stopped_far_end_ends_streams_with_its_reason_and_its_successor_serves() {
    within(async {
        let target = echo().await;
        let mut options = far("127.0.0.1:0", plain());
        options.limits.drain_timeout = Some("10 ms".parse().unwrap());
        let far_end = End::far(options.clone()).await;
        options.listen = far_end.address.to_string();
        let mut near_end = End::near(near(&[far_end.address], target, plain())).await;
        let mut client = near_end.connect().await;
        let mut got = [0; 4];
        client.write_all(b"ping").await.unwrap();
        client.read_exact(&mut got).await.unwrap();
        far_end.stopped().await;
        let error = client.read(&mut got).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        let done = near_end.done().await;
        assert!(done.error.is_some(), "{done:?}");
        let _successor = End::far(options).await;
        let bytes = noise(3, 100_000);
        assert_eq!(
            round_trip(near_end.connect().await, &bytes).await,
            sha256(&bytes)
        );
    })
    .await;
}

#[tokio::test]
async fn new_streams_go_to_another_far_relay_where_the_first_is_gone() {
    within(async {
        let target = echo().await;
        let first = End::far(far("127.0.0.1:0", plain())).await;
        let second = End::far(far("127.0.0.1:0", plain())).await;
        let wan = Wan::to(first.address).await;
        let vias = [wan.address, second.address];
        let mut near_end = End::near(near(&vias, target, plain())).await;
        joined(&mut near_end).await;
        joined(&mut near_end).await;
        wan.cut(false);
        unreachable(&mut near_end).await;
        let bytes = noise(5, 200_000);
        let client = near_end.connect().await;
        assert_eq!(round_trip(client, &bytes).await, sha256(&bytes));
        let done = near_end.done().await;
        assert!(
            done.trunk.ends_with(&second.address.to_string()),
            "{done:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn stopping_waits_for_streams() {
    within(async {
        let (listener, target) = listen().await;
        let far_end = End::far(far("127.0.0.1:0", plain())).await;
        let near_end = End::near(near(&[far_end.address], target, plain())).await;
        let mut client = near_end.connect().await;
        client.write_all(b"x").await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        server.read_exact(&mut [0]).await.unwrap();
        let stopping = tokio::spawn(near_end.stopped());
        server.write_all(b"late").await.unwrap();
        drop(server);
        let mut got = Vec::new();
        client.shutdown().await.unwrap();
        client.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"late");
        let events = stopping.await.unwrap();
        let aborted = events.iter().find_map(|event| match event {
            longhaul_relay::Event::Stopped { aborted, .. } => Some(*aborted),
            _ => None,
        });
        assert_eq!(aborted, Some(0));
    })
    .await;
}

async fn joined(near_end: &mut End) {
    near_end
        .trunk(|event| matches!(event, TrunkEvent::WanConnected(_)).then_some(()))
        .await;
}

async fn unreachable(near_end: &mut End) {
    near_end
        .trunk(|event| matches!(event, TrunkEvent::WanLost(_)).then_some(()))
        .await;
}
