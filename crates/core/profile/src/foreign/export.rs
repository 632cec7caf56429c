//! From a profile to what other systems are told. What they cannot say stands in comments.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::TcpProfile;

/// A system that can be told of a profile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Language {
    /// F5 BIG-IP: a profile for one side of a virtual server.
    Tmsh,
    /// Linux without this relay: settings of the whole host.
    Sysctl,
    /// Windows: a TCP setting, and whom it is for.
    PowerShell,
    /// `HAProxy`: words for its `bind`, `server` and `global` lines.
    HaProxy,
}

/// A name is none of a language.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is none of tmsh, sysctl, powershell and haproxy")]
pub struct UnknownLanguage(String);

/// What a system is told, and what it cannot be told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exported {
    /// Commands or lines of configuration, one a line.
    pub lines: Vec<String>,
    /// Keys of the profile that these do not say, and why.
    pub left_out: Vec<(&'static str, String)>,
    comment: &'static str,
}

/// A profile in another system's language.
#[must_use]
pub fn export(profile: &TcpProfile, language: Language) -> Exported {
    match language {
        Language::Tmsh => tmsh(profile),
        Language::Sysctl => sysctl(profile),
        Language::PowerShell => powershell(profile),
        Language::HaProxy => haproxy(profile),
    }
}

fn tmsh(profile: &TcpProfile) -> Exported {
    let mut exported = Exported::begin("#");
    let on = |on: bool| if on { "enabled" } else { "disabled" };
    let known = |name: &&String| {
        [
            "bbr",
            "cubic",
            "westwood",
            "illinois",
            "vegas",
            "scalable",
            "cdg",
            "reno",
            "highspeed",
        ]
        .contains(&name.as_str())
    };
    let mut fields = Vec::new();
    match profile.congestion_control.iter().find(known) {
        Some(name) if name == "highspeed" => {
            fields.push("congestion-control high-speed".to_string());
        }
        Some(name) => fields.push(format!("congestion-control {name}")),
        None => exported.leave_out("congestion-control", "BIG-IP has none of these algorithms"),
    }
    fields.push(format!("nagle {}", on(profile.nagle)));
    for (size, field, auto) in [
        (
            profile.send_buffer,
            "send-buffer-size",
            "auto-send-buffer-size",
        ),
        (
            profile.receive_buffer,
            "receive-window-size",
            "auto-receive-window-size",
        ),
    ] {
        match size {
            Some(size) => fields.push(format!("{auto} disabled {field} {}", size.get())),
            None => fields.push(format!("{auto} enabled")),
        }
    }
    match profile.notsent_low_water {
        Some(size) => fields.push(format!(
            "proxy-buffer-high {} proxy-buffer-low {}",
            size.get(),
            size.get() / 2
        )),
        None => fields.push("auto-proxy-buffer-size enabled".to_string()),
    }
    if let Some(rate) = profile.max_pacing_rate {
        fields.push(format!(
            "rate-pace enabled rate-pace-max-rate {}",
            rate.bytes_per_s()
        ));
    }
    if let Some(keep_alive) = profile.keep_alive {
        fields.push(format!("keep-alive-interval {}", keep_alive.idle.as_secs()));
        exported.leave_out(
            "keep-alive-interval, keep-alive-probes",
            "BIG-IP has one interval",
        );
    }
    if let Some(timeout) = profile.user_timeout {
        fields.push(format!("zero-window-timeout {}", timeout.as_millis()));
        exported.leave_out("user-timeout", "only its part about a closed window");
    }
    if let Some(size) = profile.max_segment {
        fields.push(format!("max-segment-size {}", size.get()));
    }
    if let Some(retries) = profile.syn_retries {
        fields.push(format!("syn-max-retrans {retries}"));
    }
    if let Some(dscp) = profile.dscp {
        fields.push(format!("ip-tos-to-client {}", u16::from(dscp) << 2));
    }
    fields.extend(tmsh_switches(profile));
    if let Some(least) = profile.min_rto {
        fields.push(format!("minimum-rto {}", least.as_millis()));
    }
    if profile
        .delayed_ack
        .is_some_and(|span| span <= Duration::from_millis(10))
    {
        fields.push("delayed-acks disabled".to_string());
    } else if profile.delayed_ack.is_some() {
        exported.leave_out("delayed-ack", "BIG-IP delays or does not");
    }
    if profile.max_rto.is_some() {
        exported.leave_out("max-rto", "BIG-IP has no such field");
    }
    exported.say(format!(
        "create ltm profile tcp {} {{ defaults-from tcp {} }}",
        profile.name,
        fields.join(" ")
    ));
    exported
}

fn tmsh_switches(profile: &TcpProfile) -> impl Iterator<Item = String> {
    let switches = [(profile.fast_open, "fast-open"), (profile.ecn, "ecn")];
    let on = switches.into_iter().filter(|(is_on, _)| *is_on);
    on.map(|(_, name)| format!("{name} enabled"))
}

