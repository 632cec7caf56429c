//! Congestion control, and the first window of a route.

use record::tune::Kind;
use units::LossRate;

use super::{Judged, Played, change};
use crate::{Host, Path, Route};

/// RTT from which the rounds of slow start of short transfers are worth a route's own first window.
const LONG: std::time::Duration = std::time::Duration::from_millis(50);
/// First window to consider there: as large as big content networks use (about 32 segments), far
/// below a queue of one BDP on the paths that this is for.
const FIRST_WINDOW: u32 = 32;

pub(super) fn judge(host: &Host, path: &Path, judged: &mut Judged) {
    algorithm(host, path, judged);
    first_window(host, path, judged);
}

const DEFAULT: &str = "net.ipv4.tcp_congestion_control";

fn algorithm(host: &Host, path: &Path, judged: &mut Judged) {
    let settings = &host.settings;
    let (Some(current), Some(available)) = (
        host.congestion_control(),
        settings.text("net.ipv4.tcp_available_congestion_control"),
    ) else {
        judged.unknown(DEFAULT);
        return;
    };
    let has = |name: &str| available.split_whitespace().any(|known| known == name);
    let lossy = path.loss > LossRate::ZERO;
    if lossy && current != "bbr" && has("bbr") {
        let says = format!(
            "{current} takes every loss for congestion; at {} of random loss its window stays small. BBR \
             follows the delivery rate instead. It may take more than its share from loss-based flows where \
             queues are shallow.",
            path.loss
        );
        let source = "RFC 9438 section 5.1 (response function); draft-ietf-ccwg-bbr";
        prefer(
            host,
            "bbr",
            "loss-based-congestion-control",
            says,
            source,
            judged,
        );
    } else if lossy && current != "bbr" {
        judged.fine(format!(
            "{DEFAULT} is {current}; with random loss BBR would hold its rate, but this kernel offers only \
             `{}` (`modprobe tcp_bbr`)",
            super::spaced(available)
        ));
    } else if current == "reno" && has("cubic") && path.rtt >= LONG {
        let says = "Reno adds one segment per round trip: after a loss a long path is refilled over minutes. \
                    CUBIC grows by time instead."
            .to_owned();
        prefer(
            host,
            "cubic",
            "reno-on-a-long-path",
            says,
            "RFC 9438 section 1",
            judged,
        );
    } else {
        judged.fine(
            match host.route.as_ref().and_then(Route::congestion_control) {
                Some(own) => format!("the route's congestion control is {own}"),
                None => format!("{DEFAULT} is {current}"),
            },
        );
    }
}

/// Another default; of a route where that has an algorithm of its own, or where it is not allowed to everybody:
/// only the first network namespace takes such an algorithm for its default
/// (`tcp_set_default_congestion_control` in `net/ipv4/tcp_cong.c`), and which one this is can't be told from
/// its settings.
fn prefer(
    host: &Host,
    algorithm: &str,
    name: &str,
    says: String,
    source: &str,
    judged: &mut Judged,
) {
    let settings = &host.settings;
    let is_allowed = settings
        .text("net.ipv4.tcp_allowed_congestion_control")
        .is_some_and(|list| list.split_whitespace().any(|allowed| allowed == algorithm));
    let own = host.route.as_ref().and_then(Route::congestion_control);
    match &host.route {
        Some(route) if own.is_some() || !is_allowed => judged.route(
            name,
            match own {
                Some(_) => format!("{says} The route has an algorithm of its own, so the default does not count."),
                None => format!(
                    "{says} It is not among tcp_allowed_congestion_control, so it is set on a route: as a default \
                     it is taken in the first network namespace only."
                ),
            },
            source,
            [
                format!("ip route change {} congctl {algorithm}", route.without("congctl")),
                format!("ip route change {}", route.line.trim()),
            ],
            Played {
                sysctls: vec![(DEFAULT.to_owned(), algorithm.to_owned())],
                initial_cwnd: None,
            },
        ),
        _ => {
            let changes = vec![change(settings, DEFAULT, algorithm)];
            judged.sysctls(name, Kind::Limits, says, source, changes);
        }
    }
}

fn first_window(host: &Host, path: &Path, judged: &mut Judged) {
    let Some(route) = &host.route else {
        judged.unknown.push(
            "the route of this path is not known, so nothing is said about its first window".into(),
        );
        return;
    };
    let current = route.initial_cwnd().unwrap_or(10);
    if path.rtt < LONG || current >= FIRST_WINDOW {
        judged.fine(format!("the route's first window is {current} segments"));
        return;
    }
    let bare = route.without("initcwnd");
    judged.route(
        "initial-cwnd",
        format!(
            "New connections start with {current} segments. On a path whose queue holds {FIRST_WINDOW}, a \
             route of its own saves short transfers a round trip or two; elsewhere it costs losses. Only \
             for destinations that you know."
        ),
        "RFC 6928; ip-route(8), initcwnd",
        [
            format!("ip route change {bare} initcwnd {FIRST_WINDOW}"),
            format!("ip route change {}", route.line.trim()),
        ],
        Played {
            initial_cwnd: Some(FIRST_WINDOW),
            ..Played::default()
        },
    );
}
