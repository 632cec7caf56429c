//! Commands that take a cause away, in the terms of the system or program that needs them, each with its
//! undo: what `explain` prints beside a finding.
//!
//! Advice for a whole host stands in [`crate::systems`] and [`crate::clients`]; this picks what concerns one
//! cause, and adds hosts that run Linux but can't be read, and proxies.

mod apple;
mod linux;
mod programs;

use record::tune::Finding;
use units::LossRate;

use crate::Path;
use crate::systems::{aix, bigip, windows};

/// What holds transfers back, as far as a setting can change it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Cause {
    /// The receiver's window has no room.
    ReceiveWindow,
    /// Window scaling is not offered.
    NoWindowScaling,
    /// The sender's socket buffer is full.
    SendBuffer,
    /// The congestion controller gives way to losses that mean no congestion.
    Loss,
    /// Selective acknowledgment is not offered.
    NoSack,
    /// Timestamps are not offered.
    NoTimestamps,
    /// The congestion window shrinks while a connection is idle.
    RestartAfterIdle,
    /// Slow start ends at a threshold remembered from before.
    LowThreshold,
    /// Each request opens a connection.
    NewConnections,
    /// One connection carries what several would carry sooner.
    TooFewConnections,
    /// Small pieces wait for delayed acknowledgments.
    SmallWrites,
    /// A request waits for `100 Continue`.
    ContinueWait,
    /// TLS takes more round trips than it has to.
    TlsRoundTrips,
    /// TLS sessions are not resumed.
    TlsResumption,
    /// Large packets vanish without a word.
    BlackHole,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::ReceiveWindow,
        Self::NoWindowScaling,
        Self::SendBuffer,
        Self::Loss,
        Self::NoSack,
        Self::NoTimestamps,
        Self::RestartAfterIdle,
        Self::LowThreshold,
        Self::NewConnections,
        Self::TooFewConnections,
        Self::SmallWrites,
        Self::ContinueWait,
        Self::TlsRoundTrips,
        Self::TlsResumption,
        Self::BlackHole,
    ];
}

/// Whose terms are wanted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Target {
    /// A Linux host.
    Linux,
    /// Windows 10, Server 2016 and later.
    Windows,
    /// AIX 7.
    Aix,
    /// F5 BIG-IP.
    Bigip,
    /// macOS 11 and later.
    Macos,
    /// `HAProxy`.
    Haproxy,
    /// Envoy.
    Envoy,
    /// Python with boto3.
    Boto3,
    /// rclone.
    Rclone,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Linux,
        Self::Windows,
        Self::Aix,
        Self::Bigip,
        Self::Macos,
        Self::Haproxy,
        Self::Envoy,
        Self::Boto3,
        Self::Rclone,
    ];

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.as_str() == name)
    }

    /// Its name in arguments and documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Windows => "windows",
            Self::Aix => "aix",
            Self::Bigip => "bigip",
            Self::Macos => "macos",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::Boto3 => "boto3",
            Self::Rclone => "rclone",
        }
    }

    /// Its name in sentences.
    const fn title(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Windows => "Windows",
            Self::Aix => "AIX",
            Self::Bigip => "BIG-IP",
            Self::Macos => "macOS",
            Self::Haproxy => "HAProxy",
            Self::Envoy => "Envoy",
            Self::Boto3 => "boto3",
            Self::Rclone => "rclone",
        }
    }
}

/// What to do there, and how to take it back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Remedy {
    /// Why, and what to mind.
    pub says: String,
    /// Lines to run or to write; none where the system has nothing of the kind, as `says` tells.
    pub commands: Vec<String>,
    /// Lines that take it back.
    pub undo: Vec<String>,
}

/// What takes `cause` away at `target` on `path`; `None` where no setting of it does.
#[must_use]
pub fn remedy(cause: Cause, target: Target, path: &Path) -> Option<Remedy> {
    match target {
        Target::Linux => linux::remedy(cause, path),
        Target::Windows => on_windows(cause, path),
        Target::Aix => chosen(&aix::findings(path), on_aix(cause)),
        Target::Bigip => chosen(&bigip::findings(&lossy_for(cause, path)), on_bigip(cause)),
        Target::Macos => apple::remedy(cause, path),
        Target::Haproxy => programs::haproxy(cause, path),
        Target::Envoy => programs::envoy(cause, path),
        Target::Boto3 => programs::boto3(cause, path),
        Target::Rclone => programs::rclone(cause, path),
    }
}

