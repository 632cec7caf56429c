use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use units::{Bytes, Rate, Span};

/// The hosts of a scenario.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "kebab-case")]
pub enum HostName {
    /// Where the client program runs.
    Client,
    /// Where near relays run, on the client's LAN.
    Relay,
    /// Where far relays run, on the origin's LAN.
    FarRelay,
    /// The far end.
    Origin,
    /// Where rival flows start, on the client's LAN.
    Rival,
}

/// Settings of one host. What is absent is the kernel's default.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Host {
    /// Congestion control of its default route; on our own TCP also with parameters, as in
    /// `cubic(beta=0.8, c=0.6)` or `bbr(cwnd-gain=2.5)`.
    pub congestion_control: Option<String>,
    /// sysctls of its namespace, such as `"net.ipv4.tcp_slow_start_after_idle" = "0"`.
    pub sysctls: BTreeMap<String, String>,
    /// A built-in profile (`longhaul profile list`) that its sockets follow.
    pub profile: Option<String>,
    /// Whose TCP it speaks.
    pub stack: Option<Stack>,
    /// Single knobs of its TCP.
    pub tcp: TcpKnobs,
}

/// Whose TCP a host speaks.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// The kernel's.
    #[default]
    Kernel,
    /// Ours, in userspace: it has every knob, and plays stacks that this kernel can't.
    Longhaul,
}

/// Knobs of a TCP endpoint. On a kernel they become routes and sysctls of the host's namespace; what a
/// kernel has no setting for needs [`Stack::Longhaul`].
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TcpKnobs {
    /// Initial window in segments (kernel: `initcwnd` of the default route).
    pub initial_cwnd: Option<u32>,
    /// Initial slow-start threshold. No kernel setting holds from the first connection on.
    pub initial_ssthresh: Option<Threshold>,
    /// Largest receive window, in bytes (kernel: half of `tcp_rmem`'s maximum).
    pub receive_window: Option<Bytes>,
    /// Largest send buffer, in bytes (kernel: `tcp_wmem`'s maximum).
    pub send_buffer: Option<Bytes>,
    /// MSS announced, in bytes (kernel: `advmss` of the default route).
    pub mss: Option<u16>,
    /// Whether window scaling is offered (RFC 7323 section 2).
    pub window_scaling: Option<bool>,
    /// Whether selective acknowledgements are offered (RFC 2018).
    pub sack: Option<bool>,
    /// Whether timestamps are offered (RFC 7323 section 3).
    pub timestamps: Option<bool>,
    /// Rate above which the host never sends, in bits of payload per second. No kernel setting of a
    /// namespace does this.
    pub pacing: Option<Rate>,
    /// How long an acknowledgement may wait. No kernel setting of a namespace does this.
    pub delayed_ack: Option<Span>,
}

/// A slow-start threshold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Threshold {
    /// Slow start ends here, in bytes.
    Bytes(Bytes),
    /// Slow start ends with the first loss (RFC 5681 section 3.1: "arbitrarily high").
    Infinite,
}

// === impl HostName ===

impl HostName {
    /// All, in the order in which a packet meets them; the rival last.
    pub const ALL: [Self; 5] = [
        Self::Client,
        Self::Relay,
        Self::FarRelay,
        Self::Origin,
        Self::Rival,
    ];

    /// The name as scenario files write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Relay => "relay",
            Self::FarRelay => "far-relay",
            Self::Origin => "origin",
            Self::Rival => "rival",
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Host ===

impl Host {
    /// Whose TCP it speaks.
    #[must_use]
    pub fn stack(&self) -> Stack {
        self.stack.unwrap_or_default()
    }

