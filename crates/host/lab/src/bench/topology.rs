//! The network of a scenario: hosts as namespaces on two LANs, and the two ends of the WAN between them.
//!
//! ```text
//!   client 10.10.0.10 --+                                                  +-- origin     192.0.2.10
//!   relays 10.10.0.20.. +-[ lan0 ] site [ wan0 ] == link == [ wan0 ] far [ lan0 ]-+-- far relays 192.0.2.20..
//!   rival  10.10.0.30 --+                                                  +-- rival's sink 192.0.2.30
//! ```
//!
//! Each relay is a host of its own and stands beside the way: in the direct arms it is not on the path at
//! all. Where nothing but the origin lives at the far end, the origin holds the end of the WAN itself, which
//! saves a hop. Over IPv6 addresses have the same last word in other networks ([`addresses`]).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use scenario::{HostName, IpVersion, Relay, Scenario, Site};
use sys::isolation;
use sys::namespace::{NamespaceError, NetworkNamespace};
use sys::tun::{Tun, TunError};
use wire::LinkType;

use super::addresses::{self, END, RIVAL, ROUTER};
use super::host::{HostError, Settings};
use super::own_tcp::OwnTcp;
use super::plan::Plan;
use crate::experiment::Backend;

/// The device of a host on its LAN.
const LAN: &str = "eth0";
/// An end of the WAN.
pub(super) const WAN: &str = "wan0";

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

/// Where something runs.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Place {
    /// The client's host.
    Client,
    /// The host of hop number so-and-so of the [`Plan`].
    Hop(usize),
    /// The origin's host.
    Origin,
    /// Where rivals are at home.
    Rival,
    /// Whom rivals talk to.
    RivalSink,
}

/// One host.
#[derive(Debug)]
pub(super) struct Node {
    /// What the scenario calls it.
    pub(super) host: HostName,
    /// What talk and files call it.
    pub(super) name: String,
    pub(super) namespace: NetworkNamespace,
    pub(super) address: IpAddr,
    /// The device that everything passes.
    pub(super) device: &'static str,
    /// Its TCP, where that is ours.
    pub(super) own_tcp: Option<OwnTcp>,
    site: Site,
    /// How the frames of its device are to be read.
    pub(super) link_type: LinkType,
}

/// Namespaces and devices of a scenario. Dropping it, or the death of the process, removes all.
#[derive(Debug)]
pub(super) struct Topology {
    nodes: BTreeMap<Place, Node>,
    /// Hold the LANs and the ends of the WAN; nothing runs in them.
    _routers: Vec<NetworkNamespace>,
    /// Both ends of the WAN, until the link has them.
    wan: Option<Wan>,
    hosts_files: PathBuf,
}

/// The ends of the WAN, near and far.
#[derive(Debug)]
pub(super) enum Wan {
    /// For our own link.
    Tuns(Box<[Tun; 2]>),
    /// The namespaces at both ends of a cable, for netem.
    Cable([NetworkNamespace; 2]),
}

