//! What a script sets, as the kernel calls it.

use std::fmt::{self, Display, Write as _};
use std::fs;
use std::time::Duration;

use congestion::{Algorithm, SlowStart};
use script::{Setting, Switch};
use tcp::{AckPolicy, Ecn, KeepAlive, LossDetection};

use super::PlayError;

/// Everything about the kernel that a script can set.
#[derive(Debug, Default)]
pub(super) struct KernelSettings {
    /// Largest segment, in bytes.
    pub(super) mss: Option<u16>,
    /// Sysctls below `net.ipv4`.
    pub(super) sysctls: Vec<(&'static str, String)>,
    /// What stands behind `ip route replace`.
    pub(super) route: String,
    pub(super) no_delay: bool,
    pub(super) keep_alive: Option<KeepAlive>,
}

/// Reports that Linux merges at most, where nobody says otherwise (`tcp_comp_sack_nr`).
const MERGED_REPORTS: u8 = 44;
/// A sysctl that older kernels do not have, nor need.
pub(super) const SYN_LINEAR_TIMEOUTS: &str = "tcp_syn_linear_timeouts";
pub(super) const CONGESTION_CONTROL: &str = "tcp_congestion_control";

// === impl KernelSettings ===

impl KernelSettings {
    pub(super) fn of<'a>(settings: impl Iterator<Item = &'a Setting>) -> Result<Self, PlayError> {
        let mut kernel = Self::default();
        // Reports of holes are not merged for a millisecond: packets are to be compared one by one.
        kernel.sysctl("tcp_comp_sack_nr", 0);
        // SYNs back off from the first repetition on, as RFC 6298 has it (kernels since 6.5 wait longer).
        kernel.sysctl(SYN_LINEAR_TIMEOUTS, 0);
        for setting in settings {
            kernel.take(setting)?;
        }
        Ok(kernel)
    }

    fn take(&mut self, setting: &Setting) -> Result<(), PlayError> {
        let refused = || {
            Err(PlayError::Setting {
                setting: format!("{setting:?}"),
            })
        };
        match *setting {
            Setting::Mss(mss) => self.mss = Some(mss),
            Setting::Switch(switch, on) => return self.switch(switch, on),
            Setting::Algorithm(algorithm) => {
                let name = match algorithm {
                    Algorithm::NewReno => "reno",
                    Algorithm::Cubic(SlowStart::HyStart) => "cubic",
                    Algorithm::HighSpeed => of_module("highspeed", "lh_highspeed"),
                    Algorithm::WestwoodPlus => of_module("westwood", "lh_westwood"),
                    Algorithm::Bbr => "bbr",
                    Algorithm::Cubic(SlowStart::Standard | SlowStart::HyStartPlusPlus)
                    | Algorithm::Bbr3
                    | Algorithm::Fixed => return refused(),
                };
                self.sysctl(CONGESTION_CONTROL, name);
            }
            Setting::InitialCwnd(segments) => self.route("initcwnd", segments),
            Setting::Acks(AckPolicy::Linux) => {}
            Setting::Acks(AckPolicy::Immediate) => self.route("quickack", 1),
            Setting::LossDetection(LossDetection::Rack) => self.sysctl("tcp_recovery", 1),
            Setting::LossDetection(LossDetection::DuplicateAcks) => self.sysctl("tcp_recovery", 0),
            Setting::Ecn(Ecn::Off) => self.sysctl("tcp_ecn", 0),
            Setting::Ecn(Ecn::Accept) => self.sysctl("tcp_ecn", 2),
            Setting::Ecn(Ecn::Request) => self.sysctl("tcp_ecn", 1),
            Setting::KeepAlive(keep_alive) => self.keep_alive = Some(keep_alive),
            Setting::MinRto(least) => self.route("rto_min", Milliseconds(least)),
            Setting::SynRetries(count) => {
                self.sysctl("tcp_syn_retries", count);
                self.sysctl("tcp_synack_retries", count);
            }
            // The kernel counts its own overhead into buffers, and timeouts instead of repetitions.
            Setting::InitialSsthresh(_)
            | Setting::ReceiveBuffer(_)
            | Setting::SendBuffer(_)
            | Setting::Acks(AckPolicy::Every2 { .. })
            | Setting::Retries(_)
            | Setting::TimeWait(_) => return refused(),
        }
        Ok(())
    }

    fn switch(&mut self, switch: Switch, on: bool) -> Result<(), PlayError> {
        let number = u8::from(on);
        match switch {
            Switch::WindowScaling => self.sysctl("tcp_window_scaling", number),
            Switch::Timestamps => self.sysctl("tcp_timestamps", number),
            Switch::Sack => self.sysctl("tcp_sack", number),
            Switch::Nagle => self.no_delay = !on,
            Switch::RestartAfterIdle => self.sysctl("tcp_slow_start_after_idle", number),
            Switch::TailLossProbe => self.sysctl("tcp_early_retrans", number * 3),
            Switch::DuplicateSack => self.sysctl("tcp_dsack", number),
            Switch::ForwardRto => self.sysctl("tcp_frto", number * 2),
            Switch::MergedReports => self.sysctl("tcp_comp_sack_nr", number * MERGED_REPORTS),
            // Always on in the kernel, or never.
            Switch::SillyWindowAvoidance
            | Switch::ProportionalRateReduction
            | Switch::LimitedTransmit
            | Switch::ChallengeAcks
                if on => {}
            Switch::KeepUnusedWindow if !on => {}
            Switch::SillyWindowAvoidance
            | Switch::ProportionalRateReduction
            | Switch::LimitedTransmit
            | Switch::ChallengeAcks
            | Switch::KeepUnusedWindow => {
                return Err(PlayError::Setting {
                    setting: format!("{switch:?} {on}"),
                });
            }
        }
        Ok(())
    }

    fn sysctl(&mut self, name: &'static str, value: impl Display) {
        self.sysctls.push((name, format!("{value}")));
    }

    fn route(&mut self, name: &str, value: impl Display) {
        // A string takes everything.
        let _ = write!(self.route, " {name} {value}");
    }
}

/// The kernel's own module where there is one, otherwise what `longhaul cc load` has put in.
fn of_module(module: &'static str, ours: &'static str) -> &'static str {
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.unwrap_or_default();
    let is_there = available.split_whitespace().any(|name| name == module);
    if is_there { module } else { ours }
}

/// As iproute2 wants it.
struct Milliseconds(Duration);

impl Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0.as_millis())
    }
}
