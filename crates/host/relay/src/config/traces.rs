//! Where traces go.

use std::fmt;
use std::path::PathBuf;

use document::Problems;
use http::Uri;
use serde::{Deserialize, Serialize};
use units::LossRate;

use super::{HTTPS, TlsServer};

/// Where traces of connections and requests go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tracing {
    /// The collector.
    pub endpoint: Endpoint,
    /// What it calls this relay.
    pub service: String,
    /// The share of connections that are traced. A request that belongs to a trace already goes by that.
    pub share: LossRate,
}

/// An HTTP address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// As it is written, for `Host`.
    pub authority: String,
    /// Path.
    pub path: String,
    /// How it is spoken to with TLS; `None` where it is spoken to without.
    pub tls: Option<TlsServer>,
}

/// See [`Tracing`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TraceOptions {
    /// Where a collector takes OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`.
    pub endpoint: String,
    /// Who may sign the certificate of an https endpoint, in PEM; whom this host trusts where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_ca: Option<PathBuf>,
    /// See [`Tracing::service`]; `longhaul-relay` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// See [`Tracing::share`]; `100 %` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<LossRate>,
}

// === impl TraceOptions ===

impl TraceOptions {
    pub(super) fn resolve(self, problems: &mut Problems) -> Option<Tracing> {
        let mut endpoint = Endpoint::parse(&self.endpoint);
        let service = self.service_name.unwrap_or_else(|| "longhaul-relay".into());
        problems.require(!service.is_empty(), "service-name", "it is not empty");
        if endpoint.is_none() {
            problems.tell_with(
                "endpoint",
                format!("`{}` is not an address of HTTP", self.endpoint),
                "write it like `http://127.0.0.1:4318/v1/traces` or `https://collector.example:4318/v1/traces`",
            );
        }
        if let Some(endpoint) = &mut endpoint {
            match &mut endpoint.tls {
                Some(tls) => tls.authority = self.endpoint_ca,
                None => problems.require(
                    self.endpoint_ca.is_none(),
                    "endpoint-ca",
                    "it is for an https endpoint",
                ),
            }
        }
        Some(Tracing {
            endpoint: endpoint?,
            service,
            share: self.share.unwrap_or(LossRate::ONE),
        })
    }
}

// === impl Endpoint ===

impl Endpoint {
    fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let authority = uri.authority()?;
        let tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        // Names and passwords do not belong into a file that others read.
        let sound = !authority.as_str().contains('@');
        let host = uri.host()?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        sound.then(|| Self {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(if tls { HTTPS } else { 80 }),
            authority: authority.to_string(),
            path: uri.path().to_owned(),
            tls: tls.then(|| TlsServer {
                name: host.to_owned(),
                authority: None,
                certificate: None,
            }),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}
