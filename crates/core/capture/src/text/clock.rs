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
    /// Whether differences count from the first packet.
    rises: bool,
    /// Whether they could count from either, as far as the text shows.
    either: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    OfDay,
    SincePrevious,
    SinceFirst,
}

/// Stamps that count from another packet, as far as they were looked at: whether they rise, as times since the
/// first packet do, or go up and down, as times since the previous one do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Column {
    before: Option<i64>,
    steps: u32,
    falls: u32,
}

// === impl Column ===

impl Column {
    /// Fewer spans may happen to rise: a handshake at a server has two, and after three the answer is there.
    const ENOUGH: u32 = 4;

    /// Takes the stamp of the next packet.
    pub(super) fn look(&mut self, stamp: Stamp) {
        let now = match stamp {
            Stamp::OfDay {
                nanos,
                sign: Sign::Plus,
            } => i64::try_from(nanos),
            Stamp::OfDay {
                nanos,
                sign: Sign::Minus,
            } => i64::try_from(nanos).map(|nanos| -nanos),
            Stamp::OfDay {
                sign: Sign::None, ..
            }
            | Stamp::Unix { .. } => return,
        };
        let Ok(now) = now else { return };
        if let Some(before) = self.before.replace(now) {
            self.steps += 1;
            self.falls += u32::from(now < before);
        }
    }

    /// Whether it counts from the first packet. Of spans between packets about every second is shorter than the
    /// one before; packets that a capture wrote in another order are few.
    const fn rises(self) -> bool {
        self.steps >= Self::ENOUGH && self.falls * 10 <= self.steps
    }

    /// Whether they rise and are too few to mean it. One step is the same span counted from either.
    const fn is_either(self) -> bool {
        self.steps > 1 && self.steps < Self::ENOUGH && self.falls == 0
    }
}

// === impl Clock ===

impl Clock {
    /// Tells what differences count from, by the first lines of the text.
    pub(super) const fn foresee(&mut self, column: Column) {
        self.rises = column.rises();
        self.either = column.is_either();
    }

    /// Whether spans were taken from packet to packet although they could as well count from the first.
    pub(super) fn is_a_guess(&self) -> bool {
        self.either && self.mode == Some(Mode::SincePrevious)
    }

    pub(super) fn at(&mut self, stamp: Stamp) -> Time {
        self.last = match stamp {
            Stamp::Unix { nanos } => Time::from_nanos(nanos),
            Stamp::OfDay { nanos, sign } => {
                let rises = self.rises;
                let mode = *self.mode.get_or_insert_with(|| mode(nanos, sign, rises));
                let span = Duration::from_nanos(nanos);
                match (mode, sign) {
                    (Mode::SincePrevious, Sign::Minus) => self.last.saturating_sub(span),
                    (Mode::SincePrevious, _) => self.last + span,
                    // Before the first: packets that the capture wrote in another order. Nothing is earlier than zero.
                    (Mode::SinceFirst, Sign::Minus) => Time::ZERO,
                    (Mode::SinceFirst, _) => Time::ZERO + span,
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

/// `-ttt` (since the previous packet) and `-ttttt` (since the first) print the same digits as a time of day does,
/// behind a column for the sign, and the first packet at zero. An indented time of day has the column too, but hardly
/// begins at midnight.
fn mode(nanos: u64, sign: Sign, rises: bool) -> Mode {
    const MINUTE_NANOS: u64 = 60_000_000_000;
    match sign {
        Sign::Plus | Sign::Minus if nanos < MINUTE_NANOS && rises => Mode::SinceFirst,
        Sign::Plus | Sign::Minus if nanos < MINUTE_NANOS => Mode::SincePrevious,
        Sign::None | Sign::Plus | Sign::Minus => Mode::OfDay,
    }
}
