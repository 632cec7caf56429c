use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Span};

use crate::Setting;

/// How one TCP socket should behave, complete: every field has been decided.
///
/// Where a field is `None`, the option is left as the kernel has it. That is best for the two buffers:
/// setting either switches the kernel's autotuning off, which is what makes long paths slow in the first
/// place. No built-in profile sets them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TcpProfile {
    /// The name it is known by.
    pub name: String,
    /// Congestion control algorithms in order of preference; the first that the kernel has and allows
    /// is taken. Empty means the kernel's own default.
    pub congestion_control: Vec<String>,
    /// The same for a host that forgets congestion windows over idle time
    /// (`net.ipv4.tcp_slow_start_after_idle` is 1); `None` where that changes nothing.
    pub congestion_control_forgetting: Option<Vec<String>>,
    /// Whether small writes wait for acknowledgements (Nagle, RFC 9293 §3.7.4).
    pub nagle: bool,
    /// Upper bound of the rate at which segments leave (`SO_MAX_PACING_RATE`). Counts payload bytes.
    pub max_pacing_rate: Option<Rate>,
    /// How much unsent data the kernel accepts beyond what is in flight (`TCP_NOTSENT_LOWAT`).
    pub notsent_low_water: Option<Bytes>,
    /// Probes on an idle connection.
    pub keep_alive: Option<KeepAlive>,
    /// How long sent data may stay unacknowledged, or the peer's window closed, before the connection is
    /// given up (RFC 5482; `tcp_probe_timer` in `net/ipv4/tcp_timer.c` for the window).
    pub user_timeout: Option<Duration>,
    /// A fixed send buffer in bytes of payload and bookkeeping (`SO_SNDBUF`).
    pub send_buffer: Option<Bytes>,
    /// A fixed receive buffer in bytes of payload and bookkeeping (`SO_RCVBUF`); bounds the window. There is no
    /// clamp beside autotuning: the kernel raises `TCP_WINDOW_CLAMP` with the buffer (`tcp_rcvbuf_grow`).
    pub receive_buffer: Option<Bytes>,
    /// The largest segment's payload, options included (`TCP_MAXSEG`).
    pub max_segment: Option<Bytes>,
    /// SYNs sent again before connecting fails (`TCP_SYNCNT`). Server side only.
    pub syn_retries: Option<u8>,
    /// Whether data may come with the SYN (RFC 7413): towards clients `TCP_FASTOPEN`, towards servers
    /// `TCP_FASTOPEN_CONNECT`. Such data can arrive twice, so it is for requests without effect.
    pub fast_open: bool,
    /// Whether marks of congestion are asked for (RFC 3168). No socket has an option for it: the kernel's
    /// `net.ipv4.tcp_ecn` decides, and is required to.
    pub ecn: bool,
    /// Class of service, 0 to 63 (RFC 2474).
    pub dscp: Option<u8>,
    /// The longest that an acknowledgement waits for data to ride on (`TCP_DELACK_MAX_US`, kernel 6.15).
    pub delayed_ack: Option<Duration>,
    /// The shortest retransmission timeout, which the kernel has at 200 ms (`TCP_RTO_MIN_US`, kernel 6.15).
    pub min_rto: Option<Duration>,
    /// The longest, which the kernel has at two minutes (`TCP_RTO_MAX_MS`, kernel 6.15).
    pub max_rto: Option<Duration>,
}

/// TCP keep-alive probes (RFC 9293 §3.8.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeepAlive {
    /// Silence before the first probe. The kernel counts whole seconds.
    pub idle: Duration,
    /// Between probes. The kernel counts whole seconds.
    pub interval: Duration,
    /// Unanswered probes before the connection is dead.
    pub probes: u32,
}

