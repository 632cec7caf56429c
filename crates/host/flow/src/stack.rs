//! Our own TCP on a wire: [`tcp::Connection`] over a TUN device, behind the same calls as kernel sockets.
//!
//! ```text
//!   application threads                      the driver's thread
//!     write: bytes into a ring,                 packets off the device, to their endpoint
//!       segments straight to the device         timers
//!     read: bytes out of a ring                 connections that nobody knows: RST
//! ```
//!
//! An endpoint and its rings sit behind one lock; whoever holds it sends what the endpoint wants to send.
//! Segments that follow each other leave as one superpacket, with the checksum left to whoever puts it on
//! a real wire (virtio-net header), so that no byte of payload is summed here.

mod device;
mod driver;
mod endpoint;
pub(crate) mod packet;
mod ring;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use record::flow::Setting;
use rustix::event::{EventfdFlags, eventfd};
use tcp::{Config, Connection, Pacing};
use units::{SeqNum, Time};

use crate::engine::{Engine, EngineError, Listener, Opened, SocketOptions};
use crate::live::locked;

pub use device::Device;
use endpoint::Endpoint;

/// First of the ports from which connections are made.
const EPHEMERAL: u16 = 32_768;
/// What a paced flow may send at once: as Linux.
const PACING_QUANTUM: Duration = Duration::from_millis(1);
/// How long connections may take to end properly when the stack goes.
const FAREWELL: Duration = Duration::from_secs(2);

/// A host of our own: one address on a device.
#[derive(Debug)]
pub struct Stack {
    shared: Arc<Shared>,
    driver: Option<JoinHandle<()>>,
}

/// What the driver and the application's threads share.
#[derive(Debug)]
struct Shared {
    device: Box<dyn Device>,
    address: IpAddr,
    config: Config,
    start: Instant,
    /// Wakes the driver when there is an earlier timer than it knows.
    wake: std::os::fd::OwnedFd,
    stopped: AtomicBool,
    next_port: AtomicU16,
    random: RandomState,
    hosts: Mutex<Hosts>,
}

/// Who is there to be spoken to.
#[derive(Debug, Default)]
struct Hosts {
    endpoints: BTreeMap<Key, Arc<Endpoint>>,
    listeners: BTreeMap<u16, Sender<Option<Arc<Endpoint>>>>,
}

/// A connection: our port, and the peer.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key {
    pub(crate) port: u16,
    pub(crate) peer: SocketAddr,
}

// === impl Stack ===

impl Stack {
    /// Starts a host with `address` on `device`; its connections behave like `config`.
    pub fn start(device: Box<dyn Device>, address: IpAddr, mut config: Config) -> io::Result<Self> {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
        //# If an MSS Option is not received at connection setup, TCP
        //# implementations MUST assume a default send MSS of 536 (576 - 40) for
        //# IPv4 or 1220 (1280 - 60) for IPv6 (MUST-15).
        config.pacing_quantum = PACING_QUANTUM;
        config.assumed_mss = if address.is_ipv4() { 536 } else { 1220 };
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let random = RandomState::new();
        let [a, b, ..] = random.hash_one(0_u8).to_be_bytes();
        let shared = Arc::new(Shared {
            device,
            address,
            config,
            start: Instant::now(),
            wake,
            stopped: AtomicBool::new(false),
            next_port: AtomicU16::new(u16::from_be_bytes([a, b])),
            random,
            hosts: Mutex::default(),
        });
        let driven = Arc::clone(&shared);
        let driver = thread::Builder::new()
            .name("tcp".into())
            .spawn(move || driver::run(&driven))?;
        Ok(Self {
            shared,
            driver: Some(driver),
        })
    }

    fn config(&self, options: &SocketOptions) -> Result<Config, EngineError> {
        if options.congestion_control.is_some() {
            return Err(EngineError::Unsupported {
                what: "the congestion control of one socket",
            });
        }
        if options.send_buffer.is_some() || options.receive_buffer.is_some() {
            return Err(EngineError::Unsupported {
                what: "the buffers of one socket",
            });
        }
        let pacing = options
            .pace
            .map_or(self.shared.config.pacing, Pacing::AtMost);
        Ok(Config {
            pacing,
            ..self.shared.config.clone()
        })
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let end = Instant::now() + FAREWELL;
        while self.shared.busy() && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.wake_driver();
        if let Some(driver) = self.driver.take() {
            // A panic of the driver was printed when it happened.
            let _ = driver.join();
        }
    }
}

