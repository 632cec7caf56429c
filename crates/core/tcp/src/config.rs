use core::time::Duration;

use congestion::{Algorithm, SlowStart, Tuning};
use units::{Bytes, Rate};

/// How an endpoint behaves. [`Config::linux`] is a Linux host of 2025; [`Config::old`] a stack of the
/// nineties; every knob can be turned on its own.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a mechanism of its own that a stack has or has not"
)]
pub struct Config {
    /// Largest segment to receive, in bytes, as the MSS option announces it (RFC 9293 section 3.7.1).
    pub mss: u16,
    /// What a peer takes whose SYN does not say (RFC 9293 section 3.7.1): 536 bytes over IPv4, 1220 over
    /// IPv6.
    pub assumed_mss: u16,
    /// Whether to offer window scaling (RFC 7323 section 2).
    pub window_scaling: bool,
    /// Whether to offer timestamps (RFC 7323 section 3).
    pub timestamps: bool,
    /// Whether to offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// What the peer may send ahead.
    pub receive_buffer: ReceiveBuffer,
    /// Bytes that [`write`](crate::Connection::write) accepts beyond what is acknowledged, at most.
    pub send_buffer: Bytes,
    /// Whether the send buffer begins with what twice the initial window takes and grows with the window
    /// (Linux `tcp_sndbuf_expand`), or has its size from the start. An application that meets a short
    /// buffer writes the rest of an object a round trip later.
    pub send_buffer_grows: bool,
    /// Initial window in segments (RFC 6928: 10).
    pub initial_cwnd: u32,
    /// Initial slow-start threshold in bytes; arbitrarily high where absent (RFC 5681 section 3.1).
    pub initial_ssthresh: Option<Bytes>,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// Whether segments are spread over time.
    pub pacing: Pacing,
    /// How much of a paced flight may leave together, as time at its rate. None where timers are exact, as
    /// in virtual time. On a host a timer costs more than the gap between two segments at some hundred
    /// Mbit/s: Linux lets a millisecond's worth go at once (`sk_pacing_shift` 10).
    pub pacing_quantum: Duration,
    /// Whether a paced flight leaves in packets that the device cuts, each worth a millisecond at the rate,
    /// two segments to 64 KiB (Linux `tcp_tso_autosize`), or segment by segment.
    pub segmentation_offload: bool,
    /// When data is acknowledged.
    pub ack_policy: AckPolicy,
    /// Whether reports of segments beyond a hole are merged after the third, for a millisecond or a twentieth
    /// of the round trip, and 44 of them at most (Linux `tcp_comp_sack_delay_ns`, `tcp_comp_sack_nr`); needs
    /// SACK.
    pub merged_reports: bool,
    /// Whether a short segment waits for outstanding data (RFC 9293 section 3.7.4).
    pub nagle: bool,
    /// Whether crumbs are neither sent nor invited (RFC 9293 section 3.8.6.2).
    pub silly_window_avoidance: bool,
    /// Whether the window shrinks over idle time (RFC 2861, `tcp_slow_start_after_idle`).
    pub restart_after_idle: bool,
    /// Whether a window that goes unused is kept for five minutes, and lost only with the first loss
    /// (RFC 7661); takes the place of `restart_after_idle`.
    pub keep_unused_window: bool,
    /// How loss is found.
    pub loss_detection: LossDetection,
    /// Whether the tail of a flight is probed before the RTO (RFC 8985 section 7); needs SACK.
    pub tail_loss_probe: bool,
    /// Whether a reduction is spread over the round trip (RFC 6937).
    pub proportional_rate_reduction: bool,
    /// Whether the first two duplicate ACKs let a new segment go (RFC 3042).
    pub limited_transmit: bool,
    /// Whether duplicates are reported, and reports of them take reductions back (RFC 2883, RFC 3708);
    /// needs SACK.
    pub duplicate_sack: bool,
    /// Whether new data tells a spurious timeout from a real one before everything is sent again
    /// (RFC 5682, `tcp_frto`).
    pub forward_rto: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: Ecn,
    /// Whether a reset or SYN that is only nearly right is answered instead of obeyed, and
    /// acknowledgements from long ago are refused (RFC 5961).
    pub challenge_acks: bool,
    /// Whether a silent peer is asked if it is still there (RFC 9293 section 3.8.4).
    pub keep_alive: Option<KeepAlive>,
    /// Least retransmission timeout. RFC 6298 asks for 1 s, Linux has 200 ms.
    pub min_rto: Duration,
    /// Timeouts in a row after which the connection is given up (`tcp_retries2`: 15).
    pub retries: u32,
    /// Repetitions of a SYN or SYN-ACK (`tcp_syn_retries`: 6).
    pub syn_retries: u32,
    /// How long the side that closed first remembers the connection: 2 MSL (Linux: 60 s).
    pub time_wait: Duration,
    /// Parameters of the congestion control that differ from its defaults.
    pub tuning: Tuning,
    /// What is drawn by lot inside the congestion control.
    pub seed: u64,
}

