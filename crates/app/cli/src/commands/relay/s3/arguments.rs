//! The command line of `longhaul relay s3`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use units::{Bytes, Rate};

use crate::arguments::listen_address;
use crate::commands::relay::arguments::Switch;

/// What a file says itself, so that beside one it would be passed over without a word.
const IN_THE_FILE: [&str; 11] = [
    "listen",
    "origin",
    "origin_ca",
    "client",
    "client_secret_env",
    "region",
    "domain",
    "bucket",
    "form",
    "manage_buckets",
    "via",
];

/// Speak S3 to clients nearby and to a store far away, and make the way between fast.
///
/// Clients use credentials of this gateway's own; the store sees its own. Uploads leave while they arrive,
/// large ones in parts at the same time; large downloads come in ranges at the same time; small objects
/// take one request over a connection that is already fast. Nothing is written to disk.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  export LONGHAUL_S3_SECRET=local-secret AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=…
  longhaul relay s3 127.0.0.1:9000 http://store.example:9000 --client local-key
  longhaul relay s3 :9000 https://s3.eu-west-1.example --client local-key --region eu-west-1
  longhaul relay s3 :9000 http://store.example --client local-key --bucket photos=prod-photos --print-config
  longhaul relay s3 --config gateway.toml

Secrets come from the environment or from files, never from the command line. Clients:
  aws --endpoint-url http://127.0.0.1:9000 s3 cp FILE s3://photos/

SIGINT and SIGTERM finish what is under way and end.")]
pub(crate) struct RelayS3 {
    /// Where clients connect, such as `127.0.0.1:9000`.
    #[arg(value_name = "LISTEN", value_parser = listen_address, required_unless_present = "config")]
    pub(crate) listen: Option<SocketAddr>,

    /// The store, such as `http://store.example:9000` or `https://s3.eu-west-1.example`.
    #[arg(value_name = "ORIGIN", required_unless_present = "config")]
    pub(crate) origin: Option<String>,

    /// Read the gateway from this file, in TOML; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = IN_THE_FILE)]
    pub(crate) config: Option<PathBuf>,

    /// Access key that clients use; its secret is in the variable of --client-secret-env.
    #[arg(long, value_name = "ACCESS-KEY", required_unless_present = "config")]
    pub(crate) client: Option<String>,

    /// Environment variable that holds the clients' secret.
    #[arg(long, value_name = "NAME", default_value = "LONGHAUL_S3_SECRET")]
    pub(crate) client_secret_env: String,

    /// Region that requests to the store are signed for.
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,

    /// A domain below which host names begin with a bucket; repeat for several.
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Vec<String>,

    /// A bucket that is served, and what the store calls it; repeat for several. Default: every bucket.
    #[arg(long, value_name = "NAME[=NAME]")]
    pub(crate) bucket: Vec<String>,

    /// A path whose posted forms become objects of a bucket; repeat for several.
    #[arg(long, value_name = "PATH=BUCKET")]
    pub(crate) form: Vec<String>,

    /// Let clients make and remove buckets.
    #[arg(long)]
    pub(crate) manage_buckets: bool,

    /// Go through this relay or trunk, as HOST:PORT, instead of a hot pool in this process.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) via: Option<String>,

    /// Who may sign an https store's certificate, in PEM. Default: whom this host trusts.
    #[arg(long, value_name = "FILE", conflicts_with = "via")]
    pub(crate) origin_ca: Option<PathBuf>,

    /// Whether connections to the store are made ahead of use and primed.
    #[arg(
        long,
        default_value = "on",
        value_name = "on|off",
        conflicts_with = "via"
    )]
    pub(crate) hot: Switch,

    /// What a hot connection holds in one flight, such as "2 MiB"; default: what the path needs.
    #[arg(long, value_name = "SIZE", conflicts_with = "via")]
    pub(crate) hot_window: Option<Bytes>,

    /// The path's rate, such as "1 Gbit/s": the store's side is paced at it, unless that is another's (--via). Until the path
    /// has shown a rate of its own, large objects are cut for this one.
    #[arg(long, value_name = "RATE")]
    pub(crate) path_rate: Option<Rate>,

    /// TCP profile of the store's side.
    #[arg(
        long,
        default_value = "s3",
        value_name = "NAME",
        conflicts_with = "via"
    )]
    pub(crate) server_profile: String,

    /// Print what happens as JSON lines on stdout.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print the same gateway as a configuration file, and do nothing.
    #[arg(long)]
    pub(crate) print_config: bool,
}
