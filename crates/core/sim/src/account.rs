use record::{LimitName, LimitSeconds};
use tcp::{Connection, Hold};
use units::Time;

/// What held an end back, in seconds by limit. The endpoint says which window is full; that the path is
/// full as well, only the world knows.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    limit: LimitName,
    since: Time,
    seconds: LimitSeconds,
}

// === impl Account ===

impl Account {
    pub(crate) const fn new(now: Time) -> Self {
        Self {
            limit: LimitName::Handshake,
            since: now,
            seconds: LimitSeconds::new(),
        }
    }

    /// `product` is what the path holds when it is full, in bytes.
    pub(crate) fn update(&mut self, now: Time, connection: &Connection, product: u64) {
        let (hold, _) = connection.hold();
        let full = || connection.sender().outstanding >= product;
        let limit = match hold {
            Hold::Handshake => LimitName::Handshake,
            Hold::Closing => LimitName::Closing,
            Hold::Recovery => LimitName::LossRecovery,
            // A window that is larger than the path holds nothing back.
            Hold::ReceiveWindow | Hold::SlowStart | Hold::CongestionAvoidance if full() => {
                LimitName::Bottleneck
            }
            Hold::ReceiveWindow => LimitName::ReceiveWindow,
            Hold::SlowStart => LimitName::SlowStart,
            Hold::CongestionAvoidance => LimitName::CongestionAvoidance,
            // Pacers leave at what they take for the path's rate.
            Hold::Pacing => LimitName::Bottleneck,
            Hold::Nagle => LimitName::NagleDelayedAck,
            Hold::SendBuffer => LimitName::SendBuffer,
            Hold::Propagation => LimitName::Propagation,
            Hold::Application => LimitName::Application,
        };
        if limit != self.limit {
            *self.seconds.entry(self.limit).or_default() += now.since(self.since).as_secs_f64();
            self.limit = limit;
            self.since = now;
        }
    }

    pub(crate) fn seconds(&self, now: Time) -> LimitSeconds {
        let mut seconds = self.seconds.clone();
        *seconds.entry(self.limit).or_default() += now.since(self.since).as_secs_f64();
        seconds
    }
}
