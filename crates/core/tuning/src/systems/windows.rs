//! Windows: settings belong to templates, and each connection follows one of them.

use record::tune::{Finding, Kind};

use super::{finding, in_flight};
use crate::Path;

const SET: &str = "Microsoft, Set-NetTCPSetting and New-NetTransportFilter (module NetTCPIP)";

pub(crate) fn findings(path: &Path) -> Vec<Finding> {
    let mut findings = vec![autotuning(path), template(), filter(), idle()];
    if path.loss > units::LossRate::ZERO {
        findings.push(congestion());
    }
    findings
}

fn autotuning(path: &Path) -> Finding {
    finding(
        "autotuning-off",
        Kind::Folklore,
        format!(
            "{}. The receive window grows that far only with the autotuning level Normal. The five levels: \
             Disabled (fixed, 64 KB), HighlyRestricted, Restricted, Normal (up to 16 MB), Experimental (up \
             to 1 GB; for paths with more than 16 MB in flight). Advice to disable it is folklore from 2007.",
            in_flight(path)
        ),
        SET,
        vec![
            "Get-NetTCPSetting | Select-Object SettingName, AutoTuningLevelLocal, AutoTuningLevelEffective"
                .to_owned(),
            keep("Internet", "AutoTuningLevelLocal"),
            format!("Set-NetTCPSetting -SettingName Internet -AutoTuningLevelLocal {}", level(path)),
        ],
        vec![put_back("Internet", "AutoTuningLevelLocal")],
    )
}

/// Writes a template's setting into a file, for the way back.
pub(crate) fn keep(template: &str, setting: &str) -> String {
    format!(
        "\"$((Get-NetTCPSetting -SettingName {template}).{setting})\" > ~/{template}.{setting}.before"
    )
}

/// Sets it to what [`keep`] wrote.
pub(crate) fn put_back(template: &str, setting: &str) -> String {
    format!(
        "Set-NetTCPSetting -SettingName {template} -{setting} (Get-Content ~/{template}.{setting}.before)"
    )
}

/// Normal scales by 8 (64 KB << 8 = 16 MB), Experimental by 14 (1 GB).
fn level(path: &Path) -> &'static str {
    if path.bdp().get() > 16 << 20 {
        "Experimental"
    } else {
        "Normal"
    }
}

fn template() -> Finding {
    finding(
        "which-template",
        Kind::Consider,
        "A setting helps only in the template that the connection uses: Internet, Datacenter (chosen by a \
         short RTT), Compat, and the two custom ones."
            .to_owned(),
        SET,
        vec![
            "Get-NetTCPConnection -State Established | Select-Object RemoteAddress, RemotePort, AppliedSetting"
                .to_owned(),
        ],
        Vec::new(),
    )
}

fn filter() -> Finding {
    finding(
        "transport-filter",
        Kind::Consider,
        "Only the built-in custom templates can be changed in full; a filter by destination prefix and port \
         leads connections to one. Put the far site's prefix in place of 192.0.2.0/24."
            .to_owned(),
        SET,
        vec![
            keep("InternetCustom", "AutoTuningLevelLocal"),
            keep("InternetCustom", "InitialCongestionWindowMss"),
            "Set-NetTCPSetting -SettingName InternetCustom -AutoTuningLevelLocal Normal \
             -InitialCongestionWindowMss 10"
                .to_owned(),
            "New-NetTransportFilter -SettingName InternetCustom -DestinationPrefix 192.0.2.0/24 \
             -LocalPortStart 0 -LocalPortEnd 65535 -RemotePortStart 443 -RemotePortEnd 443"
                .to_owned(),
        ],
        vec![
            "Get-NetTransportFilter -DestinationPrefix 192.0.2.0/24 | Remove-NetTransportFilter".to_owned(),
            put_back("InternetCustom", "AutoTuningLevelLocal"),
            put_back("InternetCustom", "InitialCongestionWindowMss"),
        ],
    )
}

fn idle() -> Finding {
    finding(
        "send-backlog",
        Kind::Consider,
        "Programs that set SO_SNDBUF fix what may fly; Windows otherwise follows the ideal send backlog of \
         the path. Look for tools with a socket buffer option and leave it unset."
            .to_owned(),
        "Microsoft, SIO_IDEAL_SEND_BACKLOG_QUERY",
        Vec::new(),
        Vec::new(),
    )
}

fn congestion() -> Finding {
    finding(
        "loss-based-congestion-control",
        Kind::Consider,
        "CUBIC takes random loss for congestion. Windows 11 and Server 2022 have BBR2 per template; known \
         to break local loopback of some programs, so try it on one host first."
            .to_owned(),
        "Microsoft, netsh int tcp set supplemental",
        vec![
            keep("Internet", "CongestionProvider"),
            "netsh int tcp set supplemental template=Internet congestionprovider=BBR2".to_owned(),
        ],
        vec![
            "netsh int tcp set supplemental template=Internet \
             congestionprovider=$(Get-Content ~/Internet.CongestionProvider.before)"
                .to_owned(),
        ],
    )
}
