use std::collections::BTreeMap;

use units::{Bytes, Rate};

/// Every sysctl that the rules look at.
pub const KEYS: [&str; 32] = [
    "net.core.default_qdisc",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_dsack",
    "net.ipv4.tcp_early_retrans",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_frto",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_retries2",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_workaround_signed_windows",
];

/// What was read from a Linux host.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Host {
    /// Its sysctls, those of [`KEYS`] that it has.
    pub settings: Settings,
    /// Release of its kernel.
    pub kernel: Option<String>,
    /// Its memory.
    pub memory: Option<Bytes>,
    /// The least memory that a control group above this process allows it.
    pub memory_limit: Option<Bytes>,
    /// The route that the path's packets take, as `ip route` prints it.
    pub route: Option<Route>,
    /// The device of that route.
    pub device: Option<Device>,
    /// Its live connections: those to the path's far end where one was named, else all that leave the host.
    pub live: Option<Live>,
}

/// A network device, as far as it could be asked.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Device {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Bytes of an IP packet that it takes.
    pub mtu: Option<u32>,
    /// The rate of its link; virtual devices tell none.
    pub speed: Option<Rate>,
    /// Queues for receiving and sending.
    pub queues: Option<(usize, usize)>,
    /// The queueing disciplines at it, such as `mq` and `fq_codel`, each once, the root first.
    pub qdiscs: Option<Vec<String>>,
    /// What of TSO, GSO and GRO is on, by the names that `ethtool -K` takes.
    pub offloads: Vec<(&'static str, bool)>,
    /// Receive descriptors now, and the most that it could have; virtual devices have no ring.
    pub ring: Option<(u32, u32)>,
}

/// What the kernel's own clocks say of live connections.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Live {
    /// How many there are.
    pub connections: u32,
    /// Those that waited for the peer's window for more than half of the time in which they had data.
    pub held_by_peer: u32,
    /// The same for the own send buffer.
    pub held_by_send_buffer: u32,
    /// Their congestion controls, and how many connections each has.
    pub controls: BTreeMap<String, u32>,
    /// Ports of this host in `TIME_WAIT` towards one address and port: of the peer with most of them.
    pub waiting_ports: u32,
}

/// A route, as `ip route show` prints it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Route {
    /// The whole line, such as `default via 192.0.2.1 dev eth0`.
    pub line: String,
}

/// Sysctls by their dotted names, as the kernel prints them without the final newline.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Settings(BTreeMap<String, String>);

// === impl Host ===

impl Host {
    /// What new connections over the path use: the route's own algorithm where it names one, else the default.
    #[must_use]
    pub fn congestion_control(&self) -> Option<&str> {
        let own = self.route.as_ref().and_then(Route::congestion_control);
        let default = || self.settings.text("net.ipv4.tcp_congestion_control");
        own.or_else(default).map(str::trim)
    }
}

// === impl Settings ===

impl Settings {
    /// The value, as the kernel prints it.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The value where it is one whole number.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<i64> {
        self.text(key)?.trim().parse().ok()
    }

    /// The value where it is `min default max`.
    #[must_use]
    pub fn triple(&self, key: &str) -> Option<[u64; 3]> {
        let mut words = self.text(key)?.split_whitespace().map(str::parse);
        let triple = [
            words.next()?.ok()?,
            words.next()?.ok()?,
            words.next()?.ok()?,
        ];
        words.next().is_none().then_some(triple)
    }

    /// These settings with one of them changed.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.0.insert(key.to_owned(), value.to_owned());
        self
    }
}

impl FromIterator<(String, String)> for Settings {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(settings: I) -> Self {
        Self(settings.into_iter().collect())
    }
}

// === impl Route ===

impl Route {
    /// `initcwnd` of the route, in segments.
    #[must_use]
    pub fn initial_cwnd(&self) -> Option<u32> {
        self.value("initcwnd")?.parse().ok()
    }

    /// `congctl` of the route, such as `congctl cubic` or `congctl lock cubic` (ip-route(8)).
    #[must_use]
    pub fn congestion_control(&self) -> Option<&str> {
        self.value("congctl")
    }

    /// The device that it leaves by.
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        self.value("dev")
    }

    /// The line without the attribute `key` and its value, for `ip route change`.
    #[must_use]
    pub fn without(&self, key: &str) -> String {
        let mut words = Vec::new();
        let mut all = self.line.split_whitespace();
        while let Some(word) = all.next() {
            if word == key {
                all.find(|word| *word != "lock");
            } else {
                words.push(word);
            }
        }
        words.join(" ")
    }

    fn value(&self, key: &str) -> Option<&str> {
        let mut words = self.line.split_whitespace();
        words.find(|word| *word == key)?;
        words.find(|word| *word != "lock")
    }
}
