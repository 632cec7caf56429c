//! TLS beside an implementation that shares no code with ours: the `openssl` program on either side.

use std::process::Stdio;

use longhaul_relay::{EndedBy, Phase, Upstream};
use profile::TlsProfile;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::harness::{Relay, listen, within};
use crate::tls::{Site, both, start};

/// Ends with the test that started it.
fn openssl() -> Command {
    let mut command = Command::new("openssl");
    command
        .kill_on_drop(true)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn client(relay: &Relay, site: &Site, version: &str) -> Child {
    let mut command = openssl();
    command
        .args(["s_client", "-quiet", "-verify_return_error", version])
        .args(["-servername", "localhost", "-verify_hostname", "localhost"])
        .args(["-connect", &relay.address.to_string()])
        .arg("-CAfile")
        .arg(&site.files.authority);
    command.spawn().expect("openssl is installed")
}

/// A server that sends each line back reversed, and the port it has found.
async fn reverser(site: &Site, version: &str) -> (Child, u16) {
    let mut command = openssl();
    command
        .args(["s_server", "-rev", "-accept", "127.0.0.1:0", version])
        .arg("-cert_chain")
        .arg(&site.files.certificate)
        .arg("-cert")
        .arg(&site.files.certificate)
        .arg("-key")
        .arg(&site.files.key);
    let mut server = command.spawn().expect("openssl is installed");
    let mut lines = BufReader::new(server.stdout.as_mut().expect("piped")).lines();
    loop {
        let line = within(lines.next_line()).await.unwrap();
        let line = line.expect("the server says where it listens");
        if let Some(address) = line.strip_prefix("ACCEPT ") {
            let (_, port) = address.rsplit_once(':').unwrap();
            return (server, port.parse().unwrap());
        }
    }
}

#[tokio::test]
async fn its_client_is_served_with_both_versions() {
    let site = Site::make();
    for (flag, version) in [("-tls1_2", "1.2"), ("-tls1_3", "1.3")] {
        let (listener, _) = listen().await;
        let mut options = both(&site, &listener);
        (options.upstream, options.upstream_ca) = (Some(Upstream::Plain), None);
        let mut relay = start(options).await;
        let mut client = client(&relay, &site, flag);
        let mut stdin = client.stdin.take().unwrap();
        stdin.write_all(b"hello\n").await.unwrap();
        let (mut server, _) = within(listener.accept()).await.unwrap();
        let mut got = [0; 6];
        within(server.read_exact(&mut got)).await.unwrap();
        assert_eq!(&got, b"hello\n");
        server.write_all(b"goodbye").await.unwrap();
        server.shutdown().await.unwrap();
        let mut told = String::new();
        let stdout = client.stdout.as_mut().unwrap();
        within(stdout.read_to_string(&mut told)).await.unwrap();
        assert_eq!(told, "goodbye");
        drop((stdin, server));
        let tls = relay.connection_done().await.client_tls.unwrap();
        assert_eq!(tls.version, version);
        // OpenSSL 3.0 knows no hybrid.
        assert_eq!(tls.group.as_deref(), Some("X25519"));
    }
}

#[tokio::test]
async fn its_server_is_spoken_to_with_both_versions_and_sessions_are_taken_up_again() {
    let site = Site::make();
    for (flag, version) in [("-tls1_2", "1.2"), ("-tls1_3", "1.3")] {
        let (_server, port) = reverser(&site, flag).await;
        let (listener, _) = listen().await;
        let mut options = both(&site, &listener);
        options.certificates.clear();
        options.target = format!("127.0.0.1:{port}");
        let mut relay = start(options).await;
        for resumed in [false, true] {
            let mut client = relay.connect().await;
            client.write_all(b"hello\n").await.unwrap();
            let mut got = [0; 6];
            within(client.read_exact(&mut got)).await.unwrap();
            assert_eq!(&got, b"olleh\n");
            client.shutdown().await.unwrap();
            // It ends with close_notify, or the relay would have reset this.
            within(client.read_to_end(&mut Vec::new())).await.unwrap();
            let done = relay.connection_done().await;
            assert_eq!(done.ended_by, EndedBy::Completed, "{:?}", done.error);
            let tls = done.server_tls.unwrap();
            assert_eq!((tls.version.as_str(), tls.resumed), (version, resumed));
        }
    }
}

#[tokio::test]
async fn its_server_of_the_older_version_is_refused_by_the_profile_for_object_stores() {
    let site = Site::make();
    let (_server, port) = reverser(&site, "-tls1_2").await;
    let (listener, _) = listen().await;
    let mut options = both(&site, &listener);
    options.certificates.clear();
    options.target = format!("127.0.0.1:{port}");
    options.tls_profile = Some(TlsProfile::S3);
    let mut relay = start(options).await;
    assert!(relay.end_of_newcomer().await.is_err());
    let done = relay.connection_done().await;
    assert_eq!(
        (done.ended_by, done.phase),
        (EndedBy::Server, Phase::ServerHandshake)
    );
}
