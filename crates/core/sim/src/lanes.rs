//! What the client programs of one transfer do: turns on connections, several connections at once.

use std::collections::VecDeque;
use std::time::Duration;

use units::Time;

use crate::http::{Exchange, PATIENCE, Programs};
use crate::world::ConnectionId;

/// A question and its answer, after some idle time.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// Before it begins.
    pub(crate) idle: Duration,
    /// What the client writes, piece by piece, in bytes.
    pub(crate) pieces: Vec<u64>,
    /// What the far end makes of it.
    pub(crate) exchanges: Vec<Exchange>,
}

/// A connection with what is to be done on it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) connection: ConnectionId,
    pub(crate) turns: VecDeque<Turn>,
    state: State,
    /// Idle time so far.
    idle: Duration,
    /// When its last turn ended.
    ended: Option<Time>,
}

#[derive(Clone, Debug)]
enum State {
    Ready,
    Idle { until: Time, turn: Turn },
    Waiting { received: u64, finished: u64 },
    Done,
}

// === impl Lane ===

impl Lane {
    pub(crate) fn new(connection: ConnectionId, turns: impl IntoIterator<Item = Turn>) -> Self {
        Self {
            connection,
            turns: turns.into_iter().collect(),
            state: State::Ready,
            idle: Duration::ZERO,
            ended: None,
        }
    }

    /// How long it was busy since `started`.
    pub(crate) fn busy(&self, started: Time) -> Duration {
        let span = self
            .ended
            .map_or(Duration::ZERO, |ended| ended.since(started));
        span.saturating_sub(self.idle)
    }
}

impl Programs {
    /// Does all turns of `lanes`; a lane that has none of its own left takes one of `shared`.
    pub(crate) fn drive(
        &mut self,
        lanes: &mut [Lane],
        shared: &mut VecDeque<Turn>,
    ) -> Result<(), String> {
        let deadline = self.world.now() + PATIENCE;
        loop {
            let mut due: Option<Time> = None;
            let mut busy = false;
            for lane in lanes.iter_mut() {
                let wake = self.advance(lane, shared);
                if !matches!(lane.state, State::Done) {
                    busy = true;
                    self.still_open(lane.connection)?;
                }
                due = [due, wake, self.resume(lane.connection)]
                    .into_iter()
                    .flatten()
                    .min();
            }
            if !busy {
                return Ok(());
            }
            match (self.world.next(due.unwrap_or(deadline)), due) {
                (Some(notice), _) => self.handle(notice),
                (None, Some(due)) if due <= deadline => self.world.run_until(due),
                (None, _) => return Err(format!("nothing more happens at {}", self.world.now())),
            }
        }
    }

    /// Goes as far as a lane can now; when it wants to go on by itself.
    fn advance(&mut self, lane: &mut Lane, shared: &mut VecDeque<Turn>) -> Option<Time> {
        loop {
            match &lane.state {
                State::Done => return None,
                State::Ready => {
                    let Some(turn) = lane.turns.pop_front().or_else(|| shared.pop_front()) else {
                        lane.state = State::Done;
                        return None;
                    };
                    lane.idle += turn.idle;
                    lane.state = State::Idle {
                        until: self.world.now() + turn.idle,
                        turn,
                    };
                }
                State::Idle { until, turn } => {
                    if self.world.now() < *until {
                        return Some(*until);
                    }
                    let turn = turn.clone();
                    let (received, finished) = self.begin(lane.connection, &turn);
                    lane.state = State::Waiting { received, finished };
                }
                State::Waiting { received, finished } => {
                    let (have, done) = self.progress(lane.connection);
                    if have < *received || done < *finished {
                        return None;
                    }
                    lane.ended = Some(self.world.now());
                    lane.state = State::Ready;
                }
            }
        }
    }
}
