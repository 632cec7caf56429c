use connections::{Connection, Side, Tracked};
use limit::{Attribution, Timeline, attribute};

use crate::timeline::timeline;

/// A connection with both its directions attributed.
#[derive(Debug)]
pub(crate) struct Analysed<'a> {
    /// Its number in the document, from 1.
    pub(crate) id: u32,
    pub(crate) connection: &'a Connection,
    pub(crate) to_server: Direction,
    pub(crate) to_client: Direction,
}

/// One direction, as its sender lived it.
#[derive(Debug)]
pub(crate) struct Direction {
    pub(crate) timeline: Timeline,
    pub(crate) attribution: Attribution,
}

impl Analysed<'_> {
    pub(crate) const fn direction(&self, side: Side) -> &Direction {
        match side {
            Side::Client => &self.to_server,
            Side::Server => &self.to_client,
        }
    }

    /// Both directions with their sending side.
    pub(crate) fn directions(&self) -> [(Side, &Direction); 2] {
        [
            (Side::Client, &self.to_server),
            (Side::Server, &self.to_client),
        ]
    }
}

pub(crate) fn analyse(tracked: &Tracked) -> Vec<Analysed<'_>> {
    (1..)
        .zip(&tracked.connections)
        .map(|(id, connection)| {
            let direction = |side| {
                let timeline = timeline(connection, side);
                let attribution = attribute(&timeline);
                Direction {
                    timeline,
                    attribution,
                }
            };
            Analysed {
                id,
                connection,
                to_server: direction(Side::Client),
                to_client: direction(Side::Server),
            }
        })
        .collect()
}
