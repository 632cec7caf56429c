//! `longhaul relay`: from arguments or a file to a running relay, its events on stdout or in the log.

pub(crate) mod arguments;
mod authority;
mod line;
mod pen;
pub(crate) mod s3;
mod signals;
mod successor;
mod supervisor;
mod trunk_line;
mod voice;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use relay::trunk::{Inherited, TrunkConfig};
use relay::{
    AdminOptions, Audience, BalanceOptions, Config, ConfigError, ConfigOptions, HttpOptions,
    TcpOptions, TlsCertificate, TlsOptions, TlsRouteOptions, TlsSideOptions,
};

use crate::failure::{Blame as _, Failure, Kind};
use crate::output;
use arguments::{
    Balance, Common, Expect, ProxyVersion, Relay, RelayCheck, RelayCommand, RelayHttp, RelayProxy,
    RelayRun, RelayTcp, RelayTls, RelayTransparent, Switch, TlsFlags, UpstreamTls,
};
use pen::Pen;
use signals::Signals;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use voice::{Speech, Voice};

pub(super) use line::{bit_rate, size};

pub(crate) fn run(arguments: Relay) -> Result<ExitCode, Failure> {
    copy_fast();
    match arguments.command {
        RelayCommand::Http(http) => {
            let common = Given::of(&http.common);
            one_liner(http_options(http), common)
        }
        RelayCommand::Tcp(tcp) => {
            let common = Given::of(&tcp.common);
            one_liner(tcp_options(tcp), common)
        }
        RelayCommand::Tls(tls) => {
            let common = Given::of(&tls.common);
            one_liner(tls_options(tls), common)
        }
        RelayCommand::Proxy(proxy) => {
            let common = Given::of(&proxy.common);
            one_liner(proxy_options(proxy), common)
        }
        RelayCommand::Transparent(transparent) => {
            let common = Given::of(&transparent.common);
            one_liner(transparent_options(transparent), common)
        }
        RelayCommand::S3(gateway) => s3::run(&gateway),
        RelayCommand::Ca(ca) => authority::make(&ca),
        RelayCommand::Run(run) => from_file(&run),
        RelayCommand::Check(check) => check_file(&check),
    }
}

/// Before a process that is to carry bytes reads anything: makes sure that it copies them quickly.
pub(crate) fn copy_fast() {
    if let Err(error) = sys::copying::make_fast() {
        output::say(&format!(
            "copies of memory are slow on this processor, and this program cannot start itself again to mend it \
             ({error}); GLIBC_TUNABLES={} in its environment does",
            sys::copying::TUNABLE
        ));
    }
}

/// What a command line says of the process, beside its one relay.
struct Given {
    admin: Option<SocketAddr>,
    user: Option<String>,
    json: bool,
    print_config: bool,
}

impl Given {
    fn of(common: &Common) -> Self {
        Self {
            admin: common.admin,
            user: common.user.clone(),
            json: common.json,
            print_config: common.print_config,
        }
    }
}

/// Runs what a command line describes, or prints the file that says the same.
fn one_liner(relay: impl Into<ConfigOptions>, given: Given) -> Result<ExitCode, Failure> {
    let options = ConfigOptions {
        user: given.user,
        admin: given.admin.map(|address| AdminOptions {
            listen: address.to_string(),
            allow: Vec::new(),
        }),
        ..relay.into()
    };
    let text = options.to_toml();
    let config = Config::new(options).usage("this relay cannot be")?;
    if given.print_config {
        output::data(&text.bug("cannot write the configuration")?)?;
        return Ok(ExitCode::SUCCESS);
    }
    serve(config.clone(), given.json, move || Ok(config.clone()))
}

fn tcp_options(arguments: RelayTcp) -> TcpOptions {
    TcpOptions {
        accept_proxy: arguments.accept_proxy.then_some(true),
        send_proxy: arguments.send_proxy.map(|version| match version {
            ProxyVersion::V1 => relay::ProxyVersion::V1,
            ProxyVersion::V2 => relay::ProxyVersion::V2,
        }),
        balance: balance(arguments.ends.also, arguments.ends.balance),
        ..stream_options(
            arguments.ends.listen,
            arguments.ends.target,
            arguments.common,
        )
    }
}

fn proxy_options(arguments: RelayProxy) -> TcpOptions {
    TcpOptions {
        to: arguments.to,
        users: arguments.users,
        ..stream_options(arguments.listen, "asked".into(), arguments.common)
    }
}

fn transparent_options(arguments: RelayTransparent) -> TcpOptions {
    TcpOptions {
        tproxy: arguments.tproxy.then_some(true),
        keep_client_address: arguments.keep_client_address.then_some(true),
        ..stream_options(arguments.listen, "original".into(), arguments.common)
    }
}

/// What byte-stream relays of all kinds have.
fn stream_options(listen: SocketAddr, target: String, common: Common) -> TcpOptions {
    TcpOptions {
        listen: listen.to_string(),
        target,
        client_profile: Some(common.client_profile),
        server_profile: Some(common.server_profile.unwrap_or_else(|| "wan".into())),
        allow: common.allow,
        deny: common.deny,
        bandwidth: common.bandwidth,
        ..TcpOptions::default()
    }
}