/// A profile as it is written: everything optional, the rest inherited.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RawTcpProfile {
    /// The profile from which absent fields come; `wan` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    /// See [`TcpProfile::congestion_control`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<Vec<String>>,
    /// See [`TcpProfile::congestion_control_forgetting`]. A profile that says `congestion-control` and
    /// not this means its order for every host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control_forgetting: Option<Vec<String>>,
    /// See [`TcpProfile::nagle`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nagle: Option<bool>,
    /// See [`TcpProfile::max_pacing_rate`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pacing_rate: Option<Setting<Rate>>,
    /// See [`TcpProfile::notsent_low_water`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notsent_low_water: Option<Setting<Bytes>>,
    /// Silence before the first keep-alive probe; `"off"` sends none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive_idle: Option<Setting<Span>>,
    /// See [`KeepAlive::interval`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive_interval: Option<Span>,
    /// See [`KeepAlive::probes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive_probes: Option<u32>,
    /// See [`TcpProfile::user_timeout`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_timeout: Option<Setting<Span>>,
    /// See [`TcpProfile::send_buffer`]; `"off"` is the kernel's autotuning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Setting<Bytes>>,
    /// See [`TcpProfile::receive_buffer`]; `"off"` is the kernel's autotuning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Setting<Bytes>>,
    /// See [`TcpProfile::max_segment`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_segment: Option<Setting<Bytes>>,
    /// See [`TcpProfile::syn_retries`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syn_retries: Option<u8>,
    /// See [`TcpProfile::fast_open`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_open: Option<bool>,
    /// See [`TcpProfile::ecn`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// See [`TcpProfile::dscp`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// See [`TcpProfile::delayed_ack`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<Setting<Span>>,
    /// See [`TcpProfile::min_rto`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rto: Option<Setting<Span>>,
    /// See [`TcpProfile::max_rto`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rto: Option<Setting<Span>>,
}

// === impl RawTcpProfile ===

impl RawTcpProfile {
    /// This profile laid over `parent`.
    pub(crate) fn over(&self, parent: &TcpProfile, name: &str) -> TcpProfile {
        // Interval and probes keep their inherited values even where the parent sends no probes, so
        // that a child can switch them on by saying only when the first one is due.
        let inherited = parent.keep_alive.unwrap_or(KeepAlive {
            idle: Duration::from_mins(1),
            interval: Duration::from_secs(10),
            probes: 6,
        });
        let idle = match self.keep_alive_idle {
            Some(idle) => idle.value().map(Span::get),
            None => parent.keep_alive.map(|keep_alive| keep_alive.idle),
        };
        TcpProfile {
            name: name.into(),
            congestion_control: self
                .congestion_control
                .clone()
                .unwrap_or_else(|| parent.congestion_control.clone()),
            congestion_control_forgetting: match &self.congestion_control_forgetting {
                None if self.congestion_control.is_none() => {
                    parent.congestion_control_forgetting.clone()
                }
                said => said.clone(),
            },
            nagle: self.nagle.unwrap_or(parent.nagle),
            max_pacing_rate: self
                .max_pacing_rate
                .map_or(parent.max_pacing_rate, Setting::value),
            notsent_low_water: self
                .notsent_low_water
                .map_or(parent.notsent_low_water, Setting::value),
            keep_alive: idle.map(|idle| KeepAlive {
                idle,
                interval: self
                    .keep_alive_interval
                    .map_or(inherited.interval, Span::get),
                probes: self.keep_alive_probes.unwrap_or(inherited.probes),
            }),
            user_timeout: span_over(self.user_timeout, parent.user_timeout),
            send_buffer: self.send_buffer.map_or(parent.send_buffer, Setting::value),
            receive_buffer: self
                .receive_buffer
                .map_or(parent.receive_buffer, Setting::value),
            max_segment: self.max_segment.map_or(parent.max_segment, Setting::value),
            syn_retries: self.syn_retries.or(parent.syn_retries),
            fast_open: self.fast_open.unwrap_or(parent.fast_open),
            ecn: self.ecn.unwrap_or(parent.ecn),
            dscp: self.dscp.or(parent.dscp),
            delayed_ack: span_over(self.delayed_ack, parent.delayed_ack),
            min_rto: span_over(self.min_rto, parent.min_rto),
            max_rto: span_over(self.max_rto, parent.max_rto),
        }
    }
}

/// What is said, or else the parent's.
fn span_over(said: Option<Setting<Span>>, parent: Option<Duration>) -> Option<Duration> {
    said.map_or(parent, |setting| setting.value().map(Span::get))
}

// === impl TcpProfile ===

