use core::time::Duration;

use connections::{Connection, Side};
use limit::{Attribution, Detail, LimitName, PathRate, Timeline, attribute};
use record::explain as record;
use units::Time;

use crate::document;
use crate::findings::Shown;
use crate::timeline::timeline;
use crate::transfers;

/// Connections, each judged by itself. Their packets are gone, so that captures may be larger than memory.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    pub(crate) connections: Vec<Analysed>,
    /// What the document says of each; numbers and times that count from the first packet of all are set in the
    /// end. They stand apart because they are most of the memory, and go into the document as they are.
    pub(crate) records: Vec<record::Connection>,
}

/// What rules over all connections ask of one.
#[derive(Clone, Debug)]
pub(crate) struct Analysed {
    /// Its number in the document, from 1.
    pub(crate) id: u32,
    /// Without its packets.
    pub(crate) connection: Connection,
    pub(crate) to_server: Direction,
    pub(crate) to_client: Direction,
    /// Packets to point at.
    pub(crate) shown: Shown,
    /// When its transfers began, in their order.
    pub(crate) transfers_at: Box<[Time]>,
}

/// One direction, as its sender lived it.
#[derive(Clone, Debug)]
pub(crate) struct Direction {
    /// Without its events.
    pub(crate) timeline: Timeline,
    pub(crate) attribution: Judgement,
}

/// What held a direction, without the spans.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    /// The path's rate, as this direction shows it.
    pub(crate) path_rate: PathRate,
    /// First and last moment at which the direction carried data.
    pub(crate) busy: Option<(Time, Time)>,
    limits: Box<[(LimitName, Duration)]>,
    details: Box<[((LimitName, Detail), Duration)]>,
}

/// A direction with everything that packets tell, before they go.
#[derive(Debug)]
pub(crate) struct Complete {
    pub(crate) timeline: Timeline,
    pub(crate) attribution: Attribution,
}

// === impl Judged ===

impl Judged {
    /// Judges a connection by itself, with the points of plots where `series` is set.
    pub fn push(&mut self, connection: Connection, series: bool) {
        let (analysed, record) = judge(connection, series);
        self.connections.push(analysed);
        self.records.push(record);
    }

    /// Takes over what others have judged, in any order.
    pub fn append(&mut self, others: Self) {
        take_over(&mut self.connections, others.connections);
        take_over(&mut self.records, others.records);
    }

    /// Connections, or parts of connections.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Puts connections into the order of their first packets, and numbers them. Each is kilobytes long, and a
    /// sort would move it again and again.
    pub(crate) fn number(&mut self) {
        let frame = |analysed: &Analysed| analysed.connection.first_frame;
        let mut order: Vec<usize> = (0..self.connections.len()).collect();
        order.sort_by_key(|index| self.connections.get(*index).map(frame));
        for place in 0..order.len() {
            // What belongs here may have been moved when an earlier place was filled.
            let mut from = order[place];
            while from < place {
                from = order[from];
            }
            self.connections.swap(place, from);
            self.records.swap(place, from);
        }
        for (analysed, id) in self.connections.iter_mut().zip(1..) {
            analysed.id = id;
        }
    }
}

/// Moves `from` behind `into` without holding it twice: what threads have judged is most of the memory.
fn take_over<T>(into: &mut Vec<T>, mut from: Vec<T>) {
    /// Some megabytes of connections.
    const AT_ONCE: usize = 1_024;
    if into.is_empty() {
        *into = from;
        return;
    }
    into.reserve_exact(from.len());
    while !from.is_empty() {
        into.extend(from.drain(from.len().saturating_sub(AT_ONCE)..));
        from.shrink_to_fit();
    }
}

fn judge(mut connection: Connection, series: bool) -> (Analysed, record::Connection) {
    let direction = |side| {
        let timeline = timeline(&connection, side);
        let attribution = attribute(&timeline);
        Complete {
            timeline,
            attribution,
        }
    };
    let (to_server, to_client) = (direction(Side::Client), direction(Side::Server));
    let record = document::connection(&connection, &to_server, &to_client, series);
    let shown = Shown::new(&connection, &to_server, &to_client);
    let transfers_at = transfers::starts(&connection);
    connection.forget_packets();
    let analysed = Analysed {
        id: 0,
        connection,
        to_server: to_server.into(),
        to_client: to_client.into(),
        shown,
        transfers_at,
    };
    (analysed, record)
}

// === impl Analysed ===

impl Analysed {
    pub(crate) const fn direction(&self, side: Side) -> &Direction {
        match side {
            Side::Client => &self.to_server,
            Side::Server => &self.to_client,
        }
    }

    /// Both directions with their sending side.
    pub(crate) const fn directions(&self) -> [(Side, &Direction); 2] {
        [
            (Side::Client, &self.to_server),
            (Side::Server, &self.to_client),
        ]
    }
}

// === impl Judgement ===

impl Judgement {
    /// Time per limit.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (LimitName, Duration)> + '_ {
        self.limits.iter().copied()
    }

    /// Time under `limit`.
    pub(crate) fn held(&self, limit: LimitName) -> Duration {
        let found = self.limits.iter().find(|(name, _)| *name == limit);
        found.map_or(Duration::ZERO, |(_, time)| *time)
    }

    /// Time under `limit` in this form.
    pub(crate) fn held_by(&self, limit: LimitName, detail: Detail) -> Duration {
        let key = (limit, detail);
        let found = self.details.iter().find(|(name, _)| *name == key);
        found.map_or(Duration::ZERO, |(_, time)| *time)
    }
}

// === impl Direction ===

impl From<Complete> for Direction {
    fn from(complete: Complete) -> Self {
        let Complete {
            mut timeline,
            attribution,
        } = complete;
        timeline.events = Vec::new();
        Self {
            timeline,
            attribution: Judgement {
                limits: attribution.limits().into_iter().collect(),
                details: attribution.details().into_iter().collect(),
                path_rate: attribution.path_rate,
                busy: attribution.busy,
            },
        }
    }
}