/// What the peer may send ahead of the reader, in bytes of payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReceiveBuffer {
    /// Always as much as this. Above 65,535 bytes it needs window scaling.
    Fixed(Bytes),
    /// Grows so that it never holds a reader back that keeps up (dynamic right-sizing, Fisk and Feng
    /// 2001, as in Linux' `tcp_rcv_space_adjust`).
    Autotuned {
        /// Window on the SYN, in bytes: half of `tcp_rmem[1]`.
        initial: Bytes,
        /// Largest window: half of `tcp_rmem[2]`.
        max: Bytes,
    },
}

/// Whether segments leave in bursts or spread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pacing {
    /// As the window opens; BBR paces all the same.
    Off,
    /// At twice the window per RTT in slow start, 1.2 times afterwards (Linux with `fq`).
    Window,
    /// Never faster than this, payload counted (`SO_MAX_PACING_RATE`).
    AtMost(Rate),
}

/// When received data is acknowledged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AckPolicy {
    /// At once while the peer probably is in slow start, then every second segment, with a delay that
    /// follows the traffic from 40 to 200 ms.
    Linux,
    /// Every second full segment, and after `delay` at the latest (RFC 9293 section 3.8.6.3: 500 ms).
    Every2 {
        /// How long an acknowledgement may wait.
        delay: Duration,
    },
    /// Every segment.
    Immediate,
}

/// Who may ask for explicit congestion notification (`tcp_ecn`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ecn {
    /// It is neither asked for nor granted (0).
    Off,
    /// It is granted to a peer that asks (2, Linux' default).
    Accept,
    /// Our SYNs ask for it too (1).
    Request,
}

/// Probes of an idle connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeepAlive {
    /// Silence before the first probe (`tcp_keepalive_time`: two hours).
    pub idle: Duration,
    /// Silence between two probes (`tcp_keepalive_intvl`: 75 s).
    pub interval: Duration,
    /// Unanswered probes after which the connection is given up (`tcp_keepalive_probes`: 9).
    pub probes: u32,
}

/// How a sender finds out that a segment is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LossDetection {
    /// A segment sent later was delivered, and the time for reordering is over (RFC 8985); needs SACK.
    Rack,
    /// Three duplicate ACKs, or three segments reported above (RFC 5681, RFC 6675).
    DuplicateAcks,
}

// === impl Config ===

impl Config {
    /// A Linux host with default sysctls on a path of MTU 1500, with CUBIC.
    #[must_use]
    pub fn linux() -> Self {
        Self {
            mss: 1460,
            assumed_mss: 536,
            window_scaling: true,
            timestamps: true,
            sack: true,
            receive_buffer: ReceiveBuffer::Autotuned {
                // tcp_rmem = 4096 131072 6291456 (before 6.17, 33554432 since), of which one half
                // counts as payload until the overhead of buffers is known (`tcp_adv_win_scale` 1).
                initial: Bytes::kib(64),
                max: Bytes::mib(16),
            },
            send_buffer: Bytes::mib(4),
            send_buffer_grows: false,
            //= https://www.rfc-editor.org/rfc/rfc6928#section-2
            //# the upper bound for the initial window will be min (10*MSS, max (2*MSS, 14600))
            initial_cwnd: 10,
            initial_ssthresh: None,
            algorithm: Algorithm::Cubic(SlowStart::HyStart),
            pacing: Pacing::Off,
            pacing_quantum: Duration::ZERO,
            segmentation_offload: true,
            ack_policy: AckPolicy::Linux,
            merged_reports: true,
            nagle: true,
            silly_window_avoidance: true,
            restart_after_idle: true,
            keep_unused_window: false,
            loss_detection: LossDetection::Rack,
            tail_loss_probe: true,
            proportional_rate_reduction: true,
            limited_transmit: true,
            duplicate_sack: true,
            forward_rto: true,
            ecn: Ecn::Accept,
            challenge_acks: true,
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
            //# If keep-alives are included, the application MUST be able to turn them on or off for each TCP
            //# connection (MUST-24), and they MUST default to off (MUST-25).
            keep_alive: None,
            min_rto: Duration::from_millis(200),
            retries: 15,
            syn_retries: 6,
            time_wait: Duration::from_mins(1),
            tuning: Tuning::default(),
            seed: 0,
        }
    }

    /// `NewReno` with fixed buffers of `buffer` bytes, without SACK, timestamps and everything later than
    /// 2003; with window scaling only above 64 KiB.
    #[must_use]
    pub fn old(buffer: Bytes) -> Self {
        Self {
            window_scaling: buffer > Bytes::kib(64),
            timestamps: false,
            sack: false,
            receive_buffer: ReceiveBuffer::Fixed(buffer),
            send_buffer: buffer,
            initial_cwnd: 2,
            algorithm: Algorithm::NewReno,
            ack_policy: AckPolicy::Every2 {
                delay: Duration::from_millis(200),
            },
            merged_reports: false,
            segmentation_offload: false,
            loss_detection: LossDetection::DuplicateAcks,
            tail_loss_probe: false,
            proportional_rate_reduction: false,
            limited_transmit: false,
            duplicate_sack: false,
            forward_rto: false,
            ecn: Ecn::Off,
            challenge_acks: false,
            min_rto: Duration::from_secs(1),
            ..Self::linux()
        }
    }
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            idle: Duration::from_hours(2),
            interval: Duration::from_secs(75),
            probes: 9,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::linux()
    }
}
