//! The path that a capture of slow transfers shows.

use std::net::IpAddr;
use std::path::Path as FilePath;
use std::time::Duration;

use ::explain::RateFrom;
use tuning::Path;
use units::{LossRate, Rate, format_span};

use super::RATE;
use super::arguments::Tune;
use crate::commands::explain;
use crate::failure::{Blame as _, Failure};
use crate::output;

/// The path to the server that moved most bytes, and that server. What the command line says goes before.
pub(super) fn path(file: &FilePath, arguments: &Tune) -> Result<(Path, Option<IpAddr>), Failure> {
    let document = explain::document_of(file)?;
    let seen = ::explain::path(&document)
        .usage(format!("`{}` shows no path to tune for", file.display()))?;
    let rtt =
        Duration::try_from_secs_f64(seen.rtt_s).usage("the capture's round trip is no time")?;
    let rate = arguments.rate.unwrap_or_else(|| match seen.rate_from {
        RateFrom::Dispersion => rate(seen.rate_bps),
        // What held the transfers back bounds their goodput too: a path of that rate would hide it.
        RateFrom::Goodput | RateFrom::Assumption => RATE,
    });
    let seen_loss = seen.loss.and_then(loss_rate);
    let loss = arguments.loss.or(seen_loss).unwrap_or(LossRate::ZERO);
    let source = if arguments.rate.is_some() {
        "as given"
    } else if seen.rate_from == RateFrom::Dispersion {
        "by the dispersion of ACKs"
    } else {
        "assumed, the capture does not show it: give `--rate`"
    };
    output::say(&format!(
        "from the capture: {} round trip; {rate} ({source}); {loss} lost",
        format_span(rtt)
    ));
    let server = ::explain::busiest_server(&document)
        .and_then(|connections| connections.first()?.server.host.parse().ok());
    Ok((Path { rtt, rate, loss }, server))
}

fn loss_rate(share: f64) -> Option<LossRate> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of one, so at most 10^9"
    )]
    LossRate::per_billion((share.clamp(0.0, 1.0) * 1e9) as u32)
}

fn rate(bits_per_s: f64) -> Rate {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and a rate is above zero"
    )]
    Rate::bit_per_s(bits_per_s.max(10_000.0) as u64)
}
