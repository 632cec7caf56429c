//! TLS on a relay's two sides: ended towards clients, begun towards servers.

use std::path::PathBuf;

use document::Problems;
use profile::TlsProfile;
use serde::{Deserialize, Serialize};

/// TLS on a relay's two sides.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsSides {
    /// Versions and key exchanges, on both sides.
    pub profile: TlsProfile,
    /// How the clients' TLS is ended; `None` where they speak without.
    pub clients: Option<TlsClients>,
    /// How TLS to the server is begun; `None` where it is spoken to without.
    pub server: Option<TlsServer>,
    /// Where secrets are written for a capture's reader.
    pub key_log: Option<PathBuf>,
}

/// How the clients' TLS is ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsClients {
    /// The certificates to choose from by the name that the client asks for; at least one, which also
    /// serves whoever asks for no name or an unknown one.
    pub certificates: Vec<TlsCertificate>,
    /// Who signs the certificates that clients must show; `None` where none is asked for.
    pub authority: Option<PathBuf>,
}

/// How TLS to the server is begun.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsServer {
    /// The name that the server's certificate must be for, and that it is asked for.
    pub name: String,
    /// Who may sign it; `None`: whom this host trusts.
    pub authority: Option<PathBuf>,
    /// What the server is shown where it asks.
    pub certificate: Option<TlsCertificate>,
}

/// Files of a certificate chain and its key, in PEM.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TlsCertificate {
    /// The certificate, and those between it and its authority.
    pub cert: PathBuf,
    /// Its key: PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
}

/// Whether the server is spoken to with TLS.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Upstream {
    /// Without.
    Plain,
    /// With. The default, so that what clients sent encrypted never goes on in the clear unasked.
    #[default]
    Tls,
}

/// [`TlsSides`] as they are written: everything optional.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TlsSideOptions {
    /// See [`TlsSides::profile`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<TlsProfile>,
    /// See [`TlsClients::authority`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
    /// See [`TlsSides::server`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Upstream>,
    /// See [`TlsServer::name`]; the target's host where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_name: Option<String>,
    /// See [`TlsServer::authority`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_ca: Option<PathBuf>,
    /// See [`TlsSides::key_log`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_log: Option<PathBuf>,
    /// See [`TlsServer::certificate`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_certificate: Option<TlsCertificate>,
    /// See [`TlsClients::certificates`]; clients speak without TLS where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<TlsCertificate>,
}

impl TlsSideOptions {
    /// What is said, with `upstream` where nothing is said of that; `host` is the target's. No file is read.
    pub(super) fn resolve(
        self,
        upstream: Upstream,
        host: &str,
        problems: &mut Problems,
    ) -> TlsSides {
        let upstream = self.upstream.unwrap_or(upstream);
        problems.require(
            !self.certificates.is_empty() || self.client_ca.is_none(),
            "client-ca",
            "it asks for TLS from clients: name a certificate",
        );
        for (key, said) in [
            ("upstream-name", self.upstream_name.is_some()),
            ("upstream-ca", self.upstream_ca.is_some()),
            ("upstream-certificate", self.upstream_certificate.is_some()),
        ] {
            problems.require(
                upstream == Upstream::Tls || !said,
                key,
                "it is for upstream = \"tls\"",
            );
        }
        TlsSides {
            profile: self.profile.unwrap_or_default(),
            clients: (!self.certificates.is_empty()).then_some(TlsClients {
                certificates: self.certificates,
                authority: self.client_ca,
            }),
            server: (upstream == Upstream::Tls).then(|| TlsServer {
                name: self.upstream_name.unwrap_or_else(|| host.to_owned()),
                authority: self.upstream_ca,
                certificate: self.upstream_certificate,
            }),
            key_log: self.key_log,
        }
    }
}