fn tls_options(arguments: RelayTls) -> TlsOptions {
    let routes = arguments.route.chunks_exact(2).map(|pair| TlsRouteOptions {
        name: pair[0].clone(),
        target: pair[1].clone(),
        upstream_name: None,
    });
    let (ends, common) = (arguments.ends, arguments.common);
    let sides = sides(&arguments.tls);
    TlsOptions {
        listen: ends.listen.to_string(),
        target: ends.target,
        client_profile: Some(common.client_profile),
        server_profile: Some(common.server_profile.unwrap_or_else(|| "wan".into())),
        allow: common.allow,
        deny: common.deny,
        bandwidth: common.bandwidth,
        balance: balance(ends.also, ends.balance),
        tls_profile: sides.profile,
        client_ca: sides.client_ca,
        upstream: sides.upstream,
        upstream_name: sides.upstream_name,
        upstream_ca: sides.upstream_ca,
        key_log: sides.key_log,
        upstream_certificate: sides.upstream_certificate,
        certificates: sides.certificates,
        routes: routes.collect(),
        limits: relay::TlsLimitOptions::default(),
    }
}

fn sides(flags: &TlsFlags) -> TlsSideOptions {
    TlsSideOptions {
        profile: flags.tls_profile,
        client_ca: flags.client_ca.clone(),
        upstream: flags.upstream.map(|upstream| match upstream {
            UpstreamTls::Tls => relay::Upstream::Tls,
            UpstreamTls::Plain => relay::Upstream::Plain,
        }),
        upstream_name: flags.upstream_name.clone(),
        upstream_ca: flags.upstream_ca.clone(),
        key_log: flags.key_log.clone(),
        upstream_certificate: certificates(&flags.upstream_certificate).pop(),
        certificates: certificates(&flags.certificate),
    }
}

/// Each certificate's file is followed by its key's.
fn certificates(files: &[PathBuf]) -> Vec<TlsCertificate> {
    let pairs = files.chunks_exact(2);
    pairs
        .map(|pair| TlsCertificate {
            cert: pair[0].clone(),
            key: pair[1].clone(),
        })
        .collect()
}

fn balance(also: Vec<String>, by: Option<Balance>) -> BalanceOptions {
    BalanceOptions {
        also,
        by: by.map(|by| match by {
            Balance::RoundRobin => relay::Balance::RoundRobin,
            Balance::LeastConnections => relay::Balance::LeastConnections,
            Balance::FirstAvailable => relay::Balance::FirstAvailable,
        }),
        ..BalanceOptions::default()
    }
}

fn http_options(arguments: RelayHttp) -> HttpOptions {
    let (ends, common) = (arguments.ends, arguments.common);
    HttpOptions {
        listen: ends.listen.to_string(),
        target: ends.target,
        client_profile: Some(common.client_profile),
        server_profile: Some(common.server_profile.unwrap_or_else(|| "s3".into())),
        allow: common.allow,
        deny: common.deny,
        bandwidth: common.bandwidth,
        balance: balance(ends.also, ends.balance),
        path_rate: arguments.path_rate,
        expect: match arguments.expect {
            Expect::Forward => None,
            Expect::Answer => Some(relay::Expect::Answer),
        },
        http2: (arguments.http2 == Switch::Off).then_some(false),
        tls: sides(&arguments.tls),
        pool: relay::PoolOptions {
            min_idle: Some(arguments.pool_min_idle as usize),
            ..relay::PoolOptions::default()
        },
        prime: relay::PrimeOptions {
            enabled: Some(arguments.prime == Switch::On),
            window: arguments.hot_window,
            ..relay::PrimeOptions::default()
        },
        limits: relay::LimitOptions::default(),
    }
}

fn from_file(arguments: &RelayRun) -> Result<ExitCode, Failure> {
    let config = read(&arguments.config)?;
    if arguments.config.as_os_str() == "-" {
        // Standard input gives its text once; what it says can still be put into effect anew.
        return serve(config.clone(), arguments.json, move || Ok(config.clone()));
    }
    let path = arguments.config.clone();
    serve(config, arguments.json, move || read(&path))
}

fn read(path: &Path) -> Result<Config, Failure> {
    Config::from_toml(&text(path)?).map_err(|error| misconfigured(error, path))
}

/// Everything that is wrong with a configuration file.
pub(crate) fn misconfigured(error: ConfigError, path: &Path) -> Failure {
    Failure::new(Kind::Usage, error.in_file(path.display()))
}

/// A configuration file's text; `-` is standard input.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let text = if path.as_os_str() == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    text.usage(format!("cannot read `{}`", path.display()))
}

