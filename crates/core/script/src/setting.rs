//! How the host is made: lines of `set`.

use alloc::format;
use core::str::FromStr;
use core::time::Duration;

use congestion::Algorithm;
use tcp::{AckPolicy, Config, Ecn, KeepAlive, LossDetection, ReceiveBuffer};
use units::Bytes;

use crate::read::{Reason, span};

/// One `set` line. What is not set is as Linux has it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Setting {
    /// `mss N`: largest segment to receive, in bytes.
    Mss(u16),
    /// A mechanism that is on or off.
    Switch(Switch, bool),
    /// `algorithm NAME`: congestion control.
    Algorithm(Algorithm),
    /// `initial-cwnd N`: segments of the first flight.
    InitialCwnd(u32),
    /// `initial-ssthresh N`: in bytes.
    InitialSsthresh(u64),
    /// `receive-buffer N`: a fixed one, in bytes.
    ReceiveBuffer(u64),
    /// `send-buffer N`: in bytes.
    SendBuffer(u64),
    /// `acks linux`, `acks immediate` or `acks every-second 200ms`.
    Acks(AckPolicy),
    /// `loss-detection rack` or `loss-detection duplicate-acks`.
    LossDetection(LossDetection),
    /// `ecn off`, `accept` or `request`.
    Ecn(Ecn),
    /// `keep-alive IDLE INTERVAL PROBES`.
    KeepAlive(KeepAlive),
    /// `min-rto TIME`.
    MinRto(Duration),
    /// `retries N`: timeouts in a row after which the connection is given up.
    Retries(u32),
    /// `syn-retries N`: repetitions of a SYN or SYN-ACK.
    SynRetries(u32),
    /// `time-wait TIME`.
    TimeWait(Duration),
}

/// Smallest segment that may be asked for, in bytes: what Linux takes for one (`TCP_MIN_MSS`). A segment needs room
/// beside 40 bytes of options.
const LEAST_MSS: u16 = 88;
/// Names of settings that are no switches, for whoever misspelt one.
const NAMES: &str = "mss, algorithm, initial-cwnd, initial-ssthresh, receive-buffer, send-buffer, acks, loss-detection, \
     ecn, keep-alive, min-rto, retries, syn-retries, time-wait; with on or off: window-scaling, timestamps, sack, \
     nagle, silly-window-avoidance, restart-after-idle, keep-unused-window, tail-loss-probe, \
     proportional-rate-reduction, limited-transmit, duplicate-sack, forward-rto, challenge-acks, merged-reports";

/// Mechanisms that are on or off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Switch {
    /// RFC 7323 section 2.
    WindowScaling,
    /// RFC 7323 section 3.
    Timestamps,
    /// RFC 2018.
    Sack,
    /// RFC 9293 section 3.7.4.
    Nagle,
    /// RFC 9293 section 3.8.6.2.
    SillyWindowAvoidance,
    /// RFC 2861.
    RestartAfterIdle,
    /// RFC 7661.
    KeepUnusedWindow,
    /// RFC 8985 section 7.
    TailLossProbe,
    /// RFC 6937.
    ProportionalRateReduction,
    /// RFC 3042.
    LimitedTransmit,
    /// RFC 2883.
    DuplicateSack,
    /// RFC 5682.
    ForwardRto,
    /// RFC 5961.
    ChallengeAcks,
    /// Linux `tcp_comp_sack_nr`; off in scripts, where packets are compared one by one.
    MergedReports,
}

impl Switch {
    const NAMES: [(&'static str, Self); 14] = [
        ("window-scaling", Self::WindowScaling),
        ("timestamps", Self::Timestamps),
        ("sack", Self::Sack),
        ("nagle", Self::Nagle),
        ("silly-window-avoidance", Self::SillyWindowAvoidance),
        ("restart-after-idle", Self::RestartAfterIdle),
        ("keep-unused-window", Self::KeepUnusedWindow),
        ("tail-loss-probe", Self::TailLossProbe),
        (
            "proportional-rate-reduction",
            Self::ProportionalRateReduction,
        ),
        ("limited-transmit", Self::LimitedTransmit),
        ("duplicate-sack", Self::DuplicateSack),
        ("forward-rto", Self::ForwardRto),
        ("challenge-acks", Self::ChallengeAcks),
        ("merged-reports", Self::MergedReports),
    ];
}

// === impl Setting ===

impl Setting {
    /// Reads what stands behind `set`.
    pub(crate) fn read(text: &str) -> Result<Self, Reason> {
        let (name, value) = text
            .trim()
            .split_once(' ')
            .ok_or_else(|| Reason::no_value(text))?;
        let value = value.trim();
        if let Some((_, switch)) = Switch::NAMES.iter().find(|(known, _)| *known == name) {
            return match value {
                "on" => Ok(Self::Switch(*switch, true)),
                "off" => Ok(Self::Switch(*switch, false)),
                _ => Err(Reason::unknown(value, "on, off")),
            };
        }
        match name {
            "mss" => match number(value)? {
                mss @ LEAST_MSS.. => Ok(Self::Mss(mss)),
                _ => Err(Reason::number(value)),
            },
            "algorithm" => value
                .parse()
                .map(Self::Algorithm)
                .map_err(|_| Reason::unknown(value, "reno, cubic, cubic-hystart++, cubic-without-hystart, highspeed, westwood, bbr, bbr3, none")),
            "initial-cwnd" => number(value).map(Self::InitialCwnd),
            "initial-ssthresh" => number(value).map(Self::InitialSsthresh),
            "receive-buffer" => number(value).map(Self::ReceiveBuffer),
            "send-buffer" => number(value).map(Self::SendBuffer),
            "acks" => acks(value).map(Self::Acks),
            "loss-detection" => match value {
                "rack" => Ok(Self::LossDetection(LossDetection::Rack)),
                "duplicate-acks" => Ok(Self::LossDetection(LossDetection::DuplicateAcks)),
                _ => Err(Reason::unknown(value, "rack, duplicate-acks")),
            },
            "ecn" => match value {
                "off" => Ok(Self::Ecn(Ecn::Off)),
                "accept" => Ok(Self::Ecn(Ecn::Accept)),
                "request" => Ok(Self::Ecn(Ecn::Request)),
                _ => Err(Reason::unknown(value, "off, accept, request")),
            },
            "keep-alive" => keep_alive(value).map(Self::KeepAlive),
            "min-rto" => span(value).map(Self::MinRto),
            "retries" => number(value).map(Self::Retries),
            "syn-retries" => number(value).map(Self::SynRetries),
            "time-wait" => span(value).map(Self::TimeWait),
            _ => Err(Reason::unknown(name, NAMES)),
        }
    }

