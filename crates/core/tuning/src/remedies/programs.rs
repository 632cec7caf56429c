//! Proxies and object-store clients.

use super::{Cause, Remedy};
use crate::systems::buffer;
use crate::{Path, clients};

fn lines(says: &str, commands: &[String], undo: &str) -> Remedy {
    Remedy {
        says: says.to_owned(),
        commands: commands.to_vec(),
        undo: vec![undo.to_owned()],
    }
}

pub(super) fn haproxy(cause: Cause, path: &Path) -> Option<Remedy> {
    const UNDO: &str = "take the lines out again and reload";
    let size = buffer(path);
    if cause == Cause::Loss {
        // Its connections follow the host's controller.
        return super::linux::remedy(cause, path);
    }
    Some(match cause {
        Cause::ReceiveWindow => lines(
            "In `global`. By default the kernel tunes both; fixed sizes replace that, so set them only where the \
             host's sysctls cannot be raised.",
            &[
                format!("tune.rcvbuf.client {size}"),
                format!("tune.rcvbuf.server {size}"),
            ],
            UNDO,
        ),
        Cause::SendBuffer => lines(
            "In `global`: take small fixed sizes out, or raise them.",
            &[
                format!("tune.sndbuf.client {size}"),
                format!("tune.sndbuf.server {size}"),
            ],
            UNDO,
        ),
        Cause::NewConnections => lines(
            "In the backend: requests of all clients share connections that stay open.",
            &[
                "http-reuse always".into(),
                "server s1 192.0.2.10:443 pool-max-conn -1 pool-purge-delay 5m pool-low-conn 16"
                    .into(),
            ],
            UNDO,
        ),
        Cause::SmallWrites => lines(
            "In the proxy that forwards the pieces.",
            &["option http-no-delay".into()],
            UNDO,
        ),
        Cause::TlsRoundTrips => lines(
            "On `bind` and `server` lines: TLS 1.3 saves a round trip, and a group that clients bring a key for \
             saves the one of a second hello.",
            &["ssl-min-ver TLSv1.2 ssl-max-ver TLSv1.3 curves X25519:P-256".into()],
            UNDO,
        ),
        Cause::TlsResumption => lines(
            "In `global`; and take `no-tls-tickets` and `no-ssl-reuse` out of `bind` and `server` lines. Several \
             instances need the same `tls-ticket-keys`.",
            &[
                "tune.ssl.lifetime 3600".into(),
                "tune.ssl.cachesize 100000".into(),
            ],
            UNDO,
        ),
        Cause::Loss
        | Cause::NoWindowScaling
        | Cause::NoSack
        | Cause::NoTimestamps
        | Cause::RestartAfterIdle
        | Cause::LowThreshold
        | Cause::TooFewConnections
        | Cause::ContinueWait
        | Cause::BlackHole => return None,
    })
}

