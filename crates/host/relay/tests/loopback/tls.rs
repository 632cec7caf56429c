//! TLS on either side: the bytes, how streams end, and who is refused.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_relay::{
    Authority, Config, EndedBy, Phase, TlsCertificate, TlsOptions, TlsRouteOptions, Upstream,
};
use rustls::client::WantsClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, ServerConfig, WantsVerifier};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::harness::{Relay, digest, listen, noise, within};

/// An authority in a directory of its own, and what it signed.
pub(crate) struct Site {
    _directory: TempDir,
    pub(crate) files: Authority,
}

impl Site {
    pub(crate) fn make() -> Self {
        Self::named("localhost")
    }

    pub(crate) fn named(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let names = [name.to_owned(), "127.0.0.1".to_owned()];
        let files = Authority::make(directory.path(), &names).unwrap();
        Self {
            _directory: directory,
            files,
        }
    }

    pub(crate) fn certificate(&self) -> TlsCertificate {
        TlsCertificate {
            cert: self.files.certificate.clone(),
            key: self.files.key.clone(),
        }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(&self.files.authority).unwrap())
            .unwrap();
        roots
    }

    pub(crate) fn connector(&self) -> TlsConnector {
        self.connector_for(&[])
    }

    /// One that speaks these application protocols.
    pub(crate) fn connector_for(&self, protocols: &[&str]) -> TlsConnector {
        let mut config = self.client().with_no_client_auth();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().into())
            .collect();
        TlsConnector::from(Arc::new(config))
    }

    fn connector_showing_its_certificate(&self) -> TlsConnector {
        let config = self
            .client()
            .with_client_auth_cert(self.chain(), self.key());
        TlsConnector::from(Arc::new(config.unwrap()))
    }

    fn client(&self) -> ConfigBuilder<ClientConfig, WantsClientCert> {
        ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots())
    }

    fn chain(&self) -> Vec<CertificateDer<'static>> {
        let chain = CertificateDer::pem_file_iter(&self.files.certificate).unwrap();
        chain.map(Result::unwrap).collect()
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_file(&self.files.key).unwrap()
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor_for(&[])
    }

    /// One that speaks these application protocols.
    pub(crate) fn acceptor_for(&self, protocols: &[&str]) -> TlsAcceptor {
        let config = Self::server().with_no_client_auth();
        let mut config = config.with_single_cert(self.chain(), self.key()).unwrap();
        config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().into())
            .collect();
        TlsAcceptor::from(Arc::new(config))
    }

    fn acceptor_asking_for_a_certificate(&self) -> TlsAcceptor {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let roots = Arc::new(self.roots());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
        let config = Self::server().with_client_cert_verifier(verifier.unwrap());
        let config = config.with_single_cert(self.chain(), self.key()).unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    fn server() -> ConfigBuilder<ServerConfig, WantsVerifier> {
        ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
    }
}

/// A relay with TLS on both sides, a server of [`Site`] behind it.
pub(crate) fn both(site: &Site, target: &TcpListener) -> TlsOptions {
    TlsOptions {
        listen: "127.0.0.1:0".into(),
        target: target.local_addr().unwrap().to_string(),
        certificates: vec![site.certificate()],
        upstream_ca: Some(site.files.authority.clone()),
        ..TlsOptions::default()
    }
}

pub(crate) async fn start(options: TlsOptions) -> Relay {
    Relay::start_with(Config::tls(options).unwrap()).await
}

pub(crate) async fn connect(relay: &Relay, connector: &TlsConnector) -> TlsStream<TcpStream> {
    let name = ServerName::try_from("localhost").unwrap();
    let stream = connector.connect(name, relay.connect().await).await;
    stream.unwrap().into()
}

pub(crate) async fn accept(listener: &TcpListener, acceptor: &TlsAcceptor) -> TlsStream<TcpStream> {
    let (stream, _) = listener.accept().await.unwrap();
    acceptor.accept(stream).await.unwrap().into()
}

/// Sends all bytes and the end, and returns the digest of what came until the peer's end.
async fn exchange(stream: impl AsyncRead + AsyncWrite + Send + 'static, bytes: Vec<u8>) -> String {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let writing = tokio::spawn(async move {
        writer.write_all(&bytes).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    let mut got = Vec::new();
    reader.read_to_end(&mut got).await.unwrap();
    writing.await.unwrap();
    digest(&got)
}

