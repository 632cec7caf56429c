use std::time::Duration;

use limit::kernel::Division;
use record::top::{Connection, Process, Role, State};
use record::{LimitName, LimitSeconds};
use units::Time;

use crate::history::{History, Point};
use crate::seen::Seen;

/// A connection and what is known of it since it was first read.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Number since the first reading, from 1.
    pub id: u64,
    /// As it was at the newest reading.
    pub seen: Seen,
    /// Whose socket it is; `None` where nobody holds it any more, or it is not known.
    pub process: Option<Process>,
    /// Who opened it, as far as listeners tell.
    pub role: Role,
    /// Payload acknowledged by the peer between the last two readings, in bits per second.
    pub out_bps: f64,
    /// Payload received between the last two readings, in bits per second.
    pub in_bps: f64,
    /// Segments sent again between the last two readings, per second.
    pub retransmissions_per_s: f64,
    /// What held its sending back for most of the time between the last two readings.
    pub limit: LimitName,
    /// The last readings.
    pub history: History,
    pub(crate) generation: u64,
    /// Whether it differs from the reading before.
    pub(crate) changed: bool,
    read_at: Time,
    state_since: Time,
    state_seen: bool,
    limit_since: Time,
    limits: LimitSeconds,
}

// === impl Watched ===

impl Watched {
    pub(crate) fn new(id: u64, seen: Seen, role: Role, at: Time, is_first_reading: bool) -> Self {
        let limit = limit_of_state(seen.state).unwrap_or(LimitName::Unknown);
        Self {
            id,
            process: None,
            role,
            out_bps: 0.0,
            in_bps: 0.0,
            retransmissions_per_s: 0.0,
            limit,
            history: History::default(),
            generation: 0,
            changed: true,
            read_at: at,
            state_since: at,
            // It was made since the reading before, so that is when its state began.
            state_seen: !is_first_reading,
            limit_since: at,
            limits: LimitSeconds::new(),
            seen,
        }
    }

    /// Takes the next reading in.
    pub(crate) fn take(&mut self, seen: Seen, at: Time) {
        let told = self.seen.divided().zip(seen.divided());
        let span = told.map_or_else(
            || at.since(self.read_at),
            |(before, now)| now.at.since(before.at),
        );
        if told.is_some() && span.is_zero() {
            // The relay has not asked its kernel again: what it last told still holds.
            self.changed = false;
            self.read_at = at;
            self.history.push(self.point());
            return;
        }
        let (was_limit, was_moving) = (self.limit, self.is_moving());
        let limit = if let Some((before, now)) = told {
            add_told(&mut self.limits, &before.limits, &now.limits)
        } else {
            let division = match limit_of_state(self.seen.state) {
                Some(name) => Division::whole(name, span),
                None => seen.sender.since(&self.seen.sender, span),
            };
            division.add_to(&mut self.limits);
            division.dominant()
        };
        let limit = limit.unwrap_or(self.limit);
        if limit != self.limit {
            self.limit = limit;
            self.limit_since = self.read_at;
        }
        if seen.state != self.seen.state {
            self.state_since = at;
            self.state_seen = true;
        }
        self.out_bps = rate(seen.bytes_acked, self.seen.bytes_acked, span);
        self.in_bps = rate(seen.bytes_received, self.seen.bytes_received, span);
        let again = seen
            .sender
            .retransmissions
            .saturating_sub(self.seen.sender.retransmissions);
        self.retransmissions_per_s = per_second(again, span);
        let has_moved = was_moving || self.is_moving();
        self.changed = has_moved || self.limit != was_limit || seen != self.seen;
        self.seen = seen;
        self.read_at = at;
        self.history.push(self.point());
    }

    /// For how long the connection has been in its state; at least, where its beginning was not seen.
    #[must_use]
    pub fn time_in_state(&self) -> Duration {
        self.read_at.since(self.state_since)
    }

    /// For how long its limit has been the same.
    #[must_use]
    pub fn time_in_limit(&self) -> Duration {
        self.read_at.since(self.limit_since)
    }

    /// Whether anything passed between the last two readings.
    fn is_moving(&self) -> bool {
        self.out_bps > 0.0 || self.in_bps > 0.0 || self.retransmissions_per_s > 0.0
    }