fn sysctl(profile: &TcpProfile) -> Exported {
    let mut exported = Exported::begin("#");
    if let Some(name) = profile.congestion_control.first() {
        exported.say(format!("net.ipv4.tcp_congestion_control = {name}"));
    }
    if let Some(size) = profile.notsent_low_water {
        exported.say(format!("net.ipv4.tcp_notsent_lowat = {}", size.get()));
    }
    if let Some(keep_alive) = profile.keep_alive {
        exported.say(format!(
            "net.ipv4.tcp_keepalive_time = {}",
            keep_alive.idle.as_secs()
        ));
        exported.say(format!(
            "net.ipv4.tcp_keepalive_intvl = {}",
            keep_alive.interval.as_secs()
        ));
        exported.say(format!(
            "net.ipv4.tcp_keepalive_probes = {}",
            keep_alive.probes
        ));
        exported.leave_out(
            "keep-alive",
            "only for programs that switch it on (SO_KEEPALIVE)",
        );
    }
    for (size, key) in [
        (profile.send_buffer, "wmem"),
        (profile.receive_buffer, "rmem"),
    ] {
        if let Some(size) = size {
            // Twice the size is booked for it, as for SO_SNDBUF.
            let booked = size.get().saturating_mul(2);
            exported.say(format!("net.ipv4.tcp_{key} = 4096 {booked} {booked}"));
        }
    }
    if let Some(retries) = profile.syn_retries {
        exported.say(format!("net.ipv4.tcp_syn_retries = {retries}"));
    }
    if profile.fast_open {
        exported.say("net.ipv4.tcp_fastopen = 3".to_string());
        exported.leave_out("fast-open", "only for programs that ask for it");
    }
    if profile.ecn {
        exported.say("net.ipv4.tcp_ecn = 1".to_string());
    }
    if let Some(least) = profile.min_rto {
        exported.say(format!("net.ipv4.tcp_rto_min_us = {}", least.as_micros()));
    }
    if let Some(most) = profile.max_rto {
        exported.say(format!("net.ipv4.tcp_rto_max_ms = {}", most.as_millis()));
    }
    if !profile.nagle {
        exported.leave_out("nagle", "off is each program's own word (TCP_NODELAY)");
    }
    if profile.user_timeout.is_some() {
        exported.leave_out(
            "user-timeout",
            "each program's own; net.ipv4.tcp_retries2 is nearest",
        );
    }
    if profile.max_pacing_rate.is_some() {
        exported.leave_out(
            "max-pacing-rate",
            "`tc qdisc replace ... fq maxrate` is nearest",
        );
    }
    if profile.max_segment.is_some() {
        exported.leave_out("max-segment", "a route's: `ip route change ... advmss`");
    }
    if profile.dscp.is_some() {
        exported.leave_out("dscp", "nftables: `ip dscp set`");
    }
    if profile.delayed_ack.is_some() {
        exported.leave_out("delayed-ack", "each socket's own (TCP_DELACK_MAX_US)");
    }
    exported
}

fn powershell(profile: &TcpProfile) -> Exported {
    let mut exported = Exported::begin("#");
    let mut words = Vec::new();
    let provider = profile
        .congestion_control
        .iter()
        .find_map(|name| match name.as_str() {
            "cubic" => Some("CUBIC"),
            "reno" => Some("NewReno"),
            _ => None,
        });
    let first = profile.congestion_control.first();
    match (first.map(String::as_str), provider) {
        // Only netsh knows it, since Windows 11 and Server 2022.
        (Some("bbr"), _) => exported.say(
            "netsh int tcp set supplemental template=InternetCustom congestionprovider=BBR2"
                .to_string(),
        ),
        (_, Some(provider)) => words.push(format!("-CongestionProvider {provider}")),
        (None, None) => {}
        (Some(_), None) => exported.leave_out(
            "congestion-control",
            "Windows has CUBIC, BBR2, NewReno, CTCP and DCTCP",
        ),
    }
    words.push("-AutoTuningLevelLocal Normal".to_string());
    if let Some(retries) = profile.syn_retries {
        words.push(format!("-MaxSynRetransmissions {}", retries.min(8)));
    }
    if let Some(least) = profile.min_rto {
        // Windows takes 20 ms to 300 ms.
        words.push(format!("-MinRtoMs {}", least.as_millis().clamp(20, 300)));
    }
    if let Some(span) = profile.delayed_ack {
        // And 10 ms to 600 ms.
        words.push(format!(
            "-DelayedAckTimeoutMs {}",
            span.as_millis().clamp(10, 600)
        ));
    }
    if profile.ecn {
        words.push("-EcnCapability Enabled".to_string());
    }
    if profile.fast_open {
        exported.say("netsh int tcp set global fastopen=enabled".to_string());
        exported.leave_out("fast-open", "only for programs that ask for it");
    }
    exported.say(format!(
        "Set-NetTCPSetting -SettingName InternetCustom {}",
        words.join(" ")
    ));
    exported.say(
        "New-NetTransportFilter -SettingName InternetCustom -DestinationPrefix 0.0.0.0/0"
            .to_string(),
    );
    if let Some(keep_alive) = profile.keep_alive {
        let key = r"HKLM:\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters";
        for (name, span) in [
            ("KeepAliveTime", keep_alive.idle),
            ("KeepAliveInterval", keep_alive.interval),
        ] {
            let value = span.as_millis();
            exported.say(format!(
                "Set-ItemProperty '{key}' {name} {value} -Type DWord"
            ));
        }
        exported.leave_out(
            "keep-alive",
            "only for programs that switch it on, after a restart",
        );
    }
    for (is_set, key) in [
        (!profile.nagle, "nagle"),
        (profile.notsent_low_water.is_some(), "notsent-low-water"),
        (profile.user_timeout.is_some(), "user-timeout"),
        (profile.send_buffer.is_some(), "send-buffer"),
        (profile.receive_buffer.is_some(), "receive-buffer"),
        (profile.max_segment.is_some(), "max-segment"),
        (profile.max_rto.is_some(), "max-rto"),
    ] {
        if is_set {
            exported.leave_out(key, "each program's own");
        }
    }
    if profile.max_pacing_rate.is_some() {
        exported.leave_out(
            "max-pacing-rate",
            "New-NetQosPolicy -ThrottleRateActionBitsPerSecond",
        );
    }
    if profile.dscp.is_some() {
        exported.leave_out("dscp", "New-NetQosPolicy -DSCPAction");
    }
    exported
}

