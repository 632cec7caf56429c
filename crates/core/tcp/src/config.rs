use core::time::Duration;

use congestion::{Algorithm, SlowStart};
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
    /// Whether to offer window scaling (RFC 7323 section 2).
    pub window_scaling: bool,
    /// Whether to offer timestamps (RFC 7323 section 3).
    pub timestamps: bool,
    /// Whether to offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// What the peer may send ahead.
    pub receive_buffer: ReceiveBuffer,
    /// Bytes that [`write`](crate::Connection::write) accepts beyond what is acknowledged.
    pub send_buffer: Bytes,
    /// Initial window in segments (RFC 6928: 10).
    pub initial_cwnd: u32,
    /// Initial slow-start threshold in bytes; arbitrarily high where absent (RFC 5681 section 3.1).
    pub initial_ssthresh: Option<Bytes>,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// Whether segments are spread over time.
    pub pacing: Pacing,
    /// When data is acknowledged.
    pub ack_policy: AckPolicy,
    /// Whether a short segment waits for outstanding data (RFC 9293 section 3.7.4).
    pub nagle: bool,
    /// Whether the window shrinks over idle time (RFC 2861, `tcp_slow_start_after_idle`).
    pub restart_after_idle: bool,
    /// How loss is found.
    pub loss_detection: LossDetection,
    /// Whether the tail of a flight is probed before the RTO (RFC 8985 section 7); needs SACK.
    pub tail_loss_probe: bool,
    /// Whether a reduction is spread over the round trip (RFC 6937).
    pub proportional_rate_reduction: bool,
    /// Whether the first two duplicate ACKs let a new segment go (RFC 3042).
    pub limited_transmit: bool,
    /// Least retransmission timeout. RFC 6298 asks for 1 s, Linux has 200 ms.
    pub min_rto: Duration,
    /// Timeouts in a row after which the connection is given up (`tcp_retries2`: 15).
    pub retries: u32,
    /// Repetitions of a SYN or SYN-ACK (`tcp_syn_retries`: 6).
    pub syn_retries: u32,
    /// How long the side that closed first remembers the connection: 2 MSL (Linux: 60 s).
    pub time_wait: Duration,
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
            initial_cwnd: 10,
            initial_ssthresh: None,
            algorithm: Algorithm::Cubic(SlowStart::HyStart),
            pacing: Pacing::Off,
            ack_policy: AckPolicy::Linux,
            nagle: true,
            restart_after_idle: true,
            loss_detection: LossDetection::Rack,
            tail_loss_probe: true,
            proportional_rate_reduction: true,
            limited_transmit: true,
            min_rto: Duration::from_millis(200),
            retries: 15,
            syn_retries: 6,
            time_wait: Duration::from_mins(1),
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
            loss_detection: LossDetection::DuplicateAcks,
            tail_loss_probe: false,
            proportional_rate_reduction: false,
            limited_transmit: false,
            min_rto: Duration::from_secs(1),
            ..Self::linux()
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::linux()
    }
}
