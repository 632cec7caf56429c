use alloc::borrow::ToOwned as _;
use alloc::string::String;
use core::str::FromStr;
use core::time::Duration;

use units::Span;

use crate::algorithm::{Algorithm, ParseAlgorithmError};
use crate::pacing::UNIT;

/// What of an algorithm differs from its own defaults; absent is the default. Each concerns the algorithms
/// named, and no other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tuning {
    /// CUBIC: the share of the window that is kept after a loss, in 1024ths (RFC 9438 section 4.6: 0.7).
    pub beta: Option<u32>,
    /// CUBIC: how steep its curve is, in 1024ths of a segment per cubic second (RFC 9438 section 5: 0.4).
    pub c: Option<u32>,
    /// BBR: pacing and window gain of startup, in 256ths (version 1: 2.885, version 3: 2.773).
    pub startup_gain: Option<u64>,
    /// BBR: windows in flight per product of rate and RTT, in 256ths (2).
    pub cwnd_gain: Option<u64>,
    /// BBR version 1: how long a smallest RTT is believed (10 s).
    pub min_rtt_window: Option<Duration>,
    /// BBR: how long nearly nothing is in flight to measure the RTT anew (200 ms).
    pub probe_rtt_time: Option<Duration>,
}

/// An algorithm with its parameters, as text writes it: `cubic`, `cubic(beta=0.8, c=0.6)`,
/// `bbr(cwnd-gain=2.5, min-rtt-window=5 s)`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Choice {
    /// Which.
    pub algorithm: Algorithm,
    /// What of it differs from its defaults.
    pub tuning: Tuning,
}

const PER_WHOLE: u32 = 1024;

// === impl Choice ===

impl FromStr for Choice {
    type Err = ParseAlgorithmError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let Some((name, rest)) = text.split_once('(') else {
            return Ok(Self {
                algorithm: text.parse()?,
                tuning: Tuning::default(),
            });
        };
        let algorithm: Algorithm = name.trim().parse()?;
        let list = rest
            .strip_suffix(')')
            .ok_or_else(|| ParseAlgorithmError::Form {
                input: text.to_owned(),
            })?;
        let mut tuning = Tuning::default();
        for setting in list.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            let (name, value) = setting.split_once('=').ok_or_else(|| {
                let input = text.to_owned();
                ParseAlgorithmError::Form { input }
            })?;
            tuning.set(algorithm, name.trim(), value.trim())?;
        }
        Ok(Self { algorithm, tuning })
    }
}

// === impl Tuning ===

impl Tuning {
    /// Sets one parameter by the name that text has for it.
    fn set(
        &mut self,
        algorithm: Algorithm,
        name: &str,
        value: &str,
    ) -> Result<(), ParseAlgorithmError> {
        let bad = |range: &'static str| ParseAlgorithmError::Value {
            parameter: name.to_owned(),
            value: value.to_owned(),
            range,
        };
        let gain = || {
            const RANGE: &str = "a number from 1 to 10";
            parts(value, UNIT, UNIT..=10 * UNIT).ok_or_else(|| bad(RANGE))
        };
        let span = || {
            const RANGE: &str = "a time from 1 ms to 10 min, such as `200 ms`";
            let span: Option<Span> = value.parse().ok();
            let allowed = Duration::from_millis(1)..=Duration::from_mins(10);
            let span = span.map(Span::get).filter(|span| allowed.contains(span));
            span.ok_or_else(|| bad(RANGE))
        };
        let share = |most: u32, range: &'static str| {
            let most = u64::from(most);
            let parts = parts(value, PER_WHOLE.into(), 1..=most);
            let parts = parts.and_then(|parts| u32::try_from(parts).ok());
            parts.ok_or_else(|| bad(range))
        };
        match (algorithm, name) {
            (Algorithm::Cubic(_), "beta") => {
                self.beta = Some(share(PER_WHOLE * 99 / 100, "a share from 0.001 to 0.99")?);
            }
            (Algorithm::Cubic(_), "c") => {
                self.c = Some(share(100 * PER_WHOLE, "a number from 0.001 to 100")?);
            }
            (Algorithm::Bbr | Algorithm::Bbr3, "startup-gain") => self.startup_gain = Some(gain()?),
            (Algorithm::Bbr | Algorithm::Bbr3, "cwnd-gain") => self.cwnd_gain = Some(gain()?),
            (Algorithm::Bbr, "min-rtt-window") => self.min_rtt_window = Some(span()?),
            (Algorithm::Bbr | Algorithm::Bbr3, "probe-rtt-time") => {
                self.probe_rtt_time = Some(span()?);
            }
            _ => {
                return Err(ParseAlgorithmError::Parameter {
                    algorithm,
                    name: name.to_owned(),
                    known: known(algorithm),
                });
            }
        }
        Ok(())
    }
}