    /// Whether it has something to send, or sends.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        self.out_bps > 0.0 || self.seen.send_queue > 0
    }

    /// As documents have it.
    #[must_use]
    pub fn row(&self, namespace: Option<&str>) -> Connection {
        let seen = &self.seen;
        Connection {
            id: self.id,
            namespace: namespace.map(str::to_owned),
            local: seen.local.to_string(),
            peer: seen.peer.to_string(),
            role: self.role,
            process: self.process.clone(),
            uid: seen.uid,
            state: seen.state,
            state_s: self.time_in_state().as_secs_f64(),
            state_seen: self.state_seen,
            congestion_control: seen.congestion_control.clone(),
            out_bps: self.out_bps,
            in_bps: self.in_bps,
            bytes_out: seen.bytes_acked,
            bytes_in: seen.bytes_received,
            rtt_s: self.rtt().map(|rtt| rtt.as_secs_f64()),
            min_rtt_s: seen.sender.min_rtt.map(|rtt| rtt.as_secs_f64()),
            cwnd_bytes: seen.sender.cwnd.saturating_mul(seen.mss),
            ssthresh_bytes: seen
                .sender
                .ssthresh
                .map(|segments| segments.saturating_mul(seen.mss)),
            in_flight_bytes: seen.in_flight,
            peer_window_bytes: seen.peer_window,
            send_queue_bytes: seen.send_queue.into(),
            receive_queue_bytes: seen.receive_queue.into(),
            retransmissions: seen.sender.retransmissions,
            delivery_bps: seen.delivery_bps.map(float),
            limit: self.limit,
            limit_s: self.time_in_limit().as_secs_f64(),
            limits: self.limits.clone(),
            relayed: seen.relayed.as_ref().map(|told| told.of.clone()),
        }
    }

    /// Smoothed round-trip time, after the first sample.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        Some(self.seen.sender.rtt).filter(|rtt| !rtt.is_zero())
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "points are drawn, in a few hundred steps"
    )]
    fn point(&self) -> Point {
        let seen = &self.seen;
        Point {
            at_s: self.read_at.as_secs_f64() as f32,
            out_bps: self.out_bps as f32,
            in_bps: self.in_bps as f32,
            rtt_s: seen.sender.rtt.as_secs_f32(),
            cwnd: seen.sender.cwnd.saturating_mul(seen.mss) as f32,
            in_flight: seen.in_flight as f32,
            limit: self.limit,
        }
    }
}

/// Adds what lies between two sums of somebody else's, and returns the limit with most of it.
fn add_told(
    limits: &mut LimitSeconds,
    before: &LimitSeconds,
    now: &LimitSeconds,
) -> Option<LimitName> {
    let mut longest: Option<(LimitName, f64)> = None;
    for (name, seconds) in now {
        let more = seconds - before.get(name).copied().unwrap_or(0.0);
        if more > 0.0 {
            *limits.entry(*name).or_insert(0.0) += more;
            if longest.is_none_or(|(_, most)| more > most) {
                longest = Some((*name, more));
            }
        }
    }
    longest.map(|(name, _)| name)
}

/// The limit that a state alone decides.
const fn limit_of_state(state: State) -> Option<LimitName> {
    match state {
        State::SynSent | State::SynRecv => Some(LimitName::Handshake),
        State::FinWait2 | State::TimeWait | State::Closed => Some(LimitName::Closing),
        State::Listening | State::Other => Some(LimitName::Unknown),
        // Data may still be under way ahead of a FIN of ours.
        State::Established
        | State::CloseWait
        | State::FinWait1
        | State::LastAck
        | State::Closing => None,
    }
}

/// Bits per second between two counts of bytes.
fn rate(now: Option<u64>, before: Option<u64>, span: Duration) -> f64 {
    let bytes = now.unwrap_or(0).saturating_sub(before.unwrap_or(0));
    per_second(bytes.saturating_mul(8), span)
}

fn per_second(count: u64, span: Duration) -> f64 {
    if span.is_zero() {
        return 0.0;
    }
    float(count) / span.as_secs_f64()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of one interval, and rates for people: 2^53 is beyond both"
)]
const fn float(count: u64) -> f64 {
    count as f64
}
