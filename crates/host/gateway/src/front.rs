//! Between `s3s`, which verifies who asks, and the gateway, which does what is asked.

pub(crate) mod scope;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::{Extensions, HeaderMap, Method, Uri};
use s3s::auth::{S3Auth, SecretKey, SimpleAuth};
use s3s::host::{S3Host, VirtualHost};
use s3s::route::S3Route;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, S3, S3Request, S3Response, S3Result};

use crate::answer::Answer;
use crate::asked::{Asked, bucket_of_name};
use crate::config::Config;
use crate::event::Event;
use crate::gateway::Gateway;
use crate::upload::Incoming;

/// What is told to whoever listens.
pub(crate) type Events = Arc<dyn Fn(Event) + Send + Sync>;

/// Who asks; travels with the request as an extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// A service that verifies requests and hands them to `gateway`.
pub(crate) fn service(config: &Config, gateway: Gateway, events: Events) -> S3Service {
    let mut builder = S3ServiceBuilder::new(Nothing);
    builder.set_auth(Clients(secrets(&config.secrets())));
    builder.set_host(Hosts(config.domains.clone()));
    builder.set_route(Front { gateway, events });
    builder.build()
}

/// Every operation goes through [`Front`]; none is left for these defaults, which refuse.
struct Nothing;

impl S3 for Nothing {}

/// Those who may use the gateway.
struct Clients(SimpleAuth);

fn secrets(pairs: &BTreeMap<String, String>) -> SimpleAuth {
    let mut auth = SimpleAuth::new();
    for (access_key, secret_key) in pairs {
        auth.register(access_key.clone(), SecretKey::from(secret_key.as_str()));
    }
    auth
}

#[async_trait::async_trait]
impl S3Auth for Clients {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        self.0.get_secret_key(access_key).await
    }
}

/// Names below the configured domains begin with a bucket; others name the gateway itself, whatever it is called.
struct Hosts(Vec<String>);

impl S3Host for Hosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let virtual_host = VirtualHost::new(host);
        Ok(match bucket_of_name(host, &self.0) {
            Some(bucket) => virtual_host.with_bucket(bucket),
            None => virtual_host,
        })
    }
}

struct Front {
    gateway: Gateway,
    events: Events,
}

#[async_trait::async_trait]
impl S3Route for Front {
    fn is_match(&self, _: &Method, _: &Uri, _: &HeaderMap, _: &mut Extensions) -> bool {
        true
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let began = Instant::now();
        let peer = request.extensions.get::<Peer>().copied();
        let domains = &self.gateway.config().domains;
        let asked = Asked::of(&request.method, &request.uri, request.headers, domains)?;
        let incoming = Incoming {
            method: request.method,
            body: request.input,
            trailers: request.trailing_headers,
        };
        let outcome = self.gateway.handle(&asked, incoming).await;
        let outcome = outcome.map_err(s3s::S3Error::from);
        let status = match &outcome {
            Ok(answer) => answer.status,
            Err(error) => error
                .status_code()
                .unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR),
        };
        if let Some(Peer(peer)) = peer {
            (self.events)(Event::Answered {
                peer,
                operation: asked.operation.name(),
                bucket: asked.bucket,
                key: asked.key,
                status: status.as_u16(),
                seconds: began.elapsed().as_secs_f64(),
                parts: outcome.as_ref().map_or(0, |answer| answer.parts),
            });
        }
        let Answer {
            status,
            headers,
            body,
            parts: _,
        } = outcome?;
        let mut response = S3Response::with_status(body, status);
        response.headers = headers;
        Ok(response)
    }
}