/// The parameters of an algorithm, for whoever wrote another one.
const fn known(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Cubic(_) => "`beta` and `c`",
        Algorithm::Bbr => "`startup-gain`, `cwnd-gain`, `min-rtt-window` and `probe-rtt-time`",
        Algorithm::Bbr3 => "`startup-gain`, `cwnd-gain` and `probe-rtt-time`",
        Algorithm::NewReno | Algorithm::HighSpeed | Algorithm::WestwoodPlus | Algorithm::Fixed => {
            "none"
        }
    }
}

/// A decimal number in parts of `whole`, rounded to the nearest, where it lies within `allowed`.
fn parts(value: &str, whole: u64, allowed: core::ops::RangeInclusive<u64>) -> Option<u64> {
    const DECIMALS: usize = 6;
    let (integer, fraction) = value.split_once('.').unwrap_or((value, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let written = !(integer.is_empty() && fraction.is_empty());
    if !written || !digits(integer) || !digits(fraction) || fraction.len() > DECIMALS {
        return None;
    }
    let mut padded = String::from(if integer.is_empty() { "0" } else { integer });
    padded.push_str(fraction);
    padded.extend(core::iter::repeat_n('0', DECIMALS - fraction.len()));
    let millionths: u64 = padded.parse().ok()?;
    let parts = millionths.checked_mul(whole)?.checked_add(500_000)? / 1_000_000;
    allowed.contains(&parts).then_some(parts)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;
    use crate::SlowStart;

    #[test]
    fn a_name_alone_has_the_defaults() {
        let choice: Choice = " cubic-hystart++ ".parse().unwrap();
        assert_eq!(
            choice.algorithm,
            Algorithm::Cubic(SlowStart::HyStartPlusPlus)
        );
        assert_eq!(choice.tuning, Tuning::default());
        assert_eq!("bbr()".parse::<Choice>().unwrap().tuning, Tuning::default());
    }

    #[test]
    fn parameters_stand_in_parentheses() {
        let cubic: Choice = "cubic(beta=0.8, c=.6)".parse().unwrap();
        assert_eq!(cubic.tuning.beta, Some(819));
        assert_eq!(cubic.tuning.c, Some(614));
        let bbr: Choice =
            "bbr(cwnd-gain=2.5,startup-gain=2, min-rtt-window=5 s, probe-rtt-time=100 ms)"
                .parse()
                .unwrap();
        assert_eq!(bbr.tuning.cwnd_gain, Some(640));
        assert_eq!(bbr.tuning.startup_gain, Some(512));
        assert_eq!(bbr.tuning.min_rtt_window, Some(Duration::from_secs(5)));
        assert_eq!(bbr.tuning.probe_rtt_time, Some(Duration::from_millis(100)));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (text, words) in [
            ("cubic(beta=0.8", "closing parenthesis"),
            ("cubic(beta)", "NAME=VALUE"),
            ("cubic(gamma=1)", "`gamma`"),
            ("cubic(gamma=1)", "`beta` and `c`"),
            ("reno(beta=0.8)", "none"),
            ("cubic(beta=1)", "0.99"),
            ("cubic(beta=-0.5)", "0.99"),
            ("bbr(cwnd-gain=0.5)", "from 1 to 10"),
            ("bbr(cwnd-gain=1.1234567)", "from 1 to 10"),
            ("bbr(probe-rtt-time=200)", "200 ms"),
            ("bbr3(min-rtt-window=5 s)", "`probe-rtt-time`"),
            ("vegas(alpha=1)", "`vegas`"),
        ] {
            let error = text.parse::<Choice>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