    /// Puts it into the configuration of our endpoint.
    pub fn apply(&self, config: &mut Config) {
        match *self {
            Self::Mss(mss) => config.mss = mss,
            Self::Switch(switch, on) => *switch_of(config, switch) = on,
            Self::Algorithm(algorithm) => config.algorithm = algorithm,
            Self::InitialCwnd(segments) => config.initial_cwnd = segments,
            Self::InitialSsthresh(bytes) => config.initial_ssthresh = Some(Bytes::new(bytes)),
            Self::ReceiveBuffer(bytes) => {
                config.receive_buffer = ReceiveBuffer::Fixed(Bytes::new(bytes));
            }
            Self::SendBuffer(bytes) => config.send_buffer = Bytes::new(bytes),
            Self::Acks(policy) => config.ack_policy = policy,
            Self::LossDetection(how) => config.loss_detection = how,
            Self::Ecn(ecn) => config.ecn = ecn,
            Self::KeepAlive(keep_alive) => config.keep_alive = Some(keep_alive),
            Self::MinRto(least) => config.min_rto = least,
            Self::Retries(count) => config.retries = count,
            Self::SynRetries(count) => config.syn_retries = count,
            Self::TimeWait(span) => config.time_wait = span,
        }
    }
}

impl FromStr for Setting {
    type Err = Reason;

    /// What stands behind `set`, such as `sack off`, or the same with an equals sign, `sack=off`.
    fn from_str(text: &str) -> Result<Self, Reason> {
        match text.split_once('=') {
            Some((name, value)) => Self::read(&format!("{} {}", name.trim(), value.trim())),
            None => Self::read(text),
        }
    }
}

const fn switch_of(config: &mut Config, switch: Switch) -> &mut bool {
    match switch {
        Switch::WindowScaling => &mut config.window_scaling,
        Switch::Timestamps => &mut config.timestamps,
        Switch::Sack => &mut config.sack,
        Switch::Nagle => &mut config.nagle,
        Switch::SillyWindowAvoidance => &mut config.silly_window_avoidance,
        Switch::RestartAfterIdle => &mut config.restart_after_idle,
        Switch::KeepUnusedWindow => &mut config.keep_unused_window,
        Switch::TailLossProbe => &mut config.tail_loss_probe,
        Switch::ProportionalRateReduction => &mut config.proportional_rate_reduction,
        Switch::LimitedTransmit => &mut config.limited_transmit,
        Switch::DuplicateSack => &mut config.duplicate_sack,
        Switch::ForwardRto => &mut config.forward_rto,
        Switch::ChallengeAcks => &mut config.challenge_acks,
        Switch::MergedReports => &mut config.merged_reports,
    }
}

fn acks(value: &str) -> Result<AckPolicy, Reason> {
    match value.split_once(' ') {
        None if value == "linux" => Ok(AckPolicy::Linux),
        None if value == "immediate" => Ok(AckPolicy::Immediate),
        Some(("every-second", delay)) => Ok(AckPolicy::Every2 {
            delay: span(delay)?,
        }),
        _ => Err(Reason::unknown(
            value,
            "linux, immediate, every-second TIME",
        )),
    }
}

fn keep_alive(value: &str) -> Result<KeepAlive, Reason> {
    let mut words = value.split_whitespace();
    let mut word = || {
        words
            .next()
            .ok_or_else(|| Reason::unknown(value, "IDLE INTERVAL PROBES"))
    };
    Ok(KeepAlive {
        idle: span(word()?)?,
        interval: span(word()?)?,
        probes: number(word()?)?,
    })
}

fn number<T: FromStr>(text: &str) -> Result<T, Reason> {
    text.parse().map_err(|_| Reason::number(text))
}
