//! The origin's certificate and what a client needs to trust it, and nothing else.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde::{Deserialize, Serialize};

/// A key with its self-made certificate, ECDSA on P-256, as most of the web's are.
pub struct Identity {
    certificate: rcgen::CertifiedKey<rcgen::KeyPair>,
}

/// Whom a client trusts, and how it speaks.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Trust {
    /// The only certificate that is accepted, as PEM.
    pub certificate: String,
    /// The only version that is offered.
    pub version: Version,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Version {
    /// RFC 5246; a full handshake takes two round trips.
    #[serde(rename = "1.2")]
    V1_2,
    /// RFC 8446; a full handshake takes one round trip.
    #[serde(rename = "1.3")]
    V1_3,
}

/// TLS could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// No certificate for this name.
    #[error("cannot make a certificate for `{name}`")]
    Certificate {
        /// The name.
        name: String,
        /// What the library said.
        #[source]
        source: rcgen::Error,
    },
    /// The library refused certificate or key.
    #[error("cannot serve TLS with the origin's certificate")]
    Server {
        /// What the library said.
        #[source]
        source: rustls::Error,
    },
}

// === impl Identity ===

impl Identity {
    /// A new key, and a certificate for `names`: DNS names, or addresses.
    ///
    /// # Errors
    /// When a name is none that a certificate can carry.
    pub fn make(names: &[String]) -> Result<Self, TlsError> {
        rcgen::generate_simple_self_signed(names)
            .map(|certificate| Self { certificate })
            .map_err(|source| TlsError::Certificate {
                name: names.join("`, `"),
                source,
            })
    }

    /// The certificate as PEM, for clients to trust.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        self.certificate.cert.pem()
    }

    /// The key as PEM (PKCS #8), for a relay that ends TLS with this certificate.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.certificate.signing_key.serialize_pem()
    }

    /// A server with this certificate that speaks 1.2 and 1.3, whatever the client offers, and only
    /// HTTP/1.1.
    pub(crate) fn server(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let key = PrivatePkcs8KeyDer::from(self.certificate.signing_key.serialize_der());
        let chain = vec![self.certificate.cert.der().clone()];
        let fail = |source| TlsError::Server { source };
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_protocol_versions(&[&rustls::version::TLS12, &rustls::version::TLS13])
                .map_err(fail)?
                .with_no_client_auth()
                .with_single_cert(chain, key.into())
                .map_err(fail)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Without the key: `Debug` output ends in logs and tickets.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}
