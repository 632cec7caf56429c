use std::time::Instant;

use live::{Key, Seen};
use sys::namespace::{NamespaceError, NetworkNamespace};
use sys::sock_diag::{SockDiag, SockDiagError, States, TcpSocket};
use sys::tcp_info::TcpInfo;
use units::{Bytes, Rate, Time};

use crate::namespaces::NamespaceChoice;

/// Reads the TCP sockets of its namespaces.
#[derive(Debug)]
pub struct Watcher {
    kernels: Vec<(String, SockDiag)>,
    began: Option<Instant>,
    /// How many sockets the last reading had: room for as many is taken at once.
    expected: usize,
}

/// Sockets could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// A namespace could not be entered.
    #[error("cannot watch network namespace `{namespace}`")]
    Enter {
        /// As it was named.
        namespace: String,
        /// Why.
        #[source]
        source: NamespaceError,
    },
    /// Its kernel did not answer.
    #[error("cannot list the sockets of network namespace `{namespace}`")]
    List {
        /// As it was named.
        namespace: String,
        /// Why.
        #[source]
        source: SockDiagError,
    },
}

// === impl Watcher ===

impl Watcher {
    /// Opens what `choice` means. A namespace that ends meanwhile is left out where all are meant, and an
    /// error where it was named.
    pub fn open(choice: &NamespaceChoice) -> Result<Self, WatchError> {
        let mut kernels = Vec::new();
        for namespace in choice.resolve() {
            match open(&namespace.path, &namespace.name) {
                Ok(kernel) => kernels.push((namespace.name, kernel)),
                Err(_) if *choice == NamespaceChoice::All => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            kernels,
            began: None,
            expected: 0,
        })
    }

    /// The namespaces' names, in the order of [`Key::namespace`].
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        self.kernels.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Every socket in one of `states`, and when that was: since the first reading.
    pub fn read(&mut self, states: States) -> Result<(Time, Vec<Seen>), WatchError> {
        let now = Instant::now();
        let since = now.duration_since(*self.began.get_or_insert(now));
        let mut seen = Vec::with_capacity(self.expected);
        for (number, (name, kernel)) in (0_u16..).zip(&mut self.kernels) {
            kernel
                .visit(states, |socket| seen.push(convert(socket, number)))
                .map_err(|source| WatchError::List {
                    namespace: name.clone(),
                    source,
                })?;
        }
        self.expected = seen.len();
        Ok((Time::ZERO + since, seen))
    }
}

fn open(path: &std::path::Path, name: &str) -> Result<SockDiag, WatchError> {
    let entered = NetworkNamespace::open(path, name)
        .and_then(|namespace| namespace.enter(SockDiag::open))
        .map_err(|source| WatchError::Enter {
            namespace: name.to_owned(),
            source,
        })?;
    entered.map_err(|source| WatchError::List {
        namespace: name.to_owned(),
        source,
    })
}

fn convert(socket: TcpSocket, namespace: u16) -> Seen {
    let info = socket.info.as_ref();
    let bytes = |count: Option<Bytes>| count.map(Bytes::get);
    Seen {
        key: Key {
            namespace,
            cookie: socket.cookie,
        },
        local: socket.local,
        peer: socket.peer,
        state: socket.state.into(),
        inode: socket.inode,
        uid: socket.uid,
        receive_queue: socket.receive_queue,
        send_queue: socket.send_queue,
        sender: info.map(TcpInfo::reading).unwrap_or_default(),
        mss: info.map_or(0, |info| info.snd_mss.get()),
        in_flight: info.map_or(0, |info| info.in_flight().get()),
        bytes_acked: info.and_then(|info| bytes(info.bytes_acked)),
        bytes_received: info.and_then(|info| bytes(info.bytes_received)),
        peer_window: info.and_then(|info| bytes(info.snd_wnd)),
        delivery_bps: info.and_then(|info| info.delivery_rate.map(Rate::bits_per_s)),
        congestion_control: socket.congestion_control,
        relayed: None,
    }
}
