//! The network of a scenario: hosts as namespaces, the LAN they share, and the two ends of the WAN.
//!
//! ```text
//!   client 10.10.0.10 --veth--+
//!                           [ lan0 bridge, 10.10.0.1 ] site [ wan0 TUN ] === link === [ wan0 TUN ] origin
//!   relay  10.10.0.20.. -veth-+                                                       192.0.2.10
//! ```
//!
//! The relay stands beside the client: in the direct arms it is not on the path at all.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use link::PathSpec;
use scenario::{HostName, Scenario};
use sys::isolation;
use sys::namespace::{NamespaceError, NetworkNamespace};
use sys::tun::{Tun, TunError};

use crate::emulator;

/// The origin's address (TEST-NET-1, RFC 5737).
pub(super) const ORIGIN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
/// The client's address on the LAN.
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 10);
/// The device of client and relay on the LAN.
pub(super) const DEVICE: &str = "eth0";

/// The address of the relay with this index; each relay of a scenario has one of its own.
pub(super) fn relay_address(index: usize) -> Ipv4Addr {
    let host = u8::try_from(20 + index).unwrap_or(u8::MAX);
    Ipv4Addr::new(10, 10, 0, host)
}

/// Sysctls that decide how TCP behaves, noted for every host.
const NOTED: [&str; 9] = [
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_ecn",
];

/// Namespaces and devices of a scenario. Dropping it, or the death of the process, removes all.
#[derive(Debug)]
pub(super) struct Topology {
    client: NetworkNamespace,
    relay: NetworkNamespace,
    origin: NetworkNamespace,
    /// Holds the bridge and the near end of the WAN; nothing runs in it.
    _site: NetworkNamespace,
    /// Both ends of the WAN, until the link's process has them.
    wan: Option<(Tun, Tun)>,
    hosts_files: PathBuf,
}

