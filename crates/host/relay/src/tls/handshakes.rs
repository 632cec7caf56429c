//! From a configuration's files to what the TLS library needs.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use profile::{TlsGroup, TlsProfile, TlsVersion};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName, pem};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, KeyLog, RootCertStore, ServerConfig, SupportedProtocolVersion, version,
};
use sha2::{Digest as _, Sha256};
use sys::lines::{Fate, Lines};
use tokio::sync::Semaphore;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::certificates::Certificates;
use crate::lost::{self, Loss};
use crate::{TlsCertificate, TlsClients, TlsServer, TlsSides};

/// TLS cannot be spoken as configured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of certificates cannot be used.
    #[error("cannot read certificates from `{}`", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: pem::Error,
    },
    /// A file of certificates has none.
    #[error("there is no certificate in `{}`", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// A file with a key cannot be used.
    #[error("cannot read a private key from `{}`", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: pem::Error,
    },
    /// A certificate and its key do not belong together, or are of an unknown kind.
    #[error("cannot use `{}` with its key", path.display())]
    Pair {
        /// The certificate's file.
        path: PathBuf,
        /// What the library said.
        #[source]
        source: rustls::Error,
    },
    /// A certificate of an authority cannot be used.
    #[error("cannot trust the certificates in `{}`", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// What the library said.
        #[source]
        source: rustls::Error,
    },
    /// Peers' certificates cannot be verified.
    #[error("cannot verify certificates")]
    Verifier(#[source] VerifierBuilderError),
    /// This host has no list of authorities.
    #[error(
        "this host trusts no authority; name one with upstream-ca, or endpoint-ca of a collector"
    )]
    NoAuthorities,
    /// The server's name is none that a certificate can carry.
    #[error("`{name}` is no name of a server")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        #[source]
        source: InvalidDnsNameError,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The key log cannot be written.
    #[error("cannot open the key log `{}`", path.display())]
    KeyLog {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The library refuses the settings.
    #[error("cannot set up TLS")]
    Library(#[source] rustls::Error),
}

/// What a relay shakes hands with, on both sides.
pub(crate) struct Handshakes {
    /// Towards clients; `None` where they speak without TLS.
    pub(crate) acceptor: Option<TlsAcceptor>,
    /// Towards servers, with the name that their certificate must be for; `None` where they are spoken to
    /// without TLS.
    pub(crate) connector: Option<(TlsConnector, ServerName<'static>)>,
    /// Places for handshakes with clients at the same time.
    pub(crate) places: Semaphore,
    /// Of all files that were read.
    fingerprint: Vec<u8>,
}

/// What is agreed on with either side (ALPN), in order of preference; without any, a side is left to itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Protocols<'a> {
    pub(crate) clients: &'a [&'a str],
    pub(crate) server: &'a [&'a str],
}

/// Secrets in the format that `SSLKEYLOGFILE` has in other programs.
#[derive(Debug)]
struct KeyLogFile(Lines);

// === impl Handshakes ===

impl Handshakes {
    /// Reads all files that the configuration names.
    pub(crate) fn load(
        sides: &TlsSides,
        protocols: Protocols<'_>,
        places: usize,
    ) -> Result<Self, TlsError> {
        let profile = sides.profile;
        let key_log = sides.key_log.as_deref().map(KeyLogFile::open).transpose()?;
        let written = |names: &[&str]| names.iter().map(|name| name.as_bytes().into()).collect();
        let acceptor = match &sides.clients {
            Some(clients) => {
                let mut config = server_config(clients, profile, key_log.clone())?;
                config.alpn_protocols = written(protocols.clients);
                Some(TlsAcceptor::from(Arc::new(config)))
            }
            None => None,
        };
        let connector = match &sides.server {
            Some(server) => {
                let mut config = client_config(server, profile, key_log)?;
                config.alpn_protocols = written(protocols.server);
                Some((
                    TlsConnector::from(Arc::new(config)),
                    server_name(&server.name)?,
                ))
            }
            None => None,
        };
        Ok(Self {
            acceptor,
            connector,
            places: Semaphore::new(places.min(Semaphore::MAX_PERMITS)),
            fingerprint: fingerprint(sides)?,
        })
    }

