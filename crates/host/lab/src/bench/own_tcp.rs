//! Hosts that speak our own TCP: `longhaul flow --stack longhaul`, at an address of its own behind the host.
//!
//! ```text
//!   LAN or WAN --[ eth0 / wan0 ] the host's namespace forwards [ longhaul0: TUN ]-- our TCP, x.x.x.254
//! ```
//!
//! On a LAN the namespace answers ARP for that address, so that nobody else has to know of it.

use std::net::IpAddr;

use scenario::{Host, IpVersion, Stack, Threshold};
use sys::namespace::{NamespaceError, NetworkNamespace};

use super::addresses::neighbour;
use super::topology::forwarding;

const GATEWAY: u8 = 253;
const OURS: u8 = 254;
/// What a TCP segment without options holds over IPv6 on an MTU of 1500 bytes.
const LARGEST_MSS_OVER_IPV6: u16 = 1_440;

/// Our own TCP at a host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct OwnTcp {
    /// Where it is spoken to.
    pub(super) address: IpAddr,
    gateway: IpAddr,
    /// The scenario's settings in the words of `longhaul flow`.
    knobs: Vec<String>,
}

// === impl OwnTcp ===

impl OwnTcp {
    /// What `host` asks for, on the LAN of `home`; `None` where it speaks its kernel's TCP.
    pub(super) fn of(host: &Host, home: IpAddr) -> Option<Self> {
        let mut host = host.clone();
        if home.is_ipv6() {
            let mss = host.tcp.mss.unwrap_or(LARGEST_MSS_OVER_IPV6);
            host.tcp.mss = Some(mss.min(LARGEST_MSS_OVER_IPV6));
        }
        (host.stack() == Stack::Longhaul).then(|| Self {
            address: neighbour(home, OURS),
            gateway: neighbour(home, GATEWAY),
            knobs: knobs(&host),
        })
    }

    /// The bits that only gateway and our own TCP have in common, on their LAN.
    const fn prefix(&self) -> u8 {
        match self.address {
            IpAddr::V4(_) => 30,
            // ::250 to ::257.
            IpAddr::V6(_) => 125,
        }
    }

    /// Arguments of `longhaul flow client` and `server`.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = [
            "--stack".to_owned(),
            "longhaul".to_owned(),
            "--address".to_owned(),
            self.address.to_string(),
            "--gateway".to_owned(),
            format!("{}/{}", self.gateway, self.prefix()),
        ]
        .into();
        words.extend(self.knobs.iter().cloned());
        words
    }

    /// Lets packets through the host's namespace, between `device` and whatever the TCP makes.
    pub(super) fn open_way(
        &self,
        namespace: &NetworkNamespace,
        (device, is_lan): (&str, bool),
    ) -> Result<(), NamespaceError> {
        let (family, ip) = match self.address {
            IpAddr::V4(_) => ("ipv4", IpVersion::V4),
            IpAddr::V6(_) => ("ipv6", IpVersion::V6),
        };
        namespace.set_sysctl(forwarding(ip), "1")?;
        if !is_lan {
            return Ok(());
        }
        match ip {
            IpVersion::V4 => {
                namespace.set_sysctl(&format!("net.ipv4.conf.{device}.proxy_arp"), "1")?;
            }
            IpVersion::V6 => {
                namespace.set_sysctl(&format!("net.ipv6.conf.{device}.proxy_ndp"), "1")?;
                // Unlike ARP's, this proxy answers for addresses that it was told.
                namespace.ip(&format!("neigh add proxy {} dev {device}", self.address))?;
            }
        }
        // Proxies answer after a random delay of up to 0.8 s otherwise (`pneigh_enqueue`,
        // net/core/neighbour.c), which the first SYN would be charged with.
        namespace.set_sysctl(&format!("net.{family}.neigh.{device}.proxy_delay"), "0")?;
        Ok(())
    }
}

fn knobs(host: &Host) -> Vec<String> {
    let tcp = &host.tcp;
    let bytes = |size: units::Bytes| format!("{}B", size.get());
    let valued = [
        ("--congestion-control", host.congestion_control.clone()),
        ("--initial-cwnd", tcp.initial_cwnd.map(|n| n.to_string())),
        (
            "--initial-ssthresh",
            tcp.initial_ssthresh.map(|threshold| match threshold {
                Threshold::Bytes(size) => size.get().to_string(),
                Threshold::Infinite => threshold.to_string(),
            }),
        ),
        ("--receive-window", tcp.receive_window.map(bytes)),
        ("--send-buffer", tcp.send_buffer.map(bytes)),
        ("--mss", tcp.mss.map(|mss| mss.to_string())),
        ("--pace", tcp.pacing.map(|rate| rate.to_string())),
        (
            "--delayed-ack",
            tcp.delayed_ack.map(|span| span.to_string()),
        ),
    ];
    let valued = valued
        .into_iter()
        .filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
    let refused = [
        ("--no-window-scaling", tcp.window_scaling),
        ("--no-sack", tcp.sack),
        ("--no-timestamps", tcp.timestamps),
    ];
    let refused = refused.into_iter().filter(|(_, on)| *on == Some(false));
    valued
        .flatten()
        .chain(refused.map(|(flag, _)| flag.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(toml: &str) -> Option<String> {
        arguments_at("10.10.0.10", toml)
    }

    fn arguments_at(home: &str, toml: &str) -> Option<String> {
        let own = OwnTcp::of(&toml::from_str(toml).unwrap(), home.parse().unwrap())?;
        Some(own.arguments().join(" "))
    }

    #[test]
    fn a_host_of_the_kernel_has_none() {
        assert_eq!(arguments("tcp.initial-cwnd = 4"), None);
    }

    #[test]
    fn every_knob_reaches_the_command_line() {
        let all = arguments(
            r#"
            stack = "longhaul"
            congestion-control = "newreno"
            tcp.initial-cwnd = 4
            tcp.initial-ssthresh = "64 KiB"
            tcp.receive-window = "1 MiB"
            tcp.send-buffer = "2 MB"
            tcp.mss = 1000
            tcp.window-scaling = true
            tcp.sack = false
            tcp.timestamps = false
            tcp.pacing = "10 Mbit/s"
            tcp.delayed-ack = "40 ms"
            "#,
        );
        assert_eq!(
            all.unwrap(),
            "--stack longhaul --address 10.10.0.254 --gateway 10.10.0.253/30 \
             --congestion-control newreno --initial-cwnd 4 --initial-ssthresh 65536 \
             --receive-window 1048576B --send-buffer 2000000B --mss 1000 \
             --pace 10 Mbit/s --delayed-ack 40 ms --no-sack --no-timestamps"
        );
        let infinite = arguments("stack = \"longhaul\"\ntcp.initial-ssthresh = \"infinite\"");
        assert!(infinite.unwrap().ends_with("--initial-ssthresh infinite"));
    }
    #[test]
    fn over_ipv6_a_segment_is_20_bytes_smaller() {
        let plain = arguments_at("2001:db8:192::10", "stack = \"longhaul\"").unwrap();
        assert_eq!(
            plain,
            "--stack longhaul --address 2001:db8:192::254 --gateway 2001:db8:192::253/125 --mss 1440"
        );
        let small = arguments_at("fd00:10:10::10", "stack = \"longhaul\"\ntcp.mss = 1000");
        assert!(small.unwrap().ends_with("--mss 1000"));
    }
}