/// What to say of `target` where [`remedy`] has nothing.
#[must_use]
pub fn nothing(target: Target) -> String {
    let elsewhere = match target {
        Target::Linux | Target::Windows | Target::Aix | Target::Bigip | Target::Macos => "",
        Target::Haproxy | Target::Envoy => {
            " One of its host may: `--for linux`, or whatever it runs on."
        }
        Target::Boto3 | Target::Rclone => {
            " One of its host may: `--for` with the system that it runs on."
        }
    };
    format!(
        "No setting of {} takes this away.{elsewhere}",
        target.title()
    )
}

/// Advice on loss is given for paths that have some.
fn lossy_for(cause: Cause, path: &Path) -> Path {
    match LossRate::per_billion(1_000_000) {
        Some(loss) if cause == Cause::Loss && path.loss == LossRate::ZERO => Path { loss, ..*path },
        Some(_) | None => *path,
    }
}

fn on_windows(cause: Cause, path: &Path) -> Option<Remedy> {
    let own = |says: &str, commands: &[&str], undo: &[&str]| {
        Some(Remedy {
            says: says.to_owned(),
            commands: commands.iter().map(|line| (*line).to_owned()).collect(),
            undo: undo.iter().map(|line| (*line).to_owned()).collect(),
        })
    };
    let names: &[&str] = match cause {
        Cause::ReceiveWindow | Cause::NoWindowScaling => {
            &["autotuning-off", "which-template", "transport-filter"]
        }
        Cause::SendBuffer => &["send-backlog"],
        Cause::Loss => &["loss-based-congestion-control"],
        Cause::NoTimestamps => {
            return own(
                "Timestamps are off by default; the template of the connection decides.",
                &[
                    &windows::keep("InternetCustom", "Timestamps"),
                    "Set-NetTCPSetting -SettingName InternetCustom -Timestamps Enabled",
                ],
                &[&windows::put_back("InternetCustom", "Timestamps")],
            );
        }
        Cause::BlackHole => {
            return own(
                "Windows then tries smaller segments by itself once repeats of a full one stay unanswered. \
                 After a restart.",
                &[
                    "Set-ItemProperty HKLM:\\SYSTEM\\CurrentControlSet\\Services\\Tcpip\\Parameters -Name \
                   EnablePMTUBHDetect -Value 1 -Type DWord",
                ],
                &[
                    "Remove-ItemProperty HKLM:\\SYSTEM\\CurrentControlSet\\Services\\Tcpip\\Parameters -Name \
                   EnablePMTUBHDetect",
                ],
            );
        }
        Cause::SmallWrites => {
            return own(
                "On the host that delays its ACKs; 2 is the default. Better: TCP_NODELAY where the pieces are \
                 written.",
                &[
                    &windows::keep("InternetCustom", "DelayedAckFrequency"),
                    "Set-NetTCPSetting -SettingName InternetCustom -DelayedAckFrequency 1",
                ],
                &[&windows::put_back("InternetCustom", "DelayedAckFrequency")],
            );
        }
        Cause::RestartAfterIdle => {
            return own(
                "The template of the connection decides; look at what it has now first.",
                &[
                    "Get-NetTCPSetting | Select-Object SettingName, CwndRestart",
                    &windows::keep("InternetCustom", "CwndRestart"),
                    "Set-NetTCPSetting -SettingName InternetCustom -CwndRestart False",
                ],
                &[&windows::put_back("InternetCustom", "CwndRestart")],
            );
        }
        Cause::NoSack
        | Cause::LowThreshold
        | Cause::NewConnections
        | Cause::TooFewConnections
        | Cause::ContinueWait
        | Cause::TlsRoundTrips
        | Cause::TlsResumption => return None,
    };
    chosen(&windows::findings(&lossy_for(cause, path)), names)
}

const fn on_aix(cause: Cause) -> &'static [&'static str] {
    match cause {
        Cause::ReceiveWindow => &["no-window-scaling", "socket-buffers"],
        Cause::NoWindowScaling | Cause::NoTimestamps => &["no-window-scaling"],
        Cause::SendBuffer => &["socket-buffers"],
        Cause::Loss => &["newreno-only"],
        Cause::NoSack => &["no-sack"],
        Cause::SmallWrites => &["nagle-delayed-ack"],
        Cause::RestartAfterIdle
        | Cause::LowThreshold
        | Cause::NewConnections
        | Cause::TooFewConnections
        | Cause::ContinueWait
        | Cause::TlsRoundTrips
        | Cause::TlsResumption
        | Cause::BlackHole => &[],
    }
}

const fn on_bigip(cause: Cause) -> &'static [&'static str] {
    match cause {
        Cause::ReceiveWindow
        | Cause::NoWindowScaling
        | Cause::SendBuffer
        | Cause::Loss
        | Cause::NoSack
        | Cause::NoTimestamps
        | Cause::SmallWrites => &["side-profile"],
        Cause::NewConnections => &["connection-per-request"],
        Cause::RestartAfterIdle
        | Cause::LowThreshold
        | Cause::TooFewConnections
        | Cause::ContinueWait
        | Cause::TlsRoundTrips
        | Cause::TlsResumption
        | Cause::BlackHole => &[],
    }
}

