//! Colours and lines, by class.

use record::LimitName;

/// Where a picture finds its colours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sheet {
    /// In itself.
    Own,
    /// On the page that holds it.
    Page,
}

/// The sheet. Colours keep a contrast of at least 3:1 against the paper in both schemes (WCAG 2.2, 1.4.11).
pub(super) const STYLE: &str = include_str!("style.css");

/// Colours and dashes of further arms, beside those that [`STYLE`] has.
pub(crate) const ARMS: &str = include_str!("arms.css");

/// The class of a limit's colour.
pub(crate) const fn limit_class(name: LimitName) -> &'static str {
    match name {
        LimitName::Handshake => "lh-handshake",
        LimitName::Closing => "lh-closing",
        LimitName::TlsHandshake => "lh-tls",
        LimitName::LossRecovery => "lh-recovery",
        LimitName::ReceiveWindow => "lh-window-limit",
        LimitName::Policer => "lh-policer",
        LimitName::Bottleneck => "lh-bottleneck",
        LimitName::SlowStart => "lh-slow-start",
        LimitName::LossLimited => "lh-loss",
        LimitName::CongestionAvoidance => "lh-avoidance",
        LimitName::SendBuffer => "lh-buffer",
        LimitName::NagleDelayedAck => "lh-nagle",
        LimitName::Propagation => "lh-propagation",
        LimitName::Application => "lh-application",
        LimitName::Unknown => "lh-unknown",
    }
}

/// The class of an arm: the usual ones look the same in every report, others go by their place.
pub(crate) fn arm_class(name: &str, index: usize) -> &'static str {
    const CLASSES: [&str; 10] = [
        "lh-arm0", "lh-arm1", "lh-arm2", "lh-arm3", "lh-arm4", "lh-arm5", "lh-arm6", "lh-arm7",
        "lh-arm8", "lh-arm9",
    ];
    let place = match name {
        "direct" => 0,
        "direct-reuse" | "report" => 1,
        "relay" => 2,
        "pair" => 3,
        _ => index % CLASSES.len(),
    };
    CLASSES.get(place).copied().unwrap_or("lh-arm4")
}
