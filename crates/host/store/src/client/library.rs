//! The library's client for a series.

use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{HttpClient, HttpConnector};
use object_store::{ClientOptions, RetryConfig};

use super::{ClientError, Series, transfer};
use crate::tls::{Trust, Version};

/// A client of `series` for `endpoint`.
pub(super) fn client(series: &Series, endpoint: &str) -> Result<AmazonS3, ClientError> {
    let pool = if keeps_connections(series) {
        // As `reqwest` has it: no limit.
        usize::MAX
    } else {
        0
    };
    let timeout = transfer::span(series.timeout_s)?;
    let mut builder = AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_virtual_hosted_style_request(false)
        .with_bucket_name(&series.bucket)
        .with_region("us-east-1")
        .with_access_key_id(&series.credentials.access_key)
        .with_secret_access_key(&series.credentials.secret_key)
        .with_retry(RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        })
        .with_client_options(
            ClientOptions::new()
                .with_allow_http(true)
                .with_timeout(timeout)
                .with_connect_timeout(timeout)
                .with_pool_max_idle_per_host(pool)
                // Reading them takes tens of milliseconds, and nobody here is known to them.
                .with_no_system_certificates(true),
        );
    if let Some(trust) = &series.tls
        && endpoint.starts_with("https:")
    {
        builder = builder.with_http_connector(Tls {
            trust: trust.clone(),
            timeout,
            pool,
        });
    }
    builder.build().map_err(|source| ClientError::Make {
        endpoint: endpoint.to_owned(),
        bucket: series.bucket.clone(),
        source,
    })
}

/// Whether connections stay open behind a request: for the next transfer, or for the next request of
/// the same one. Where neither comes the client closes first, as in the report.
fn keeps_connections(series: &Series) -> bool {
    series.reuse || series.part.is_some() || series.sizes.len() > 1
}

/// `reqwest` with one version of TLS and one certificate, which [`ClientOptions`] can't ask for.
#[derive(Debug)]
struct Tls {
    trust: Trust,
    timeout: Duration,
    pool: usize,
}

impl HttpConnector for Tls {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let fail = |source: reqwest::Error| object_store::Error::Generic {
            store: "TLS",
            source: Box::new(source),
        };
        let version = match self.trust.version {
            Version::V1_2 => reqwest::tls::Version::TLS_1_2,
            Version::V1_3 => reqwest::tls::Version::TLS_1_3,
        };
        let certificate =
            reqwest::Certificate::from_pem(self.trust.certificate.as_bytes()).map_err(fail)?;
        let client = reqwest::Client::builder()
            .tls_certs_only([certificate])
            .tls_version_min(version)
            .tls_version_max(version)
            .http1_only()
            .timeout(self.timeout)
            .connect_timeout(self.timeout)
            .pool_max_idle_per_host(self.pool)
            .build()
            .map_err(fail)?;
        Ok(HttpClient::new(client))
    }
}
