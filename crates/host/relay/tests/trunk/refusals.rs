//! What is refused, and how that is told.

use longhaul_relay::Event;
use longhaul_relay::trunk::{Identity, SecurityOptions, TrunkEvent};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{End, echo, far, near, plain, within};

/// The reason with which a client of `target` is reset.
async fn reason(allow: &str, target: &str) -> String {
    let mut options = far("127.0.0.1:0", plain());
    options.allow_targets = vec![allow.into()];
    let mut far_end = End::far(options).await;
    let mut near_end = End::near(near(&[far_end.address], target, plain())).await;
    let mut client = near_end.connect().await;
    let error = client.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let (here, there) = (near_end.done().await, far_end.done().await);
    assert_eq!(here.reason, there.reason);
    assert_eq!((here.ended_by, there.ended_by), ("other-end", "this-end"));
    here.reason.unwrap().to_owned()
}

/// A port of loopback where nobody listens, for as long as the socket is kept.
fn nobody() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

#[tokio::test]
async fn a_target_outside_the_allow_list_is_reset_with_its_reason() {
    within(async {
        let target = echo().await.to_string();
        assert_eq!(
            reason("10.20.20.0/24:22", &target).await,
            "target-not-allowed"
        );
    })
    .await;
}

#[tokio::test]
async fn a_name_does_not_lead_out_of_an_allowed_block() {
    within(async {
        let port = echo().await.port();
        let allow = format!("10.0.0.0/8:{port}");
        let target = format!("localhost:{port}");
        assert_eq!(reason(&allow, &target).await, "target-not-allowed");
    })
    .await;
}

#[tokio::test]
async fn a_refused_target_is_reset_with_its_reason() {
    within(async {
        let (_nobody, target) = nobody();
        assert_eq!(
            reason("127.0.0.0/8:1024-65535", &target).await,
            "target-refused"
        );
    })
    .await;
}

#[tokio::test]
async fn an_unknown_name_is_reset_with_its_reason() {
    within(async {
        assert_eq!(
            reason("a.invalid:22", "a.invalid:22").await,
            "target-unknown"
        );
    })
    .await;
}

#[tokio::test]
async fn a_client_from_elsewhere_is_turned_away() {
    within(async {
        let far_end = End::far(far("127.0.0.1:0", plain())).await;
        let mut options = near(&[far_end.address], echo().await, plain());
        options.listeners[0].allow = vec!["10.0.0.0/8".into()];
        let mut near_end = End::near(options).await;
        let _client = near_end.connect().await;
        let why = near_end
            .event(|event| match event {
                Event::Refused { why, .. } => Some(why.clone()),
                _ => None,
            })
            .await;
        assert!(why.contains("allowed block"), "{why}");
    })
    .await;
}

/// What both ends say of WAN connections that do not come to be.
async fn both_refuse(near_security: SecurityOptions, far_security: SecurityOptions) -> [String; 2] {
    let mut far_end = End::far(far("127.0.0.1:0", far_security)).await;
    let options = near(&[far_end.address], echo().await, near_security);
    let mut near_end = End::near(options).await;
    let there = far_end
        .event(|event| match event {
            Event::Refused { why, .. } => Some(why.clone()),
            _ => None,
        })
        .await;
    let here = near_end
        .trunk(|event| match event {
            TrunkEvent::WanUnreachable { why, .. } => Some(why.clone()),
            TrunkEvent::WanLost(lost) => Some(lost.why.clone()),
            _ => None,
        })
        .await;
    [here, there]
}

/// An identity in a directory of its own that trusts `peers` of the test.
fn identity(directory: &std::path::Path, name: &str, trust: &[&str]) -> SecurityOptions {
    SecurityOptions {
        identity: Some(directory.join(name)),
        trust: trust
            .iter()
            .map(|peer| {
                Identity::init(&directory.join(peer), &[])
                    .unwrap()
                    .pin
                    .to_string()
            })
            .collect(),
        ..SecurityOptions::default()
    }
}

#[tokio::test]
async fn a_near_end_whose_key_is_not_pinned_is_refused() {
    within(async {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        Identity::init(&directory.join("stranger"), &[]).unwrap();
        let stranger = identity(directory, "stranger", &["far"]);
        let [_, there] = both_refuse(stranger, identity(directory, "far", &["near"])).await;
        assert!(there.contains("TLS handshake"), "{there}");
    })
    .await;
}

#[tokio::test]
async fn a_far_end_whose_key_is_not_pinned_is_refused() {
    within(async {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        Identity::init(&directory.join("near"), &[]).unwrap();
        Identity::init(&directory.join("far"), &[]).unwrap();
        let near = identity(directory, "near", &["elsewhere"]);
        let [here, _] = both_refuse(near, identity(directory, "far", &["near"])).await;
        assert!(here.contains("TLS handshake"), "{here}");
    })
    .await;
}

#[tokio::test]
async fn plain_is_refused_unless_both_ends_ask_for_it() {
    within(async {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        Identity::init(&directory.join("far"), &[]).unwrap();
        Identity::init(&directory.join("near"), &[]).unwrap();
        let [_, there] = both_refuse(plain(), identity(directory, "far", &["near"])).await;
        assert!(there.contains("TLS handshake"), "{there}");
        let [_, there] = both_refuse(identity(directory, "near", &["far"]), plain()).await;
        assert!(there.contains("protocol"), "{there}");
    })
    .await;
}

#[tokio::test]
async fn what_is_no_trunk_is_told_and_closed() {
    within(async {
        let mut far_end = End::far(far("127.0.0.1:0", plain())).await;
        let mut stranger = TcpStream::connect(far_end.address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stranger, b"GET / HTTP/1.1\r\n\r\n")
            .await
            .unwrap();
        let why = far_end
            .event(|event| match event {
                Event::Refused { why, .. } => Some(why.clone()),
                _ => None,
            })
            .await;
        assert!(why.contains("protocol"), "{why}");
        // A reset, since what it sent was not read, or an end.
        let _ = stranger.read(&mut [0]).await;
    })
    .await;
}