    /// These settings, and those of `base` where these say nothing.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let mut sysctls = base.sysctls.clone();
        sysctls.extend(self.sysctls.clone());
        let congestion_control = self.congestion_control.as_ref();
        let profile = self.profile.as_ref();
        Self {
            congestion_control: congestion_control
                .or(base.congestion_control.as_ref())
                .cloned(),
            sysctls,
            profile: profile.or(base.profile.as_ref()).cloned(),
            stack: self.stack.or(base.stack),
            tcp: self.tcp.over(base.tcp),
        }
    }

    /// What is wrong with it: fields below the host's, and what to do.
    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        let tcp = &self.tcp;
        let mut problems = Vec::new();
        if let Some(profile) = &self.profile
            && !profile::builtin::NAMES.contains(&profile.as_str())
        {
            let known = profile::builtin::NAMES.join("`, `");
            let message = format!("there is no profile `{profile}`; built in are `{known}`");
            problems.push(("profile", message));
        }
        if self.stack() == Stack::Kernel {
            let beyond = [
                ("tcp.initial-ssthresh", tcp.initial_ssthresh.is_some()),
                ("tcp.pacing", tcp.pacing.is_some()),
                ("tcp.delayed-ack", tcp.delayed_ack.is_some()),
                // Parameters of an algorithm, as in `cubic(beta=0.8)`.
                (
                    "congestion-control",
                    self.congestion_control
                        .as_ref()
                        .is_some_and(|name| name.contains('(')),
                ),
            ];
            for (field, _) in beyond.into_iter().filter(|(_, set)| *set) {
                let message =
                    "a kernel has no such setting for a host; write `stack = \"longhaul\"`";
                problems.push((field, message.to_owned()));
            }
        } else if !self.sysctls.is_empty() {
            let message = "our own TCP reads no sysctls; use `tcp`, or `stack = \"kernel\"`";
            problems.push(("sysctls", message.to_owned()));
        }
        if tcp.initial_cwnd == Some(0) {
            let message = "0 segments never start; RFC 6928 has 10";
            problems.push(("tcp.initial-cwnd", message.to_owned()));
        }
        if let Some(mss) = tcp.mss
            && !(88..=1_460).contains(&mss)
        {
            // 88 is the kernel's tcp_min_snd_mss less the room for options; 1460 is a 1500-byte MTU.
            let message = format!("{mss} is outside 88 to 1460, what a path of MTU 1500 carries");
            problems.push(("tcp.mss", message));
        }
        if tcp.window_scaling == Some(false)
            && tcp
                .receive_window
                .is_some_and(|window| window > LARGEST_UNSCALED)
        {
            let message = "a window above 65535 B needs window scaling (RFC 7323 section 2)";
            problems.push(("tcp.receive-window", message.to_owned()));
        }
        if tcp.receive_window == Some(Bytes::ZERO) || tcp.send_buffer == Some(Bytes::ZERO) {
            problems.push(("tcp", "a buffer of 0 B carries nothing".to_owned()));
        }
        problems
    }
}

/// What a window field holds without scaling.
const LARGEST_UNSCALED: Bytes = Bytes::new(65_535);

// === impl TcpKnobs ===

impl TcpKnobs {
    fn over(self, base: Self) -> Self {
        Self {
            initial_cwnd: self.initial_cwnd.or(base.initial_cwnd),
            initial_ssthresh: self.initial_ssthresh.or(base.initial_ssthresh),
            receive_window: self.receive_window.or(base.receive_window),
            send_buffer: self.send_buffer.or(base.send_buffer),
            mss: self.mss.or(base.mss),
            window_scaling: self.window_scaling.or(base.window_scaling),
            sack: self.sack.or(base.sack),
            timestamps: self.timestamps.or(base.timestamps),
            pacing: self.pacing.or(base.pacing),
            delayed_ack: self.delayed_ack.or(base.delayed_ack),
        }
    }
}

// === impl Threshold ===

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "infinite" {
            return Ok(Self::Infinite);
        }
        text.parse()
            .map(Self::Bytes)
            .map_err(|error| format!("{error}, nor `infinite`"))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Infinite => f.write_str("infinite"),
        }
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
