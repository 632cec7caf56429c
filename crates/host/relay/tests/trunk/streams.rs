//! What passes through a trunk whose WAN is well.

use longhaul_relay::Authority;
use longhaul_relay::trunk::{
    FarOptions, Identity, ListenerOptions, NearOptions, SecurityOptions, TrunkEvent,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::{End, echo, far, listen, near, noise, plain, round_trip, sha256, within};

#[tokio::test]
async fn streams_arrive_unchanged_both_ways_side_by_side() {
    within(async {
        let far_end = End::far(far("127.0.0.1:0", plain())).await;
        let mut near_end = End::near(near(&[far_end.address], echo().await, plain())).await;
        let mut transfers = Vec::new();
        for seed in 1..=6 {
            let client = near_end.connect().await;
            transfers.push(tokio::spawn(async move {
                let bytes = noise(seed, 3_000_000 + usize::try_from(seed).unwrap() * 70_001);
                assert_eq!(round_trip(client, &bytes).await, sha256(&bytes));
            }));
        }
        for transfer in transfers {
            transfer.await.unwrap();
        }
        for _ in 1..=6 {
            let done = near_end.done().await;
            assert_eq!(done.ended_by, "completed", "{done:?}");
            assert!(done.sent.confirmed && done.received.confirmed, "{done:?}");
            assert_eq!(done.sent.bytes, done.received.bytes);
            assert_eq!(done.sent.digest, done.received.digest);
        }
    })
    .await;
}

#[tokio::test]
async fn each_end_keeps_a_receipt_of_the_same_bytes() {
    within(async {
        let mut far_end = End::far(far("127.0.0.1:0", plain())).await;
        let target = echo().await;
        let mut near_end = End::near(near(&[far_end.address], target, plain())).await;
        let bytes = noise(7, 100_000);
        round_trip(near_end.connect().await, &bytes).await;
        let (here, there) = (near_end.done().await, far_end.done().await);
        assert_eq!(here.sent.digest, there.received.digest);
        assert_eq!((here.sent.bytes, there.received.bytes), (100_000, 100_000));
        assert_eq!(there.server, Some(target));
        assert!(here.client.is_some() && here.server.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_half_close_is_passed_on_and_leaves_the_other_direction_open() {
    within(async {
        let (listener, target) = listen().await;
        let far_end = End::far(far("127.0.0.1:0", plain())).await;
        let near_end = End::near(near(&[far_end.address], target, plain())).await;
        let mut client = near_end.connect().await;
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        server.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"question");
        server.write_all(b"answer").await.unwrap();
        drop(server);
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"answer");
    })
    .await;
}

#[tokio::test]
async fn a_reset_is_passed_on_as_a_reset() {
    within(async {
        let (listener, target) = listen().await;
        let far_end = End::far(far("127.0.0.1:0", plain())).await;
        let mut near_end = End::near(near(&[far_end.address], target, plain())).await;
        let mut client = near_end.connect().await;
        client.write_all(b"x").await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        server.read_exact(&mut [0]).await.unwrap();
        server.set_zero_linger().unwrap();
        drop(server);
        let error = client.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        let done = near_end.done().await;
        assert_eq!((done.ended_by, done.reason), ("other-end", Some("reset")));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_without_a_word_from_the_client() {
    within(async {
        let (listener, target) = listen().await;
        let far_end = End::far(far("127.0.0.1:0", plain())).await;
        let near_end = End::near(near(&[far_end.address], target, plain())).await;
        let mut client = near_end.connect().await;
        let (mut server, _) = listener.accept().await.unwrap();
        server.write_all(b"SSH-2.0-x").await.unwrap();
        let mut greeting = [0; 9];
        client.read_exact(&mut greeting).await.unwrap();
        assert_eq!(&greeting, b"SSH-2.0-x");
    })
    .await;
}

#[tokio::test]
async fn clients_at_the_far_end_reach_targets_behind_the_near_end() {
    within(async {
        let target = echo().await;
        let mut far_end = End::far(FarOptions {
            allow_targets: Vec::new(),
            listeners: vec![ListenerOptions {
                listen: "127.0.0.1:0".into(),
                to: target.to_string(),
                allow: Vec::new(),
            }],
            ..far("127.0.0.1:0", plain())
        })
        .await;
        let entrance = far_end
            .trunk(|event| match event {
                TrunkEvent::TrunkListening { address, .. } => Some(*address),
                _ => None,
            })
            .await;
        let wan = far_end.address;
        let mut config = near(&[wan], "unused:1", plain());
        config.allow_targets = vec![target.to_string()];
        let _near_end = End::near(config).await;
        far_end
            .trunk(|event| matches!(event, TrunkEvent::WanConnected(_)).then_some(()))
            .await;
        let client = tokio::net::TcpStream::connect(entrance).await.unwrap();
        let bytes = noise(9, 500_000);
        assert_eq!(round_trip(client, &bytes).await, sha256(&bytes));
    })
    .await;
}

#[tokio::test]
async fn pinned_keys_encrypt_with_the_post_quantum_hybrid() {
    within(async {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (directory.path().join("a"), directory.path().join("b"));
        let (pin_a, pin_b) = (
            Identity::init(&a, &[]).unwrap().pin,
            Identity::init(&b, &[]).unwrap().pin,
        );
        Identity::init(&a, &[pin_b]).unwrap();
        let far_security = SecurityOptions {
            identity: Some(b),
            trust: vec![pin_a.to_string()],
            ..SecurityOptions::default()
        };
        let near_security = SecurityOptions {
            identity: Some(a),
            ..SecurityOptions::default()
        };
        let far_end = End::far(far("127.0.0.1:0", far_security)).await;
        let options: NearOptions = near(&[far_end.address], echo().await, near_security);
        let mut near_end = End::near(options).await;
        let tls = near_end
            .trunk(|event| match event {
                TrunkEvent::WanConnected(connection) => connection.tls.clone(),
                _ => None,
            })
            .await;
        assert_eq!(tls.group, "X25519MLKEM768");
        assert_eq!(tls.peer, Some(pin_b.to_string()));
        let bytes = noise(11, 2_000_000);
        assert_eq!(
            round_trip(near_end.connect().await, &bytes).await,
            sha256(&bytes)
        );
    })
    .await;
}

#[tokio::test]
async fn an_authority_vouches_for_both_ends() {
    within(async {
        let directory = tempfile::tempdir().unwrap();
        let files = Authority::make(directory.path(), &["site-b.example".into()]).unwrap();
        let security = SecurityOptions {
            certificate: Some(files.certificate),
            private_key: Some(files.key),
            authority: Some(files.authority),
            ..SecurityOptions::default()
        };
        let far_end = End::far(far("127.0.0.1:0", security.clone())).await;
        let named = SecurityOptions {
            peer_name: Some("site-b.example".into()),
            ..security.clone()
        };
        let near_end = End::near(near(&[far_end.address], echo().await, named)).await;
        let bytes = noise(13, 100_000);
        let client = near_end.connect().await;
        assert_eq!(round_trip(client, &bytes).await, sha256(&bytes));

        // Without the name, the certificate is not for 127.0.0.1.
        let mut other = End::near(near(&[far_end.address], echo().await, security)).await;
        let why = other
            .trunk(|event| match event {
                TrunkEvent::WanUnreachable { why, .. } => Some(why.clone()),
                _ => None,
            })
            .await;
        assert!(why.contains("TLS handshake"), "{why}");
    })
    .await;
}

#[tokio::test]
async fn a_reader_that_stops_holds_its_writer_back_and_nobody_else() {
    within(async {
        let (listener, target) = listen().await;
        let far_end = End::far(far("127.0.0.1:0", plain())).await;
        let near_end = End::near(near(&[far_end.address], target, plain())).await;
        let mut stuck = near_end.connect().await;
        let (unread, _) = listener.accept().await.unwrap();
        // Twice what both ends' memory and all kernel buffers between them hold.
        let flood = tokio::spawn(async move {
            let block = vec![7; 1 << 20];
            for _ in 0..1024 {
                stuck.write_all(&block).await.unwrap();
            }
        });
        let mut client = near_end.connect().await;
        let (mut server, _) = listener.accept().await.unwrap();
        client.write_all(b"ping").await.unwrap();
        let mut got = [0; 4];
        server.read_exact(&mut got).await.unwrap();
        server.write_all(&got).await.unwrap();
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"ping");
        assert!(!flood.is_finished(), "nothing held the writer back");
        flood.abort();
        drop(unread);
    })
    .await;
}