/// Runs until SIGINT or SIGTERM, then drains; SIGHUP puts into effect what `again` returns.
fn serve(
    config: Config,
    as_json: bool,
    again: impl Fn() -> Result<Config, Failure> + Send + 'static,
) -> Result<ExitCode, Failure> {
    successor::remember_program();
    let sockets = sys::supervision::take_listeners()
        .environment("cannot take over the listeners of whoever started this")?;
    attend(as_json, None, |runtime, voice, signals| {
        let listener = supervisor::told_as_well(voice.listener());
        let failed = voice.listener();
        let (orders, given) = mpsc::channel(1);
        let ordering = runtime.spawn(signals.give(orders, again, failed));
        let audience = if voice.tells_all() {
            listener.into()
        } else {
            Audience::of_other_than_connections(listener)
        };
        let result = runtime.block_on(relay::run(config, sockets, audience, given));
        ordering.abort();
        result
    })
}

/// Runs ends of trunks until SIGINT or SIGTERM, then drains.
pub(crate) fn serve_trunk(config: TrunkConfig, as_json: bool) -> Result<ExitCode, Failure> {
    sys::allocation::keep_freed();
    successor::remember_program();
    let inherited = Inherited {
        listeners: sys::supervision::take_listeners()
            .environment("cannot take over the listeners of whoever started this")?,
        passage: sys::supervision::take_passage()
            .environment("cannot pass anything back to the process before this one")?,
    };
    // What one thread carries (docs/trunk.md) is enough for most sites, and on a host of two processors one is quicker
    // than two.
    let halved = || thread::available_parallelism().map_or(1, |count| count.get().div_ceil(2));
    let threads = config.threads.unwrap_or_else(halved);
    attend(as_json, Some(threads), |runtime, voice, signals| {
        let listener = supervisor::told_as_well(voice.listener());
        let failed = voice.listener();
        let (orders, given) = mpsc::channel(1);
        let ordering = runtime.spawn(signals.give_trunk(orders, failed));
        let result = runtime.block_on(relay::trunk::run(config, inherited, listener, given));
        ordering.abort();
        result
    })
}

/// What every serving process has around it: a runtime, signals, a supervisor that hears from it, and events
/// that go to stdout as JSON lines, or to the log.
///
/// `threads` work, or as many as there are processors.
fn attend<S: Speech, E: Into<anyhow::Error>>(
    as_json: bool,
    threads: Option<usize>,
    serve: impl FnOnce(&Runtime, &Voice<S>, Signals) -> Result<(), E>,
) -> Result<ExitCode, Failure> {
    let pen = Arc::new(if as_json {
        Pen::of_events()
    } else {
        Pen::of_log()
    });
    if !as_json {
        log_to(&pen);
    }
    if sys::copying::were_mended() {
        tracing::info!(
            "copies of memory are slow on this processor without GLIBC_TUNABLES={}: started again with it",
            sys::copying::TUNABLE
        );
    }
    // Clients would wait while the program's own pages are read from disk.
    if let Err(error) = sys::residence::keep_program() {
        tracing::info!(
            "the first requests after a quiet time may wait for the disk: the program cannot be locked in \
             memory ({error}); `ulimit -l unlimited` or `LimitMEMLOCK=infinity` in its unit allows it"
        );
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    let runtime = builder
        .enable_all()
        .build()
        .environment("cannot start the runtime")?;
    let inside = runtime.enter();
    let signals = Signals::listen().environment("cannot listen for signals")?;
    let watchdog = supervisor::feed_watchdog();
    drop(inside);
    let voice = Voice::start(as_json, pen);
    let result = serve(&runtime, &voice, signals);
    if let Some(watchdog) = watchdog {
        watchdog.abort();
    }
    // Ends the tasks that could still speak.
    drop(runtime);
    voice.finish();
    result.environment("the relay cannot start")?;
    Ok(ExitCode::SUCCESS)
}

fn log_to(pen: &Arc<Pen>) {
    let pen = Arc::clone(pen);
    let filter = tracing_subscriber::EnvFilter::try_from_env("LONGHAUL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_writer(move || pen.log())
        // The pen says what cannot be written; this would panic where standard error is what cannot.
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .init();
}

fn check_file(arguments: &RelayCheck) -> Result<ExitCode, Failure> {
    let config = read(&arguments.config)?;
    let report = relay::check(&config).environment("this configuration does not work here")?;
    if arguments.json {
        output::json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for relay in &report.relays {
        let addresses: Vec<String> = relay.addresses.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "{} -> {} ({})",
            relay.listen,
            relay.target,
            addresses.join(", ")
        );
        let sides = [
            ("client side", &relay.client_profile, &relay.client_options),
            ("server side", &relay.server_profile, &relay.server_options),
        ];
        for (side, profile, options) in sides {
            let _ = writeln!(text, "  {side}: profile `{profile}`");
            for option in options {
                let _ = writeln!(
                    text,
                    "    {:<22} asked {:<12} in effect {}",
                    option.option, option.requested, option.effective
                );
            }
        }
        for warning in &relay.warnings {
            let _ = writeln!(text, "  warning: {warning}");
        }
    }
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}