pub(super) fn envoy(cause: Cause, path: &Path) -> Option<Remedy> {
    const UNDO: &str = "take the fields out again";
    let size = buffer(path);
    // SOL_SOCKET is 1, SO_RCVBUF 8, SO_SNDBUF 7; IPPROTO_TCP is 6, TCP_CONGESTION 13.
    let option = |level: u32, name: u32, value: &str| {
        format!("socket_options: [{{level: {level}, name: {name}, {value}, state: STATE_PREBIND}}]")
    };
    Some(match cause {
        Cause::ReceiveWindow => lines(
            "On the listener (towards clients) or in the cluster's `upstream_bind_config`. Fixed sizes switch \
             autotuning off: set them only where the host's sysctls cannot be raised.",
            &[
                option(1, 8, &format!("int_value: {size}")),
                format!("per_connection_buffer_limit_bytes: {size}"),
            ],
            UNDO,
        ),
        Cause::SendBuffer => lines(
            "On the listener or in `upstream_bind_config`; the buffer limit, 1 MiB unless set, bounds what Envoy \
             reads ahead.",
            &[
                option(1, 7, &format!("int_value: {size}")),
                format!("per_connection_buffer_limit_bytes: {size}"),
            ],
            UNDO,
        ),
        Cause::Loss => lines(
            "On the listener or in `upstream_bind_config`; `YmJy` is `bbr` in base64, and the host needs the \
             module tcp_bbr.",
            &[option(6, 13, "buf_value: YmJy")],
            UNDO,
        ),
        Cause::NewConnections => lines(
            "In the cluster: connections stay open for later requests, and one is opened ahead.",
            &[
                "common_http_protocol_options: {idle_timeout: 3600s}".into(),
                "preconnect_policy: {per_upstream_preconnect_ratio: 1.5}".into(),
            ],
            UNDO,
        ),
        Cause::TlsRoundTrips => lines(
            "In `common_tls_context`; upstream connections stay at TLS 1.2 unless told otherwise.",
            &[
                "tls_params: {tls_maximum_protocol_version: TLSv1_3, ecdh_curves: [X25519, P-256]}"
                    .into(),
            ],
            UNDO,
        ),
        Cause::TlsResumption => lines(
            "Downstream: the same ticket keys for all instances, and no `disable_stateless_session_resumption`. \
             Upstream: more kept sessions.",
            &[
                "session_ticket_keys: {keys: [{filename: /etc/envoy/ticket.key}]}".into(),
                "max_session_keys: 16".into(),
            ],
            UNDO,
        ),
        Cause::NoWindowScaling
        | Cause::NoSack
        | Cause::NoTimestamps
        | Cause::RestartAfterIdle
        | Cause::LowThreshold
        | Cause::TooFewConnections
        | Cause::SmallWrites
        | Cause::ContinueWait
        | Cause::BlackHole => return None,
    })
}

pub(super) fn boto3(cause: Cause, path: &Path) -> Option<Remedy> {
    match cause {
        Cause::NewConnections => Some(lines(
            "One client for the life of the program, and bodies read to their end: then connections are reused.",
            &of_client("boto3", path),
            "use the arguments as they were",
        )),
        Cause::TooFewConnections
        | Cause::ReceiveWindow
        | Cause::SendBuffer
        | Cause::Loss
        | Cause::LowThreshold => Some(lines(
            "boto3 sets no socket buffers and no controller: the host does. What it can do is carry a large \
             object in parts, side by side.",
            &of_client("boto3", path),
            "use the arguments as they were",
        )),
        Cause::ContinueWait => Some(lines(
            "botocore asks for 100 Continue ahead of every PUT body; an event handler takes the field out.",
            &[
                "client.meta.events.register('before-send.s3', lambda request, **_: \
                 request.headers.pop('Expect', None) and None)"
                    .into(),
            ],
            "take the handler out",
        )),
        Cause::NoWindowScaling
        | Cause::NoSack
        | Cause::NoTimestamps
        | Cause::RestartAfterIdle
        | Cause::SmallWrites
        | Cause::TlsRoundTrips
        | Cause::TlsResumption
        | Cause::BlackHole => None,
    }
}

pub(super) fn rclone(cause: Cause, path: &Path) -> Option<Remedy> {
    const UNDO: &str = "leave the options out";
    match cause {
        Cause::TooFewConnections
        | Cause::ReceiveWindow
        | Cause::SendBuffer
        | Cause::Loss
        | Cause::LowThreshold => Some(lines(
            "rclone sets no socket buffers and no controller: the host does. What it can do is carry a large \
             object in parts, side by side.",
            &of_client("rclone", path),
            UNDO,
        )),
        Cause::ContinueWait => Some(lines(
            "rclone waits a second for 100 Continue; with 0 it sends the body at once.",
            &["rclone --expect-continue-timeout 0 copy SOURCE DEST".into()],
            UNDO,
        )),
        Cause::NewConnections => Some(lines(
            "One run over many files reuses connections; a run for each file does not.",
            &["rclone copy --files-from LIST SOURCE DEST".into()],
            UNDO,
        )),
        Cause::NoWindowScaling
        | Cause::NoSack
        | Cause::NoTimestamps
        | Cause::RestartAfterIdle
        | Cause::SmallWrites
        | Cause::TlsRoundTrips
        | Cause::TlsResumption
        | Cause::BlackHole => None,
    }
}

/// How [`clients`] tells this client.
fn of_client(name: &str, path: &Path) -> Vec<String> {
    let advice = clients::advice(path);
    let found = advice.into_iter().find(|advice| advice.client == name);
    found.map_or_else(Vec::new, |advice| advice.lines)
}