/// The network could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A namespace or something in it.
    #[error("a host of the scenario is not to be had")]
    Namespace(#[source] NamespaceError),
    /// An end of the WAN.
    #[error("the link's device is not to be had")]
    Tun(#[source] TunError),
    /// Two links were asked for between the same ends.
    #[error("the ends of the WAN already belong to a link")]
    LinkTaken,
    /// A hosts file could not be written.
    #[error("cannot write `{}`", path.display())]
    Hosts {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl Topology {
    pub(super) fn build(scenario: &Scenario, out: &Path) -> Result<Self, TopologyError> {
        let namespace = |name| NetworkNamespace::create(name).map_err(TopologyError::Namespace);
        let (client, relay) = (namespace("client")?, namespace("relay")?);
        let (site, origin) = (namespace("site")?, namespace("origin")?);
        let near = Tun::create_in(&site, "wan0").map_err(TopologyError::Tun)?;
        let far = Tun::create_in(&origin, "wan0").map_err(TopologyError::Tun)?;
        let topology = Self {
            client,
            relay,
            origin,
            _site: site.clone(),
            wan: Some((near, far)),
            hosts_files: out.to_owned(),
        };
        topology
            .wire_up(&site, scenario)
            .map_err(TopologyError::Namespace)?;
        topology
            .apply_sysctls(scenario)
            .map_err(TopologyError::Namespace)?;
        Ok(topology)
    }

    fn wire_up(&self, site: &NetworkNamespace, scenario: &Scenario) -> Result<(), NamespaceError> {
        site.veth("client0", &self.client, DEVICE)?;
        site.veth("relay0", &self.relay, DEVICE)?;
        site.ip(&format!(
            "link add lan0 type bridge\n\
             link set client0 master lan0 up\n\
             link set relay0 master lan0 up\n\
             addr add 10.10.0.1/24 dev lan0\n\
             link set lan0 up\n\
             link set wan0 up\n\
             route add {ORIGIN}/32 dev wan0\n"
        ))?;
        site.set_sysctl("net.ipv4.ip_forward", "1")?;

        let congestion = |host: HostName| {
            let name = scenario
                .hosts
                .get(&host)
                .and_then(|host| host.congestion_control.as_deref());
            name.map(|name| format!(" congctl {name}"))
                .unwrap_or_default()
        };
        self.client.ip(&format!(
            "addr add {CLIENT}/24 dev {DEVICE}\n\
             link set {DEVICE} up\n\
             route add default via 10.10.0.1{}\n",
            congestion(HostName::Client)
        ))?;
        let mut relays = String::new();
        for index in 0..scenario.relays.len().max(1) {
            let address = relay_address(index);
            // Writing to a String cannot fail.
            let _ = writeln!(relays, "addr add {address}/24 dev {DEVICE}");
        }
        self.relay.ip(&format!(
            "{relays}link set {DEVICE} up\nroute add default via 10.10.0.1{}\n",
            congestion(HostName::Relay)
        ))?;
        self.origin.ip(&format!(
            "addr add {ORIGIN}/32 dev wan0\n\
             link set wan0 up\n\
             route add default dev wan0 src {ORIGIN}{}\n",
            congestion(HostName::Origin)
        ))
    }

    fn apply_sysctls(&self, scenario: &Scenario) -> Result<(), NamespaceError> {
        for (host, settings) in &scenario.hosts {
            for (key, value) in &settings.sysctls {
                self.namespace(*host).set_sysctl(key, value)?;
            }
        }
        Ok(())
    }

    pub(super) const fn namespace(&self, host: HostName) -> &NetworkNamespace {
        match host {
            HostName::Client | HostName::Rival => &self.client,
            HostName::Relay | HostName::FarRelay => &self.relay,
            HostName::Origin => &self.origin,
        }
    }

    /// A command that will run on `host`, die with the lab, and resolve one name as told. Names resolve
    /// by a hosts file that only this process sees: what a site does with its DNS or /etc/hosts.
    pub(super) fn command(
        &self,
        host: HostName,
        program: impl AsRef<OsStr>,
        resolve: Option<(&str, Ipv4Addr)>,
    ) -> Result<Command, TopologyError> {
        let mut command = self.namespace(host).command(program);
        isolation::die_with_parent(&mut command);
        // The lab's endpoints are reached directly, whatever proxy this machine uses.
        for variable in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
            command
                .env_remove(variable)
                .env_remove(variable.to_uppercase());
        }
        if let Some((name, address)) = resolve {
            let path = self
                .hosts_files
                .join(format!("hosts-{}-{address}", host.as_str()));
            let fail = |source| TopologyError::Hosts {
                path: path.clone(),
                source,
            };
            fs::write(&path, format!("127.0.0.1 localhost\n{address} {name}\n")).map_err(fail)?;
            isolation::bind_files(&mut command, &[(&path, Path::new("/etc/hosts"))])
                .map_err(fail)?;
        }
        Ok(command)
    }

    /// The link's process and its set-up. It takes both ends of the WAN with it, once, and needs no
    /// namespace of its own.
    pub(super) fn link_command(
        &mut self,
        binary: &Path,
        path: PathSpec,
    ) -> Result<(Command, emulator::Setup), TopologyError> {
        let (near, far) = self.wan.take().ok_or(TopologyError::LinkTaken)?;
        let mut command = Command::new(binary);
        command.args(["lab", "worker", "link"]);
        isolation::die_with_parent(&mut command);
        let setup = emulator::hand_over(&mut command, path, near, far);
        Ok((command, setup))
    }

    /// What TCP's behaviour on each host depends on; unreadable values carry the reason.
    pub(super) fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = BTreeMap::new();
        for host in [HostName::Client, HostName::Relay, HostName::Origin] {
            for key in NOTED {
                let value = self.namespace(host).sysctl(key);
                let value = value.unwrap_or_else(|error| format!("unavailable: {error}"));
                facts.insert(format!("{}: {key}", host.as_str()), value);
            }
        }
        facts
    }
}
