//! `longhaul relay s3`: a gateway in front of a hot pool, both in this process.
//!
//! The gateway speaks HTTP to an address. Where nobody names one, it is a relay on loopback that this process runs
//! beside it: `relay http` with its hot pool, or `relay tls` where the store wants TLS.

pub(crate) mod arguments;
mod line;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use gateway::config::{BucketOptions, ClientOptions, Config, FormOptions, GatewayOptions};
use gateway::{Server, ServerError};
use relay::{HttpOptions, Order, PoolOptions, PrimeOptions, RunError, TlsSideOptions};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use super::arguments::Switch;
use super::voice::Speech;
use super::{attend, misconfigured, supervisor, text};
use crate::failure::{Blame as _, Failure};
use crate::output;
use arguments::RelayS3;

/// What either half says.
#[derive(Serialize)]
#[serde(untagged)]
enum Event {
    Gateway(gateway::Event),
    Relay(Box<relay::Event>),
}

/// One half cannot start.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("the connections to the store cannot be made ready")]
    Relay(#[source] RunError),
    #[error("the gateway cannot listen")]
    Gateway(#[source] ServerError),
    #[error("the relay to the store ended before it listened")]
    Ended,
}

pub(crate) fn run(arguments: &RelayS3) -> Result<ExitCode, Failure> {
    if arguments.print_config {
        let file = written(arguments)?.to_toml();
        output::data(&file.bug("cannot write the configuration")?)?;
        return Ok(ExitCode::SUCCESS);
    }
    sys::allocation::keep_freed();
    let config = config(arguments)?;
    let hop = if config.origin.relayed {
        None
    } else {
        Some(hop(arguments, &config)?)
    };
    attend(arguments.json, None, |runtime, voice, signals| {
        let said = Arc::new(voice.listener());
        runtime.block_on(serve(config, hop, said, signals.stop()))
    })
}

/// The gateway as a file would say it. Secrets stay where they are.
fn written(arguments: &RelayS3) -> Result<GatewayOptions, Failure> {
    let Some(path) = &arguments.config else {
        return options(arguments);
    };
    let file =
        GatewayOptions::from_toml(&text(path)?).map_err(|error| misconfigured(error, path))?;
    Ok(GatewayOptions {
        path_rate: arguments.path_rate.or(file.path_rate),
        ..file
    })
}

/// The gateway with its secrets.
fn config(arguments: &RelayS3) -> Result<Config, Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(path) = &arguments.config else {
        let options = options(arguments)?;
        return options.resolve(variable).usage("this gateway cannot be");
    };
    let file = Config::from_toml(&text(path)?, variable);
    let file = file.map_err(|error| misconfigured(error, path))?;
    Ok(Config {
        path_rate: arguments.path_rate.or(file.path_rate),
        ..file
    })
}

/// Serves until `stop`: first the way to the store, then the door for clients; the other way round at the end.
async fn serve(
    mut config: Config,
    hop: Option<relay::Config>,
    say: Arc<impl Fn(Event) + Send + Sync + 'static>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let mut running = None;
    if let Some(hop) = hop {
        let (orders, given) = mpsc::channel(1);
        let (ready, listening) = oneshot::channel();
        let ready = Mutex::new(Some(ready));
        let said = Arc::clone(&say);
        let relay = relay::run(
            hop,
            Vec::new(),
            move |event| {
                if let relay::Event::Listening { address, .. } = &event {
                    let mut ready = ready.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(ready) = ready.take() {
                        // Whoever waited has gone, and this relay with it.
                        let _ = ready.send(*address);
                    }
                }
                said(Event::Relay(Box::new(event)));
            },
            given,
        );
        let mut relay = Box::pin(relay);
        let address = tokio::select! {
            ended = &mut relay => return ended.map_err(ServeError::Relay).and(Err(ServeError::Ended)),
            address = listening => address.map_err(|_| ServeError::Ended)?,
        };
        config.origin.via = address.to_string();
        running = Some((orders, tokio::spawn(relay)));
    }
    let said = Arc::clone(&say);
    let server = Server::bind(config, move |event| said(Event::Gateway(event)))
        .await
        .map_err(ServeError::Gateway)?;
    supervisor::ready();
    server.serve(stop).await;
    if let Some((orders, relay)) = running {
        // A relay that has ended by itself needs no order.
        let _ = orders.send(Order::Stop).await;
        if let Ok(ended) = relay.await {
            ended.map_err(ServeError::Relay)?;
        }
    }
    Ok(())
}