/// The network could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A namespace or something in it.
    #[error("a host of the scenario is not to be had")]
    Namespace(#[source] NamespaceError),
    /// A setting of a host.
    #[error("a host of the scenario does not take its settings")]
    Host(#[source] HostError),
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

// === impl Topology ===

impl Topology {
    pub(super) fn build(
        scenario: &Scenario,
        plan: &Plan,
        backend: Backend,
        files: &Path,
    ) -> Result<Self, TopologyError> {
        let ip = scenario.path.ip;
        let namespace = |name: &str| empty_namespace(name, ip).map_err(TopologyError::Namespace);
        let mut nodes = BTreeMap::new();
        for place in places(plan) {
            let (host, name, site, address) = describe(place, plan, ip);
            let on_wan = place == Place::Origin && !plan.far_lan;
            let node = Node {
                host,
                namespace: namespace(&name)?,
                name,
                address,
                device: if on_wan { WAN } else { LAN },
                own_tcp: OwnTcp::of(&plan.host(host), address),
                site,
                link_type: if on_wan && backend == Backend::Ours {
                    LinkType::RAW
                } else {
                    LinkType::ETHERNET
                },
            };
            nodes.insert(place, node);
        }
        let mut routers = vec![namespace("site")?];
        let far_end = if plan.far_lan {
            routers.push(namespace("far")?);
            routers[1].clone()
        } else {
            nodes[&Place::Origin].namespace.clone()
        };
        let ends = [routers[0].clone(), far_end];
        let wan = match backend {
            Backend::Ours => {
                let tun = |end| Tun::create_in(end, WAN).map_err(TopologyError::Tun);
                Wan::Tuns(Box::new([tun(&ends[0])?, tun(&ends[1])?]))
            }
            Backend::Netem => {
                lay_cable(&ends).map_err(TopologyError::Namespace)?;
                Wan::Cable(ends)
            }
        };
        wire_up(&nodes, &routers, ip).map_err(TopologyError::Namespace)?;
        for (place, node) in &nodes {
            configure(scenario, plan, *place, node).map_err(TopologyError::Host)?;
            if backend == Backend::Netem {
                // netem loses, and its bucket counts, what TCP hands down at once: that has to be one packet.
                let line = format!("link set {} gso_max_segs 1\n", node.device);
                node.namespace.ip(&line).map_err(TopologyError::Namespace)?;
            }
        }
        Ok(Self {
            nodes,
            _routers: routers,
            wan: Some(wan),
            hosts_files: files.to_owned(),
        })
    }

    /// A host of the plan that this was built from.
    pub(super) fn node(&self, place: Place) -> &Node {
        &self.nodes[&place]
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (Place, &Node)> {
        self.nodes.iter().map(|(place, node)| (*place, node))
    }

    pub(super) fn address(&self, place: Place) -> IpAddr {
        self.node(place).address
    }

    /// Where the TCP of a place is spoken to, be it the kernel's or ours.
    pub(super) fn tcp_address(&self, place: Place) -> IpAddr {
        let node = self.node(place);
        node.own_tcp
            .as_ref()
            .map_or(node.address, |own| own.address)
    }

    /// A command that will run on `place`, die with the lab, and resolve one name as told. Names resolve
    /// by a hosts file that only this process sees: what a site does with its DNS or /etc/hosts.
    pub(super) fn command(
        &self,
        place: Place,
        program: impl AsRef<OsStr>,
        resolve: Option<(&str, IpAddr)>,
    ) -> Result<Command, TopologyError> {
        let node = self.node(place);
        let mut command = node.namespace.command(program);
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
                .join(format!("hosts-{}-{address}", node.name));
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

    /// Both ends of the WAN, once.
    pub(super) fn wan(&mut self) -> Result<Wan, TopologyError> {
        self.wan.take().ok_or(TopologyError::LinkTaken)
    }

    /// What TCP's behaviour on each host depends on; unreadable values carry the reason.
    pub(super) fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = BTreeMap::new();
        for node in self.nodes.values() {
            for key in NOTED {
                let value = node.namespace.sysctl(key);
                let value = value.unwrap_or_else(|error| format!("unavailable: {error}"));
                facts.insert(format!("{}: {key}", node.name), value);
            }
        }
        facts
    }
}

fn places(plan: &Plan) -> Vec<Place> {
    let mut places = vec![Place::Client, Place::Origin];
    places.extend((0..plan.hops.len()).map(Place::Hop));
    if plan.rivals {
        places.extend([Place::Rival, Place::RivalSink]);
    }
    places
}

fn describe(place: Place, plan: &Plan, ip: IpVersion) -> (HostName, String, Site, IpAddr) {
    let plain = |host: HostName, site, number| {
        let address = addresses::address(ip, site, number);
        (host, host.as_str().to_owned(), site, address)
    };
    match place {
        Place::Client => plain(HostName::Client, Site::Near, END),
        Place::Origin => plain(HostName::Origin, Site::Far, END),
        Place::Rival => plain(HostName::Rival, Site::Near, RIVAL),
        Place::RivalSink => {
            let (host, _, site, address) = plain(HostName::Rival, Site::Far, RIVAL);
            (host, "rival-sink".to_owned(), site, address)
        }
        Place::Hop(index) => {
            let hop = &plan.hops[index];
            let host = match hop.site {
                Site::Near => HostName::Relay,
                Site::Far => HostName::FarRelay,
            };
            let mut name = format!("{host}-{}", hop.relay);
            for relay in &hop.behind {
                // Writing to a String cannot fail.
                let _ = write!(name, "-to-{relay}");
            }
            let address = addresses::hop(ip, hop.site, index);
            (host, name, hop.site, address)
        }
    }
}

/// A cable for netem between both ends of the WAN. It passes packets without asking who has an address, because
/// netem would delay and lose the question as well: both ends have one hardware address, which is then right.
fn lay_cable([near, far]: &[NetworkNamespace; 2]) -> Result<(), NamespaceError> {
    near.veth(WAN, far, WAN)?;
    for end in [near, far] {
        end.ip(&format!(
            "link set {WAN} address 02:00:00:00:00:01 arp off\n"
        ))?;
    }
    Ok(())
}

/// Bridges, cables, addresses, and the routers' routes.
fn wire_up(
    nodes: &BTreeMap<Place, Node>,
    routers: &[NetworkNamespace],
    ip: IpVersion,
) -> Result<(), NamespaceError> {
    let prefix = addresses::prefix(ip);
    let sites = [(Site::Near, Site::Far), (Site::Far, Site::Near)];
    for (router, (site, other)) in routers.iter().zip(sites) {
        let mut lines = String::from("link add lan0 type bridge\n");
        let on_lan = nodes
            .values()
            .filter(|node| node.site == site && node.device == LAN);
        for (number, node) in on_lan.enumerate() {
            let port = format!("port{number}");
            router.veth(&port, &node.namespace, LAN)?;
            // Writing to a String cannot fail.
            let _ = writeln!(lines, "link set {port} master lan0 up");
            node.namespace.ip(&format!(
                "addr add {}/{prefix} dev {LAN}\nlink set {LAN} up\n",
                node.address
            ))?;
        }
        let address = addresses::address(ip, site, ROUTER);
        let beyond = addresses::network(ip, other);
        let _ = write!(
            lines,
            "addr add {address}/{prefix} dev lan0\n\
             link set lan0 up\n\
             link set {WAN} up\n\
             route add {beyond} dev {WAN}\n"
        );
        router.ip(&lines)?;
        router.set_sysctl(forwarding(ip), "1")?;
    }
    Ok(())
}

/// A namespace whose devices will use their addresses at once. Over IPv6 a host asks first whether an address is
/// taken (RFC 4862 section 5.4), and before the answer about its own it asks for nobody else's: the first SYN that a
/// router had to find the way for would wait for seconds. Here all addresses are ours alone.
fn empty_namespace(name: &str, ip: IpVersion) -> Result<NetworkNamespace, NamespaceError> {
    let namespace = NetworkNamespace::create(name)?;
    if ip == IpVersion::V6 {
        namespace.set_sysctl("net.ipv6.conf.default.accept_dad", "0")?;
    }
    Ok(namespace)
}

/// The sysctl by which a host passes on what is not for it.
pub(super) const fn forwarding(ip: IpVersion) -> &'static str {
    match ip {
        IpVersion::V4 => "net.ipv4.ip_forward",
        IpVersion::V6 => "net.ipv6.conf.all.forwarding",
    }
}

/// Settings of one host, and its way out.
fn configure(scenario: &Scenario, plan: &Plan, place: Place, node: &Node) -> Result<(), HostError> {
    let host = node.host;
    let ip = scenario.path.ip;
    let address = node.address;
    if node.device == WAN {
        let lines = format!("addr add {address} dev {WAN}\nlink set {WAN} up\n");
        node.namespace
            .ip(&lines)
            .map_err(|source| HostError::Namespace { host, source })?;
    }
    let relay = match place {
        Place::Hop(index) => scenario.relays.get(&plan.hops[index].relay),
        Place::Client | Place::Origin | Place::Rival | Place::RivalSink => None,
    };
    let own_control = relay.and_then(|relay: &Relay| relay.congestion_control.as_ref());
    let own_control = own_control.map(scenario::Preferences::names);
    let settings = if let Some(own) = &node.own_tcp {
        own.open_way(&node.namespace, (node.device, node.device == LAN))
            .map_err(|source| HostError::Namespace { host, source })?;
        // Its knobs are the process's that speaks it; the kernel here only forwards.
        Settings::default()
    } else {
        Settings::of(&plan.host(host), own_control)?
    };
    let way = match node.device {
        WAN => format!("dev {WAN} src {address}"),
        _ => format!("via {}", addresses::address(ip, node.site, ROUTER)),
    };
    settings.apply(host, &node.namespace, (ip, &way))
}
