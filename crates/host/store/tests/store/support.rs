//! An origin on loopback that ends with its test.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use longhaul_store::client::{Series, Verb};
use longhaul_store::credentials::Credentials;
use longhaul_store::origin::{Config, Listeners, Origin, OriginError, Stored};
use longhaul_store::tls::{Identity, Trust, Version};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub(crate) struct TestOrigin {
    pub(crate) address: SocketAddr,
    pub(crate) tls_address: SocketAddr,
    certificate: String,
    events: mpsc::UnboundedReceiver<Stored>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), OriginError>>,
}

pub(crate) fn credentials() -> Credentials {
    Credentials::new("LONGHAULACCESSKEY", "longhaul/secret+key")
}

impl TestOrigin {
    pub(crate) async fn start() -> Self {
        Self::with(Config::new(credentials())).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls_listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tls_address = tls_listener.local_addr().unwrap();
        let identity = Identity::make(&["127.0.0.1".to_owned()]).unwrap();
        let certificate = identity.certificate_pem();
        let listeners = Listeners {
            plain: listener,
            tls: Some((tls_listener, identity)),
        };
        let (sender, events) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let origin = Origin::prepare(&config, sender).unwrap();
        let task = tokio::spawn(async move {
            let shutdown = async {
                let _ = stopped.await;
            };
            origin.serve(listeners, shutdown).await
        });
        Self {
            address,
            tls_address,
            certificate,
            events,
            stop,
            task,
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends the origin and returns all that it stored, in order.
    pub(crate) async fn stop(mut self) -> Vec<Stored> {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
        let mut stored = Vec::new();
        while let Some(event) = self.events.recv().await {
            stored.push(event);
        }
        stored
    }

    /// The same over TLS of this version.
    pub(crate) fn series_over(&self, version: Version) -> Series {
        Series {
            endpoint: format!("https://{}", self.tls_address),
            tls: Some(Trust {
                certificate: self.certificate.clone(),
                version,
            }),
            ..self.series()
        }
    }

    /// A series to this origin's bucket `lab`.
    pub(crate) fn series(&self) -> Series {
        Series {
            endpoint: self.endpoint(),
            bucket: "lab".into(),
            key_prefix: "series".into(),
            credentials: credentials(),
            verb: Verb::Put,
            sizes: vec![102_400],
            parallel: 1,
            part: None,
            read_pause: None,
            tls: None,
            first_index: 1,
            transfers: 5,
            seed: 42,
            reuse: false,
            timeout_s: 30.0,
        }
    }
}

/// How many connections brought these objects: no two open or lingering ones share a port.
pub(crate) fn connections(stored: &[Stored]) -> usize {
    let peers: BTreeSet<SocketAddr> = stored.iter().map(|event| event.peer).collect();
    peers.len()
}
