//! How the two ends of a trunk know each other: mutual TLS 1.3 with pinned keys or an authority, or nothing.

use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption, WebPkiServerVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{
    CertificateDer, InvalidDnsNameError, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName,
    SubjectPublicKeyInfoDer, UnixTime, pem,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    AlwaysResolvesServerRawPublicKeys, VerifierBuilderError, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore,
    ServerConfig, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::event::WanTls;
use super::identity::{Identity, IdentityError, Pin};
use super::passage::Carried;

/// What both ends say they are about to speak: a port that speaks something else refuses (RFC 7301).
const PROTOCOL: &[u8] = b"longhaul-trunk/1";

/// How WAN connections are protected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Security {
    /// Mutual TLS; each end trusts keys that it was told of.
    Pinned {
        /// Where [`Identity::init`] put the key and the list of peers.
        identity: PathBuf,
        /// Peers beside those of the list.
        trust: Vec<Pin>,
    },
    /// Mutual TLS; each end trusts an authority.
    Authority {
        /// Own certificate and those between it and the authority, in PEM.
        certificate: PathBuf,
        /// Its key, in PEM.
        private_key: PathBuf,
        /// Who signs both ends' certificates, in PEM.
        authority: PathBuf,
        /// The name that the far end's certificate must be for; the host that is dialled where `None`.
        peer_name: Option<String>,
    },
    /// Neither encrypted nor authenticated, for a WAN that is both already.
    Plain,
}

/// The trunk's WAN connections cannot be protected as configured.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    /// There is no usable key.
    #[error("this end of the trunk has no identity")]
    Identity(#[source] IdentityError),
    /// Nobody could be spoken to.
    #[error(
        "no peer is trusted: run `longhaul trunk init --trust PIN` with the pin that `longhaul trunk init` \
         prints at the other end"
    )]
    NoPeers,
    /// A file in PEM cannot be used.
    #[error("cannot read `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: pem::Error,
    },
    /// Peers' certificates cannot be verified.
    #[error("cannot verify certificates")]
    Verifier(#[source] VerifierBuilderError),
    /// The far end's name is none that a certificate can carry.
    #[error("`{name}` is no name of a server")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        #[source]
        source: InvalidDnsNameError,
    },
    /// The library refuses the settings.
    #[error("cannot set up TLS")]
    Library(#[source] rustls::Error),
}

/// The dialling end's half of the handshake.
#[derive(Clone)]
pub(super) struct Dialler {
    tls: Option<TlsConnector>,
    peer_name: Option<String>,
}

/// The listening end's half of the handshake.
#[derive(Clone)]
pub(super) struct Answerer {
    tls: Option<TlsAcceptor>,
}

/// A protected connection, or a plain one.
pub(super) enum Shielded {
    Tls(Box<TlsStream<TcpStream>>),
    Plain(TcpStream),
    /// By the process that has succeeded this one.
    Carried(Carried),
}

// === impl Security ===

impl Security {
    /// Its name in events.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Pinned { .. } => "pinned",
            Self::Authority { .. } => "authority",
            Self::Plain => "plain",
        }
    }
}

// === impl Dialler ===

impl Dialler {
    pub(super) fn load(security: &Security) -> Result<Self, SecurityError> {
        let provider = Arc::new(provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(SecurityError::Library)?;
        let (mut config, peer_name) = match security {
            Security::Plain => {
                return Ok(Self {
                    tls: None,
                    peer_name: None,
                });
            }
            Security::Pinned { identity, trust } => {
                let (key, verifier) = pinned(identity, trust, &provider)?;
                let config = builder
                    .dangerous()
                    .with_custom_certificate_verifier(verifier)
                    .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                        key,
                    )));
                (config, None)
            }
            Security::Authority {
                certificate,
                private_key,
                authority,
                peer_name,
            } => {
                let roots = authorities(authority)?;
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(SecurityError::Verifier)?;
                let (chain, key) = chain_and_key(certificate, private_key)?;
                let config = builder
                    .with_webpki_verifier(verifier)
                    .with_client_auth_cert(chain, key)
                    .map_err(SecurityError::Library)?;
                (config, peer_name.clone())
            }
        };
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // A resumed session would not look at the peer's key again, which may be trusted no more.
        config.resumption = Resumption::disabled();
        Ok(Self {
            tls: Some(TlsConnector::from(Arc::new(config))),
            peer_name,
        })
    }

    /// Shakes hands with `host`.
    pub(super) async fn shake(&self, stream: TcpStream, host: &str) -> io::Result<Shielded> {
        let Some(connector) = &self.tls else {
            return Ok(Shielded::Plain(stream));
        };
        let name = self.peer_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let stream = connector.connect(name, stream).await?;
        Ok(Shielded::Tls(Box::new(stream.into())))
    }
}

// === impl Answerer ===

