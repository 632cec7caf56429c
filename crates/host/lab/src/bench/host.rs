//! A scenario's settings of a host, put into its namespace and read back. What did not take is an error
//! that names it: an experiment about a setting that is not in effect would be about nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::process::Stdio;

use profile::{TcpProfile, builtin};
use scenario::{Host, HostName, IpVersion};
use sys::namespace::{NamespaceError, NetworkNamespace};
use sys::socket::kernel_names;
use units::Bytes;

use super::addresses;

/// A host could not be set as the scenario says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A sysctl, a route or a device.
    #[error("the host `{host}` cannot be set up")]
    Namespace {
        /// Which host.
        host: HostName,
        /// What failed.
        #[source]
        source: NamespaceError,
    },
    /// The kernel took a sysctl and shows another value.
    #[error("sysctl `{key}` of the host `{host}` reads back `{effective}`, not `{requested}`")]
    NotEffective {
        /// Which host.
        host: HostName,
        /// The sysctl.
        key: String,
        /// As asked.
        requested: String,
        /// As it is.
        effective: String,
    },
    /// The default route lacks a setting.
    #[error(
        "the default route of the host `{host}` does not show `{setting} {value}`, but: {route}"
    )]
    Route {
        /// Which host.
        host: HostName,
        /// The setting as `ip route` calls it.
        setting: &'static str,
        /// As asked.
        value: String,
        /// The route as it is.
        route: String,
    },
    /// The routes could not be read.
    #[error("cannot read the routes of the host `{host}`")]
    ReadRoute {
        /// Which host.
        host: HostName,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// No congestion control that is asked for is to be had.
    #[error(
        "this kernel has no congestion control {wanted}, which {who} asks for; `longhaul cc load` puts highspeed, \
         westwood+ and newreno into it"
    )]
    CongestionControl {
        /// A host, a relay or a profile.
        who: String,
        /// The list.
        wanted: String,
    },
}

/// Settings of a host in the kernel's words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    /// In the order in which they are written; what the scenario says itself comes last.
    sysctls: Vec<(String, String)>,
    /// Of the default route: `ip route`'s words, how its JSON calls them, and values.
    route: Vec<(&'static str, &'static str, String)>,
}

// === impl Settings ===

impl Settings {
    /// What `host` asks of a kernel. `congestion_control` of a single relay comes before its host's.
    pub(super) fn of(
        host: &Host,
        congestion_control: Option<&[String]>,
    ) -> Result<Self, HostError> {
        let mut settings = Self::default();
        let own = host.congestion_control.as_ref().map(std::slice::from_ref);
        let mut controller = match congestion_control.or(own) {
            // The kernel may have to load a module of that name first, and does when the route asks for it.
            Some([name]) if kernel_names(name) == [name.as_str()] => Some(name.clone()),
            Some(names) => available_of(names, || "a host or its relay".to_owned())?,
            None => None,
        };
        if let Some(profile) = host.profile.as_deref().and_then(builtin::find) {
            settings.follow(&profile);
            if controller.is_none() {
                let who = || format!("profile `{}`", profile.name);
                controller = available_of(&profile.congestion_control, who)?;
            }
        }
        let tcp = &host.tcp;
        let triple = |least: u64, usual: u64, most: Bytes| {
            let most = most.get();
            format!("{} {} {most}", least.min(most), usual.min(most))
        };
        if let Some(window) = tcp.receive_window {
            // The kernel advertises about half of the buffer (`tcp_win_from_space`, `net/ipv4/tcp_input.c`).
            let buffer = Bytes::new(window.get().saturating_mul(2));
            settings.sysctl("net.ipv4.tcp_rmem", triple(4_096, 131_072, buffer));
        }
        if let Some(buffer) = tcp.send_buffer {
            settings.sysctl("net.ipv4.tcp_wmem", triple(4_096, 16_384, buffer));
        }
        for (key, switch) in [
            ("net.ipv4.tcp_window_scaling", tcp.window_scaling),
            ("net.ipv4.tcp_sack", tcp.sack),
            ("net.ipv4.tcp_timestamps", tcp.timestamps),
        ] {
            if let Some(on) = switch {
                settings.sysctl(key, u8::from(on).to_string());
            }
        }
        if let Some(name) = controller {
            settings.route.push(("congctl", "congestion", name));
        }
        if let Some(segments) = tcp.initial_cwnd {
            settings
                .route
                .push(("initcwnd", "initcwnd", segments.to_string()));
        }
        if let Some(mss) = tcp.mss {
            settings.route.push(("advmss", "advmss", mss.to_string()));
        }
        for (key, value) in &host.sysctls {
            settings.sysctl(key, value.clone());
        }
        Ok(settings)
    }

    /// What of a profile a kernel has as a setting for every socket of a namespace.
    fn follow(&mut self, profile: &TcpProfile) {
        if let Some(bytes) = profile.notsent_low_water {
            self.sysctl("net.ipv4.tcp_notsent_lowat", bytes.get().to_string());
        }
        if let Some(keep_alive) = profile.keep_alive {
            for (key, value) in [
                ("net.ipv4.tcp_keepalive_time", keep_alive.idle.as_secs()),
                (
                    "net.ipv4.tcp_keepalive_intvl",
                    keep_alive.interval.as_secs(),
                ),
                ("net.ipv4.tcp_keepalive_probes", keep_alive.probes.into()),
            ] {
                self.sysctl(key, value.to_string());
            }
        }
    }

