use core::time::Duration;

use units::Time;

use super::stamp::{DAY_NANOS, Sign, Stamp};

/// Turns printed stamps into one clock: since the Unix epoch where they say so, else since the midnight
/// before the first packet, or since the first packet where only differences are printed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    mode: Option<Mode>,
    last: Time,
    midnight: Time,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    OfDay,
    SincePrevious,
}

impl Clock {
    pub(super) fn at(&mut self, stamp: Stamp) -> Time {
        self.last = match stamp {
            Stamp::Unix { nanos } => Time::from_nanos(nanos),
            Stamp::OfDay { nanos, sign } => {
                let mode = *self.mode.get_or_insert_with(|| mode(nanos, sign));
                let span = Duration::from_nanos(nanos);
                match (mode, sign) {
                    (Mode::SincePrevious, Sign::Minus) => self.last.saturating_sub(span),
                    (Mode::SincePrevious, _) => self.last + span,
                    (Mode::OfDay, _) => self.of_day(span),
                }
            }
        };
        self.last
    }

    /// A jump back by more than half a day is the next midnight; a smaller one is a packet out of order.
    fn of_day(&mut self, since_midnight: Duration) -> Time {
        const HALF_A_DAY: Duration = Duration::from_nanos(DAY_NANOS / 2);
        if self.last.since(self.midnight + since_midnight) > HALF_A_DAY {
            self.midnight += Duration::from_nanos(DAY_NANOS);
        }
        self.midnight + since_midnight
    }
}

/// `-ttt` prints the same digits as a time of day does, behind a column for the sign, and the first
/// packet at zero. An indented time of day has the column too, but hardly begins at midnight.
/// `-ttttt`, time since the first packet, looks the same line by line and is not told apart.
fn mode(nanos: u64, sign: Sign) -> Mode {
    const MINUTE_NANOS: u64 = 60_000_000_000;
    match sign {
        Sign::Plus | Sign::Minus if nanos < MINUTE_NANOS => Mode::SincePrevious,
        Sign::None | Sign::Plus | Sign::Minus => Mode::OfDay,
    }
}