impl Answerer {
    pub(super) fn load(security: &Security) -> Result<Self, SecurityError> {
        let provider = Arc::new(provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(SecurityError::Library)?;
        let mut config = match security {
            Security::Plain => return Ok(Self { tls: None }),
            Security::Pinned { identity, trust } => {
                let (key, verifier) = pinned(identity, trust, &provider)?;
                builder
                    .with_client_cert_verifier(verifier)
                    .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)))
            }
            Security::Authority {
                certificate,
                private_key,
                authority,
                ..
            } => {
                let roots = authorities(authority)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(SecurityError::Verifier)?;
                let (chain, key) = chain_and_key(certificate, private_key)?;
                builder
                    .with_client_cert_verifier(verifier)
                    .with_single_cert(chain, key)
                    .map_err(SecurityError::Library)?
            }
        };
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // See `Dialler::load` for why no session is resumed.
        config.send_tls13_tickets = 0;
        Ok(Self {
            tls: Some(TlsAcceptor::from(Arc::new(config))),
        })
    }

    pub(super) async fn shake(&self, stream: TcpStream) -> io::Result<Shielded> {
        match &self.tls {
            None => Ok(Shielded::Plain(stream)),
            Some(acceptor) => {
                let stream = acceptor.accept(stream).await?;
                Ok(Shielded::Tls(Box::new(stream.into())))
            }
        }
    }
}

// === impl Shielded ===

impl Shielded {
    /// The connection below.
    pub(super) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            Self::Carried(link) => &link.tcp,
        }
    }

    /// What the handshake agreed on; `None` without one.
    pub(super) fn agreed(&self) -> Option<WanTls> {
        let stream = match self {
            Self::Tls(stream) => stream,
            Self::Plain(_) => return None,
            Self::Carried(link) => return link.tls.clone(),
        };
        let (_, session) = stream.get_ref();
        let suite = session.negotiated_cipher_suite().map(|suite| suite.suite());
        let group = session.negotiated_key_exchange_group();
        let name = |name: Option<&str>| name.unwrap_or("unknown").to_owned();
        let key = session.peer_certificates().and_then(<[_]>::first);
        Some(WanTls {
            cipher_suite: name(suite.and_then(|suite| suite.as_str())),
            group: name(group.and_then(|group| group.name().as_str())),
            peer: key.map(|key| Pin::of(key).to_string()),
        })
    }
}

impl AsyncRead for Shielded {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => pin(stream).poll_read(context, buffer),
            Self::Tls(stream) => pin(&mut **stream).poll_read(context, buffer),
            Self::Carried(link) => pin(&mut link.carrier).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Shielded {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => pin(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => pin(&mut **stream).poll_write_vectored(context, slices),
            Self::Carried(link) => pin(&mut link.carrier).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => pin(stream).poll_flush(context),
            Self::Tls(stream) => pin(&mut **stream).poll_flush(context),
            Self::Carried(link) => pin(&mut link.carrier).poll_flush(context),
        }
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => pin(stream).poll_shutdown(context),
            Self::Tls(stream) => pin(&mut **stream).poll_shutdown(context),
            Self::Carried(link) => pin(&mut link.carrier).poll_shutdown(context),
        }
    }
}

fn pin<T: Unpin>(stream: &mut T) -> std::pin::Pin<&mut T> {
    std::pin::Pin::new(stream)
}

/// The library's own choice, and so the post-quantum hybrid: asked for by name, that no later default of
/// the library takes it away.
fn provider() -> CryptoProvider {
    use aws_lc_rs::kx_group::{SECP256R1, X25519, X25519MLKEM768};
    CryptoProvider {
        kx_groups: vec![X25519MLKEM768, X25519, SECP256R1],
        ..aws_lc_rs::default_provider()
    }
}

/// The raw public key of this end (RFC 7250), and the verifier of peers'.
fn pinned(
    directory: &Path,
    trust: &[Pin],
    provider: &CryptoProvider,
) -> Result<(Arc<CertifiedKey>, Arc<PinnedPeers>), SecurityError> {
    let identity = Identity::load(directory).map_err(SecurityError::Identity)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.private_key()));
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(SecurityError::Library)?;
    let public = CertificateDer::from(identity.public_key());
    let mut peers = identity.peers;
    peers.extend(trust);
    if peers.is_empty() {
        return Err(SecurityError::NoPeers);
    }
    let verifier = PinnedPeers {
        peers,
        algorithms: provider.signature_verification_algorithms,
    };
    let certified = CertifiedKey::new(vec![public], key);
    Ok((Arc::new(certified), Arc::new(verifier)))
}

fn authorities(path: &Path) -> Result<Arc<RootCertStore>, SecurityError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(SecurityError::Library)?;
    }
    Ok(Arc::new(roots))
}

fn chain_and_key(
    certificate: &Path,
    private_key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), SecurityError> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(private_key).map_err(|source| SecurityError::File {
        path: private_key.to_owned(),
        source,
    })?;
    Ok((chain, key))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SecurityError> {
    let fail = |source| SecurityError::File {
        path: path.to_owned(),
        source,
    };
    CertificateDer::pem_file_iter(path)
        .map_err(fail)?
        .collect::<Result<_, _>>()
        .map_err(fail)
}

/// Peers are whoever holds the private key of one of these fingerprints.
#[derive(Debug)]
struct PinnedPeers {
    peers: BTreeSet<Pin>,
    algorithms: WebPkiSupportedAlgorithms,
}

// === impl PinnedPeers ===

impl PinnedPeers {
    /// With raw public keys (RFC 7250), what stands in the certificate's place is the key.
    fn check(&self, key: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        if self.peers.contains(&Pin::of(key)) {
            return Ok(());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn check_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }
}

/// TLS 1.2 is not spoken, so it has no signatures.
fn no_tls12() -> rustls::Error {
    rustls::Error::General("TLS 1.2 is not spoken".into())
}

impl ServerCertVerifier for PinnedPeers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(end_entity)
            .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for PinnedPeers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(end_entity)
            .map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
