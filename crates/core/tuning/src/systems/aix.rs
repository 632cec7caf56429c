//! AIX: `no` for the system, `chdev` for an interface, which wins where it is set.

use record::tune::{Finding, Kind};

use super::{buffer, finding, in_flight};
use crate::Path;

const NO: &str = "IBM, AIX 7 commands: no, chdev; RFC 1323 (now 7323)";

pub(crate) fn findings(path: &Path) -> Vec<Finding> {
    let size = buffer(path);
    vec![
        finding(
            "no-window-scaling",
            Kind::Limits,
            format!(
                "{}; without rfc1323 no window is larger than 65535 B, which bounds a connection at 64 KiB per \
                 round trip. Interfaces carry their own values (ISNO): look there first.",
                in_flight(path)
            ),
            NO,
            vec![
                "no -o rfc1323; no -o use_isno; lsattr -El en0 | grep -E 'rfc1323|tcp_.*space'".to_owned(),
                "no -p -o rfc1323=1".to_owned(),
                "chdev -l en0 -a rfc1323=1".to_owned(),
            ],
            vec![
                "no -p -d rfc1323".to_owned(),
                "chdev -l en0 -a rfc1323=''".to_owned(),
            ],
        ),
        finding(
            "socket-buffers",
            Kind::Limits,
            "AIX does not grow windows beyond tcp_sendspace and tcp_recvspace. sb_max bounds both; it counts \
             overhead, so it is twice as large. New connections only."
                .to_owned(),
            NO,
            vec![
                format!("no -p -o sb_max={}", size.saturating_mul(2)),
                format!("no -p -o tcp_sendspace={size} -o tcp_recvspace={size}"),
                format!("chdev -l en0 -a tcp_sendspace={size} -a tcp_recvspace={size}"),
            ],
            vec![
                "no -p -d tcp_sendspace; no -p -d tcp_recvspace; no -p -d sb_max".to_owned(),
                "chdev -l en0 -a tcp_sendspace='' -a tcp_recvspace=''".to_owned(),
            ],
        ),
        finding(
            "no-sack",
            Kind::Limits,
            "SACK is off by default: several losses of one window are repaired one per round trip.".to_owned(),
            NO,
            vec!["no -o sack".to_owned(), "no -p -o sack=1".to_owned()],
            vec!["no -p -d sack".to_owned()],
        ),
        finding(
            "newreno-only",
            Kind::Consider,
            "NewReno adds one segment per round trip after a loss, and AIX offers nothing that suits a long \
             path with loss: let a relay on the AIX host's LAN carry the long path (`longhaul trunk`)."
                .to_owned(),
            "MITRE, Improving TCP Throughput for AIX Hosts, 2021; RFC 6582",
            Vec::new(),
            Vec::new(),
        ),
        finding(
            "nagle-delayed-ack",
            Kind::Consider,
            "Request and response in turn: a delayed ACK (200 ms) holds back a short segment where the program \
             left Nagle on."
                .to_owned(),
            NO,
            vec!["no -o tcp_nagle_limit; no -o tcp_nodelayack".to_owned(), "no -p -o tcp_nodelayack=1".to_owned()],
            vec!["no -p -d tcp_nodelayack".to_owned()],
        ),
    ]
}
