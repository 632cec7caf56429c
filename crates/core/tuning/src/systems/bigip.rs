//! F5 BIG-IP: TCP profiles per side of a virtual server.

use record::tune::{Finding, Kind};

use super::{buffer, finding, in_flight};
use crate::Path;

const TMSH: &str = "F5, tmsh reference: ltm profile tcp; K3422, K12759462";

pub(crate) fn findings(path: &Path) -> Vec<Finding> {
    let size = buffer(path);
    let congestion = if path.loss > units::LossRate::ZERO {
        "woodside"
    } else {
        "bbr"
    };
    vec![
        finding(
            "side-profile",
            Kind::Limits,
            format!(
                "{}: the side of the virtual server that faces the long path needs a profile of its own, with \
                 windows of that size. Without a receive window above 65535 no window scaling is offered at \
                 all. The other side keeps a LAN profile.",
                in_flight(path)
            ),
            TMSH,
            vec![
                "list ltm virtual VS profiles".to_owned(),
                format!(
                    "create ltm profile tcp tcp-longhaul {{ defaults-from tcp-wan-optimized \
                     receive-window-size {size} send-buffer-size {size} proxy-buffer-high {size} \
                     proxy-buffer-low {} selective-acks enabled timestamps enabled nagle disabled \
                     slow-start enabled init-cwnd 10 congestion-control {congestion} \
                     reset-on-timeout enabled }}",
                    size / 2
                ),
                "modify ltm virtual VS profiles delete { tcp } profiles add { tcp-lan-optimized { context \
                 clientside } tcp-longhaul { context serverside } }"
                    .to_owned(),
                "save sys config".to_owned(),
            ],
            vec![
                "modify ltm virtual VS profiles delete { tcp-lan-optimized tcp-longhaul } profiles add { tcp { \
                 context all } }"
                    .to_owned(),
                "delete ltm profile tcp tcp-longhaul".to_owned(),
                "save sys config".to_owned(),
            ],
        ),
        finding(
            "connection-per-request",
            Kind::Consider,
            "OneConnect keeps server-side connections open for later requests: what they have learned of the \
             long path is kept too."
                .to_owned(),
            "F5, K7208",
            vec!["modify ltm virtual VS profiles add { oneconnect }".to_owned()],
            vec!["modify ltm virtual VS profiles delete { oneconnect }".to_owned()],
        ),
    ]
}