impl Engine for Stack {
    fn connect(
        &self,
        address: SocketAddr,
        options: &SocketOptions,
        given_up: &dyn Fn() -> bool,
    ) -> Result<Opened, EngineError> {
        let failed = |source| EngineError::Connect { address, source };
        if address.is_ipv4() != self.shared.address.is_ipv4() {
            return Err(failed(io::ErrorKind::AddrNotAvailable.into()));
        }
        let config = self.config(options)?;
        let endpoint = {
            let mut hosts = locked(&self.shared.hosts);
            let key = self
                .shared
                .free_key(&hosts, address, options)
                .map_err(failed)?;
            let now = self.shared.now();
            let connection = Connection::connect(&config, now, self.shared.initial(&key));
            let endpoint = Arc::new(Endpoint::new(&self.shared, key, connection, &config));
            hosts.endpoints.insert(key, Arc::clone(&endpoint));
            endpoint
        };
        endpoint.opened(given_up).map_err(failed)?;
        Ok(Opened {
            stream: endpoint,
            settings: options
                .pace
                .map(|rate| Setting {
                    option: "pacing".into(),
                    requested: rate.to_string(),
                    effective: rate.to_string(),
                })
                .into_iter()
                .collect(),
        })
    }

    fn listen(
        &self,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> Result<Box<dyn Listener>, EngineError> {
        let failed = |kind: io::ErrorKind| EngineError::Listen {
            address,
            source: kind.into(),
        };
        self.config(options)?;
        if address.ip() != self.shared.address && !address.ip().is_unspecified() {
            return Err(failed(io::ErrorKind::AddrNotAvailable));
        }
        let (tell, come) = channel();
        let mut hosts = locked(&self.shared.hosts);
        if hosts.listeners.contains_key(&address.port()) {
            return Err(failed(io::ErrorKind::AddrInUse));
        }
        hosts.listeners.insert(address.port(), tell.clone());
        Ok(Box::new(StackListener {
            shared: Arc::clone(&self.shared),
            local: SocketAddr::new(self.shared.address, address.port()),
            tell,
            come: Mutex::new(come),
        }))
    }
}

// === impl Shared ===

impl Shared {
    fn now(&self) -> Time {
        let nanos = self.start.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn wake_driver(&self) {
        // It only fails when the counter is full, and then the driver is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Whether a connection has still something to tell its peer.
    fn busy(&self) -> bool {
        let endpoints: Vec<_> = locked(&self.hosts).endpoints.values().cloned().collect();
        endpoints.iter().any(|endpoint| endpoint.is_busy())
    }

    /// RFC 9293 section 3.4.1 asks for numbers that outsiders cannot guess.
    fn initial(&self, key: &Key) -> SeqNum {
        let [.., a, b, c, d] = self
            .random
            .hash_one((key.port, key.peer, self.now()))
            .to_be_bytes();
        SeqNum::new(u32::from_be_bytes([a, b, c, d]))
    }

    fn free_key(
        &self,
        hosts: &Hosts,
        peer: SocketAddr,
        options: &SocketOptions,
    ) -> io::Result<Key> {
        let asked = options.bind.map_or(0, |bind| bind.port());
        if asked != 0 {
            let key = Key { port: asked, peer };
            if hosts.endpoints.contains_key(&key) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            return Ok(key);
        }
        for _ in 0..=u16::MAX - EPHEMERAL {
            let port = self.next_port.fetch_add(1, Ordering::Relaxed) | EPHEMERAL;
            let key = Key { port, peer };
            if !hosts.endpoints.contains_key(&key) {
                return Ok(key);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }
}

#[derive(Debug)]
struct StackListener {
    shared: Arc<Shared>,
    local: SocketAddr,
    tell: Sender<Option<Arc<Endpoint>>>,
    come: Mutex<Receiver<Option<Arc<Endpoint>>>>,
}

// === impl StackListener ===

impl Listener for StackListener {
    fn accept(&self) -> Option<Result<Opened, EngineError>> {
        let endpoint = locked(&self.come).recv().ok().flatten()?;
        Some(Ok(Opened {
            stream: endpoint,
            settings: Vec::new(),
        }))
    }

    fn stop(&self) {
        locked(&self.shared.hosts)
            .listeners
            .remove(&self.local.port());
        // We hold a receiver ourselves.
        let _ = self.tell.send(None);
    }

    fn local(&self) -> SocketAddr {
        self.local
    }
}