/// The relay on loopback that leads to the store.
fn hop(arguments: &RelayS3, config: &Config) -> Result<relay::Config, Failure> {
    const LOOPBACK: &str = "127.0.0.1:0";
    let why = "the way to this store cannot be";
    let origin = &config.origin;
    relay::Config::http(HttpOptions {
        listen: LOOPBACK.into(),
        target: origin.via.clone(),
        server_profile: Some(arguments.server_profile.clone()),
        path_rate: config.path_rate,
        tls: TlsSideOptions {
            upstream: Some(if origin.tls {
                relay::Upstream::Tls
            } else {
                relay::Upstream::Plain
            }),
            upstream_ca: origin.authority_file.clone(),
            ..TlsSideOptions::default()
        },
        pool: PoolOptions {
            // As many as carry the parts of one large object.
            min_idle: Some(8),
            // Beside the many that read the ranges of large objects there is room for small ones.
            max_connections: Some(512),
            fill_path: Some(true),
            ..PoolOptions::default()
        },
        prime: PrimeOptions {
            enabled: Some(arguments.hot == Switch::On),
            window: arguments.hot_window,
            host: Some(origin.authority.clone()),
            ..PrimeOptions::default()
        },
        ..HttpOptions::default()
    })
    .usage(why)
}

/// What the command line says, as it would stand in a file.
fn options(arguments: &RelayS3) -> Result<GatewayOptions, Failure> {
    let pair = |text: &str, what: &str| {
        let pair = text.split_once('=');
        pair.map(|(left, right)| (left.to_owned(), right.to_owned()))
            .ok_or_else(|| anyhow::anyhow!("`{text}` is not {what}"))
            .usage("this gateway cannot be")
    };
    let buckets = arguments.bucket.iter().map(|text| {
        let (name, origin) = match text.split_once('=') {
            Some((name, origin)) => (name, Some(origin.to_owned())),
            None => (text.as_str(), None),
        };
        BucketOptions {
            name: name.to_owned(),
            origin,
            ..BucketOptions::default()
        }
    });
    let forms: Result<Vec<FormOptions>, Failure> = arguments
        .form
        .iter()
        .map(|text| {
            let (path, bucket) = pair(text, "PATH=BUCKET")?;
            Ok(FormOptions {
                path,
                bucket,
                prefix: None,
            })
        })
        .collect();
    Ok(GatewayOptions {
        listen: arguments
            .listen
            .map(|address| address.to_string())
            .unwrap_or_default(),
        origin: arguments.origin.clone().unwrap_or_default(),
        via: arguments.via.clone(),
        origin_ca: arguments.origin_ca.clone(),
        region: arguments.region.clone(),
        domains: arguments.domain.clone(),
        manage_buckets: arguments.manage_buckets.then_some(true),
        keep_ready: (arguments.hot == Switch::Off).then_some(false),
        path_rate: arguments.path_rate,
        clients: vec![ClientOptions {
            access_key: arguments.client.clone(),
            secret_env: Some(arguments.client_secret_env.clone()),
            secret_file: None,
        }],
        buckets: buckets.collect(),
        forms: forms?,
        ..GatewayOptions::default()
    })
}

impl Speech for Event {
    fn line(&self) -> String {
        match self {
            Self::Gateway(event) => line::line(event),
            Self::Relay(event) => event.line(),
        }
    }

    fn is_warning(&self) -> bool {
        match self {
            Self::Gateway(event) => line::is_warning(event),
            Self::Relay(event) => event.is_warning(),
        }
    }

    fn lost(events: u64, why: &str) -> Self {
        Self::Relay(Box::new(relay::Event::lost(events, why)))
    }
}