fn haproxy(profile: &TcpProfile) -> Exported {
    let mut exported = Exported::begin("#");
    exported.say("global".to_string());
    for (size, key) in [
        (profile.send_buffer, "sndbuf"),
        (profile.receive_buffer, "rcvbuf"),
    ] {
        if let Some(size) = size {
            exported.say(format!("    tune.{key}.client {}", size.get()));
            exported.say(format!("    tune.{key}.server {}", size.get()));
        }
    }
    exported.say("defaults".to_string());
    if let Some(keep_alive) = profile.keep_alive {
        for side in ["clitcpka", "srvtcpka"] {
            exported.say(format!("    option {side}"));
            exported.say(format!("    {side}-idle {}s", keep_alive.idle.as_secs()));
            exported.say(format!(
                "    {side}-intvl {}s",
                keep_alive.interval.as_secs()
            ));
            exported.say(format!("    {side}-cnt {}", keep_alive.probes));
        }
    }
    exported.say("# and for each line of these kinds:".to_string());
    let timeout = profile.user_timeout;
    let both = timeout.map(|timeout| format!(" tcp-ut {}ms", timeout.as_millis()));
    let both = both.unwrap_or_default();
    let segment = profile
        .max_segment
        .map(|size| format!(" mss {}", size.get()));
    let fast_open = if profile.fast_open { " tfo" } else { "" };
    let segment = segment.unwrap_or_default();
    exported.say(format!("#   bind ...{both}{segment}{fast_open}"));
    exported.say(format!("#   server ...{both}{fast_open}"));
    if let Some(dscp) = profile.dscp {
        exported.say(format!("#   http-request set-tos {}", u16::from(dscp) << 2));
    }
    if !profile.congestion_control.is_empty() {
        exported.leave_out(
            "congestion-control",
            "the host's, net.ipv4.tcp_congestion_control; HAProxy 3.2 and later have `cc` for bind and server lines",
        );
    }
    for (is_set, key) in [
        (profile.nagle, "nagle"),
        (profile.notsent_low_water.is_some(), "notsent-low-water"),
        (profile.max_pacing_rate.is_some(), "max-pacing-rate"),
        (profile.syn_retries.is_some(), "syn-retries"),
        (profile.delayed_ack.is_some(), "delayed-ack"),
        (profile.min_rto.is_some(), "min-rto"),
        (profile.max_rto.is_some(), "max-rto"),
        (profile.ecn, "ecn"),
    ] {
        if is_set {
            exported.leave_out(key, "HAProxy has no word for it");
        }
    }
    exported
}

// === impl Exported ===

impl Exported {
    fn begin(comment: &'static str) -> Self {
        Self {
            lines: Vec::new(),
            left_out: Vec::new(),
            comment,
        }
    }

    fn say(&mut self, line: String) {
        self.lines.push(line);
    }

    fn leave_out(&mut self, key: &'static str, why: &str) {
        self.left_out.push((key, why.to_string()));
    }
}

impl fmt::Display for Exported {
    /// The lines, and what they do not say as comments of their language.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        for (key, why) in &self.left_out {
            writeln!(f, "{} not said: {key}: {why}", self.comment)?;
        }
        Ok(())
    }
}

// === impl Language ===

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "tmsh" => Ok(Self::Tmsh),
            "sysctl" => Ok(Self::Sysctl),
            "powershell" => Ok(Self::PowerShell),
            "haproxy" => Ok(Self::HaProxy),
            _ => Err(UnknownLanguage(text.to_string())),
        }
    }
}