#[tokio::test]
async fn bytes_of_every_size_arrive_unchanged_with_tls_on_both_sides() {
    let site = Site::make();
    let (listener, _) = listen().await;
    let mut relay = start(both(&site, &listener)).await;
    let (connector, acceptor) = (site.connector(), site.acceptor());
    for (index, size) in [0, 1, 16_384, 16_385, 5_000_000].into_iter().enumerate() {
        let (up, down) = (noise(size), noise(size / 2));
        let (at_server, at_client) = (digest(&up), digest(&down));
        let (client, server) = within(async {
            tokio::join!(connect(&relay, &connector), accept(&listener, &acceptor))
        })
        .await;
        let both = async { tokio::join!(exchange(client, up), exchange(server, down)) };
        assert_eq!(within(both).await, (at_client, at_server));
        let done = relay.connection_done().await;
        assert_eq!((done.ended_by, done.error), (EndedBy::Completed, None));
        assert_eq!(done.bytes_up, size as u64);
        let tls = done.client_tls.unwrap();
        assert_eq!(tls.version, "1.3");
        // The test's client prefers it, and the relay asks for no second round trip to change that.
        assert_eq!(tls.group.as_deref(), Some("X25519"));
        assert_eq!(tls.server_name.as_deref(), Some("localhost"));
        // The relay takes up the session that the connection before left.
        let tls = done.server_tls.unwrap();
        assert_eq!(tls.resumed, index > 0);
        assert_eq!(tls.group.as_deref(), Some("X25519MLKEM768"));
        assert!(done.client_side.is_some() && done.server_side.is_some());
    }
}

#[tokio::test]
async fn tls_can_be_ended_or_begun_alone_and_a_half_close_is_passed_on() {
    let site = Site::make();
    let (listener, _) = listen().await;
    let mut options = both(&site, &listener);
    (options.upstream, options.upstream_ca) = (Some(Upstream::Plain), None);
    let relay = start(options).await;
    let mut client = connect(&relay, &site.connector()).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let mut got = Vec::new();
    within(server.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got, b"question");
    server.write_all(b"answer").await.unwrap();
    drop(server);
    got.clear();
    // Without close_notify this would be an error.
    within(client.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got, b"answer");

    let mut options = both(&site, &listener);
    options.certificates.clear();
    let relay = start(options).await;
    let mut client = relay.connect().await;
    let mut server = within(accept(&listener, &site.acceptor())).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    got.clear();
    within(server.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got, b"question");
    server.write_all(b"answer").await.unwrap();
    server.shutdown().await.unwrap();
    got.clear();
    within(client.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got, b"answer");
}

