//! Which part of which connection a picture shows.

use record::explain::{Connection, Document, Series, Transfer};
use record::lab::Cell;

use crate::quantity::float;
use crate::statistics::{median, sorted};

/// What `explain` said about one arm of a lab run.
#[derive(Clone, Copy, Debug)]
pub struct Explained<'a> {
    /// The arm's name.
    pub arm: &'a str,
    /// What was found in its capture; for pictures with series.
    pub document: &'a Document,
}

/// Connections that get graphs, as a page of hundreds would not open.
const DRAWN: usize = 8;

/// The connections that are drawn: those with points, and of those the ones with the most data.
pub fn largest(document: &Document) -> Vec<&Connection> {
    let mut all: Vec<&Connection> = document
        .connections
        .iter()
        .filter(|connection| connection.series.is_some())
        .collect();
    all.sort_by_key(|connection| {
        let directions = &connection.directions;
        let most = directions
            .client_to_server
            .bytes
            .max(directions.server_to_client.bytes);
        std::cmp::Reverse(most)
    });
    all.truncate(DRAWN);
    all
}

/// One transfer in the series of its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excerpt<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) series: &'a Series,
    pub(crate) transfer: Option<&'a Transfer>,
    /// Seconds of the connection at which the excerpt begins.
    pub(crate) from_s: f64,
    /// Seconds of the connection at which it ends.
    pub(crate) to_s: f64,
}

impl<'a> Excerpt<'a> {
    /// All of a connection, where it has points to draw.
    pub(crate) fn whole(connection: &'a Connection) -> Option<Self> {
        Some(Self {
            connection,
            series: connection.series.as_ref()?,
            transfer: None,
            from_s: 0.0,
            to_s: connection.duration_s,
        })
    }

    /// The transfer of a workload that took its median time: the one to look at.
    pub(crate) fn of_workload(document: &'a Document, cell: &Cell) -> Option<Self> {
        let all: Vec<Self> = document
            .connections
            .iter()
            .filter_map(|connection| Some((connection, connection.series.as_ref()?)))
            .flat_map(|(connection, series)| {
                connection
                    .transfers
                    .iter()
                    .enumerate()
                    .filter(|(_, transfer)| is_of_size(transfer, cell.bytes))
                    .filter_map(move |(index, transfer)| {
                        Self::of_transfer(connection, series, index, transfer)
                    })
            })
            .collect();
        let middle = median(&sorted(all.iter().map(Self::duration_s)))?;
        all.into_iter().min_by(|one, other| {
            let distance = |excerpt: &Self| (excerpt.duration_s() - middle).abs();
            distance(one).total_cmp(&distance(other))
        })
    }

    fn of_transfer(
        connection: &'a Connection,
        series: &'a Series,
        index: usize,
        transfer: &'a Transfer,
    ) -> Option<Self> {
        let begins = transfer.start_s - connection.start_s;
        // The first transfer of a connection had to wait for its handshake.
        let from_s = if index == 0 && transfer.with_handshake_s.is_some() {
            0.0
        } else {
            begins
        };
        Some(Self {
            connection,
            series,
            transfer: Some(transfer),
            from_s,
            to_s: begins + transfer.complete_s?,
        })
    }

    pub(crate) fn duration_s(&self) -> f64 {
        self.to_s - self.from_s
    }

    /// Whether a moment of the connection is in the excerpt, with a little on both sides for what
    /// belongs to its edges.
    pub(crate) fn holds(&self, at_s: f64) -> bool {
        let margin = self.duration_s() * 0.01;
        (self.from_s - margin..=self.to_s + margin).contains(&at_s)
    }

    /// The offset of the first byte that the excerpt shows.
    pub(crate) fn base(&self) -> u64 {
        self.series
            .data
            .iter()
            .filter(|point| self.holds(point.t))
            .map(|point| point.from)
            .min()
            .unwrap_or_default()
    }
}

/// Whether a request carries a payload of `bytes`: itself, and what HTTP and a form put around it.
fn is_of_size(transfer: &Transfer, bytes: u64) -> bool {
    let larger = transfer.request_bytes.max(transfer.response_bytes);
    // The report's form adds 723 bytes to the file, long signed heads a few kilobytes.
    larger >= bytes && float(larger) <= float(bytes) * 1.02 + 8192.0
}