impl TcpProfile {
    /// The profile as it is on a host that forgets congestion windows over idle time, or does not.
    #[must_use]
    pub fn on_host(mut self, forgets_windows: bool) -> Self {
        if let Some(order) = self.congestion_control_forgetting.take()
            && forgets_windows
        {
            self.congestion_control = order;
        }
        self
    }

    /// What is wrong with the values themselves, each as a sentence with the field in it.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut require = |holds: bool, sentence: &str| {
            if !holds {
                problems.push(sentence.into());
            }
        };
        require(
            self.congestion_control
                .iter()
                .chain(self.congestion_control_forgetting.iter().flatten())
                // The kernel's TCP_CA_NAME_MAX is 16 with the terminating zero.
                .all(|name| {
                    (1..16).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
                }),
            "congestion-control names are 1 to 15 printable characters without spaces",
        );
        require(
            self.max_pacing_rate
                .is_none_or(|rate| rate.bytes_per_s() > 0),
            "max-pacing-rate is below one byte per second: nothing would ever leave",
        );
        require(
            self.notsent_low_water
                .is_none_or(|bytes| (1..=1 << 31).contains(&bytes.get())),
            "notsent-low-water is between 1 B and 2 GiB",
        );
        if let Some(keep_alive) = self.keep_alive {
            // Linux: MAX_TCP_KEEPIDLE and MAX_TCP_KEEPINTVL are 32767 s, MAX_TCP_KEEPCNT is 127.
            let seconds = 1..=32_767;
            require(
                seconds.contains(&keep_alive.idle.as_secs()) && keep_alive.idle.subsec_nanos() == 0,
                "keep-alive-idle is whole seconds from 1 s to 32767 s",
            );
            require(
                seconds.contains(&keep_alive.interval.as_secs())
                    && keep_alive.interval.subsec_nanos() == 0,
                "keep-alive-interval is whole seconds from 1 s to 32767 s",
            );
            require(
                (1..=127).contains(&keep_alive.probes),
                "keep-alive-probes is 1 to 127",
            );
        }
        require(
            self.user_timeout
                .is_none_or(|span| (1..=2_147_483_647).contains(&span.as_millis())),
            "user-timeout is between 1 ms and 24 days",
        );
        // Below 16 KiB not even one segment of a jumbo frame fits with its bookkeeping; the kernel's
        // integer ends at half of 2 GiB, since it doubles what it is asked for.
        let buffers = Bytes::kib(16)..=Bytes::mib(1023);
        require(
            [self.send_buffer, self.receive_buffer]
                .iter()
                .flatten()
                .all(|size| buffers.contains(size)),
            "send-buffer and receive-buffer are 16 KiB to 1023 MiB; leave them out for autotuning",
        );
        require(
            // Linux: TCP_MIN_MSS is 88, MAX_TCP_WINDOW 32767.
            self.max_segment
                .is_none_or(|size| (88..=32_767).contains(&size.get())),
            "max-segment is 88 B to 32767 B",
        );
        require(
            // Linux: MAX_TCP_SYNCNT.
            self.syn_retries
                .is_none_or(|retries| (1..=127).contains(&retries)),
            "syn-retries is 1 to 127",
        );
        require(
            self.dscp.is_none_or(|dscp| dscp < 64),
            "dscp is 0 to 63, such as 10 for AF11 or 46 for expedited forwarding",
        );
        // Linux: TCP_DELACK_MAX and TCP_RTO_MIN are 200 ms, and no socket can have more; a jiffy of 10 ms is
        // the coarsest clock.
        let within = |span: Option<Duration>, least: u64, most: u64| {
            let most = Duration::from_millis(most);
            span.is_none_or(|span| (Duration::from_millis(least)..=most).contains(&span))
        };
        require(
            within(self.delayed_ack, 1, 200),
            "delayed-ack is 1 ms to 200 ms",
        );
        require(within(self.min_rto, 1, 200), "min-rto is 1 ms to 200 ms");
        // Linux: TCP_RTO_MAX_MIN_SEC is 1, TCP_RTO_MAX_SEC 120.
        require(
            within(self.max_rto, 1_000, 120_000),
            "max-rto is 1 s to 2 min",
        );
        problems
    }
}