    /// Whether both were made from files of the same content.
    pub(crate) fn are_of_the_same_files(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

/// Of the content of all files, so that a reload can tell whether one has changed. This host's own list of
/// authorities is not among them.
fn fingerprint(sides: &TlsSides) -> Result<Vec<u8>, TlsError> {
    let clients = sides.clients.iter();
    let server = sides.server.iter();
    let pairs = clients
        .clone()
        .flat_map(|clients| &clients.certificates)
        .chain(
            server
                .clone()
                .filter_map(|server| server.certificate.as_ref()),
        )
        .flat_map(|pair| [&pair.cert, &pair.key]);
    let authorities = clients
        .filter_map(|clients| clients.authority.as_ref())
        .chain(server.filter_map(|server| server.authority.as_ref()));
    let mut digest = Sha256::new();
    for path in pairs.chain(authorities) {
        let content = std::fs::read(path).map_err(|source| TlsError::File {
            path: path.clone(),
            source,
        })?;
        digest.update(Sha256::digest(&content));
    }
    Ok(digest.finalize().to_vec())
}

fn server_config(
    clients: &TlsClients,
    profile: TlsProfile,
    key_log: Option<Arc<dyn KeyLog>>,
) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(provider(profile));
    let mut certified = Vec::new();
    for certificate in &clients.certificates {
        certified.push(certified_key(certificate, &provider)?);
    }
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions(profile))
        .map_err(TlsError::Library)?;
    let builder = if let Some(path) = &clients.authority {
        let roots = Arc::new(authorities(path)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(TlsError::Verifier)?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let mut config = builder.with_cert_resolver(Arc::new(Certificates::new(certified)));
    // Tickets that hold the session themselves: no memory for clients that never return.
    config.ticketer = aws_lc_rs::Ticketer::new().map_err(TlsError::Library)?;
    if let Some(key_log) = key_log {
        config.key_log = key_log;
    }
    Ok(config)
}

/// It keeps sessions for the next connection: 1.3 tickets, each used once, and 1.2 sessions.
fn client_config(
    server: &TlsServer,
    profile: TlsProfile,
    key_log: Option<Arc<dyn KeyLog>>,
) -> Result<ClientConfig, TlsError> {
    let roots = match &server.authority {
        Some(path) => authorities(path)?,
        None => trusted_here()?,
    };
    let provider = Arc::new(provider(profile));
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(TlsError::Verifier)?;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions(profile))
        .map_err(TlsError::Library)?
        .with_webpki_verifier(verifier);
    let mut config = match &server.certificate {
        Some(certificate) => {
            let (chain, key) = chain_and_key(certificate)?;
            let path = certificate.cert.clone();
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|source| TlsError::Pair { path, source })?
        }
        None => builder.with_no_client_auth(),
    };
    if let Some(key_log) = key_log {
        config.key_log = key_log;
    }
    Ok(config)
}

pub(super) fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|source| TlsError::Name {
        name: name.to_owned(),
        source,
    })
}

fn provider(profile: TlsProfile) -> CryptoProvider {
    use aws_lc_rs::kx_group;
    let groups = profile.groups().iter().map(|group| match group {
        TlsGroup::X25519MlKem768 => kx_group::X25519MLKEM768,
        TlsGroup::X25519 => kx_group::X25519,
        TlsGroup::Secp256r1 => kx_group::SECP256R1,
        TlsGroup::Secp384r1 => kx_group::SECP384R1,
    });
    CryptoProvider {
        kx_groups: groups.collect(),
        ..aws_lc_rs::default_provider()
    }
}

fn versions(profile: TlsProfile) -> Vec<&'static SupportedProtocolVersion> {
    let versions = profile.versions().iter().map(|version| match version {
        TlsVersion::V1_2 => &version::TLS12,
        TlsVersion::V1_3 => &version::TLS13,
    });
    versions.collect()
}

fn certified_key(
    certificate: &TlsCertificate,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let (chain, key) = chain_and_key(certificate)?;
    CertifiedKey::from_der(chain, key, provider)
        .map(Arc::new)
        .map_err(|source| TlsError::Pair {
            path: certificate.cert.clone(),
            source,
        })
}

fn chain_and_key(
    certificate: &TlsCertificate,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = certificates(&certificate.cert)?;
    let key = PrivateKeyDer::from_pem_file(&certificate.key).map_err(|source| TlsError::Key {
        path: certificate.key.clone(),
        source,
    })?;
    Ok((chain, key))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fail = |source| TlsError::Certificates {
        path: path.to_owned(),
        source,
    };
    let all = CertificateDer::pem_file_iter(path).map_err(fail)?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(fail)?;
    if all.is_empty() {
        return Err(TlsError::NoCertificate {
            path: path.to_owned(),
        });
    }
    Ok(all)
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|source| TlsError::Authority {
                path: path.to_owned(),
                source,
            })?;
    }
    Ok(roots)
}

/// The authorities of this host. A list with a few certificates that cannot be read is still a list.
fn trusted_here() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TlsError::NoAuthorities);
    }
    Ok(roots)
}

// === impl KeyLogFile ===

impl KeyLogFile {
    /// Opens the file to append, for its owner alone.
    fn open(path: &Path) -> Result<Arc<dyn KeyLog>, TlsError> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(path);
        file.map(|file| Arc::new(Self(Lines::to(file))) as Arc<dyn KeyLog>)
            .map_err(|source| TlsError::KeyLog {
                path: path.to_owned(),
                source,
            })
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        // A full disk must not end the connection that is to be looked into.
        match self.0.write(line.as_bytes()) {
            Fate::Written | Fate::WrittenAfter(_) => {}
            Fate::FirstLost(_) | Fate::Lost => lost::count_lost(Loss::KeyLog, 1),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