/// The named pieces of advice as one.
fn chosen(findings: &[Finding], names: &[&str]) -> Option<Remedy> {
    let picked: Vec<&Finding> = names
        .iter()
        .filter_map(|name| findings.iter().find(|finding| finding.name == *name))
        .collect();
    let says: Vec<&str> = picked.iter().map(|finding| finding.says.as_str()).collect();
    let lines = |of: fn(&Finding) -> &Vec<String>| {
        picked
            .iter()
            .flat_map(|finding| of(finding).clone())
            .collect()
    };
    (!picked.is_empty()).then(|| Remedy {
        says: says.join(" "),
        commands: lines(|finding| &finding.commands),
        undo: lines(|finding| &finding.undo),
    })
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use units::Rate;

    use super::*;

    fn path() -> Path {
        Path {
            rtt: Duration::from_millis(200),
            rate: Rate::mbit_per_s(100),
            loss: LossRate::ZERO,
        }
    }

    #[test]
    fn every_command_that_changes_something_has_its_undo() {
        /// Lines that only show, or that concern a single call.
        const HARMLESS: [&str; 5] = ["Get-", "list ", "no -o ", "sysctl net.", "sysctl kern."];
        let mut remedies = 0;
        for target in Target::ALL {
            for cause in Cause::ALL {
                let Some(remedy) = remedy(cause, target, &path()) else {
                    continue;
                };
                remedies += 1;
                assert!(!remedy.says.is_empty(), "{target:?} {cause:?}");
                let changes = remedy
                    .commands
                    .iter()
                    .any(|line| !HARMLESS.iter().any(|start| line.starts_with(start)));
                let undone = !changes || !remedy.undo.is_empty();
                assert!(undone, "{target:?} {cause:?}: {remedy:?}");
            }
        }
        assert!(remedies >= 60, "{remedies}");
    }

    #[test]
    fn buffers_hold_what_flies_on_the_path() {
        // 100 Mbit/s x 200 ms are 2.5 MB; twice that in whole 64 KiB.
        for target in [Target::Linux, Target::Aix, Target::Bigip, Target::Haproxy] {
            let remedy = remedy(Cause::ReceiveWindow, target, &path()).unwrap();
            let text = remedy.commands.join("\n");
            assert!(text.contains("5046272"), "{target:?}: {text}");
        }
    }

    /// What the kernel's own source has; `doautosndbuf` stood here, which it has not.
    #[test]
    fn macos_says_of_each_cause_that_the_system_decides_what_to_set_or_that_nothing_does() {
        const KNOWN: [&str; 6] = [
            "kern.ipc.maxsockbuf",
            "net.inet.tcp.autorcvbufmax",
            "net.inet.tcp.autosndbufmax",
            "net.inet.tcp.sack",
            "net.inet.tcp.pmtud_blackhole_detection",
            "net.inet.tcp.delayed_ack",
        ];
        let of_programs = [
            Cause::NewConnections,
            Cause::TooFewConnections,
            Cause::ContinueWait,
            Cause::TlsRoundTrips,
            Cause::TlsResumption,
        ];
        for cause in Cause::ALL {
            let remedy = remedy(cause, Target::Macos, &path());
            assert_eq!(remedy.is_none(), of_programs.contains(&cause), "{cause:?}");
            let Some(remedy) = remedy else { continue };
            for line in &remedy.commands {
                let Some(set) = line.strip_prefix("sudo sysctl -w ") else {
                    continue;
                };
                let key = set.split('=').next().unwrap();
                assert!(KNOWN.contains(&key), "{line}");
                assert!(
                    remedy
                        .commands
                        .contains(&format!("sysctl -n {key} > ~/{key}.before"))
                );
                let back = format!("sudo sysctl -w {key}=\"$(cat ~/{key}.before)\"");
                assert!(remedy.undo.contains(&back), "{line}");
            }
        }
        assert_eq!(
            nothing(Target::Macos),
            "No setting of macOS takes this away."
        );
    }

    #[test]
    fn advice_is_the_one_that_tune_gives() {
        let remedy = remedy(Cause::NoSack, Target::Aix, &path()).unwrap();
        let advised = crate::systems::advise(crate::systems::System::Aix, &path());
        let same = advised
            .findings
            .iter()
            .find(|finding| finding.name == "no-sack");
        assert_eq!(remedy.commands, same.unwrap().commands);
    }
}
