//! Object-store clients: how many parts, how large, on how many connections.

use units::{Bytes, format_span};

use crate::Path;

/// Settings of a client for large objects over a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transfer {
    /// Parts in flight at once, each on a connection of its own.
    pub connections: u32,
    /// Size of a part or range.
    pub part: Bytes,
}

/// One client and how it is told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Advice {
    /// The client, such as `aws-cli`.
    pub client: &'static str,
    /// Lines to run or to write.
    pub lines: Vec<String>,
}

/// Window that one connection of a store is taken to have: large services end their autotuning at a few
/// MiB, and cwnd seldom grows beyond on lossy paths.
const WINDOW_OF_ONE: u64 = 2 * MIB;
/// A store answers more connections of one client with 503 before it answers faster.
const MOST_CONNECTIONS: u64 = 64;
/// S3's smallest part.
const LEAST_PART: u64 = 5 * MIB;
/// A part that is sent again costs as much as it is long.
const LARGEST_PART: u64 = 512 * MIB;
const MIB: u64 = 1 << 20;
/// Every part costs a request of one round trip, and its slow start some more: with this many round trips
/// of data in each, they are a twentieth of it.
const ROUND_TRIPS_PER_PART: u64 = 20;

/// Connections and part size for `path`.
#[must_use]
pub fn transfer(path: &Path) -> Transfer {
    let bdp = path.bdp().get();
    let connections = bdp.div_ceil(WINDOW_OF_ONE).clamp(1, MOST_CONNECTIONS);
    let of_one = bdp
        .div_ceil(connections)
        .saturating_mul(ROUND_TRIPS_PER_PART);
    let part = of_one.clamp(LEAST_PART, LARGEST_PART).div_ceil(MIB) * MIB;
    Transfer {
        // One more hides the pause between two parts.
        connections: u32::try_from(connections + 1).unwrap_or(u32::MAX),
        part: Bytes::new(part),
    }
}

/// How each client is told.
#[must_use]
pub fn advice(path: &Path) -> Vec<Advice> {
    let Transfer { connections, part } = transfer(path);
    let mib = part.get() >> 20;
    let pool = connections.saturating_add(2).max(10);
    let rate = path.rate.bits_per_s();
    vec![
        Advice {
            client: "aws-cli",
            lines: vec![
                format!("aws configure set default.s3.max_concurrent_requests {connections}"),
                format!("aws configure set default.s3.multipart_chunksize {mib}MB"),
                format!("aws configure set default.s3.multipart_threshold {mib}MB"),
            ],
        },
        Advice {
            client: "aws-cli and SDKs on the CRT",
            lines: vec![
                "aws configure set default.s3.preferred_transfer_client crt".to_owned(),
                format!(
                    "aws configure set default.s3.target_bandwidth {}Mb/s",
                    rate.div_ceil(1_000_000)
                ),
            ],
        },
        Advice {
            client: "boto3",
            lines: vec![
                format!(
                    "client = boto3.client('s3', config=botocore.config.Config(max_pool_connections={pool}, \
                     tcp_keepalive=True))"
                ),
                format!(
                    "transfer = boto3.s3.transfer.TransferConfig(max_concurrency={connections}, \
                     multipart_chunksize={mib} * 1024 * 1024, multipart_threshold={mib} * 1024 * 1024)"
                ),
                "# One client for the life of the program: a new one opens new, cold connections."
                    .to_owned(),
            ],
        },
        Advice {
            client: "rclone",
            lines: vec![format!(
                "rclone copy --s3-upload-concurrency {connections} --s3-chunk-size {mib}Mi \
                 --multi-thread-streams {connections} --multi-thread-chunk-size {mib}Mi SOURCE DEST"
            )],
        },
        Advice {
            client: "s5cmd",
            lines: vec![format!(
                "s5cmd cp --concurrency {connections} --part-size {mib} SOURCE DEST"
            )],
        },
    ]
}

/// Why these numbers, in one sentence.
#[must_use]
pub fn reason(path: &Path) -> String {
    let Transfer { connections, part } = transfer(path);
    format!(
        "{} fly on this path ({} x {}); one connection is taken to carry {}, so {connections} parts of {part} \
         at once fill it, and each part outlasts {ROUND_TRIPS_PER_PART} round trips.",
        path.bdp(),
        path.rate,
        format_span(path.rtt),
        Bytes::new(WINDOW_OF_ONE),
    )
}