    fn sysctl(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.sysctls.push((key.into(), value.into()));
    }

    /// Sets sysctls, the default route of `ip` by `way` (such as `via 10.10.0.1`), and reads all of it back.
    pub(super) fn apply(
        &self,
        host: HostName,
        namespace: &NetworkNamespace,
        (ip, way): (IpVersion, &str),
    ) -> Result<(), HostError> {
        let fail = |source| HostError::Namespace { host, source };
        // The last word counts: a profile may ask for what the scenario then sets otherwise.
        let wanted: BTreeMap<&String, &String> = self
            .sysctls
            .iter()
            .map(|(key, value)| (key, value))
            .collect();
        for (key, requested) in wanted {
            let effective = namespace.set_sysctl(key, requested).map_err(fail)?;
            if words(&effective) != words(requested) {
                return Err(HostError::NotEffective {
                    host,
                    key: key.clone(),
                    requested: requested.clone(),
                    effective,
                });
            }
        }
        let mut line = format!("route add {} {way}", addresses::everywhere(ip));
        for (word, _, value) in &self.route {
            // Writing to a String cannot fail.
            let _ = write!(line, " {word} {value}");
        }
        namespace.ip(&line).map_err(fail)?;
        self.check_route(host, namespace, ip)
    }

    fn check_route(
        &self,
        host: HostName,
        namespace: &NetworkNamespace,
        ip: IpVersion,
    ) -> Result<(), HostError> {
        if self.route.is_empty() {
            return Ok(());
        }
        let output = namespace
            .command("ip")
            .arg(match ip {
                IpVersion::V4 => "-4",
                IpVersion::V6 => "-6",
            })
            .args(["-json", "-details", "route", "show", "default"])
            .stdin(Stdio::null())
            .output()
            .map_err(|source| HostError::ReadRoute { host, source })?;
        let routes: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or(serde_json::Value::Null);
        let metrics = &routes[0]["metrics"][0];
        for (setting, key, value) in &self.route {
            let effective = super::plain(&metrics[key]);
            if effective != *value {
                return Err(HostError::Route {
                    host,
                    setting,
                    value: value.clone(),
                    route: routes.to_string(),
                });
            }
        }
        Ok(())
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// The first of these congestion controls that this kernel has, by the kernel's own name; `None` of an empty list.
fn available_of(names: &[String], who: impl Fn() -> String) -> Result<Option<String>, HostError> {
    // The list is the machine's; a route takes any of it, whatever the namespace allows to sockets.
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .unwrap_or_default();
    let found = names
        .iter()
        .flat_map(|name| kernel_names(name))
        .find(|name| words(&available).contains(&name.as_str()));
    if found.is_none() && !names.is_empty() {
        return Err(HostError::CongestionControl {
            who: who(),
            wanted: names.join(", "),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(toml: &str) -> Settings {
        Settings::of(&toml::from_str(toml).unwrap(), None).unwrap()
    }

    #[test]
    fn knobs_become_routes_and_sysctls() {
        let found = settings(
            r#"
            congestion-control = "cubic"
            sysctls = { "net.ipv4.tcp_ecn" = "1" }
            tcp.initial-cwnd = 20
            tcp.mss = 1000
            tcp.receive-window = "4 KiB"
            tcp.sack = false
            "#,
        );
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            found.sysctls,
            [
                pair("net.ipv4.tcp_rmem", "4096 8192 8192"),
                pair("net.ipv4.tcp_sack", "0"),
                pair("net.ipv4.tcp_ecn", "1"),
            ]
        );
        let route: Vec<String> = found
            .route
            .iter()
            .map(|(word, _, value)| format!("{word} {value}"))
            .collect();
        assert_eq!(route, ["congctl cubic", "initcwnd 20", "advmss 1000"]);
    }

    #[test]
    fn a_relay_s_congestion_control_comes_before_its_host_s_and_that_before_a_profile_s() {
        let host: Host =
            toml::from_str("profile = \"wan\"\ncongestion-control = \"cubic\"").unwrap();
        let controller =
            |own: Option<&[String]>| Settings::of(&host, own).unwrap().route[0].2.clone();
        assert_eq!(controller(None), "cubic");
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(controller(Some(&names(&["reno"]))), "reno");
        assert_eq!(controller(Some(&names(&["newreno_none", "reno"]))), "reno");
        let absent = Settings::of(&host, Some(&names(&["newreno_none"]))).unwrap_err();
        assert!(absent.to_string().contains("longhaul cc load"), "{absent}");
        let found = Settings::of(&host, None).unwrap();
        assert!(
            found
                .sysctls
                .contains(&("net.ipv4.tcp_notsent_lowat".to_owned(), "262144".to_owned())),
            "{found:?}"
        );
    }
}