#[tokio::test]
async fn a_stream_without_close_notify_is_a_reset_and_never_an_end() {
    let site = Site::make();
    let (listener, _) = listen().await;
    let mut options = both(&site, &listener);
    options.certificates.clear();
    let mut relay = start(options).await;
    let mut client = relay.connect().await;
    let mut server = within(accept(&listener, &site.acceptor())).await;
    server.write_all(b"half").await.unwrap();
    // The FIN alone, as anybody on the path could send it.
    server.get_mut().0.shutdown().await.unwrap();
    let mut got = Vec::new();
    let error = within(client.read_to_end(&mut got)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let done = relay.connection_done().await;
    assert_eq!((done.ended_by, done.phase), (EndedBy::Server, Phase::Data));
    assert!(done.error.unwrap().contains("close_notify"));
}

#[tokio::test]
async fn a_server_whose_authority_is_not_trusted_gets_no_byte() {
    let (site, stranger) = (Site::make(), Site::make());
    let (listener, _) = listen().await;
    let mut relay = start(both(&site, &listener)).await;
    let connector = site.connector();
    let acceptor = stranger.acceptor();
    let refused = async {
        let (stream, _) = listener.accept().await.unwrap();
        assert!(acceptor.accept(stream).await.is_err());
    };
    let (mut client, ()) =
        within(async { tokio::join!(connect(&relay, &connector), refused) }).await;
    let error = within(client.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let done = relay.connection_done().await;
    assert_eq!(
        (done.ended_by, done.phase),
        (EndedBy::Server, Phase::ServerHandshake)
    );
}

#[tokio::test]
async fn a_client_without_the_certificate_that_is_asked_for_does_not_reach_the_server() {
    let site = Site::make();
    let (listener, _) = listen().await;
    let mut options = both(&site, &listener);
    options.client_ca = Some(site.files.authority.clone());
    let mut relay = start(options).await;
    // With 1.3 the client has finished before the relay refuses; reading tells.
    let mut client = connect(&relay, &site.connector()).await;
    assert!(within(client.read_u8()).await.is_err());
    let done = relay.connection_done().await;
    assert_eq!(
        (done.ended_by, done.phase, done.server),
        (EndedBy::Client, Phase::ClientHandshake, None)
    );
}

#[test]
fn keys_are_for_their_owner_alone_and_an_authority_is_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let names = ["*.store.example".to_owned()];
    let first = Authority::make(directory.path(), &names).unwrap();
    let authority: PathBuf = directory.path().join("ca.key");
    assert_eq!((mode(&first.key), mode(&authority)), (0o600, 0o600));
    let before = std::fs::read(&first.authority).unwrap();
    let again = Authority::make(directory.path(), &names).unwrap();
    assert_eq!((first.kept, again.kept), (false, true));
    assert_eq!(std::fs::read(&again.authority).unwrap(), before);
    assert!(Authority::make(directory.path(), &["../up".to_owned()]).is_err());
}

#[tokio::test]
async fn the_name_that_a_client_asks_for_chooses_its_certificate_and_its_server() {
    let (site, shop) = (Site::make(), Site::named("shop.example"));
    let ((listener, _), (other, _)) = (listen().await, listen().await);
    let mut options = both(&site, &listener);
    (options.upstream, options.upstream_ca) = (Some(Upstream::Plain), None);
    options.certificates.push(shop.certificate());
    options.routes.push(TlsRouteOptions {
        name: "*.Example".into(),
        target: other.local_addr().unwrap().to_string(),
        upstream_name: None,
    });
    let relay = start(options).await;
    for (site, name, listener) in [
        (&site, "localhost", &listener),
        (&shop, "shop.example", &other),
        (&site, "localhost", &listener),
    ] {
        let asked_for = ServerName::try_from(name).unwrap();
        let connecting = site.connector().connect(asked_for, relay.connect().await);
        // The certificate is for the name, or this fails.
        let mut client = within(connecting).await.unwrap();
        client.write_all(name.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let (mut server, _) = within(listener.accept()).await.unwrap();
        let mut got = String::new();
        within(server.read_to_string(&mut got)).await.unwrap();
        assert_eq!(got, name);
    }
}

#[tokio::test]
async fn each_side_shows_its_certificate_where_the_other_asks_and_secrets_go_to_the_key_log() {
    let site = Site::make();
    let (listener, _) = listen().await;
    let directory = tempfile::tempdir().unwrap();
    let key_log = directory.path().join("keys.log");
    let mut options = both(&site, &listener);
    options.client_ca = Some(site.files.authority.clone());
    options.upstream_certificate = Some(site.certificate());
    options.key_log = Some(key_log.clone());
    let mut relay = start(options).await;
    let connector = site.connector_showing_its_certificate();
    let acceptor = site.acceptor_asking_for_a_certificate();
    let (client, server) =
        within(async { tokio::join!(connect(&relay, &connector), accept(&listener, &acceptor)) })
            .await;
    let shown = server.get_ref().1.peer_certificates().unwrap();
    assert_eq!(shown[0], site.chain()[0]);
    let both = async { tokio::join!(exchange(client, noise(9)), exchange(server, noise(9))) };
    assert_eq!(within(both).await.0, digest(&noise(9)));
    assert_eq!(relay.connection_done().await.ended_by, EndedBy::Completed);
    let log = std::fs::read_to_string(&key_log).unwrap();
    // Four secrets of traffic and an exporter's for each of the two sessions.
    for label in ["CLIENT_TRAFFIC_SECRET_0 ", "SERVER_TRAFFIC_SECRET_0 "] {
        assert_eq!(log.matches(label).count(), 2, "{log}");
    }
}

#[tokio::test]
async fn a_client_that_ends_without_close_notify_is_a_reset_for_the_server() {
    let site = Site::make();
    let (listener, _) = listen().await;
    let mut options = both(&site, &listener);
    (options.upstream, options.upstream_ca) = (Some(Upstream::Plain), None);
    let mut relay = start(options).await;
    let mut client = connect(&relay, &site.connector()).await;
    client.write_all(b"half").await.unwrap();
    client.flush().await.unwrap();
    client.get_mut().0.shutdown().await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let error = within(server.read_to_end(&mut Vec::new()))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(relay.connection_done().await.ended_by, EndedBy::Client);
}
